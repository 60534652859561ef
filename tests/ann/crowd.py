"""Organisations of clustered vectors whose rows lie between each other's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from tests.load import vector_text

DIMENSIONS = 32
CENTRES = np.random.default_rng(0).standard_normal((60, DIMENSIONS))
WORDS = [f"word{number}x" for number in range(400)]
WEIGHTS = 1 / (np.arange(len(WORDS)) + 2.7)  # Zipf's law as Mandelbrot (1953) corrected it
CHUNKS_OF_AN_ARTICLE = 2
KINDS = ("article", "policy", "faq", "rare")
PIECE = 1000
"""Rows of one organisation that lie together."""

Vectors = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: words and a vector."""

    text: str
    vector: str


@dataclass(slots=True)
class Crowd:
    """Organisations in a database.

    Attributes:
        org_ids: the first is the one that is asked.
    """

    dsn: str
    connection: psycopg.Connection[Any]
    org_ids: Sequence[int]
    space_id: int
    chance: np.random.Generator

    @property
    def org_id(self) -> int:
        return self.org_ids[0]

    def vectors(self, count: int) -> Vectors:
        return CENTRES[self.chance.integers(0, len(CENTRES), count)] + 0.5 * self.chance.standard_normal(
            (count, DIMENSIONS)
        )

    def text(self, count: int) -> str:
        return " ".join(self.chance.choice(WORDS, count, p=WEIGHTS / WEIGHTS.sum()).tolist())

    def questions(self, count: int) -> list[Question]:
        return [Question(self.text(4), vector_text(tuple(vector.round(4).tolist()))) for vector in self.vectors(count)]

    def write(self, org_id: int, count: int) -> None:
        """Add articles of CHUNKS_OF_AN_ARTICLE chunks, so many chunks in all; one of a hundred is of the kind rare."""
        vectors = self.vectors(count)
        with self.connection.transaction(), self.connection.cursor() as cursor:
            articles = [
                row[0]
                for row in cursor.execute(
                    "INSERT INTO kbsearch.kb_articles (org_id, title, kind) SELECT %s, NULL, k.kind FROM unnest(%s::text[]) AS k (kind) RETURNING id",
                    [
                        org_id,
                        [KINDS[3] if n % 100 == 99 else KINDS[n % 3] for n in range(count // CHUNKS_OF_AN_ARTICLE)],
                    ],
                )
            ]
            chunks = [
                row[0]
                for row in cursor.execute(
                    "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content) SELECT %s, c.article_id, c.content "
                    "FROM unnest(%s::bigint[], %s::text[]) AS c (article_id, content) RETURNING id",
                    [
                        org_id,
                        [article for article in articles for _ in range(CHUNKS_OF_AN_ARTICLE)],
                        [self.text(12) for _ in range(count)],
                    ],
                )
            ]
            with cursor.copy(
                "COPY kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding) FROM STDIN"
            ) as copy:
                for number, chunk in enumerate(chunks):
                    vector = vector_text(tuple(vectors[number].round(4).tolist()))
                    copy.write_row((org_id, self.space_id, articles[number // CHUNKS_OF_AN_ARTICLE], chunk, vector))

    def page(self, question: Question, org_id: int | None = None, **others: Any) -> dict[str, Any]:
        """What search_kb_hybrid_page_v1 returns; others: further arguments, without p_."""
        named = "".join(f", p_{name} => %({name})s" for name in others)
        statement = f"SELECT kbsearch.search_kb_hybrid_page_v1(%(org)s, %(text)s, %(vector)s{named})"
        given = {"org": org_id or self.org_id, "text": question.text, "vector": question.vector, **others}
        row = self.connection.execute(statement.encode(), given).fetchone()
        assert row is not None
        answer: dict[str, Any] = row[0]
        return answer

    def ids(self, question: Question, org_id: int | None = None, **others: Any) -> list[int]:
        return [item["article_id"] for item in self.page(question, org_id, **others)["items"]]

    def listed(self) -> list[tuple[str, bool]]:
        """State and whether it is being built, of the indexes of the organisation that is asked."""
        return [
            ("invalid" if state == "building" else state, state == "building")
            for (state,) in self.connection.execute(
                "SELECT l.state FROM kbsearch.list_kb_ann_indexes_v1(%s) AS l", [self.org_id]
            )
        ]

    def count(self, table: str, org_id: int) -> int:
        """Rows of an organisation in a table."""
        row = self.connection.execute(
            f"SELECT count(*) FROM kbsearch.{table} AS t WHERE t.org_id = %s".encode(), [org_id]
        ).fetchone()
        assert row is not None
        return int(row[0])

    def use(self, retrieval: str, window: int = 200) -> None:
        self.connection.execute(
            "UPDATE kbsearch.organizations SET retrieval = %s, ann_window = %s WHERE id = %s",
            [retrieval, window, self.org_id],
        )


@contextmanager
def crowd(dsn: str, chunks: int, others: int, number: int = 3, piece: int = PIECE) -> Iterator[Crowd]:
    """One organisation of so many chunks, and others beside it, all in a database of their own; so many rows of one lie together."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('crowd', 'crowd', %s) RETURNING id",
            [DIMENSIONS],
        ).fetchone()
        assert row is not None
        org_ids = [
            each[0]
            for each in connection.execute(
                "INSERT INTO kbsearch.organizations (name) SELECT 'crowd ' || n FROM generate_series(1, %s) AS g (n) RETURNING id",
                [number + 1],
            )
        ]
        made = Crowd(dsn, connection, org_ids, row[0], np.random.default_rng(7))
        left = dict.fromkeys(org_ids, others)
        left[org_ids[0]] = chunks
        while any(left.values()):
            for org_id in org_ids:
                count = min(left[org_id], piece)
                if count:
                    made.write(org_id, count)
                    left[org_id] -= count
        yield made
