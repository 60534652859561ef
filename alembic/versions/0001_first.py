"""Exact hybrid search: tables, text analysis, postings, retrieval, fusion, search."""

from kbsearch import migrate

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# In the order of their installation: a function's body binds the names that it uses when it is created.
FILES = [
    "functions/text/hash_kb_text_v1.sql",
    "schema/0001_base.sql",
    "schema/0003_search_plan.sql",
    "schema/0004_column_comments.sql",
    "functions/text/fold_kb_text_v1.sql",
    "functions/text/analyze_kb_text_v1.sql",
    "functions/text/describe_kb_chunk_v1.sql",
    "functions/text/escape_kb_html_v1.sql",
    "functions/text/find_kb_language_v1.sql",
    "functions/text/highlight_kb_text_v1.sql",
    "functions/text/name_kb_language_v1.sql",
    "functions/text/parse_kb_query_v1.sql",
    "functions/text/analyze_kb_question_v1.sql",
    "functions/index/bm25_impact_v1.sql",
    "functions/index/calibrate_kb_corpus_v1.sql",
    "functions/index/lock_kb_corpus_v1.sql",
    "functions/index/compact_kb_postings_v1.sql",
    "functions/index/kb_articles_guard_v1.sql",
    "functions/index/kb_chunks_begin_v1.sql",
    "functions/index/kb_chunks_describe_v1.sql",
    "functions/index/kb_chunks_truncated_v1.sql",
    "functions/index/merge_kb_entries_v1.sql",
    "functions/index/write_kb_entries_v1.sql",
    "functions/index/kb_chunks_written_v1.sql",
    "functions/retrieve/count_kb_dimensions_v1.sql",
    "functions/index/kb_embeddings_check_v1.sql",
    "functions/index/kb_embeddings_written_v1.sql",
    "functions/index/kb_immutable_v1.sql",
    "functions/index/list_kb_chunk_entries_v1.sql",
    "functions/index/list_kb_entries_v1.sql",
    "functions/index/count_kb_chunk_statements_v1.sql",
    "functions/index/rebuild_kb_index_v1.sql",
    "functions/index/kb_organizations_changed_v1.sql",
    "functions/index/kb_organizations_guard_v1.sql",
    "functions/index/kb_organizations_removed_v1.sql",
    "functions/retrieve/count_kb_documents_v1.sql",
    "functions/retrieve/count_kb_embeddings_v1.sql",
    "functions/retrieve/count_kb_languages_v1.sql",
    "functions/retrieve/find_kb_phrase_v1.sql",
    "functions/retrieve/find_kb_operators_v1.sql",
    "functions/retrieve/has_kb_direction_v1.sql",
    "functions/retrieve/has_kb_embeddings_v1.sql",
    "functions/retrieve/has_kb_vectors_v1.sql",
    "functions/retrieve/kb_idf_v1.sql",
    "functions/retrieve/match_kb_keyword_v1.sql",
    "functions/retrieve/match_kb_vector_v1.sql",
    "functions/retrieve/select_kb_articles_v1.sql",
    "functions/retrieve/weigh_kb_terms_v1.sql",
    "functions/fuse/fuse_kb_weighted_v1.sql",
    "functions/fuse/rank_kb_legs_v1.sql",
    "functions/fuse/rrf_part_v1.sql",
    "functions/fuse/fuse_kb_rrf_v1.sql",
    "functions/fuse/list_kb_candidates_v1.sql",
    "functions/ingest/delete_kb_article_v1.sql",
    "functions/ingest/list_kb_given_vectors_v1.sql",
    "functions/ingest/store_kb_vectors_v1.sql",
    "functions/ingest/upsert_kb_article_v1.sql",
    "functions/ingest/insert_kb_embeddings_v1.sql",
    "functions/ingest/reserve_kb_articles_v1.sql",
    "functions/search/is_kb_quota_v1.sql",
    "functions/search/create_kb_ranking_profile_v1.sql",
    "functions/search/digest_kb_request_v1.sql",
    "functions/search/rank_kb_articles_v1.sql",
    "functions/search/seal_kb_cursor_v1.sql",
    "functions/search/open_kb_cursor_v1.sql",
    "functions/search/resolve_kb_profile_v1.sql",
    "functions/search/prepare_kb_search_v1.sql",
    "functions/search/search_kb_hybrid_v1.sql",
    "functions/search/list_kb_results_v1.sql",
    "functions/search/describe_kb_legs_v1.sql",
    "functions/search/search_kb_hybrid_page_v1.sql",
    "schema/0002_triggers.sql",
]


def upgrade() -> None:
    migrate.run_files(FILES)


def downgrade() -> None:
    migrate.drop_files(FILES)
