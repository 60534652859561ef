CREATE FUNCTION kbsearch.select_kb_articles_v1(
    p_org_id bigint, p_kinds text [], p_metadata jsonb, p_required bigint [], p_excluded bigint []
) RETURNS bigint []
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(array_agg(a.id), '{}')
    FROM kbsearch.kb_articles AS a
    WHERE
        a.org_id = p_org_id AND a.published
        AND (p_kinds IS NULL OR a.kind = ANY (p_kinds))
        AND (
            p_metadata IS NULL
            OR CASE jsonb_typeof(p_metadata)
                WHEN 'array' THEN EXISTS (SELECT 1 FROM jsonb_array_elements(p_metadata) AS wanted (element) WHERE a.metadata @> wanted.element)
                ELSE a.metadata @> p_metadata
            END
        )
        AND (p_required IS NULL OR a.id IN (SELECT u.id FROM unnest(p_required) AS u (id)))
        AND (p_excluded IS NULL OR a.id NOT IN (SELECT u.id FROM unnest(p_excluded) AS u (id)));
END;
COMMENT ON FUNCTION kbsearch.select_kb_articles_v1(bigint, text [], jsonb, bigint [], bigint []) IS
'Published articles that pass the filters: of one of the kinds, whose metadata contains p_metadata (an array: one of its elements), in p_required, not in p_excluded. NULL: no such filter.';
