-- Who is searched approximately.

ALTER TABLE kbsearch.organizations
ADD COLUMN retrieval text NOT NULL DEFAULT 'exact' CHECK (retrieval IN ('exact', 'ann', 'auto')),
ADD COLUMN ann_window integer NOT NULL DEFAULT 200 CHECK (ann_window BETWEEN 1 AND 1000);
ALTER TABLE kbsearch.kb_builtin_profiles
ADD COLUMN retrieval text CHECK (retrieval IN ('exact', 'ann', 'auto')),
ADD COLUMN ann_window integer CHECK (ann_window BETWEEN 1 AND 1000);
ALTER TABLE kbsearch.kb_ranking_profiles
ADD COLUMN retrieval text CHECK (retrieval IN ('exact', 'ann', 'auto')),
ADD COLUMN ann_window integer CHECK (ann_window BETWEEN 1 AND 1000);

COMMENT ON COLUMN kbsearch.organizations.retrieval IS
'exact: all chunks are compared; ann: the windows of both legs, found by an index of create_kb_ann_index_v1; auto: ann where there is such an index and more than 20,000 searchable chunks.';
COMMENT ON COLUMN kbsearch.organizations.ann_window IS 'Articles in a leg''s window, 1 … 1000.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.retrieval IS 'exact, ann or auto; NULL: as the organisation has it.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.ann_window IS 'Articles in a leg''s window, 1 … 1000; NULL: as the organisation has it.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.retrieval IS 'exact, ann or auto; NULL: as the organisation has it.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.ann_window IS 'Articles in a leg''s window, 1 … 1000; NULL: as the organisation has it.';
