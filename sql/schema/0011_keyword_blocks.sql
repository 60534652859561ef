-- A large organisation's frequent words once more, as vectors over blocks of its chunks: adding these up costs a hundredth of adding up entries one by one.

CREATE TABLE kbsearch.kb_keyword_blocks (
    org_id bigint NOT NULL,
    block_no integer NOT NULL,
    chunk_ids bigint [] NOT NULL,
    PRIMARY KEY (org_id, block_no)
);
ALTER TABLE kbsearch.kb_keyword_blocks ALTER COLUMN chunk_ids SET STORAGE EXTERNAL;
COMMENT ON TABLE kbsearch.kb_keyword_blocks IS
'Derived. The searchable chunks of an organisation of 20,000 or more, in ascending order, 1,900 in a block. Made by compact_kb_postings_v1; what has been written since stands in kb_keyword_changes.';

CREATE TABLE kbsearch.kb_keyword_impacts (
    org_id bigint NOT NULL,
    lexeme text COLLATE "C" NOT NULL,
    block_no integer NOT NULL,
    idf double precision NOT NULL,
    dense vector (1900),
    sparse sparsevec (1900),
    PRIMARY KEY (org_id, lexeme, block_no),
    CHECK ((dense IS NULL) <> (sparse IS NULL))
);
-- a row is read from its page, and never decompressed
ALTER TABLE kbsearch.kb_keyword_impacts ALTER COLUMN dense SET STORAGE PLAIN, ALTER COLUMN sparse SET STORAGE PLAIN;
ALTER TABLE kbsearch.kb_keyword_impacts SET (toast_tuple_target = 8160);
COMMENT ON TABLE kbsearch.kb_keyword_impacts IS
'Derived. What a lexeme that is in one of 200 chunks or more counts in the chunks of a block: element n is idf * impact in chunk n, 0 where the chunk lacks the lexeme. idf: the lexeme''s when the block was made, in thousandths. dense where more than half of the chunks have it, else sparse.';

CREATE TABLE kbsearch.kb_keyword_changes (
    org_id bigint NOT NULL,
    segment_id bigint NOT NULL,
    chunk_count integer NOT NULL,
    chunk_ids bigint [] NOT NULL,
    PRIMARY KEY (org_id, segment_id)
);
COMMENT ON TABLE kbsearch.kb_keyword_changes IS
'Derived. Chunks written since the organisation''s kb_keyword_blocks were made: the blocks say nothing of them. chunk_count = cardinality(chunk_ids).';
