-- The right-hand side of every policy, so it is computed once a statement (an InitPlan) and raises no error of ours. Trigger functions that keep derived
-- tables act for the organisation of the row that was written, whoever wrote it: a superuser's COPY is bound to none. They run as the owner of the tables
-- and say so in a setting of their own, which counts for the owner only. Before a row is let in ('?7') what the caller is bound to comes first, so that
-- nothing is read of another's; once it is in ('7') its derived rows have to follow.
CREATE FUNCTION kbsearch.find_kb_bound_organization_v1(p_source text, p_claim text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN b.given ~ '^-?[0-9]{1,18}$' THEN b.given::bigint END
    FROM (
        SELECT CASE
            WHEN a.acting ~ '^-?[0-9]' THEN a.acting
            ELSE coalesce(
                nullif(nullif(CASE p_source
                    WHEN 'claim' THEN nullif(current_setting('request.jwt.claims', true), '')::jsonb #>> string_to_array(p_claim, '.')
                    ELSE current_setting('kbsearch.org_id', true)
                END, ''), '*'),
                substr(a.acting, 2)
            )
        END AS given
        FROM (
            SELECT CASE
                WHEN
                    current_setting('kbsearch.acting_org_id', true) <> ''
                    AND pg_has_role((SELECT c.relowner FROM pg_class AS c WHERE c.oid = 'kbsearch.organizations'::regclass), 'USAGE')
                    THEN current_setting('kbsearch.acting_org_id', true)
            END AS acting
        ) AS a
    ) AS b;
END;
COMMENT ON FUNCTION kbsearch.find_kb_bound_organization_v1(text, text) IS
'The organisation that the caller is bound to, for the policies of enable_kb_row_security_v1. p_source: setting (kbsearch.org_id) or claim (p_claim of request.jwt.claims, a path with dots). NULL where the caller is bound to none.';
