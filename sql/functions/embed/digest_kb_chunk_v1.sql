-- IMMUTABLE although convert_to() is not: kbsearch is for databases in UTF8, where the bytes are the text's own. Five bytes: it is compared with
-- the digest of the same chunk only, and five rows of kb_article_embeddings with vectors of 384 dimensions are to fit a page.
CREATE FUNCTION kbsearch.digest_kb_chunk_v1(p_title text, p_heading text, p_content text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT substr(sha256(convert_to(
        coalesce(p_title, '') || chr(31) || coalesce(p_heading, '') || chr(31) || coalesce(p_content, ''), 'UTF8'
    )), 1, 5);
END;
COMMENT ON FUNCTION kbsearch.digest_kb_chunk_v1(text, text, text) IS
'The first 5 bytes of the sha256 of all that a model can be given of a chunk: whether a vector is of what the chunk says now.';
