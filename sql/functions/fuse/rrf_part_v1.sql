CREATE FUNCTION kbsearch.rrf_part_v1(p_weight double precision, p_rrf_k integer, p_rank bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT coalesce(round(1e9::double precision * p_weight / (p_rrf_k + p_rank))::bigint, 0);
END;
COMMENT ON FUNCTION kbsearch.rrf_part_v1(double precision, integer, bigint) IS
'What a leg contributes to the score of reciprocal rank fusion (Cormack, Clarke and Buettcher 2009), in billionths: weight / (k + rank); 0 without a rank.';
