"""Whatever is written, alone, several in one statement or in one transaction: the derived tables equal a rebuild."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.index.derived import faults
from tests.index.operations import (
    ALL,
    COMBINABLE,
    MAINTENANCE,
    TRUNCATIONS,
    WORDS,
    WRITES,
    Statement,
    combined,
    reset,
    text,
)

EXAMPLES = int(os.environ.get("KBSEARCH_TEST_EXAMPLES", "25"))
REFUSED_COMBINATIONS = {
    "23503",  # a chunk for an article that the same statement deletes
    "27000",  # a row that a trigger of the same statement changes, too
    "21000",  # a row twice in ON CONFLICT DO UPDATE
    "KBIDX",  # another reference_length beside writes of chunks
}
RANDOM = st.randoms(use_true_random=False)


class DerivedState(RuleBasedStateMachine):
    dsn: ClassVar[str]
    connection: ClassVar[psycopg.Connection[Any]]

    @initialize(random=RANDOM)
    def start(self, random: Random) -> None:
        reset(self.connection)
        for name in ("add_article", "add_article", "add_article", "load_chunks", "embed_all"):
            self.run(name, random)

    def run(self, name: str, random: Random) -> None:
        statement = ALL[name](self.connection, random)
        if statement is not None:
            self.execute(statement)

    def execute(self, statement: Statement) -> None:
        self.connection.execute(statement.sql.encode(), statement.parameters)

    @invariant()
    def derived_equals_rebuild(self) -> None:
        assert faults(self.connection) == []

    @rule(name=st.sampled_from(tuple(WRITES)), random=RANDOM)
    def write(self, name: str, random: Random) -> None:
        self.run(name, random)

    @rule(name=st.sampled_from((*TRUNCATIONS, *MAINTENANCE)), random=RANDOM)
    def maintain(self, name: str, random: Random) -> None:
        self.run(name, random)

    @rule(random=RANDOM)
    def copy(self, random: Random) -> None:
        articles = self.connection.execute("SELECT org_id, id FROM kbsearch.kb_articles ORDER BY org_id, id").fetchall()
        if not articles:
            return
        with (
            self.connection.cursor() as cursor,
            cursor.copy("COPY kbsearch.kb_article_chunks (org_id, article_id, heading, content) FROM STDIN") as copy,
        ):
            for _ in range(random.choice((1, 3, 40))):
                copy.write_row((*random.choice(articles), text(random) or None, text(random)))

    @rule(random=RANDOM, names=st.lists(st.sampled_from(COMBINABLE), min_size=2, max_size=4))
    def one_statement(self, random: Random, names: list[str]) -> None:
        drawn = [ALL[name](self.connection, random) for name in names]
        statements = [statement for statement in drawn if statement is not None]
        if not statements:
            return
        with self.refusal(REFUSED_COMBINATIONS):
            self.execute(combined(statements))

    @rule(random=RANDOM)
    def article_and_chunk_in_one_statement(self, random: Random) -> None:
        """The same article's title or publication and its chunk's text, in either order."""
        row = self.connection.execute(
            "SELECT org_id, article_id, id FROM kbsearch.kb_article_chunks ORDER BY org_id, id LIMIT 1 OFFSET %s",
            (random.randint(0, 3),),
        ).fetchone()
        if row is None:
            return
        statements = [
            Statement(
                f"UPDATE kbsearch.kb_articles SET {random.choice(('title = %s', 'body = %s', 'published = NOT published, title = %s'))}"
                " WHERE org_id = %s AND id = %s",
                (text(random), row[0], row[1]),
            ),
            random.choice(
                (
                    Statement(
                        "UPDATE kbsearch.kb_article_chunks SET content = %s WHERE org_id = %s AND id = %s",
                        (text(random), row[0], row[2]),
                    ),
                    Statement("DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %s AND id = %s", (row[0], row[2])),
                    Statement(
                        "INSERT INTO kbsearch.kb_article_chunks (content, org_id, article_id) VALUES (%s, %s, %s)",
                        (text(random), row[0], row[1]),
                    ),
                )
            ),
        ]
        random.shuffle(statements)
        with self.refusal(REFUSED_COMBINATIONS):
            self.execute(combined(statements))

    @rule(
        random=RANDOM,
        isolation=st.sampled_from(("READ COMMITTED", "REPEATABLE READ")),
        steps=st.lists(
            st.tuples(st.sampled_from(tuple(ALL)), st.sampled_from(("keep", "keep", "undo"))), min_size=1, max_size=5
        ),
        commits=st.sampled_from((True, True, False)),
    )
    def one_transaction(self, random: Random, isolation: str, steps: list[tuple[str, str]], commits: bool) -> None:
        refused = {"KBIDX"} if isolation == "REPEATABLE READ" else set()
        with self.connection.transaction(force_rollback=not commits):
            self.connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            for name, fate in steps:
                with self.refusal(refused), self.connection.transaction(force_rollback=fate == "undo"):
                    self.run(name, random)
                    assert faults(self.connection) == []
                assert faults(self.connection) == []

    @rule(
        question=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
        embedding=st.sampled_from((None, "[1,0]", "[1,1]")),
        profile=st.sampled_from(("weighted@1", "rrf@1", "term_count@1")),
    )
    def maintenance_changes_no_answer(self, question: str, embedding: str | None, profile: str) -> None:
        organizations = [
            row[0] for row in self.connection.execute("SELECT id FROM kbsearch.organizations ORDER BY id").fetchall()
        ]
        for org_id in organizations:
            before = self.answer(org_id, question, embedding, profile)
            for function in ("compact_kb_postings_v1", "rebuild_kb_index_v1"):
                self.connection.execute(f"SELECT kbsearch.{function}(%s)", (org_id,))
                assert self.answer(org_id, question, embedding, profile) == before

    def answer(self, org_id: int, question: str, embedding: str | None, profile: str) -> object:
        try:
            with self.connection.transaction():
                return self.connection.execute(
                    "SELECT (kbsearch.search_kb_hybrid_page_v1(p_org_id => %s, p_query_text => %s, p_query_embedding => %s,"
                    " p_limit => 1000, p_profile => %s, p_space_id => 1))::text",
                    (org_id, question, embedding, profile),
                ).fetchone()
        except psycopg.DatabaseError as error:
            if error.sqlstate != "KBQRY":
                raise
            return error.sqlstate

    @contextmanager
    def refusal(self, allowed: set[str]) -> Iterator[None]:
        try:
            with self.connection.transaction():
                yield
        except psycopg.Error as error:
            if error.sqlstate not in allowed:
                raise


@pytest.mark.timeout(1200)
def test_derived_tables_equal_a_rebuild_after_every_step(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        DerivedState.connection = connection
        run_state_machine_as_test(
            DerivedState,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=25,
                deadline=None,
                derandomize="KBSEARCH_TEST_EXAMPLES" not in os.environ,
                suppress_health_check=list(HealthCheck),
            ),
        )
