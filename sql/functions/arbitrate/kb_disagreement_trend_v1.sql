CREATE FUNCTION kbsearch.kb_disagreement_trend_v1(p_org_id bigint, p_bucket interval DEFAULT '1 day')
RETURNS TABLE (
    bucket_start timestamptz, query_class text, searches bigint, disagreement_mean numeric, disagreement_max numeric, escalated bigint
)
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY INVOKER
SET search_path = pg_catalog, kbsearch, pg_temp
AS $$
BEGIN
    IF p_org_id IS NULL OR NOT EXISTS (SELECT FROM kbsearch.organizations AS o WHERE o.id = p_org_id) THEN
        RAISE EXCEPTION 'organisation % does not exist', coalesce(p_org_id::text, 'NULL')
            USING ERRCODE = 'KBORG', DETAIL = jsonb_build_object('org_id', p_org_id)::text, HINT = 'Pass the id of a row of kbsearch.organizations.';
    END IF;
    IF p_bucket IS NULL OR extract(YEAR FROM p_bucket) <> 0 OR extract(MONTH FROM p_bucket) <> 0 OR p_bucket < '1 second' OR p_bucket > '36500 days' THEN
        RAISE EXCEPTION 'no time can be divided into buckets of %', coalesce(p_bucket::text, 'NULL')
            USING ERRCODE = 'KBARB', DETAIL = jsonb_build_object('bucket', p_bucket::text)::text,
                HINT = 'Pass 1 second to 36500 days, without months or years, which are not all equally long: 1 hour, 1 day, 7 days, 30 days.';
    END IF;
    RETURN QUERY
    SELECT
        s.bucket_start,
        s.query_class,
        count(*),
        round(avg(s.disagreement), 6),
        round(max(s.disagreement), 6),
        count(*) FILTER (WHERE s.verdict = 'escalated')
    FROM (
        SELECT
            -- a Monday
            date_bin(p_bucket, l.logged_at, '2001-01-01 00:00:00+00'::timestamptz) AS bucket_start,
            l.manifest ->> 'query_class' AS query_class,
            (l.manifest ->> 'disagreement_magnitude')::numeric AS disagreement,
            l.manifest ->> 'verdict' AS verdict
        FROM kbsearch.kb_arbitration_log AS l
        WHERE l.org_id = p_org_id
    ) AS s
    GROUP BY s.bucket_start, s.query_class
    ORDER BY s.bucket_start, s.query_class COLLATE "C";
END
$$;
COMMENT ON FUNCTION kbsearch.kb_disagreement_trend_v1(bigint, interval) IS
'How much the legs of an organisation''s logged searches disagreed, over time and by class of question.

Arguments:
p_org_id: The organisation.
p_bucket: Length of a bucket of time, 1 second to 36500 days, without months and years. Buckets begin at midnight UTC, those of 7 days on a Monday.

Columns:
bucket_start: Begin of the bucket; one without searches is left out.
query_class: Class of question (classify_kb_query_v1).
searches: Searches logged.
disagreement_mean: Mean disagreement of those that both legs answered, 0 … 1, 6 decimals; NULL: there is none.
disagreement_max: The greatest.
escalated: How many of the searches were escalated.

Errors: KBORG, KBARB (no such bucket).';
