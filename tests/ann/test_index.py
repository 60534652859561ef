"""The index of an organisation: made, found unfinished, made again, dropped; what cursors and errors say of it."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kbsearch import embedded, migrate
from tests.ann.crowd import Crowd, crowd
from tests.conftest import Databases


@pytest.fixture
def small(database: str) -> Iterator[Crowd]:
    with crowd(database, 400, 100, number=1) as made:
        yield made


def create(crowd: Crowd, **others: Any) -> str:
    named = "".join(f", p_{name} => %({name})s" for name in others)
    statement = f"SELECT kbsearch.create_kb_ann_index_v1(%(org)s{named})"
    row = crowd.connection.execute(statement.encode(), {"org": crowd.org_id, **others}).fetchone()
    assert row is not None
    return str(row[0])


def listed(crowd: Crowd, org_id: int | None = None) -> list[tuple[Any, ...]]:
    return crowd.connection.execute(
        "SELECT l.index_name, l.state, l.identity FROM kbsearch.list_kb_ann_indexes_v1(%s) AS l",
        [org_id or crowd.org_id],
    ).fetchall()


def refused(crowd: Crowd, code: str, run: Callable[[], object]) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        run()
    assert caught.value.sqlstate == code
    assert caught.value.diag.message_hint
    return caught.value


def spoil(crowd: Crowd, superuser: Callable[[str], str], name: str) -> None:
    """Leave the index as a CREATE INDEX CONCURRENTLY does that was broken off."""
    with psycopg.connect(superuser(crowd.dsn), autocommit=True) as connection:
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [f"kbsearch.{name}"]
        )


def test_made_listed_and_dropped(small: Crowd) -> None:
    name = create(small)
    assert name == f"kb_ann_{small.org_id}_{small.space_id}"
    ((listed_name, state, identity),) = listed(small)
    assert (listed_name, state) == (name, "ready")
    assert len(identity) == 16
    assert create(small) == name
    assert listed(small) == [(name, "ready", identity)], "an index that is there is left"
    assert listed(small, small.org_ids[1]) == []
    drop = "SELECT kbsearch.drop_kb_ann_index_v1(%s)"
    assert small.connection.execute(drop, [small.org_id]).fetchone() == (True,)
    assert small.connection.execute(drop, [small.org_id]).fetchone() == (False,)
    assert listed(small) == []
    create(small)
    assert listed(small)[0][2] != identity, "built again, it is another"


@pytest.mark.parametrize("how", ["REINDEX INDEX kbsearch.{}", "REINDEX INDEX CONCURRENTLY kbsearch.{}"])
def test_rebuilt_in_place_it_is_another_too(small: Crowd, how: str) -> None:
    name = create(small)
    ((_, _, before),) = listed(small)
    small.connection.execute(how.format(name).encode())
    ((_, state, after),) = listed(small)
    assert state == "ready"
    assert after != before


def test_numbers_out_of_range_and_another_build(small: Crowd) -> None:
    for numbers in (
        {"m": 1},
        {"m": 101},
        {"ef_construction": 3},
        {"ef_construction": 1001},
        {"m": 50, "ef_construction": 99},
    ):
        refused(small, "KBANN", lambda numbers=numbers: create(small, **numbers))  # type: ignore[misc]
    create(small, m=8, ef_construction=40)
    create(small)
    create(small, m=8)
    refused(small, "KBANN", lambda: create(small, m=16))
    refused(small, "KBSPC", lambda: create(small, space_id=10**9))
    refused(small, "KBORG", lambda: small.connection.execute("SELECT kbsearch.create_kb_ann_index_v1(NULL)"))
    refused(small, "KBORG", lambda: small.connection.execute("SELECT kbsearch.drop_kb_ann_index_v1(NULL)"))


def test_an_index_of_that_name_that_is_none(small: Crowd) -> None:
    name = f"kb_ann_{small.org_id}_{small.space_id}"
    small.connection.execute(f"CREATE INDEX {name} ON kbsearch.kb_article_embeddings (org_id)".encode())
    assert listed(small)[0][1] == "foreign"
    refused(small, "KBANN", lambda: create(small))
    small.use("ann")
    refused(small, "KBANN", lambda: small.page(small.questions(1)[0]))
    assert small.connection.execute("SELECT kbsearch.drop_kb_ann_index_v1(%s)", [small.org_id]).fetchone() == (False,)


def test_at_most_two_hundred(small: Crowd) -> None:
    small.connection.execute(
        """DO $$
BEGIN
    FOR n IN 1 .. 200 LOOP
        EXECUTE format('CREATE INDEX kb_ann_%s_1 ON kbsearch.kb_article_embeddings (org_id) WHERE org_id = %s', 1000 + n, 1000 + n);
    END LOOP;
END
$$"""
    )
    error = refused(small, "KBANN", lambda: create(small))
    assert "200" in str(error)
    small.connection.execute("DROP INDEX kbsearch.kb_ann_1001_1")
    create(small)


def test_without_an_index(small: Crowd) -> None:
    """ann is refused, auto exact; by words alone nothing approximates, so neither needs one."""
    (question,) = small.questions(1)
    small.use("ann", 20)
    error = refused(small, "KBANN", lambda: small.page(question))
    assert '"no_index"' in str(error.diag.message_detail)
    words_only = small.connection.execute(
        "SELECT kbsearch.search_kb_hybrid_page_v1(%s, %s) -> 'retrieval'", [small.org_id, question.text]
    ).fetchone()
    assert words_only is not None
    assert words_only[0]["mode"] == "ann"
    assert words_only[0]["index"] is None
    assert words_only[0]["certain"] == words_only[0]["reachable"] or words_only[0]["certain"] > 0


def test_an_index_that_is_not_finished(small: Crowd, superuser: Callable[[str], str]) -> None:
    (question,) = small.questions(1)
    name = create(small)
    spoil(small, superuser, name)
    assert listed(small)[0][1] == "invalid"
    small.use("ann", 20)
    error = refused(small, "KBANN", lambda: small.page(question))
    assert '"index_invalid"' in str(error.diag.message_detail)
    assert create(small) == name
    assert listed(small)[0][1] == "ready"
    assert small.page(question)["retrieval"]["mode"] == "ann"


def test_cursors_keep_to_their_index_and_mode(small: Crowd) -> None:
    (question,) = small.questions(1)
    create(small)
    small.use("ann", 20)
    ranking = small.ids(question, limit=100)
    first = small.page(question, limit=5)
    small.use("ann", 40)
    assert small.ids(question, limit=100, cursor=first["next_cursor"]) == ranking[5:], "the window is the first page's"
    small.use("exact")
    assert small.ids(question, limit=100, cursor=first["next_cursor"]) == ranking[5:], "and so is the mode"
    exact_ranking = small.ids(question, limit=1000)
    exact_first = small.page(question, limit=5)
    small.use("ann", 20)
    later = small.page(question, limit=1000, cursor=exact_first["next_cursor"])
    assert [item["article_id"] for item in later["items"]] == exact_ranking[5:]
    assert later["retrieval"]["reason"] == "cursor"
    small.connection.execute("SELECT kbsearch.drop_kb_ann_index_v1(%s)", [small.org_id])
    refused(small, "KBCUR", lambda: small.page(question, cursor=first["next_cursor"]))
    create(small)
    refused(small, "KBCUR", lambda: small.page(question, cursor=first["next_cursor"]))
    assert small.page(question, limit=5)["retrieval"]["mode"] == "ann"


def test_the_end_of_the_windows_is_flagged(small: Crowd) -> None:
    (question,) = small.questions(1)
    create(small)
    small.use("ann", 20)
    total = small.page(question)["total"]
    assert 20 <= total <= 40
    last = small.page(question, limit=10, offset=total - 3)
    behind = small.page(question, limit=10, offset=total + 100)
    assert len(last["items"]) == 3
    assert behind["items"] == []
    for page in (last, behind):
        assert page["end_reached"]
        assert page["next_cursor"] is None
        assert page["retrieval"]["window_exhausted"]
        assert page["retrieval"]["reachable"] == total
    assert not small.page(question)["retrieval"]["window_exhausted"]


def test_a_window_wider_than_the_organisation(small: Crowd) -> None:
    """The index cannot fill it: everything is compared, and the page says why."""
    (question,) = small.questions(1)
    create(small)
    small.use("exact")
    exact = small.ids(question, limit=1000)
    small.use("ann", 1000)
    page = small.page(question, limit=1000)
    assert page["retrieval"]["mode"] == "exact"
    assert page["retrieval"]["reason"] == "window_not_filled"
    assert [item["article_id"] for item in page["items"]] == exact


def test_a_profile_says_it_for_its_searches(small: Crowd) -> None:
    (question,) = small.questions(1)
    create(small)
    make = "SELECT kbsearch.create_kb_ranking_profile_v1(%s, %s, 'weighted', p_retrieval => %s, p_ann_window => %s)"
    small.connection.execute(make, [small.org_id, "near", "ann", 15])
    small.connection.execute(make, [small.org_id, "all_of_it", "exact", None])
    retrieval = small.page(question, profile="near")["retrieval"]
    assert (retrieval["mode"], retrieval["window"]) == ("ann", 15)
    assert small.page(question)["retrieval"]["mode"] == "exact"
    small.use("ann", 20)
    assert small.page(question)["retrieval"]["window"] == 20
    assert small.page(question, profile="all_of_it")["retrieval"]["mode"] == "exact"
    for retrieval_given, window in (("guess", None), ("ann", 0), ("ann", 1001)):
        refused(
            small,
            "KBPRF",
            lambda given=(retrieval_given, window): small.connection.execute(make, [small.org_id, "bad", *given]),  # type: ignore[misc]
        )


@pytest.mark.parametrize("window", [200, 201, 400, 401, 1000])
def test_ef_search_follows_the_window(database: str, window: int) -> None:
    with crowd(database, 2200, 100, number=1) as made:
        create(made, m=4, ef_construction=16)
        made.use("ann", window)
        (question,) = made.questions(1)
        retrieval = made.page(question)["retrieval"]
        assert (retrieval["mode"], retrieval["window"]) == ("ann", window), retrieval


def test_arbitrated_searches_compare_everything(small: Crowd) -> None:
    (question,) = small.questions(1)
    create(small)
    small.use("exact")
    exact = small.ids(question, profile="arbitrate@1", limit=1000)
    small.use("ann", 20)
    page = small.page(question, profile="arbitrate@1", limit=1000)
    assert page["retrieval"]["reason"] == "arbitrated"
    assert [item["article_id"] for item in page["items"]] == exact


@pytest.mark.parametrize("window", [2, 10])
def test_all_chunks_of_an_article_have_their_scores_of_both_legs(small: Crowd, window: int) -> None:
    """Also those that are in neither leg's first chunks: of an article that words found another chunk may be the best."""
    create(small)
    shown = ("article_id", "chunk_id", "score", "vector_similarity", "keyword_score")
    others = 0
    for question in small.questions(30):
        small.use("exact")
        exact = {
            item["article_id"]: [item[name] for name in shown] for item in small.page(question, limit=1000)["items"]
        }
        by_words = {item["article_id"]: item["chunk_id"] for item in small.page(question, profile="keyword@1")["items"]}
        small.use("ann", window)
        page = small.page(question, limit=1000)
        assert page["retrieval"]["mode"] == "ann"
        for item in page["items"]:
            assert [item[name] for name in shown] == exact[item["article_id"]]
            others += by_words.get(item["article_id"], item["chunk_id"]) != item["chunk_id"]
    assert others >= window


def test_explanations_and_stored_rankings_are_of_the_same_windows(small: Crowd) -> None:
    (question,) = small.questions(1)
    create(small)
    small.use("exact")
    exact = small.ids(question, limit=1000)
    small.use("ann", 20)
    for profile in ("weighted@1", "rrf@1", "vector@1", "keyword@1"):
        ranking = small.ids(question, limit=1000, profile=profile)
        given = [small.org_id, question.text, question.vector]
        explained = small.connection.execute(
            "SELECT e.article_id FROM kbsearch.explain_kb_search_v1(%s, %s, %s, 1000, p_profile => %s) AS e ORDER BY e.place",
            [*given, profile],
        ).fetchall()
        assert [article for (article,) in explained] == ranking
        opened = small.connection.execute(
            "SELECT o.snapshot, o.total FROM kbsearch.open_kb_search_v1(%s, %s, %s, p_profile => %s) AS o",
            [*given, profile],
        ).fetchone()
        assert opened is not None
        assert opened[1] == len(ranking)
        stored = small.connection.execute(
            "SELECT kbsearch.fetch_kb_page_v1(%s, %s, 1000)", [small.org_id, opened[0]]
        ).fetchone()
        assert stored is not None
        assert [item["article_id"] for item in stored[0]["items"]] == ranking
        assert stored[0]["retrieval"]["mode"] == "ann"
        assert stored[0]["retrieval"]["reachable"] == len(ranking)
        assert stored[0]["retrieval"]["window_exhausted"] or profile == "keyword@1"
    outside = next(article for article in reversed(exact) if article not in small.ids(question, limit=1000))
    why = small.connection.execute(
        "SELECT kbsearch.explain_kb_article_v1(%s, %s, %s, %s)", [small.org_id, question.text, question.vector, outside]
    ).fetchone()
    assert why is not None
    assert why[0]["status"] == "outside_window"
    assert why[0]["window"] == 20


def test_by_a_role_that_only_reads(small: Crowd, admin: Callable[[str], str]) -> None:
    (question,) = small.questions(1)
    create(small)
    small.use("ann", 20)
    expected = small.ids(question, limit=100)
    role = f"kbsearch_reader_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(admin(small.dsn), autocommit=True) as connection:
        for statement in (
            f"CREATE ROLE {role} NOSUPERUSER",
            f"GRANT {role} TO CURRENT_USER",
            f"GRANT USAGE ON SCHEMA kbsearch, ext TO {role}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA kbsearch TO {role}",
        ):
            connection.execute(statement.encode())
        try:
            connection.execute(f"SET ROLE {role}".encode())
            connection.execute("SET search_path = ''")
            reader = Crowd(small.dsn, connection, small.org_ids, small.space_id, small.chance)
            assert reader.ids(question, limit=100) == expected
        finally:
            connection.execute("RESET ROLE")
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


@pytest.mark.skipif("KBSEARCH_TEST_DSN" in os.environ, reason="pg_dump writes for its own major version")
def test_a_dump_is_restored_by_a_plain_role_where_the_extension_is_there_already(
    small: Crowd, empty_database: str, admin: Callable[[str], str]
) -> None:
    """The session of a restore has not used pgvector yet when it comes to the functions that set hnsw.*."""
    (question,) = small.questions(1)
    create(small)
    small.use("ann", 20)
    expected = small.ids(question, limit=100)
    options = ["--no-owner", "--no-privileges", "--schema=kbsearch", "-d", admin(small.dsn)]
    dumped = subprocess.run([str(embedded.binary("pg_dump")), *options], check=True, capture_output=True, text=True)
    script = "\n".join(line for line in dumped.stdout.splitlines() if not line.startswith("CREATE SCHEMA "))
    psql = [str(embedded.binary("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1", empty_database]
    done = subprocess.run(psql, input=script, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    with psycopg.connect(empty_database, autocommit=True) as connection:
        restored = Crowd(empty_database, connection, small.org_ids, small.space_id, small.chance)
        page = restored.page(question, limit=100)
        assert page["retrieval"]["mode"] == "ann"
        assert page["retrieval"]["index"] != small.page(question)["retrieval"]["index"], "it was built anew"
        assert len({item["article_id"] for item in page["items"]} & set(expected)) >= 0.9 * len(expected)


def test_in_a_schema_of_another_name(empty_database: str, admin: Callable[[str], str], databases: Databases) -> None:
    """With the extension elsewhere, as always in these tests."""
    with psycopg.connect(admin(empty_database), autocommit=True) as connection:
        connection.execute("DROP SCHEMA kbsearch")
        connection.execute(f"CREATE SCHEMA help_search AUTHORIZATION {databases.role}".encode())
    migrate.upgrade(empty_database, schema="help_search")
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for statement in (
            "INSERT INTO help_search.kb_embedding_spaces (name, model, dimensions) VALUES ('toy', 'toy', 2)",
            "INSERT INTO help_search.organizations (name, retrieval, ann_window) VALUES ('shop', 'ann', 5)",
            "INSERT INTO help_search.kb_articles (org_id, title) SELECT 1, 'a' || n FROM generate_series(1, 30) AS g (n)",
            "INSERT INTO help_search.kb_article_chunks (org_id, article_id, content) SELECT 1, a.id, 'lamp' FROM help_search.kb_articles AS a",
            (
                "INSERT INTO help_search.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding) "
                "SELECT 1, 1, c.article_id, c.id, format('[100,%s]', c.id)::ext.vector FROM help_search.kb_article_chunks AS c"
            ),
            "SELECT help_search.create_kb_ann_index_v1(1)",
        ):
            connection.execute(statement.encode())
        row = connection.execute(
            "SELECT help_search.search_kb_hybrid_page_v1(1, 'lamp', '[100,7]', p_profile => 'vector@1')"
        ).fetchone()
        assert row is not None
        assert (row[0]["retrieval"]["mode"], row[0]["total"]) == ("ann", 5)
        assert connection.execute("SELECT help_search.drop_kb_ann_index_v1(1)").fetchone() == (True,)


def test_without_statistics_an_article_is_still_looked_up_by_its_id(small: Crowd) -> None:
    """Nothing was analysed: the rows read are those of the windows, and not the organisation's once for each article."""
    (question,) = small.questions(1)
    create(small)
    small.use("ann", 40)
    read = """SELECT s.relname, coalesce(s.idx_tup_fetch, 0) + s.seq_tup_read FROM pg_catalog.pg_stat_xact_user_tables AS s
WHERE s.schemaname = 'kbsearch' AND s.relname IN ('kb_article_chunks', 'kb_article_embeddings')"""
    small.page(question)
    with small.connection.transaction():
        before = dict(small.connection.execute(read).fetchall())
        assert small.page(question)["retrieval"]["mode"] == "ann"
        after = dict(small.connection.execute(read).fetchall())
    assert {name: after[name] - before.get(name, 0) <= 3 * 400 for name in after} == dict.fromkeys(after, True), (
        before,
        after,
    )
