"""Searches while the index that they use is dropped and made: an answer or KBANN, and nothing of PostgreSQL's own."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pytest

Connection = psycopg.Connection[Any]
ARTICLES = 300
SECONDS = 6
ROUNDS = 4
ASKED = (
    "SELECT count(*) FROM kbsearch.search_kb_hybrid_v1(%s, 'word', %s::ext.vector, p_profile => %s) AS s",
    "SELECT kbsearch.search_kb_hybrid_page_v1(%s, 'word', %s::ext.vector, p_profile => %s)",
    "SELECT count(*) FROM kbsearch.explain_kb_search_v1(%s, 'word', %s::ext.vector, p_profile => %s) AS s",
    "SELECT count(*) FROM kbsearch.explain_kb_candidates_v1(%s, 'word', %s::ext.vector, p_profile => %s) AS s",
    "SELECT s.total FROM kbsearch.open_kb_search_v1(%s, 'word', %s::ext.vector, p_profile => %s) AS s",
)


def one(connection: Connection, statement: str, *given: Any) -> Any:
    (value,) = connection.execute(statement.encode(), given).fetchone() or (None,)
    return value


def load(connection: Connection) -> tuple[int, int, list[str]]:
    space = one(
        connection,
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('s', 'm', 3) RETURNING id",
    )
    organisation = one(
        connection,
        "INSERT INTO kbsearch.organizations (name, active_space_id) VALUES ('indexed', %s) RETURNING id",
        space,
    )
    chance = random.Random(1)
    for number in range(ARTICLES):
        chunk = {"content": f"word part{number}", "embedding": [chance.gauss(0, 1) for _ in range(3)]}
        one(
            connection,
            "SELECT kbsearch.upsert_kb_article_v1(%s, %s, 't', NULL, 'article', %s::jsonb, p_space_id => %s)",
            organisation,
            f"r{number}",
            json.dumps([chunk]),
            space,
        )
    profiles = [
        one(
            connection,
            "SELECT kbsearch.create_kb_ranking_profile_v1(%s, %s, 'weighted', p_retrieval => %s, p_ann_window => 50)",
            organisation,
            f"by_{retrieval}",
            retrieval,
        )
        for retrieval in ("ann", "auto")
    ]
    return organisation, space, profiles


@pytest.mark.parametrize("concurrently", [False, True])
def test_searches_while_their_index_is_dropped_and_made(
    database: str, connection: Connection, concurrently: bool
) -> None:
    organisation, space, profiles = load(connection)
    outcomes: Counter[str] = Counter()
    until = time.monotonic() + SECONDS
    is_done = threading.Event()

    def search(first: int) -> None:
        with psycopg.connect(database, autocommit=True) as other:
            for number in itertools.count(first):
                if is_done.is_set():
                    return
                statement, profile = ASKED[number % len(ASKED)], profiles[number // len(ASKED) % 2]
                try:
                    one(other, statement, organisation, f"[{number % 7},1,{number % 3}]", profile)
                    outcomes["answered"] += 1
                except psycopg.Error as error:
                    outcomes[error.sqlstate or repr(error)] += 1

    threads = [threading.Thread(target=search, args=(first,)) for first in (0, 2, 7)]
    for thread in threads:
        thread.start()
    rounds = 0
    try:
        while time.monotonic() < until or rounds < ROUNDS:
            create, comment, drop = connection.execute(
                "SELECT d.create_statement, d.comment_statement, d.drop_statement "
                "FROM kbsearch.define_kb_ann_index_v1(%s, %s, p_concurrently => %s) AS d",
                [organisation, space, concurrently],
            ).fetchone() or ("", "", "")
            for statement in (drop, create, comment):
                connection.execute(statement)
            rounds += 1
            time.sleep(0.02)
    finally:
        is_done.set()
        for thread in threads:
            thread.join()
    assert outcomes["answered"] > 0
    assert outcomes.keys() <= {"answered", "KBANN"}, outcomes
