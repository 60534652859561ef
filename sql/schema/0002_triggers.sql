-- The triggers that keep the derived tables, in the writer's transaction. Names sort in the order in which they fire.

CREATE TRIGGER kb_10_guard BEFORE UPDATE ON kbsearch.organizations
FOR EACH ROW EXECUTE FUNCTION kbsearch.kb_organizations_guard_v1();
CREATE TRIGGER kb_20_changed AFTER UPDATE ON kbsearch.organizations
FOR EACH ROW WHEN (old.language <> new.language OR old.reference_length <> new.reference_length)
EXECUTE FUNCTION kbsearch.kb_organizations_changed_v1();
CREATE TRIGGER kb_30_removed AFTER DELETE ON kbsearch.organizations
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_organizations_removed_v1();

CREATE TRIGGER kb_10_guard BEFORE UPDATE ON kbsearch.kb_articles
FOR EACH ROW EXECUTE FUNCTION kbsearch.kb_articles_guard_v1();

CREATE TRIGGER kb_00_begin BEFORE INSERT OR UPDATE OR DELETE ON kbsearch.kb_article_chunks
FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_chunks_begin_v1('1');
CREATE TRIGGER kb_10_describe BEFORE INSERT OR UPDATE ON kbsearch.kb_article_chunks
FOR EACH ROW EXECUTE FUNCTION kbsearch.kb_chunks_describe_v1();
CREATE TRIGGER kb_20_inserted AFTER INSERT ON kbsearch.kb_article_chunks
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_chunks_written_v1('1');
CREATE TRIGGER kb_30_updated_old AFTER UPDATE ON kbsearch.kb_article_chunks
REFERENCING OLD TABLE AS written NEW TABLE AS other FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_chunks_written_v1('-1');
CREATE TRIGGER kb_40_updated_new AFTER UPDATE ON kbsearch.kb_article_chunks
REFERENCING NEW TABLE AS written OLD TABLE AS other FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_chunks_written_v1('1');
CREATE TRIGGER kb_50_deleted AFTER DELETE ON kbsearch.kb_article_chunks
REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_chunks_written_v1('-1');
CREATE TRIGGER kb_90_end AFTER INSERT OR UPDATE OR DELETE ON kbsearch.kb_article_chunks
FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_chunks_begin_v1('-1');
CREATE TRIGGER kb_60_truncated AFTER TRUNCATE ON kbsearch.kb_article_chunks
FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_chunks_truncated_v1();

CREATE TRIGGER kb_10_check BEFORE INSERT OR UPDATE ON kbsearch.kb_article_embeddings
FOR EACH ROW EXECUTE FUNCTION kbsearch.kb_embeddings_check_v1();
CREATE TRIGGER kb_20_written AFTER INSERT ON kbsearch.kb_article_embeddings
REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION kbsearch.kb_embeddings_written_v1();

CREATE TRIGGER kb_10_immutable BEFORE UPDATE ON kbsearch.kb_ranking_profiles
FOR EACH ROW EXECUTE FUNCTION kbsearch.kb_immutable_v1('KBPRF', 'Make a new version with create_kb_ranking_profile_v1.');
CREATE TRIGGER kb_10_immutable BEFORE UPDATE ON kbsearch.kb_builtin_profiles
FOR EACH ROW EXECUTE FUNCTION kbsearch.kb_immutable_v1('KBPRF', 'Make a profile of your own with create_kb_ranking_profile_v1.');
CREATE TRIGGER kb_10_immutable BEFORE UPDATE ON kbsearch.kb_embedding_spaces
FOR EACH ROW EXECUTE FUNCTION kbsearch.kb_immutable_v1('KBSPC', 'Insert a new space: another model, revision, number of dimensions or recipe is another space.');
