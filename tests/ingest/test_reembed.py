"""Another space is filled beside the one that searches use, and switched to in one transaction that is refused while anything lacks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from kbsearch import KBSearch
from kbsearch.errors import IndexStateError, OrganizationError, SpaceError
from kbsearch.ingest import Document, Source, Splitter, UsageError, compare, ingest, reembed
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.spaces import (
    Space,
    SpaceStatus,
    activate_space,
    active_space,
    drop_space,
    ensure_space,
    list_spaces,
    named_space,
)
from kbsearch.ingest.vectors import CHUNKS_AT_ONCE
from kbsearch.models import Chunk
from tests.ingest.test_pipeline import Connection, HashEmbedder, Picky, answers, documents, rows, run

OLD, NEW = "1", "2"


def status(connection: Connection, org_id: int, space: Space | str) -> SpaceStatus:
    name = space if isinstance(space, str) else space.name
    (found,) = (one for one in list_spaces(connection, org_id) if one.name == name)
    return found


def counts(found: SpaceStatus) -> tuple[int, int, int]:
    return found.embedded, found.lacking, found.stale


def edit(connection: Connection, reference: str, text: str) -> None:
    """Another text of a chunk, by plain SQL: its vectors stay."""
    connection.execute(
        "UPDATE kbsearch.kb_article_chunks SET content = %s WHERE article_id ="
        " (SELECT a.id FROM kbsearch.kb_articles AS a WHERE a.external_ref = %s)",
        [text, reference],
    )


def test_a_space_is_filled_beside_the_active_one_and_searches_stay_as_they_are(connection: Connection) -> None:
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    first = run(connection, documents(4), embedder=old)
    before = answers(connection, first.org_id, old)
    report = reembed(connection, first.org_id, new, space="second")
    assert (report.space, report.space_active, report.missing, report.embedded) == ("second", False, 8, 8)
    assert answers(connection, first.org_id, old) == before
    assert len(old.inputs) == 8
    assert counts(status(connection, first.org_id, "second")) == (8, 0, 0)
    again = reembed(connection, first.org_id, new, space="second")
    assert (again.missing, again.embedded, len(new.inputs)) == (0, 0, 8)
    second = named_space(connection, "second")
    assert activate_space(connection, first.org_id, second) == named_space(connection, str(first.space)).id
    fresh = run(connection, documents(4), org="fresh", embedder=HashEmbedder(NEW))
    assert answers(connection, first.org_id, new) == answers(connection, fresh.org_id, new) != before


def test_activating_the_old_space_takes_the_switch_back(connection: Connection) -> None:
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    first = run(connection, documents(4), embedder=old)
    before = answers(connection, first.org_id, old)
    reembed(connection, first.org_id, new, activate=True)
    assert answers(connection, first.org_id, new) != before
    activate_space(connection, first.org_id, named_space(connection, str(first.space)))
    assert answers(connection, first.org_id, old) == before


def test_after_the_switch_an_ingest_has_nothing_to_do_and_no_model_is_asked(connection: Connection) -> None:
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    first = run(connection, documents(4), embedder=old)
    assert reembed(connection, first.org_id, new, splitter=Splitter(40), activate=True).space_active
    asked = len(new.inputs)
    later = run(connection, documents(4), embedder=new)
    assert (later.unchanged, later.written, later.reembedded, later.embedded_chunks) == (4, 0, 0, 0)
    assert (later.space_active, len(new.inputs)) == (True, asked)
    # The old embedder's ingest beside a space that is being filled leaves what is there alone, too.
    activate_space(connection, first.org_id, named_space(connection, str(first.space)))
    assert run(connection, documents(4), embedder=old).unchanged == 4


@pytest.mark.parametrize("harm", ["missing", "stale heading", "stale title", "stale content", "zero"])
def test_an_incomplete_space_is_not_activated(connection: Connection, harm: str) -> None:
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    first = run(connection, documents(3), embedder=old)
    reembed(connection, first.org_id, new, space="second")
    second = named_space(connection, "second")
    if harm == "missing":
        connection.execute(
            "DELETE FROM kbsearch.kb_article_embeddings WHERE chunk_id = (SELECT max(e.chunk_id) FROM kbsearch.kb_article_embeddings AS e)"
            " AND space_id = %s",
            [second.id],
        )
    elif harm == "zero":
        connection.execute(
            "UPDATE kbsearch.kb_article_embeddings SET embedding = '[0,0,0,0,0,0,0,0]' WHERE space_id = %s", [second.id]
        )
    elif harm == "stale title":
        connection.execute("UPDATE kbsearch.kb_articles SET title = 'Other' WHERE external_ref = 'd001'")
    else:
        connection.execute(
            f"""UPDATE kbsearch.kb_article_chunks SET {harm.split()[1]} = 'other'
            WHERE id = (SELECT max(c.id) FROM kbsearch.kb_article_chunks AS c)""".encode()
        )
    with pytest.raises(SpaceError, match="is not whole") as refused:
        activate_space(connection, first.org_id, second)
    detail = refused.value.detail
    expected = {
        "missing": (1, 0, 0),
        "zero": (0, 0, 6),
        "stale title": (0, 2, 0),
    }.get(harm, (0, 1, 0))
    assert (detail["lacking"], detail["stale"], detail["without_direction"]) == expected
    assert active_space(connection, first.org_id) == named_space(connection, str(first.space))
    assert reembed(connection, first.org_id, new, space="second", activate=True).space_active
    assert counts(status(connection, first.org_id, "second")) == (6, 0, 0)


def test_unpublished_and_empty_chunks_keep_nothing_back(connection: Connection) -> None:
    first = run(connection, documents(2), embedder=HashEmbedder(OLD))
    client = KBSearch(connection)
    client.upsert_article(
        first.org_id, external_ref="hidden", title="Hidden", chunks=[Chunk("refuse")], published=False
    )
    connection.execute("INSERT INTO kbsearch.kb_articles (org_id, external_ref) VALUES (%s, 'nothing')", [first.org_id])
    connection.execute(
        """INSERT INTO kbsearch.kb_article_chunks (org_id, article_id)
        SELECT a.org_id, a.id FROM kbsearch.kb_articles AS a WHERE a.external_ref = 'nothing'"""
    )
    picky = Picky(NEW)
    report = reembed(connection, first.org_id, picky, activate=True)
    assert (report.space_active, report.embedded, [entry.where for entry in report.rejected]) == (
        True,
        4,
        ["hidden, chunk 0"],
    )


def test_a_published_chunk_that_the_model_refuses_keeps_the_switch_back(connection: Connection) -> None:
    first = run(connection, [Document("a", "A", "fine"), Document("b", "B", "refuse")], embedder=HashEmbedder(OLD))
    picky = Picky(NEW)
    with pytest.raises(SpaceError, match="1 have no vector"):
        reembed(connection, first.org_id, picky, activate=True)
    assert active_space(connection, first.org_id) == named_space(connection, str(first.space))
    connection.execute("UPDATE kbsearch.kb_articles SET published = false WHERE external_ref = 'b'")
    assert reembed(connection, first.org_id, picky, activate=True).space_active


def test_a_run_that_stopped_is_completed_and_asks_for_nothing_twice(connection: Connection) -> None:
    first = run(connection, documents(CHUNKS_AT_ONCE), embedder=HashEmbedder(OLD))
    failing = HashEmbedder(NEW, fail_after=CHUNKS_AT_ONCE + 3)
    with pytest.raises(RuntimeError, match="embedder failed"):
        reembed(connection, first.org_id, failing, space="second")
    told: list[tuple[str, int, int]] = []
    new = HashEmbedder(NEW)
    report = reembed(connection, first.org_id, new, space="second", progress=lambda *step: told.append(step))
    assert report.missing == report.embedded == len(new.inputs) == CHUNKS_AT_ONCE
    assert told == [("embed", CHUNKS_AT_ONCE, CHUNKS_AT_ONCE)]
    assert not set(new.inputs) & set(failing.inputs[:CHUNKS_AT_ONCE])


def test_what_is_written_meanwhile_is_embedded_too_and_the_switch_waits_for_it(
    connection: Connection, database: str
) -> None:
    first = run(connection, documents(CHUNKS_AT_ONCE), embedder=HashEmbedder(OLD))
    written = iter(range(3))

    class Slow(HashEmbedder):
        """While it computes, somebody writes an article and changes another."""

        def embed_passages(self, texts: Any) -> Any:
            if (number := next(written, None)) is not None:
                with psycopg.connect(database, autocommit=True) as other:
                    KBSearch(other).upsert_article(
                        first.org_id, external_ref=f"new{number}", title="N", body=f"n{number}"
                    )
                    edit(other, f"d00{number}", f"changed {number}")
            return super().embed_passages(texts)

    report = reembed(connection, first.org_id, Slow(NEW), space="second", activate=True)
    assert report.space_active
    assert next(written, None) is None
    assert counts(status(connection, first.org_id, "second")) == (2 * CHUNKS_AT_ONCE + 3, 0, 0)
    found = KBSearch(connection, embedder=HashEmbedder(NEW)).search(
        first.org_id, "Title 2\nchanged 2", profile="vector@1"
    )
    assert (found.items[0].external_ref, found.items[0].vector_similarity) == ("d002", 1)


def test_an_ingest_writes_into_both_spaces_in_one_transaction(connection: Connection) -> None:
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    first = run(connection, documents(2), embedder=old)
    reembed(connection, first.org_id, new, space="second")
    second = named_space(connection, "second")
    run(connection, [*documents(2), Document("later", "Later", "x")], embedder=old, also=[new])
    assert counts(status(connection, first.org_id, "second")) == (5, 0, 0)
    assert counts(status(connection, first.org_id, str(first.space))) == (5, 0, 0)
    activate_space(connection, first.org_id, second)
    # And after the switch into the old one, so that the way back stays open.
    run(connection, [Document("last", "Last", "y")], embedder=new, also=[old], splitter=Splitter.of(new), source="t")
    assert status(connection, first.org_id, str(first.space)).lacking == 0
    activate_space(connection, first.org_id, named_space(connection, str(first.space)))


def test_a_refused_request_writes_nothing(connection: Connection, database: str) -> None:
    org_id = organization_id(connection, "o", create=True)
    with pytest.raises(UsageError, match="no chunk"):
        reembed(connection, org_id, HashEmbedder())
    run(connection, documents(1), embedder=HashEmbedder(OLD))
    reembed(connection, org_id, HashEmbedder(NEW), space="second")
    with pytest.raises(UsageError, match="'second' exists with another model or recipe"):
        reembed(connection, org_id, HashEmbedder("3"), space="second")
    with psycopg.connect(database) as inside, pytest.raises(UsageError, match="autocommit"):
        reembed(inside, org_id, HashEmbedder(NEW))
    with pytest.raises(SpaceError, match="no embedding space 'third'"):
        named_space(connection, "third")


def test_a_space_that_is_used_is_not_dropped_and_others_leave_nothing(connection: Connection) -> None:
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    first = run(connection, documents(2), embedder=old)
    other = run(connection, documents(2), org="other", embedder=old)
    reembed(connection, first.org_id, new, space="second", activate=True)
    with pytest.raises(SpaceError, match="searches of organisation"):
        drop_space(connection, first.org_id, named_space(connection, "second"))
    before = answers(connection, first.org_id, new)
    inputs = rows(connection, "SELECT count(*) FROM kbsearch.kb_embedding_inputs")
    assert drop_space(connection, first.org_id, named_space(connection, str(first.space))) == 4
    assert [one.name for one in list_spaces(connection, first.org_id)] == ["second"]
    assert (
        rows(connection, "SELECT count(*) FROM kbsearch.kb_embedding_inputs") == inputs
    )  # the new space has them still
    assert answers(connection, first.org_id, new) == before
    assert status(connection, other.org_id, str(other.space)).embedded == 4
    asked = len(old.inputs)
    reembed(connection, first.org_id, old, space=str(first.space))
    assert len(old.inputs) == asked + 4


def test_what_an_organisation_has_not_is_an_error(connection: Connection) -> None:
    first = run(connection, documents(1), embedder=HashEmbedder(OLD))
    space = named_space(connection, str(first.space))
    for call in (activate_space, drop_space):
        with pytest.raises(OrganizationError):
            call(connection, first.org_id + 1, space)
        with pytest.raises(SpaceError):
            call(connection, first.org_id, Space(space.id + 1, "none"))
    with pytest.raises(OrganizationError):
        list_spaces(connection, first.org_id + 1)
    for function in ("activate", "drop"):
        for arguments in ("NULL, 1", f"{first.org_id}, NULL"):
            with pytest.raises(psycopg.DatabaseError) as refused:
                connection.execute(f"SELECT kbsearch.{function}_kb_space_v1({arguments})".encode())
            assert refused.value.sqlstate in ("KBORG", "KBSPC")


def test_a_switch_needs_to_see_what_others_commit(connection: Connection, database: str) -> None:
    first = run(connection, documents(1), embedder=HashEmbedder(OLD))
    reembed(connection, first.org_id, HashEmbedder(NEW), space="second")
    second = named_space(connection, "second")
    with psycopg.connect(database) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT 1")
        with pytest.raises(IndexStateError, match="READ COMMITTED"):
            activate_space(other, first.org_id, second)
    connection.execute("SET default_transaction_isolation = 'serializable'")
    activate_space(connection, first.org_id, second)
    assert active_space(connection, first.org_id) == second


def test_a_switch_waits_for_who_writes_and_then_sees_it(connection: Connection, database: str) -> None:
    first = run(connection, documents(1), embedder=HashEmbedder(OLD))
    reembed(connection, first.org_id, HashEmbedder(NEW), space="second")
    second = named_space(connection, "second")
    started = threading.Event()

    def switch() -> str:
        with psycopg.connect(database, autocommit=True) as own:
            started.set()
            try:
                activate_space(own, first.org_id, second)
            except SpaceError as error:
                return str(error)
        return ""

    with ThreadPoolExecutor(1) as threads, psycopg.connect(database) as writer:
        KBSearch(writer, savepoint=False).upsert_article(first.org_id, external_ref="w", title="W", body="w")
        waiting = threads.submit(switch)
        started.wait()
        with blocked(connection, database):
            writer.commit()
        assert "1 have no vector" in waiting.result()
    assert active_space(connection, first.org_id) == named_space(connection, str(first.space))


@contextmanager
def blocked(connection: Connection, database: str) -> Iterator[None]:
    """Wait until somebody waits for a lock."""
    for _ in range(2000):
        if rows(
            connection,
            "SELECT true FROM pg_catalog.pg_locks AS l WHERE NOT l.granted AND l.locktype = 'advisory'"
            " AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())",
        ):
            break
        threading.Event().wait(0.005)
    else:
        raise AssertionError("nobody waits")
    yield


def test_publishing_unpublishing_and_moving_rows_make_no_vector_fresh(connection: Connection) -> None:
    first = run(connection, documents(1), embedder=HashEmbedder(OLD))
    name = str(first.space)
    edit(connection, "d000", "other")
    assert counts(status(connection, first.org_id, name)) == (2, 0, 2)
    connection.execute("UPDATE kbsearch.kb_articles SET published = false")
    assert counts(status(connection, first.org_id, name)) == (0, 0, 0)
    connection.execute("UPDATE kbsearch.kb_articles SET published = true")
    connection.execute("UPDATE kbsearch.kb_article_embeddings SET input_sha256 = input_sha256")
    assert counts(status(connection, first.org_id, name)) == (2, 0, 2)
    # Another vector is taken to be of what the chunk says now, and so is one that is said to be.
    connection.execute(
        """UPDATE kbsearch.kb_article_embeddings SET embedding = '[1,2,3,4,5,6,7,8]'
        WHERE chunk_id = (SELECT min(e.chunk_id) FROM kbsearch.kb_article_embeddings AS e)"""
    )
    assert counts(status(connection, first.org_id, name)) == (2, 0, 1)
    connection.execute("UPDATE kbsearch.kb_article_embeddings SET chunk_digest = NULL")
    assert counts(status(connection, first.org_id, name)) == (2, 0, 0)


def test_a_vector_of_what_a_chunk_said_before_can_be_stored_as_such(connection: Connection) -> None:
    first = run(connection, documents(1))
    space = ensure_space(connection, HashEmbedder(), Splitter())
    connection.execute(
        """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding, chunk_digest)
        SELECT c.org_id, %s, c.id, c.article_id, '[1,2,3,4,5,6,7,8]', kbsearch.digest_kb_chunk_v1(c.title, c.heading, 'before')
        FROM kbsearch.kb_article_chunks AS c""",
        [space.id],
    )
    assert counts(status(connection, first.org_id, space)) == (2, 0, 2)


def test_a_title_that_the_template_leaves_out_is_seen_to_at_no_cost(connection: Connection) -> None:
    embedder = HashEmbedder()
    first = run(connection, documents(1), embedder=embedder, splitter=Splitter(40, layout="{content}"))
    connection.execute("UPDATE kbsearch.kb_articles SET title = 'Other'")
    assert status(connection, first.org_id, str(first.space)).stale == 2
    asked = len(embedder.inputs)
    reembed(connection, first.org_id, embedder)
    assert counts(status(connection, first.org_id, str(first.space))) == (2, 0, 0)
    assert len(embedder.inputs) == asked


def test_a_comparison_says_what_would_appear_and_vanish(connection: Connection) -> None:
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    entries = documents(30)
    first = run(connection, entries, embedder=old)
    reembed(connection, first.org_id, new, space="second")
    spaces = ((named_space(connection, str(first.space)), old), (named_space(connection, "second"), new))
    before = answers(connection, first.org_id, old)
    questions = ["alpha number3", "alpha number3", " ", "gamma"]
    found = compare(connection, first.org_id, questions, *spaces)
    assert [change.question for change in found.changes] == ["alpha number3", "gamma"]
    for change in found.changes:
        one, other = (
            [
                item.external_ref
                for item in KBSearch(connection, embedder=embedder)
                .search(first.org_id, change.question, space_id=space.id)
                .items
            ]
            for space, embedder in spaces
        )
        assert change.appear == tuple(name for name in other if name not in one)
        assert change.vanish == tuple(name for name in one if name not in other)
        assert change.overlap == len(set(one) & set(other)) / 10
        assert 0 < change.tau < 1
    assert found.overlap == sum(change.overlap for change in found.changes) / 2
    assert answers(connection, first.org_id, old) == before
    same = compare(connection, first.org_id, ["alpha"], spaces[0], spaces[0])
    assert (same.overlap, same.tau, same.changes[0].appear) == (1, 0, ())
    assert compare(connection, first.org_id, ["zzz yyy"], spaces[0], spaces[0]).overlap == 1
    with pytest.raises(UsageError, match="no question"):
        compare(connection, first.org_id, ["", " "], *spaces)


def test_a_reader_sees_rows_of_one_space_at_any_moment(connection: Connection, database: str) -> None:
    """Searches all the time, through the space that is active then: old rows, then new rows, never a blend."""
    old, new = HashEmbedder(OLD), HashEmbedder(NEW)
    first = run(connection, documents(40), embedder=old)
    question = "alpha number3"
    vectors = {OLD: old.vector(question), NEW: new.vector(question)}
    expected: dict[str, list[tuple[Any, ...]]] = {}
    done = threading.Event()

    def look(own: Connection, which: str) -> list[tuple[Any, ...]]:
        found = KBSearch(own).search(first.org_id, question, vectors[which], limit=20)
        return [(item.article_id, item.score, item.vector_similarity) for item in found.items]

    def read(which: str) -> list[list[tuple[Any, ...]]]:
        seen: list[list[tuple[Any, ...]]] = []
        with psycopg.connect(database, autocommit=True) as own:
            while not done.is_set():
                found = look(own, which)
                if not seen or seen[-1] != found:
                    seen.append(found)
        return seen

    def expect(phase: str) -> None:
        for which in (OLD, NEW):
            expected[f"{phase} {which}"] = look(connection, which)

    with ThreadPoolExecutor(2) as threads:
        expect("before")
        readers = {which: threads.submit(read, which) for which in (OLD, NEW)}
        try:
            reembed(connection, first.org_id, new, space="second", splitter=Splitter(40))
            for name in ("second", str(first.space), "second"):
                activate_space(connection, first.org_id, named_space(connection, name))
                if name == "second":
                    expect("after")
                threading.Event().wait(0.2)
            ingest(connection, first.org_id, [Source("s", documents(40))], embedder=new, splitter=Splitter(40))
        finally:
            done.set()
        for which, reader in readers.items():
            allowed = [expected[f"before {which}"], expected[f"after {which}"]]
            assert allowed[0] != allowed[1]
            assert all(found in allowed for found in reader.result())
            assert reader.result()[0] == allowed[0]
            assert reader.result()[-1] == allowed[1]
