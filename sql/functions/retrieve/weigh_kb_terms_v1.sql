-- Each language is a corpus of its own: its chunks are scored by the lexemes of their language, with its number of chunks and document frequencies, as
-- shares of the highest score that its words can give. A word that its chunks lack and those of another language have counts in that highest score,
-- weighing what the rarest word does: else a question in English would be all that a German article needs to say "the" for.
-- Shares are whole numbers, rounded down, so that sums of them are exact and at most the whole.
CREATE FUNCTION kbsearch.weigh_kb_terms_v1(
    p_lexemes text [], p_term_counts bigint [], p_forms text [], p_corpora integer [], p_document_frequencies bigint [], p_chunk_counts bigint [],
    p_counts_terms boolean
) RETURNS TABLE (lexeme text, document_frequency bigint, weight double precision)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT t.lexeme, t.document_frequency, t.share::double precision
    FROM (
        SELECT w.lexeme, w.document_frequency, div(w.weight * 1000000000000::numeric, sum(w.weight) OVER (PARTITION BY w.corpus)) AS share
        FROM (
            SELECT
                q.lexeme, q.document_frequency, q.corpus,
                CASE WHEN p_counts_terms THEN 1 ELSE q.term_count * kbsearch.kb_idf_v1(p_chunk_counts[q.corpus], q.document_frequency) END::numeric AS weight
            FROM unnest(p_lexemes, p_term_counts, p_forms, p_corpora, p_document_frequencies) WITH ORDINALITY
                AS q (lexeme, term_count, forms, corpus, document_frequency, n)
            WHERE
                q.document_frequency > 0
                OR (
                    cardinality(p_chunk_counts) > 1
                    AND q.n IN (
                        SELECT said.n
                        FROM unnest(p_forms) WITH ORDINALITY AS said (forms, n)
                        CROSS JOIN LATERAL string_to_table(said.forms, ' ') AS word (form)
                        WHERE word.form IN (
                            SELECT f.form
                            FROM unnest(p_forms, p_document_frequencies) AS k (forms, document_frequency)
                            CROSS JOIN LATERAL string_to_table(k.forms, ' ') AS f (form)
                            WHERE k.document_frequency > 0
                        )
                    )
                )
            OFFSET 0  -- a logarithm is computed once
        ) AS w
    ) AS t
    WHERE t.document_frequency > 0;
END;
COMMENT ON FUNCTION kbsearch.weigh_kb_terms_v1(text [], bigint [], text [], integer [], bigint [], bigint [], boolean) IS
'The words of a question that chunks have, and the weight of each: its share, in 10^-12 and rounded down, of all that the question''s words weigh in their language; a word weighs the number of times that the question says it times its idf, or 1 (p_counts_terms). Arrays run parallel, one element a lexeme: p_forms the folded words it stands for, between spaces, p_corpora the place of its language in p_chunk_counts.';
