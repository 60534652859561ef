"""The first places of the keyword leg are those that reading everything gives, whatever is passed over on the way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CHUNKS = 5_000
LARGEST_ID = 2**50 - 1
ABSENT = "absent"
"""A word of the question that was in a chunk when its first page was scored, and is in none now."""
VOCABULARY = [f"word{number}" for number in range(60)]
FREQUENCIES = list(accumulate(1 / (number + 1.5) for number in range(len(VOCABULARY))))

ALL = """
    SELECT m.chunk_id, m.raw FROM kbsearch.match_kb_keyword_v1(%(org_id)s, %(lexemes)s, %(weights)s, %(counts_terms)s) AS m
    ORDER BY m.raw DESC, m.chunk_id ASC LIMIT %(limit)s
"""
TOP = "SELECT t.chunk_id, t.raw FROM kbsearch.list_kb_keyword_top_v1(%(org_id)s, %(lexemes)s, %(weights)s, %(counts_terms)s, %(limit)s) AS t"
TOP_AND_OTHERS = TOP.replace("%(limit)s", "%(limit)s, %(others)s::bigint[]")
RANGES = """
    SELECT m.chunk_id, m.raw
    FROM kbsearch.match_kb_keyword_ranges_v1(%(org_id)s, %(lexemes)s, %(weights)s, %(counts_terms)s, %(lows)s, %(width)s) AS m
    ORDER BY m.chunk_id
"""
LOOKED_UP = """
    SELECT m.chunk_id, m.raw FROM kbsearch.look_up_kb_keyword_v1(%(org_id)s, %(lexemes)s, %(weights)s, %(counts_terms)s, %(chunk_ids)s) AS m
    ORDER BY m.chunk_id
"""


@dataclass(frozen=True, slots=True)
class Words:
    """An organisation in whose chunks the frequent words are nearly everywhere."""

    connection: psycopg.Connection[Any]
    org_id: int

    def rows(self, statement: str, **parameters: Any) -> list[tuple[int, float]]:
        return self.connection.execute(statement.encode(), {"org_id": self.org_id, **parameters}).fetchall()

    @property
    def blocks(self) -> tuple[int, int]:
        """How many rows its postings have, and how many of these take something away."""
        found = self.connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE p.sign < 0) FROM kbsearch.kb_postings AS p WHERE p.org_id = %s",
            [self.org_id],
        ).fetchone()
        assert found is not None
        return found[0], found[1]


@pytest.fixture(scope="module", params=[40, LARGEST_ID // CHUNKS], ids=["ids", "ids up to the largest"])
def words(shared_database: str, request: pytest.FixtureRequest) -> Iterator[Words]:
    """Chunks of 1 to 80 words; a fifth are changed or gone, so that entries of both signs are there."""
    chance = random.Random(1)
    with psycopg.connect(shared_database, autocommit=True) as connection, connection.cursor() as cursor:
        row = cursor.execute("INSERT INTO kbsearch.organizations (name) VALUES ('words') RETURNING id").fetchone()
        assert row is not None
        made = Words(connection, row[0])
        cursor.execute(
            "INSERT INTO kbsearch.kb_articles (org_id, id, title) SELECT %s, n, '' FROM generate_series(1, %s) AS n",
            [made.org_id, CHUNKS],
        )
        contents = [
            " ".join(chance.choices(VOCABULARY, cum_weights=FREQUENCIES, k=chance.randint(1, 80)))
            for _ in range(CHUNKS)
        ]
        # ids far apart at one place
        ids = [number if number <= CHUNKS // 3 else number * request.param for number in range(1, CHUNKS + 1)]
        for begin in range(0, CHUNKS, 1250):
            cursor.execute(
                """INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
                SELECT %s, c.id, c.article_id, c.content FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS c (id, article_id, content)""",
                [
                    made.org_id,
                    ids[begin : begin + 1250],
                    list(range(begin + 1, begin + 1251)),
                    contents[begin : begin + 1250],
                ],
            )
        cursor.execute(
            "UPDATE kbsearch.kb_article_chunks SET content = content || ' word0 word7' WHERE org_id = %s AND id %% 10 = 0",
            [made.org_id],
        )
        cursor.execute("DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %s AND id %% 10 = 3", [made.org_id])
        blocks, negative = made.blocks
        assert blocks > 300
        assert negative > 30
        yield made
        cursor.execute("DELETE FROM kbsearch.organizations WHERE id = %s", [made.org_id])


QUESTIONS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "drawn": st.sets(st.sampled_from(VOCABULARY), min_size=1, max_size=8),
        "absent": st.booleans(),
        "common": st.sampled_from([0, 4, 8, 10]),
        # a few times apart, as those of rare words and common ones are
        "weights": st.lists(st.sampled_from([10**9, 3 * 10**9, 10**10, 3 * 10**10]), min_size=19, max_size=19),
        "equal": st.booleans(),
        "counts_terms": st.booleans(),
        "limit": st.sampled_from([1, 10, 30, 100, 400, 3000, 20000]),
    }
)


def arguments(question: dict[str, Any]) -> dict[str, Any]:
    lexemes = sorted({*question["drawn"], *VOCABULARY[: question["common"]], *([ABSENT] if question["absent"] else [])})
    weights = [10**10] * len(lexemes) if question["equal"] else question["weights"][: len(lexemes)]
    return {
        "lexemes": lexemes,
        "weights": [float(weight) for weight in weights],
        "counts_terms": question["counts_terms"],
    }


@settings(max_examples=120)
@given(question=QUESTIONS)
def test_the_first_places_are_those_of_all(words: Words, question: dict[str, Any]) -> None:
    asked = arguments(question)
    assert words.rows(TOP, **asked, limit=question["limit"]) == words.rows(ALL, **asked, limit=question["limit"])


@settings(max_examples=60)
@given(question=QUESTIONS, seed=st.integers(0, 1000), count=st.sampled_from([0, 1, 300]))
def test_and_those_of_others_behind_them(words: Words, question: dict[str, Any], seed: int, count: int) -> None:
    """Others may be among the first, further down, without a match, or no chunk's ids at all."""
    asked, limit = arguments(question), question["limit"]
    everything = words.rows(ALL, **asked, limit=10**9)
    chance = random.Random(seed)
    others = set(chance.sample(range(1, CHUNKS * 40), count))
    others |= {row[0] for row in chance.sample(everything, min(count, len(everything)))}
    found = words.rows(TOP_AND_OTHERS, **asked, limit=limit, others=list(others))
    assert found[:limit] == everything[:limit]
    assert sorted(found[limit:]) == sorted(row for row in everything[limit:] if row[0] in others)


@settings(max_examples=60)
@given(question=QUESTIONS, seed=st.integers(0, 1000), width=st.sampled_from([1, 7, 500, 10**6]))
def test_ranges_and_given_chunks_have_their_rows(words: Words, question: dict[str, Any], seed: int, width: int) -> None:
    asked = arguments(question)
    everything = sorted(words.rows(ALL, **asked, limit=10**9))
    chance = random.Random(seed)
    lows = [low * 3 * width + 1 for low in chance.sample(range(40), 10)]
    inside = [row for row in everything if any(low <= row[0] < low + width for low in lows)]
    assert words.rows(RANGES, **asked, lows=lows, width=width) == inside
    chosen = chance.sample(range(1, CHUNKS * 40), 500) + [
        row[0] for row in chance.sample(everything, min(40, len(everything)))
    ]
    wanted = set(chosen)
    looked_up = words.rows(LOOKED_UP, **asked, chunk_ids=list(wanted))
    assert looked_up == [row for row in everything if row[0] in wanted]


@pytest.mark.parametrize("kept", [10, 0], ids=["others are left", "nothing is left"])
def test_words_whose_chunks_are_all_gone_find_nothing(shared_database: str, kept: int) -> None:
    """A cursor may ask for them. Until somebody compacts, their entries are there, all taken away, and the last chunk left is before them."""
    many = 10_200
    with psycopg.connect(shared_database, autocommit=True) as connection, connection.transaction(force_rollback=True):
        row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('emptied') RETURNING id").fetchone()
        assert row is not None
        words = Words(connection, row[0])
        connection.execute("INSERT INTO kbsearch.kb_articles (org_id, id, title) VALUES (%s, 1, '')", row)
        connection.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content) "
            "SELECT %s, n, 1, CASE WHEN n <= %s THEN 'left' ELSE 'gone' END FROM generate_series(1, %s) AS n",
            [words.org_id, kept, kept + many],
        )
        connection.execute("DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %s AND id > %s", [words.org_id, kept])
        (entries,) = connection.execute(
            "SELECT sum(p.entry_count) FROM kbsearch.kb_postings AS p WHERE p.org_id = %s AND p.lexeme = 'gone'", row
        ).fetchone() or (None,)
        assert entries > 20_000
        for counts_terms in (False, True):
            asked = {"lexemes": ["gone"], "weights": [1e9], "counts_terms": counts_terms, "limit": 5}
            assert words.rows(TOP, **asked) == words.rows(ALL, **asked) == []
