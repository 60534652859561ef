-- What the columns of the tables that applications read or write hold.

COMMENT ON COLUMN kbsearch.organizations.id IS 'Its id; never changed.';
COMMENT ON COLUMN kbsearch.organizations.name IS 'Name for people and for the command line; not unique.';
COMMENT ON COLUMN kbsearch.organizations.language IS 'Text search configuration of articles that name none.';
COMMENT ON COLUMN kbsearch.organizations.active_space_id IS 'Embedding space that searches use; set by the first embedding.';
COMMENT ON COLUMN kbsearch.organizations.reference_length IS 'L of the BM25 impact, in words; changed by calibrate_kb_corpus_v1 only.';
COMMENT ON COLUMN kbsearch.organizations.ranking_profile IS 'Ranking profile of searches that name none, name@version.';
COMMENT ON COLUMN kbsearch.organizations.snapshot_limit IS 'How many snapshots may be open at a time; the oldest give way.';
COMMENT ON COLUMN kbsearch.organizations.created_at IS 'When the row was inserted.';

COMMENT ON COLUMN kbsearch.kb_articles.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_articles.id IS 'Its id, which settles ties: lower first.';
COMMENT ON COLUMN kbsearch.kb_articles.external_ref IS 'The application''s own name of it, unique in the organisation.';
COMMENT ON COLUMN kbsearch.kb_articles.kind IS 'Kind, for filters and quotas; see kb_source_kinds.';
COMMENT ON COLUMN kbsearch.kb_articles.title IS 'Title; part of what every chunk is found by.';
COMMENT ON COLUMN kbsearch.kb_articles.body IS 'The whole text, kept for the application; chunks are what is searched.';
COMMENT ON COLUMN kbsearch.kb_articles.language IS 'Text search configuration in which its chunks are analysed; NULL: the organisation''s.';
COMMENT ON COLUMN kbsearch.kb_articles.published IS 'Whether searches find it.';
COMMENT ON COLUMN kbsearch.kb_articles.metadata IS 'A JSON object, for filters.';
COMMENT ON COLUMN kbsearch.kb_articles.source_uri IS 'Where it comes from; handed back.';
COMMENT ON COLUMN kbsearch.kb_articles.content_sha256 IS 'What the application recognises its content by; see reserve_kb_articles_v1.';
COMMENT ON COLUMN kbsearch.kb_articles.version IS 'Counts the changes of what chunks copy; kept by a trigger.';
COMMENT ON COLUMN kbsearch.kb_articles.created_at IS 'When the row was inserted.';
COMMENT ON COLUMN kbsearch.kb_articles.updated_at IS 'When the row was last changed; kept by a trigger.';

COMMENT ON COLUMN kbsearch.kb_article_chunks.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.id IS 'Its id; never changed. Of an article''s equally good chunks the lowest is shown.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.article_id IS 'The article it is a passage of.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.article_version IS 'Filled by a trigger: the article''s version.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.chunk_no IS 'Its number within the article, by convention from 0.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.heading IS 'The heading it stands under; searched like its content.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.content IS 'Its text: at most 262,144 bytes and 16,000 words.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.title IS 'Filled by a trigger: the article''s title.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.language IS 'Filled by a trigger: the language it is analysed in.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.searchable IS 'Filled by a trigger: whether the article is published.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.lexemes IS 'Filled by a trigger: its distinct lexemes, in "C" order.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.term_counts IS 'Filled by a trigger: for each lexeme its weighted occurrences, 1 … 255.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.occurrence_count IS 'Filled by a trigger: its length in words that are no stop words.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.phrase_text IS 'Filled by a trigger: its words in order, for phrases.';
COMMENT ON COLUMN kbsearch.kb_article_chunks.content_digest IS 'Filled by a trigger: digest_kb_chunk_v1 of its title, heading and content.';

COMMENT ON COLUMN kbsearch.kb_article_embeddings.org_id IS 'The organisation; never changed.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.space_id IS 'The embedding space of the vector.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.chunk_id IS 'The chunk that it stands for.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.article_id IS 'The chunk''s article.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.searchable IS 'Filled by a trigger: whether the article is published.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.has_direction IS 'Generated: false for the zero vector and for norms outside 1e-15 … 1e15, where cosine means nothing.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.chunk_digest IS 'digest_kb_chunk_v1 of the chunk that the vector is of; filled by a trigger where it is not given. Another than the chunk''s now: the vector is stale.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.current_digest IS 'Filled by a trigger: the chunk''s content_digest.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.is_stale IS 'Generated: whether the chunk says something else by now than when the vector was made.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.input_sha256 IS 'sha256 of the exact text that was handed to the model, prefix and all; NULL where not known. kb_embedding_inputs has the text.';
COMMENT ON COLUMN kbsearch.kb_article_embeddings.embedding IS 'The vector, of the space''s dimensions.';

COMMENT ON COLUMN kbsearch.kb_embedding_spaces.id IS 'Its id.';
COMMENT ON COLUMN kbsearch.kb_embedding_spaces.name IS 'Name for people, unique.';
COMMENT ON COLUMN kbsearch.kb_embedding_spaces.model IS 'The model''s published name.';
COMMENT ON COLUMN kbsearch.kb_embedding_spaces.revision IS 'Which weights: a digest, a tag or a date; empty where the provider has none.';
COMMENT ON COLUMN kbsearch.kb_embedding_spaces.dimensions IS 'Components of a vector, 1 … 2000.';
COMMENT ON COLUMN kbsearch.kb_embedding_spaces.recipe IS 'What is done around the model (template of the input, prefixes, pooling, normalisation), as JSON.';
COMMENT ON COLUMN kbsearch.kb_embedding_spaces.recipe_sha256 IS 'Generated: sha256 of the recipe.';
COMMENT ON COLUMN kbsearch.kb_embedding_spaces.created_at IS 'When the row was inserted.';

COMMENT ON COLUMN kbsearch.kb_source_kinds.kind IS 'The kind, as in kb_articles.kind.';
COMMENT ON COLUMN kbsearch.kb_source_kinds.inspectable IS 'False where there is nothing behind an article to open.';
COMMENT ON COLUMN kbsearch.kb_source_kinds.description IS 'For people.';

COMMENT ON COLUMN kbsearch.kb_builtin_profiles.name IS 'Name.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.version IS 'Version, from 1.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.fusion IS 'weighted, rrf, vector, keyword or arbitrate.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.scorer IS 'Keyword scorer: bm25 or term_count.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.vector_weight IS 'Weight of the vector leg, 0 … 1.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.keyword_weight IS 'Weight of the keyword leg, 0 … 1.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.rrf_k IS 'The k of rrf, 1 … 10000.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.kind_quota IS 'Quota of searches that give none; NULL: no quota.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.policy IS 'Arbitration policy, name@version; NULL where the fusion is another than arbitrate.';
COMMENT ON COLUMN kbsearch.kb_builtin_profiles.description IS 'For people.';

COMMENT ON COLUMN kbsearch.kb_ranking_profiles.org_id IS 'The organisation that it is of.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.name IS 'Name.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.version IS 'Version, from 1.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.fusion IS 'weighted, rrf, vector, keyword or arbitrate.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.scorer IS 'Keyword scorer: bm25 or term_count.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.vector_weight IS 'Weight of the vector leg, 0 … 1.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.keyword_weight IS 'Weight of the keyword leg, 0 … 1.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.rrf_k IS 'The k of rrf, 1 … 10000.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.kind_quota IS 'Quota of searches that give none; NULL: no quota.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.policy IS 'Arbitration policy, name@version; NULL where the fusion is another than arbitrate.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.description IS 'For people.';
COMMENT ON COLUMN kbsearch.kb_ranking_profiles.created_at IS 'When it was made.';

COMMENT ON COLUMN kbsearch.kb_ingest_sources.org_id IS 'The organisation that is loaded.';
COMMENT ON COLUMN kbsearch.kb_ingest_sources.name IS 'Which source; made from the query and its database.';
COMMENT ON COLUMN kbsearch.kb_ingest_sources.state IS 'How far it was read, as JSON.';
COMMENT ON COLUMN kbsearch.kb_ingest_sources.updated_at IS 'When it was last read.';
