"""Law 3 from one server to another: same data, same question, same rows, on the embedded server and in containers of other versions.

What the law leaves out: stemmers of other major versions, so the texts here are not stemmed; and floats of other builds of pgvector, which are
held to one in the sixth decimal of a similarity.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import psycopg
import pytest

from kbsearch import migrate
from tests.docker.engine import DATABASE, Engine, run

WORDS = (
    "refund",
    "parcel",
    "invoice",
    "delivery",
    "voucher",
    "return",
    "address",
    "courier",
    "stock",
    "colour",
    "repair",
)
DIMENSIONS = 16
QUESTIONS = 60
TOLERANCE = 1.5e-6
"""One in the sixth decimal, and what floating-point numbers make of it; a score, in which a similarity has a weight of at most 1, differs no more."""

PREPARE = """INSERT INTO kbsearch.organizations (name, language) VALUES ('store', 'simple');
INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('seeded', 'seeded', 16)"""
WRITE = """SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => 1, p_external_ref => %(name)s, p_title => %(title)s, p_kind => 'faq', p_space_id => 1,
    p_chunks => (
        SELECT jsonb_agg(jsonb_build_object('content', c.content, 'embedding', c.embedding::jsonb) ORDER BY c.place)
        FROM unnest(%(contents)s::text [], %(embeddings)s::text []) WITH ORDINALITY AS c (content, embedding, place)
    )
)"""
PAGE = """SELECT kbsearch.search_kb_hybrid_page_v1(
    p_org_id => 1, p_query_text => %(text)s, p_query_embedding => %(embedding)s, p_limit => 7
)::text"""
RANKING = """SELECT r.article_id, r.score, r.vector_similarity, r.keyword_score FROM kbsearch.search_kb_hybrid_v1(
    p_org_id => 1, p_query_text => %(text)s, p_query_embedding => %(embedding)s, p_limit => 1000
) AS r ORDER BY r.place"""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, in words, as a vector, or both."""

    text: str | None
    embedding: str | None


def vector(chance: random.Random) -> str:
    return str([chance.gauss(0, 1) for _ in range(DIMENSIONS)])


def load(dsn: str) -> None:
    """Write the same articles on every server; few words and repeated vectors, so that scores tie."""
    chance = random.Random(3)
    vectors = [vector(chance) for _ in range(40)]
    with psycopg.connect(dsn) as connection:
        connection.execute(PREPARE)
        for number in range(120):
            chunks = chance.randint(1, 3)
            connection.execute(
                WRITE,
                {
                    "name": f"article {number}",
                    "title": " ".join(chance.choices(WORDS, k=2)),
                    "contents": [" ".join(chance.choices(WORDS, k=chance.randint(1, 9))) for _ in range(chunks)],
                    "embeddings": chance.choices(vectors, k=chunks),
                },
            )


def questions() -> list[Question]:
    chance = random.Random(4)
    return [
        Question(
            text=None if number % 3 == 1 else " ".join(chance.choices(WORDS, k=chance.randint(1, 4))),
            embedding=None if number % 3 == 0 else vector(chance),
        )
        for number in range(QUESTIONS)
    ]


@pytest.fixture(params=[DATABASE, "pgvector/pgvector:pg18"])
def other(request: pytest.FixtureRequest, engine: Engine) -> str:
    """Connection string of a database of a container with kbsearch and the articles."""
    if run(["docker", "image", "inspect", request.param]).code:
        pytest.skip(f"no image {request.param}; make test-servers makes it")
    server = engine.database(image=request.param)
    migrate.upgrade(server.dsn())
    load(server.dsn())
    return server.dsn()


def test_two_servers_answer_alike(database: str, other: str) -> None:
    load(database)
    with psycopg.connect(database) as here, psycopg.connect(other) as there:
        tied = 0
        for question in questions():
            given = {"text": question.text, "embedding": question.embedding}
            mine, theirs = (connection.execute(RANKING, given).fetchall() for connection in (here, there))
            assert len(mine) > 20
            tied += len(mine) - len({score for _, score, *_ in mine})
            if question.embedding is None:
                assert mine == theirs
                # Cursor, legs and totals included.
                assert here.execute(PAGE, given).fetchone() == there.execute(PAGE, given).fetchone()
                continue
            others = {article: values for article, *values in theirs}
            assert others.keys() == {article for article, *_ in mine}
            for article, score, similarity, keyword in mine:
                assert others[article][0] == pytest.approx(score, abs=TOLERANCE)
                assert others[article][1] == pytest.approx(similarity, abs=TOLERANCE)
                assert others[article][2] == keyword
            # The order is another only where the scores leave it to the last decimal.
            scores = [others[article][0] for article, *_ in mine]
            assert all(after <= before + 2 * TOLERANCE for before, after in itertools.pairwise(scores))
        assert tied > QUESTIONS
