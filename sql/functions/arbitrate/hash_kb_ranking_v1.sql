CREATE FUNCTION kbsearch.hash_kb_ranking_v1(p_ids bigint []) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN array_ndims(p_ids) > 1 THEN NULL WHEN array_position(p_ids, NULL) IS NULL THEN kbsearch.hash_kb_text_v1(array_to_string(p_ids, chr(10))) END;
END;
COMMENT ON FUNCTION kbsearch.hash_kb_ranking_v1(bigint []) IS
'Stands for a ranking.

Arguments:
p_ids: Ids, best first; {}: none.

Returns: sha256 of the ids as ASCII decimals with a newline between two, 64 hexadecimal digits. NULL where the list or an id is, and for no simple list.

Errors: none.';
