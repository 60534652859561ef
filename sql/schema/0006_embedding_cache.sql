-- What models were given, and what they answered: so that nothing is embedded twice, and anybody can see what a vector is of.

CREATE TABLE kbsearch.kb_embedding_inputs (
    org_id bigint NOT NULL REFERENCES kbsearch.organizations (id) ON DELETE CASCADE,
    input_sha256 bytea NOT NULL CHECK (octet_length(input_sha256) = 32),
    input text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, input_sha256)
);
COMMENT ON TABLE kbsearch.kb_embedding_inputs IS
'Exact texts that models were given, prefix and all, each once an organisation, by its sha256. Of no meaning to searches.';
COMMENT ON COLUMN kbsearch.kb_embedding_inputs.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_embedding_inputs.input_sha256 IS 'sha256 of the text in UTF-8, as in kb_article_embeddings.input_sha256.';
COMMENT ON COLUMN kbsearch.kb_embedding_inputs.input IS 'The text.';
COMMENT ON COLUMN kbsearch.kb_embedding_inputs.created_at IS 'When it was first embedded.';

CREATE TABLE kbsearch.kb_embedding_cache (
    org_id bigint NOT NULL,
    input_sha256 bytea NOT NULL,
    space_id bigint NOT NULL REFERENCES kbsearch.kb_embedding_spaces (id),
    role text NOT NULL CHECK (role IN ('query', 'passage')),
    embedding vector NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, input_sha256, space_id, role),
    FOREIGN KEY (org_id, input_sha256) REFERENCES kbsearch.kb_embedding_inputs (org_id, input_sha256) ON DELETE CASCADE
);
ALTER TABLE kbsearch.kb_embedding_cache ALTER COLUMN embedding SET STORAGE PLAIN;
COMMENT ON TABLE kbsearch.kb_embedding_cache IS
'What a model answered, by the sha256 of the exact text that it was given, the embedding space and the role. An organisation''s own; of no meaning to searches. Rows may be deleted: their texts are then embedded again.';
COMMENT ON COLUMN kbsearch.kb_embedding_cache.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_embedding_cache.input_sha256 IS 'The text, in kb_embedding_inputs.';
COMMENT ON COLUMN kbsearch.kb_embedding_cache.space_id IS 'The embedding space of the vector.';
COMMENT ON COLUMN kbsearch.kb_embedding_cache.role IS 'query or passage: what the model was told that the text is.';
COMMENT ON COLUMN kbsearch.kb_embedding_cache.embedding IS 'The vector, of the space''s dimensions.';
COMMENT ON COLUMN kbsearch.kb_embedding_cache.created_at IS 'When it was computed.';

CREATE TABLE kbsearch.kb_embedding_counts (
    org_id bigint NOT NULL REFERENCES kbsearch.organizations (id) ON DELETE CASCADE,
    space_id bigint NOT NULL REFERENCES kbsearch.kb_embedding_spaces (id),
    role text NOT NULL CHECK (role IN ('query', 'passage')),
    hits bigint NOT NULL DEFAULT 0 CHECK (hits >= 0),
    misses bigint NOT NULL DEFAULT 0 CHECK (misses >= 0),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, space_id, role)
);
COMMENT ON TABLE kbsearch.kb_embedding_counts IS 'How often the cache was asked, for kbsearch doctor; of no meaning to searches.';
COMMENT ON COLUMN kbsearch.kb_embedding_counts.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_embedding_counts.space_id IS 'The embedding space.';
COMMENT ON COLUMN kbsearch.kb_embedding_counts.role IS 'query or passage.';
COMMENT ON COLUMN kbsearch.kb_embedding_counts.hits IS 'Texts whose vectors were there.';
COMMENT ON COLUMN kbsearch.kb_embedding_counts.misses IS 'Texts that were handed to the model.';
COMMENT ON COLUMN kbsearch.kb_embedding_counts.updated_at IS 'When the cache was last asked.';
