-- Trigger functions act as the owner of the tables. Whoever may execute one may make a trigger of it on a temporary table of his own, and so have derived
-- rows of any organisation written or removed. Triggers that are there fire without that right. Where somebody grants it all the same (EXECUTE ON ALL FUNCTIONS),
-- those that act as the owner refuse any table but their own (refuse_kb_trigger_v1).

REVOKE EXECUTE ON FUNCTION kbsearch.kb_articles_guard_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_chunks_begin_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_chunks_describe_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_chunks_truncated_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_chunks_written_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_embeddings_check_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_embeddings_written_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_immutable_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_organizations_changed_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_organizations_guard_v1() FROM public;
REVOKE EXECUTE ON FUNCTION kbsearch.kb_organizations_removed_v1() FROM public;
