from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch.client import KBSearch
from kbsearch.evaluate import Collection, CollectionError, evaluate, evaluate_in_place
from kbsearch.evaluate.gold import (
    GoldError,
    add_judgements,
    articles_named,
    export_gold,
    gold_questions,
    gold_sets,
    import_gold,
    questions,
    remove,
)
from kbsearch.models import Chunk

Connection = psycopg.Connection[Any]


@pytest.fixture
def org(connection: Connection) -> int:
    row = connection.execute(
        "INSERT INTO kbsearch.organizations (name) VALUES ('other'), ('acme') RETURNING id"
    ).fetchall()
    return int(row[-1][0])


@pytest.fixture
def articles(connection: Connection, org: int) -> dict[str, int]:
    """Three articles, one of them without a name of its own, and one of another organisation."""
    with KBSearch(connection) as client:
        ids = {}
        for ref, title, text in (
            ("cats", "Cats", "Cats purr."),
            ("dogs", "Dogs", "Dogs bark."),
            (None, "Birds", "Birds sing."),
        ):
            ids[ref or "birds"] = client.upsert_article(org, external_ref=ref, title=title, chunks=[Chunk(text)])
        ids["foreign"] = client.upsert_article(org - 1, external_ref="foreign", title="F", chunks=[Chunk("Cats.")])
    return ids


def graded(connection: Connection, org: int, name: str = "gold") -> dict[str, dict[str, int]]:
    return {
        one.question: {entry.name: entry.grade for entry in one.judgements}
        for one in gold_questions(connection, org, name)
    }


def test_judgements_are_added_replaced_and_removed(connection: Connection, org: int, articles: dict[str, int]) -> None:
    ref = add_judgements(connection, org, "gold", " who purrs ", {articles["cats"]: 2, articles["dogs"]: 0})
    assert add_judgements(connection, org, "gold", "who purrs", {articles["birds"]: 1}) == ref
    assert add_judgements(connection, org, "gold", ref, {articles["dogs"]: 1}) == ref
    birds = f"#{articles['birds']}"
    assert graded(connection, org) == {"who purrs": {"cats": 2, "dogs": 1, birds: 1}}
    assert [(one.name, one.questions, one.judgements) for one in gold_sets(connection, org)] == [("gold", 1, 3)]
    remove(connection, org, "gold", question="who purrs", article_id=articles["birds"])
    assert graded(connection, org) == {"who purrs": {"cats": 2, "dogs": 1}}
    with KBSearch(connection) as client:
        client.delete_article(org, external_ref="cats")
    assert graded(connection, org) == {"who purrs": {"dogs": 1}}
    remove(connection, org, "gold", question=ref)
    assert graded(connection, org) == {}
    remove(connection, org, "gold")
    assert gold_sets(connection, org) == []


def test_what_cannot_be_judged_is_refused_and_nothing_is_written(
    connection: Connection, org: int, articles: dict[str, int]
) -> None:
    for grades, message in (
        ({articles["cats"]: 1, articles["foreign"]: 1}, "has no article"),
        ({articles["cats"]: -1}, "grade -1"),
        ({2**60: 1}, "has no article"),
    ):
        with pytest.raises(GoldError, match=message):
            add_judgements(connection, org, "gold", "who purrs", grades)
    with pytest.raises(GoldError, match="blank"):
        add_judgements(connection, org, "gold", "  ", {articles["cats"]: 1})
    assert gold_sets(connection, org) == []
    add_judgements(connection, org, "gold", "who purrs", {articles["cats"]: 1})
    for call, message in (
        (lambda: gold_questions(connection, org, "silver"), "no gold set 'silver': there are gold"),
        (lambda: gold_questions(connection, org - 1, "gold"), "nor any other"),
        (lambda: remove(connection, org, "gold", question="x"), "no question"),
        (lambda: remove(connection, org, "gold", question="who purrs", article_id=articles["dogs"]), "is not judged"),
    ):
        with pytest.raises(GoldError, match=message):
            call()


def test_plain_sql_is_held_to_the_same(connection: Connection, org: int, articles: dict[str, int]) -> None:
    ref = add_judgements(connection, org, "gold", "who purrs", {articles["cats"]: 1})
    insert = "INSERT INTO kbsearch.kb_gold_judgements (org_id, set_name, question_ref, article_id, grade) VALUES (%s, 'gold', %s, %s, %s)"
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(insert, (org, ref, articles["foreign"], 1))
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(insert, (org, ref, articles["dogs"], -1))
    connection.execute("DELETE FROM kbsearch.organizations WHERE id = %s", (org,))


def test_a_gold_set_comes_back_from_its_folder(
    connection: Connection, org: int, articles: dict[str, int], tmp_path: Path
) -> None:
    """Export, import under another name, export again: the same questions and grades, the same files."""
    add_judgements(connection, org, "gold", "who purrs", {articles["cats"]: 2, articles["dogs"]: 0})
    add_judgements(connection, org, "gold", 'sings "in the" morning', {articles["birds"]: 1})
    add_judgements(connection, org, "gold", "nothing yet", {articles["birds"]: 1})
    remove(connection, org, "gold", question="nothing yet", article_id=articles["birds"])
    export_gold(connection, org, "gold", tmp_path / "gold")
    assert import_gold(connection, org, "again", tmp_path / "gold") == (3, 3, 0)
    assert graded(connection, org, "again") == graded(connection, org)
    assert {one.ref for one in gold_questions(connection, org, "again")} == {
        one.ref for one in gold_questions(connection, org, "gold")
    }
    export_gold(connection, org, "again", tmp_path / "again")
    for file in ("corpus.jsonl", "queries.jsonl", "qrels.tsv"):
        assert sorted((tmp_path / "gold" / file).read_text().splitlines()) == sorted(
            (tmp_path / "again" / file).read_text().splitlines()
        )
    collection = Collection.load(tmp_path / "gold")
    assert [document.id for document in collection.documents] == [f"#{articles['birds']}", "cats", "dogs"]
    assert collection.documents[1].text == "Cats purr."
    assert import_gold(connection, org, "gold", tmp_path / "gold") == (3, 3, 0)


def test_imports_that_do_not_fit_write_nothing(
    connection: Connection, org: int, articles: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "who purrs"}\n', encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tcats\t1\n1\tmice\t-1\n1\tdogs\t-1\n")
    with pytest.raises(GoldError, match=r"1 judged documents .* 'mice'"):
        import_gold(connection, org, "gold", tmp_path)
    assert gold_sets(connection, org) == []
    assert import_gold(connection, org, "gold", tmp_path, skip_missing=True) == (1, 2, 1)
    assert graded(connection, org) == {"who purrs": {"cats": 1, "dogs": 0}}
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "who barks"}\n', encoding="utf-8")
    with pytest.raises(GoldError, match="another text"):
        import_gold(connection, org, "gold", tmp_path, skip_missing=True)
    with pytest.raises(CollectionError, match="no folder"):
        import_gold(connection, org, "gold", tmp_path / "x")


def test_an_export_refuses_a_folder_with_something_in_it(
    connection: Connection, org: int, articles: dict[str, int], tmp_path: Path
) -> None:
    add_judgements(connection, org, "gold", "q", {articles["cats"]: 1})
    (tmp_path / "file").touch()
    with pytest.raises(GoldError, match="no empty folder"):
        export_gold(connection, org, "gold", tmp_path)
    connection.execute("UPDATE kbsearch.kb_articles SET external_ref = E'a\tb' WHERE external_ref = 'cats'")
    with pytest.raises(GoldError, match="a tab or a line break"):
        export_gold(connection, org, "gold", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_names_of_articles(connection: Connection, org: int, articles: dict[str, int]) -> None:
    birds, cats = articles["birds"], articles["cats"]
    names = ["cats", f"#{birds}", f"#{cats}", "foreign", "#", "#x", "#99999999999999999999"]
    assert articles_named(connection, org, names) == {"cats": cats, f"#{birds}": birds}


def test_a_gold_set_is_asked_in_place_as_a_loaded_collection_is(
    connection: Connection, org: int, articles: dict[str, int], tmp_path: Path
) -> None:
    """The same articles, loaded from the exported folder, are ranked the same; and nothing is written, which a read-only role could not."""
    add_judgements(connection, org, "gold", "who purrs", {articles["cats"]: 2})
    add_judgements(connection, org, "gold", "birds sing", {articles["birds"]: 1})
    asked, unjudged = questions(connection, org, "gold")
    systems = {"keyword": "keyword@1", "mine": "mine@1"}
    connection.execute("SELECT kbsearch.create_kb_ranking_profile_v1(%s, 'mine', 'weighted')", (org,))
    connection.execute("SET default_transaction_read_only = on")
    in_place = evaluate_in_place(connection, org, asked, systems=systems)
    again = evaluate_in_place(connection, org, asked, systems=systems)
    connection.execute("SET default_transaction_read_only = off")
    assert (in_place.documents, in_place.chunks, in_place.queries, unjudged) == (3, 3, 2, 0)
    assert in_place.systems["keyword"].metrics["RR"] == in_place.systems["mine"].metrics["RR"] == 1
    for name in systems:
        assert in_place.systems[name].run == again.systems[name].run
    export_gold(connection, org, "gold", tmp_path / "gold")
    collection = replace(
        Collection.load(tmp_path / "gold"),
        document_vectors=np.eye(3, dtype=np.float32),
        query_vectors=np.eye(3, dtype=np.float32)[:2],
    )
    loaded = evaluate(connection, collection, systems={"keyword": "keyword@1"}, syntax=True)
    assert loaded.systems["keyword"].run.rankings == in_place.systems["keyword"].run.rankings
    assert in_place.systems["mine"].run.record["system"]["definition"]["fusion"] == "weighted"


def test_writers_keep_gold_sets_and_readers_see_none(
    connection: Connection, org: int, articles: dict[str, int], superuser: Callable[[str], str], database: str
) -> None:
    with psycopg.connect(superuser(database), autocommit=True) as opened:
        name = f"kbsearch_gold_{uuid.uuid4().hex[:12]}"
        roles = {right: f"{name}_{right}" for right in ("writer", "reader")}
        try:
            for right, role in roles.items():
                opened.execute("SELECT kbsearch.grant_kb_rights_v1(%s, %s, true)", (right, role))
            opened.execute(f"SET ROLE {roles['writer']}".encode())
            add_judgements(opened, org, "gold", "who purrs", {articles["cats"]: 1})
            add_judgements(opened, org, "gold", "who purrs", {articles["cats"]: 2})
            asked, _ = questions(opened, org, "gold")
            found = evaluate_in_place(opened, org, asked, systems={"keyword": "keyword@1"})
            assert found.systems["keyword"].metrics["RR"] == 1
            remove(opened, org, "gold", question="who purrs", article_id=articles["cats"])
            opened.execute(f"SET ROLE {roles['reader']}".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                gold_sets(opened, org)
        finally:
            opened.execute("RESET ROLE")
            for role in roles.values():
                opened.execute(f"DROP OWNED BY {role}".encode())
                opened.execute(f"DROP ROLE {role}".encode())
