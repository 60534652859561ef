"""Readers walk stored rankings while writers insert, edit, delete and unpublish: nothing twice, nothing lost."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

HUNT = float(os.environ.get("KBSEARCH_TEST_HUNT", "0"))
"""Seconds to look for a fault; the usual run is short."""
ARTICLES = 120
WORDS = ("lamp", "stone", "cloud", "milk")


class Store:
    """An organisation that several threads write and read."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.done = threading.Event()
        self.counts: Counter[str] = Counter()
        with self.connect() as connection:
            row = connection.execute(
                "INSERT INTO kbsearch.organizations (name) VALUES ('busy') RETURNING id"
            ).fetchone()
            assert row is not None
            self.org_id: int = row[0]
            for number in range(ARTICLES):
                self.insert(connection, random.Random(number))

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True)

    def insert(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        text = " ".join(chance.choices(WORDS, k=chance.randint(1, 4)))
        connection.execute(
            "SELECT kbsearch.upsert_kb_article_v1(p_org_id => %s, p_title => %s, p_body => %s)",
            [self.org_id, text, text],
        )

    def write(self, seed: int) -> None:
        chance = random.Random(seed)
        with self.connect() as connection:
            while not self.done.is_set():
                row = connection.execute(
                    "SELECT a.id FROM kbsearch.kb_articles AS a WHERE a.org_id = %s ORDER BY random() LIMIT 1",
                    [self.org_id],
                ).fetchone()
                given = {"org": self.org_id, "id": row[0] if row else 0, "word": chance.choice(WORDS)}
                action = chance.choice(["insert", "insert", "edit", "edit", "delete", "unpublish"])
                self.counts[action] += 1
                try:
                    if action == "insert":
                        self.insert(connection, chance)
                    elif action == "edit":
                        connection.execute(
                            "UPDATE kbsearch.kb_article_chunks SET content = %(word)s WHERE org_id = %(org)s AND article_id = %(id)s",
                            given,
                        )
                    elif action == "delete":
                        connection.execute(
                            "DELETE FROM kbsearch.kb_articles WHERE org_id = %(org)s AND id = %(id)s", given
                        )
                    else:
                        connection.execute(
                            "UPDATE kbsearch.kb_articles SET published = false WHERE org_id = %(org)s AND id = %(id)s",
                            given,
                        )
                except psycopg.errors.DeadlockDetected:
                    self.counts["deadlock"] += 1

    def visible(self, connection: psycopg.Connection[Any]) -> set[int]:
        return {
            row[0]
            for row in connection.execute(
                "SELECT a.id FROM kbsearch.kb_articles AS a WHERE a.org_id = %s AND a.published", [self.org_id]
            )
        }

    def walk(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        """One stored ranking to its end, by cursors or by offsets."""
        opened = connection.execute(
            "SELECT s.snapshot, s.total FROM kbsearch.open_kb_search_v1(p_org_id => %s, p_query_text => %s) AS s",
            [self.org_id, " ".join(chance.choices(WORDS, k=2))],
        ).fetchone()
        assert opened is not None
        snapshot, total = opened
        stored = [
            row[0]
            for row in connection.execute(
                "SELECT unnest(b.article_ids) FROM kbsearch.kb_search_snapshot_blocks AS b"
                " WHERE b.org_id = %s AND b.snapshot_id = %s ORDER BY b.block",
                [self.org_id, snapshot],
            )
        ]
        assert len(stored) == total == len(set(stored))
        by_cursor, position, cursor, places = chance.random() < 0.5, 0, None, []
        while True:
            size = chance.randint(1, 12)
            before = self.visible(connection)
            row = connection.execute(
                "SELECT kbsearch.fetch_kb_page_v1(%s, %s, %s, %s, %s)",
                [self.org_id, snapshot, size, 0 if by_cursor else position, cursor],
            ).fetchone()
            assert row is not None
            page = row[0]
            after = self.visible(connection)
            slots = stored[position : position + size]
            shown = [item["article_id"] for item in page["items"]]
            assert [article for article in slots if article in set(shown)] == shown
            assert len(shown) + page["gone"] == len(slots)
            # nothing that is gone comes back here, so what is there before and after was there meanwhile
            assert not (set(slots) - set(shown)) & before & after
            assert not set(shown) - before
            places += [item["place"] for item in page["items"]]
            self.counts["pages"] += 1
            self.counts["gone"] += page["gone"]
            position += len(slots)
            cursor = page["next_cursor"] if by_cursor else None
            if page["end_reached"]:
                break
        assert position == total
        assert places == sorted(set(places))
        connection.execute("SELECT kbsearch.close_kb_search_v1(%s, %s)", [self.org_id, snapshot])

    def read(self, seed: int, seconds: float) -> None:
        chance = random.Random(seed)
        until = time.monotonic() + seconds
        with self.connect() as connection:
            while time.monotonic() < until:
                self.walk(connection, chance)
                self.walk_by_offset(connection, chance)

    def walk_by_offset(self, connection: psycopg.Connection[Any], chance: random.Random) -> None:
        """What users have without a stored ranking: counted, and nothing is claimed of it."""
        text, size = " ".join(chance.choices(WORDS, k=2)), chance.randint(3, 12)
        shown: list[int] = []
        while True:
            rows = connection.execute(
                "SELECT s.article_id FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_limit => %s, p_offset => %s) AS s",
                [self.org_id, text, size, len(shown)],
            ).fetchall()
            shown += [row[0] for row in rows]
            if len(rows) < size:
                break
        self.counts["pages by offset"] += -(-len(shown) // size)
        self.counts["repeated by offset"] += len(shown) - len(set(shown))


def test_readers_of_stored_rankings_beside_writers(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(database)
    with ThreadPoolExecutor(4) as threads:
        writers = [threads.submit(store.write, seed) for seed in (1, 2)]
        readers = [threads.submit(store.read, seed, max(HUNT, 3.0)) for seed in (3, 4)]
        try:
            for reader in readers:
                reader.result()
        finally:
            store.done.set()
        for writer in writers:
            writer.result()
    counts = store.counts
    writes = sum(counts[kind] for kind in ("insert", "edit", "delete", "unpublish"))
    with capsys.disabled():
        print(  # noqa: T201
            f"\n  beside {writes:,} writes: {counts['pages']:,} pages of stored rankings, nothing twice or lost, {counts['gone']:,} places gone;"
            f" {counts['pages by offset']:,} pages by offset repeat {counts['repeated by offset']:,} articles"
        )
    assert store.counts["pages"] > 50
    assert store.counts["gone"] > 0
