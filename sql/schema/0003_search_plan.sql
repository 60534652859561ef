-- What prepare_kb_search_v1 hands to the ranking: the checked request with everything resolved.
CREATE TYPE kbsearch.kb_search_plan AS (
    org_id bigint,
    profile text,
    fusion text,
    counts_terms boolean,
    vector_weight double precision,
    keyword_weight double precision,
    rrf_k integer,
    space_id bigint,
    uses_vector boolean,
    vector_reason text,
    uses_keyword boolean,
    keyword_reason text,
    lexemes text [],
    document_frequencies bigint [],
    chunk_total bigint,
    known_lexemes text [],
    term_weights double precision [],
    keyword_bound double precision,
    dense boolean,
    ignored text [],
    allowed bigint [],
    kind_quota jsonb,
    min_score double precision,
    row_limit bigint,
    row_offset bigint,
    after_score bigint,
    after_article_id bigint,
    cursor_prefix text
);
COMMENT ON TYPE kbsearch.kb_search_plan IS
'A checked search request. lexemes/document_frequencies/chunk_total: the question''s words and the statistics that score them (a cursor''s, when one is given); known_lexemes/term_weights: the words the corpus knows and count * idf (thousandths) or 1; keyword_bound: the highest raw keyword score; allowed: articles that pass the filters, NULL for all; after_score: billionths.';
