-- Rankings that were stored to be read in pages.

CREATE TABLE kbsearch.kb_search_snapshots (
    org_id bigint NOT NULL REFERENCES kbsearch.organizations (id) ON DELETE CASCADE,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    total bigint NOT NULL,
    answer jsonb NOT NULL,
    lexemes text [] NOT NULL,
    kinds text [],
    metadata jsonb,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX kb_search_snapshots_expiry ON kbsearch.kb_search_snapshots (org_id, expires_at);
COMMENT ON TABLE kbsearch.kb_search_snapshots IS
'A ranking stored by open_kb_search_v1. answer: what its pages say of the whole (profile, space_id, legs); lexemes: the question''s words with their languages'' tags, for excerpts; kinds and metadata: filters of the search, which hold for its pages as well.';

CREATE TABLE kbsearch.kb_search_snapshot_blocks (
    org_id bigint NOT NULL,
    snapshot_id uuid NOT NULL,
    block integer NOT NULL,
    article_ids bigint [] NOT NULL,
    chunk_ids bigint [] NOT NULL,
    scores bigint [] NOT NULL,
    similarities integer [] NOT NULL,
    keyword_scores integer [] NOT NULL,
    ties integer [] NOT NULL,
    PRIMARY KEY (org_id, snapshot_id, block),
    FOREIGN KEY (org_id, snapshot_id) REFERENCES kbsearch.kb_search_snapshots (org_id, id) ON DELETE CASCADE
);
COMMENT ON TABLE kbsearch.kb_search_snapshot_blocks IS
'Places 100 * block + 1 … 100 * block + 100 of a stored ranking, in order: article, chunk, score (billionths), similarity (millionths), keyword score (billionths), number of others of equal score.';
