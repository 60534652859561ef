"""Many callers at once: no deadlock among calls of our functions, and searches that go on while another version of theirs is installed."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import psycopg

from kbsearch import migrate

Connection: TypeAlias = psycopg.Connection[Any]

CALLERS = 8
GONE = ("KBART", "KBSNP", "KBSPC", "KBANN")
"""What may be said of what another caller has removed, or of a space that is not whole."""
VERSIONED = ("search_kb_hybrid_v1", "search_kb_hybrid_page_v1", "list_kb_results_v1", "rank_kb_articles_v1")
"""Functions that are copied to another version."""
QUESTIONS = ("word", "part three", '"word part" -nothing', "number1 number2")


def _upsert(connection: Connection, org_id: int, chance: random.Random) -> None:
    chunks = [{"content": f"word part number{chance.randrange(9)}"} for _ in range(chance.randint(1, 4))]
    connection.execute(
        "SELECT kbsearch.upsert_kb_article_v1(%s, %s, 'title', p_chunks => %s::jsonb, p_language => %s)",
        [org_id, f"r{chance.randrange(10)}", json.dumps(chunks), chance.choice([None, "german", "simple"])],
    )


def _write(connection: Connection, org_id: int, chance: random.Random) -> None:
    names = [f"r{number}" for number in chance.sample(range(10), 4)]
    with connection.transaction():
        connection.execute("SELECT * FROM kbsearch.reserve_kb_articles_v1(%s, %s)", [org_id, names])
    articles = [
        {
            "external_ref": name,
            "kind": "article",
            "published": True,
            "metadata": {},
            "chunks": [{"content": f"word part number{chance.randrange(9)}"}],
        }
        for name in names
    ]
    connection.execute("SELECT kbsearch.write_kb_articles_v1(%s, %s::jsonb)", [org_id, json.dumps(articles)])


def _delete(connection: Connection, org_id: int, chance: random.Random) -> None:
    connection.execute(
        "SELECT kbsearch.delete_kb_article_v1(%s, p_external_ref => %s)", [org_id, f"r{chance.randrange(10)}"]
    )


def _maintain(connection: Connection, org_id: int, chance: random.Random) -> None:
    function = chance.choice(
        ["compact_kb_postings_v1", "rebuild_kb_index_v1", "calibrate_kb_corpus_v1", "reanalyze_kb_chunks_v1"]
    )
    connection.execute(f"SELECT kbsearch.{function}(%s)", [org_id])


def _snapshot(connection: Connection, org_id: int, chance: random.Random) -> None:
    (snapshot,) = connection.execute(
        "SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, %s) AS s", [org_id, chance.choice(QUESTIONS)]
    ).fetchone() or (None,)
    connection.execute("SELECT kbsearch.fetch_kb_page_v1(%s, %s)", [org_id, snapshot])
    connection.execute("SELECT kbsearch.close_kb_search_v1(%s, %s)", [org_id, snapshot])
    connection.execute("SELECT kbsearch.sweep_kb_searches_v1(%s)", [org_id])


def _search(connection: Connection, org_id: int, chance: random.Random) -> None:
    question = chance.choice(QUESTIONS)
    connection.execute("SELECT kbsearch.search_kb_hybrid_page_v1(%s, %s)", [org_id, question])
    connection.execute("SELECT * FROM kbsearch.explain_kb_search_v1(%s, %s)", [org_id, question])


def _plain(connection: Connection, org_id: int, chance: random.Random) -> None:
    """A statement of the application's own, which takes its rows before ours take any lock."""
    connection.execute(
        chance.choice(
            [
                "UPDATE kbsearch.kb_articles SET title = title || 's' WHERE org_id = %s AND external_ref = %s",
                "UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %s AND external_ref = %s",
                "DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND external_ref = %s",
            ]
        ),
        [org_id, f"r{chance.randrange(10)}"],
    )


def _language(connection: Connection, org_id: int, chance: random.Random) -> None:
    language = chance.choice(["english", "german", "simple"])
    connection.execute(
        "UPDATE kbsearch.organizations SET language = %s::text::regconfig WHERE id = %s", [language, org_id]
    )


def _embed(connection: Connection, org_id: int, chance: random.Random) -> None:
    chunk = {"content": f"word part number{chance.randrange(9)}", "embedding": [1, chance.randrange(9), 2]}
    connection.execute(
        "SELECT kbsearch.upsert_kb_article_v1(%s, %s, 'title', p_chunks => %s::jsonb, p_space_id => "
        "(SELECT s.id FROM kbsearch.kb_embedding_spaces AS s ORDER BY s.id OFFSET %s LIMIT 1))",
        [org_id, f"r{chance.randrange(10)}", json.dumps([chunk]), chance.randrange(2)],
    )


def _space(connection: Connection, org_id: int, chance: random.Random) -> None:
    (space,) = connection.execute(
        "SELECT s.id FROM kbsearch.kb_embedding_spaces AS s ORDER BY s.id OFFSET %s LIMIT 1", [chance.randrange(2)]
    ).fetchone() or (None,)
    function = chance.choice(
        ["activate_kb_space_v1", "drop_kb_space_v1", "create_kb_ann_index_v1", "drop_kb_ann_index_v1"]
    )
    connection.execute(f"SELECT kbsearch.{function}(%s, %s)", [org_id, space])
    connection.execute("SELECT * FROM kbsearch.list_kb_spaces_v1(%s)", [org_id])


Act: TypeAlias = Callable[[Connection, int, random.Random], None]

TEXT: Sequence[Act] = (
    *(_upsert, _upsert, _write, _write),
    *(_delete, _maintain, _snapshot, _search),
)
"""Calls of our functions that have to do with texts: fast, so that many meet."""
SPACES: Sequence[Act] = (*TEXT, _embed, _embed, _space)
"""Vectors, embedding spaces and approximate indexes, too."""
PLAIN: Sequence[Act] = (_upsert, _write, _plain, _plain, _language)
"""Statements of an application's own beside calls of ours and beside another language."""


def _together(works: Sequence[Callable[[], None]]) -> None:
    """Run these at once; raises what one of them raised."""
    raised: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised below)
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def hunt(dsn: str, seconds: float, seed: int, acts: Sequence[Act] = TEXT, shared: float = 0.8) -> Counter[str]:
    """Calls by 8 callers, a share of them in two organisations of all callers, the others in the caller's own; how often a SQLSTATE came."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        ids = [
            int(one)
            for (one,) in connection.execute(
                "INSERT INTO kbsearch.organizations (name) SELECT 'hunted ' || n FROM generate_series(1, %s) AS n RETURNING id",
                [2 + CALLERS],
            ).fetchall()
        ]
        connection.execute(
            "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) SELECT 'hunted ' || n, 'toy', 3 "
            "FROM generate_series(1, 2) AS n WHERE NOT EXISTS (SELECT FROM kbsearch.kb_embedding_spaces)"
        )
    deadline = time.monotonic() + seconds
    counted: Counter[str] = Counter()
    lock = threading.Lock()

    def caller(number: int) -> None:
        chance = random.Random(seed * 100 + number)
        mine: Counter[str] = Counter()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET statement_timeout = '60s'")
            while time.monotonic() < deadline:
                org_id = ids[chance.randrange(2)] if chance.random() < shared else ids[2 + number]
                try:
                    chance.choice(acts)(connection, org_id, chance)
                    mine["acts"] += 1
                except psycopg.Error as error:
                    mine[error.sqlstate or "none"] += 1
        with lock:
            counted.update(mine)

    _together([lambda number=number: caller(number) for number in range(CALLERS)])  # type: ignore[misc]
    return counted


def install(connection: Connection) -> None:
    """Copies of the search functions as another version, in one transaction, as a migration makes them."""
    files = {file.stem: file for file in (migrate.sql_root() / "functions").rglob("*.sql")}
    with connection.transaction():
        connection.execute(
            "SELECT pg_catalog.set_config('search_path', 'kbsearch, ' || n.nspname, true) FROM pg_catalog.pg_type AS t "
            "INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace WHERE t.typname = 'vector'"
        )
        for name in reversed(VERSIONED):
            text = files[name].read_text(encoding="utf-8")
            for other in VERSIONED:
                text = text.replace(other, f"{other.removesuffix('_v1')}_v2")
            connection.execute(text.encode())


def uninstall(connection: Connection) -> None:
    with connection.transaction():
        for name in VERSIONED:
            connection.execute(f"DROP FUNCTION IF EXISTS kbsearch.{name.removesuffix('_v1')}_v2".encode())


def upgrade_while_searching(dsn: str, times: int) -> Counter[str]:
    """Version 2 installed and removed again and again beside 4 searchers, whose answers never change; version 2 gives the same."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        (org_id,) = connection.execute(
            "INSERT INTO kbsearch.organizations (name) VALUES ('searched') RETURNING id"
        ).fetchone() or (0,)
        chance = random.Random(0)
        for _ in range(30):
            _upsert(connection, org_id, chance)
        ask = "SELECT s::text FROM kbsearch.{}(%s, %s, p_limit => 20) AS s"
        right = {
            question: connection.execute(ask.format(VERSIONED[0]).encode(), [org_id, question]).fetchall()
            for question in QUESTIONS
        }
    stop = threading.Event()
    counted: Counter[str] = Counter()
    lock = threading.Lock()

    def searcher(number: int) -> None:
        mine: Counter[str] = Counter()
        chance = random.Random(number)
        try:
            while not stop.is_set():
                with psycopg.connect(dsn, autocommit=True) as connection:
                    for _ in range(chance.randrange(1, 60)):
                        question = chance.choice(QUESTIONS)
                        answer = connection.execute(ask.format(VERSIONED[0]).encode(), [org_id, question]).fetchall()
                        assert answer == right[question], question
                        mine["searches"] += 1
        finally:
            with lock:
                counted.update(mine)

    def installer() -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                for _ in range(times):
                    install(connection)
                    for question in QUESTIONS:
                        answer = connection.execute(ask.format("search_kb_hybrid_v2").encode(), [org_id, question])
                        assert [row[0] for row in answer.fetchall()] == [row[0] for row in right[question]], question
                    uninstall(connection)
                    with lock:
                        counted["installs"] += 1
        finally:
            stop.set()

    _together([installer, *(lambda number=number: searcher(number) for number in range(4))])
    return counted
