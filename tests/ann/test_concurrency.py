"""Searches through windows while others write: no error, no waiting, every page whole; and what was written is found."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.ann.crowd import Crowd, Question, crowd

SECONDS = 4.0


@pytest.fixture
def busy(database: str) -> Iterator[Crowd]:
    with crowd(database, 1200, 100, number=1) as made:
        made.connection.execute("SELECT kbsearch.create_kb_ann_index_v1(%s)", [made.org_id])
        made.use("ann", 50)
        yield made


def beside(crowd: Crowd, connection: psycopg.Connection[object]) -> Crowd:
    """The same organisations over another connection."""
    return Crowd(crowd.dsn, connection, crowd.org_ids, crowd.space_id, crowd.chance)


STATEMENTS = (
    "UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %(org)s AND mod(id, 7) = 3 AND mod(id, 11) = %(part)s",
    "UPDATE kbsearch.kb_article_chunks SET content = content || ' word1x' WHERE org_id = %(org)s AND mod(id, 13) = %(part)s",
    "DELETE FROM kbsearch.kb_articles WHERE org_id = %(org)s AND mod(id, 17) = %(part)s AND mod(id, 5) = 0",
)


def write(busy: Crowd, number: int, stop: threading.Event) -> Iterator[str]:
    """Insert, change, unpublish and delete until it is time to stop."""
    with psycopg.connect(busy.dsn, autocommit=True) as connection:
        writer = beside(busy, connection)
        part = 0
        while not stop.is_set():
            writer.write(busy.org_ids[number], 20)
            for statement in STATEMENTS:
                connection.execute(statement.encode(), {"org": busy.org_ids[number], "part": part % 11})
            part += 1
            yield ""


def read(busy: Crowd, number: int, stop: threading.Event) -> Iterator[str]:
    """Two pages of a search at a time; gives what is wrong with them, nothing where all is well."""
    questions = busy.questions(6)
    with psycopg.connect(busy.dsn, autocommit=True) as connection:
        reader = beside(busy, connection)
        connection.execute("SET lock_timeout = '2s'")
        while not stop.is_set():
            number += 1
            page = reader.page(questions[number % 6], limit=30)
            later = reader.page(questions[number % 6], limit=30, cursor=page["next_cursor"])
            keys = [(-item["score"], item["article_id"]) for item in page["items"]]
            behind = [(-item["score"], item["article_id"]) for item in later["items"]]
            yield (
                f"windows that are not full: {page['retrieval']}"
                if page["retrieval"]["mode"] != "ann" or page["retrieval"]["reachable"] < 50
                else f"no whole page in order: {keys}"
                if len(keys) != 30 or keys != sorted(set(keys))
                else "a page that begins before the end of the one before"
                if any(key <= keys[-1] for key in behind)
                else ""
            )


def test_searches_beside_writers(busy: Crowd) -> None:
    """Two readers go on by cursor while two others write, one of them to the same organisation: whole pages, in order, of full windows."""
    stop = threading.Event()
    told: dict[str, list[str]] = {}

    def run(name: str, steps: Iterator[str]) -> None:
        told[name] = []
        try:
            told[name].extend(steps)
        except Exception as error:
            told[name].append(repr(error))
            raise

    threads = [
        threading.Thread(target=run, args=(f"{work.__name__} {number}", work(busy, number, stop)))
        for work in (write, read)
        for number in (0, 1)
    ]
    for thread in threads:
        thread.start()
    stop.wait(SECONDS)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert {said for steps in told.values() for said in steps} == {""}
    assert min(map(len, told.values())) >= 2


def test_what_is_written_is_found_at_once(busy: Crowd) -> None:
    """Also before it is committed, by who wrote it; after a rollback and after a deletion it is not."""
    (question,) = busy.questions(1)
    nearest = busy.ids(Question("", question.vector), limit=1)
    with psycopg.connect(busy.dsn) as connection:
        writer = beside(busy, connection)
        article = connection.execute(
            "INSERT INTO kbsearch.kb_articles (org_id, title) VALUES (%s, 'new') RETURNING id", [busy.org_id]
        ).fetchone()
        assert article is not None
        chunk = connection.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) VALUES (%s, %s, 'word1x') RETURNING id",
            [busy.org_id, article[0]],
        ).fetchone()
        assert chunk is not None
        connection.execute(
            "INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding) VALUES (%s, %s, %s, %s, %s)",
            [busy.org_id, busy.space_id, article[0], chunk[0], question.vector],
        )
        assert writer.ids(Question("", question.vector), limit=1) == [article[0]]
        assert busy.ids(Question("", question.vector), limit=1) == nearest
        connection.commit()
        assert busy.ids(Question("", question.vector), limit=1) == [article[0]]
        connection.execute("DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id = %s", [busy.org_id, article[0]])
        assert writer.ids(Question("", question.vector), limit=1) == nearest
        connection.rollback()
    assert busy.ids(Question("", question.vector), limit=1) == [article[0]]


def test_one_snapshot_a_call(busy: Crowd) -> None:
    """Rows of a transaction that still runs are stepped over, and nobody waits for it."""
    (question,) = busy.questions(1)
    before = busy.ids(question, limit=100)
    with psycopg.connect(busy.dsn) as connection:
        connection.execute("SELECT 1")  # begins the transaction that what write() does is part of
        beside(busy, connection).write(busy.org_id, 400)
        connection.execute(
            "DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id % 2 = 0".replace(" % ", " %% "), [busy.org_id]
        )
        begin = time.monotonic()
        assert busy.ids(question, limit=100) == before
        assert time.monotonic() - begin < 30
        connection.rollback()
    assert busy.ids(question, limit=100) == before
