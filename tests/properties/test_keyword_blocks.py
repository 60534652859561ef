"""The first places by the vectors of a large organisation's frequent words are those that reading every entry gives, whatever was written since."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.test_keyword_top import ALL, FREQUENCIES, LARGEST_ID, QUESTIONS, TOP, VOCABULARY, Words, arguments

CHUNKS = 6_000
BLOCK = 1_900
BY_BLOCKS = """
    SELECT t.chunk_id, t.raw
    FROM kbsearch.list_kb_block_top_v1(%(org_id)s, %(lexemes)s, %(weights)s, 1000000000, %(limit)s, %(others)s) AS t
"""
RARE = [f"rare{number}" for number in range(20)]
"""Each in fewer than one of 200 chunks, so that they are in no vector."""
NEAR_MISSES = 300
"""Questions that are asked for chunks that nearly are among the first."""


def build(connection: psycopg.Connection[Any], org_id: int) -> None:
    """What compact_kb_postings_v1 does in an organisation of 20,000 chunks."""
    with connection.transaction():
        row = connection.execute("SELECT kbsearch.begin_kb_keyword_blocks_v1(%s, 1)", [org_id]).fetchone()
        assert row is not None
        connection.execute("SELECT kbsearch.compact_kb_postings_v1(%s)", [org_id])
        connection.execute("SELECT kbsearch.build_kb_keyword_blocks_v1(%s, %s)", [org_id, row[0]])


def text(chance: random.Random) -> str:
    words = chance.choices(VOCABULARY, cum_weights=FREQUENCIES, k=chance.randint(1, 60))
    return " ".join([*words, *([chance.choice(RARE)] if chance.random() < 0.05 else [])])


@pytest.fixture(scope="module", params=["as built", "written since"])
def words(shared_database: str, request: pytest.FixtureRequest) -> Iterator[Words]:
    chance = random.Random(2)
    with psycopg.connect(shared_database, autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO kbsearch.organizations (name, reference_length) VALUES ('blocks', 1) RETURNING id"
        ).fetchone()
        assert row is not None
        made = Words(connection, row[0])
        connection.execute(
            "INSERT INTO kbsearch.kb_articles (org_id, id, title, published) SELECT %s, n, '', n %% 50 <> 0 FROM generate_series(1, %s) AS n",
            [made.org_id, CHUNKS],
        )
        # the larger ids lie far apart; some chunks are so long that a word's impact in them is 0
        ids = [n if n < CHUNKS // 2 else n * (LARGEST_ID // CHUNKS) for n in range(1, CHUNKS + 1)]
        texts = [text(chance) if n % 1000 != 506 else " ".join(["fff"] * 15_000 + VOCABULARY) for n in range(CHUNKS)]
        connection.execute(
            """INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
            SELECT %s, c.id, c.n, c.content FROM unnest(%s::bigint[], %s::text[]) WITH ORDINALITY AS c (id, content, n)""",
            [made.org_id, ids, texts],
        )
        build(connection, made.org_id)
        if request.param != "as built":
            write(connection, made.org_id, chance)
        yield made
        connection.execute("DELETE FROM kbsearch.organizations WHERE id = %s", [made.org_id])


def write(connection: psycopg.Connection[Any], org_id: int, chance: random.Random) -> None:
    """Every kind of change: of one chunk and of many, to more and to fewer words, published and not, new and gone."""
    chunks = "kbsearch.kb_article_chunks"
    for statement in (
        f"UPDATE {chunks} SET content = content || ' word0 word7 rare3' WHERE org_id = %s AND id %% 40 = 0",
        f"UPDATE {chunks} SET content = 'word1 word2' WHERE org_id = %s AND id %% 97 = 5",
        f"UPDATE {chunks} SET content = 'word3' WHERE org_id = %s AND id = 77",
        f"DELETE FROM {chunks} WHERE org_id = %s AND id %% 61 = 3",
        f"DELETE FROM {chunks} WHERE org_id = %s AND id = 78",
        "UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %s AND id %% 50 < 2",
        "UPDATE kbsearch.kb_articles SET published = false WHERE org_id = %s AND id = 80",
    ):
        connection.execute(statement.encode(), [org_id])
    for number in range(300):
        connection.execute(
            "INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content) VALUES (%s, %s, %s, %s)",
            [org_id, 100_000 + number, 1 + number, text(chance)],
        )


def test_they_are_what_the_test_thinks(words: Words) -> None:
    found = words.connection.execute(
        """SELECT (SELECT count(*) FROM kbsearch.kb_keyword_blocks AS b WHERE b.org_id = %(org)s),
            count(DISTINCT i.lexeme), count(i.dense), count(i.sparse), count(*) FILTER (WHERE i.lexeme LIKE 'rare%%'),
            (SELECT count(*) FROM kbsearch.list_kb_entries_v1(%(org)s) AS l WHERE l.entry & 4095 = 0)
        FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = %(org)s""",
        {"org": words.org_id},
    ).fetchone()
    assert found is not None
    blocks, lexemes, dense, sparse, rare, zeros = found
    assert blocks == -(-(CHUNKS - CHUNKS // 50) // BLOCK)
    assert lexemes >= len(VOCABULARY)
    assert dense > 0
    assert sparse > 0
    assert rare == 0
    assert zeros > 0


ASKED = st.fixed_dictionaries(
    {
        "question": QUESTIONS,
        "rare": st.lists(st.sampled_from(RARE), max_size=2, unique=True),
        "weighed by idf": st.booleans(),
        "times": st.lists(st.sampled_from([1, 1, 1, 1, 2, 3]), min_size=21, max_size=21),
        "moved": st.lists(st.sampled_from([1.0, 1.0, 1.01, 1.029, 1.5]), min_size=21, max_size=21),
    }
)


def asked(words: Words, drawn: dict[str, Any]) -> dict[str, Any]:
    """Words of a question, with any weights or with those that they have in a search, some weeks after the vectors were made."""
    known = arguments(drawn["question"])
    lexemes = [*known["lexemes"], *drawn["rare"]]
    weights = [*known["weights"], *[3e10] * len(drawn["rare"])]
    if drawn["weighed by idf"]:
        idfs: dict[str, float] = dict(
            words.connection.execute(
                "SELECT DISTINCT i.lexeme, i.idf FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = %s",
                [words.org_id],
            ).fetchall()
        )
        weights = [
            float(round(1e6 * idfs.get(lexeme, 9000) * times * moved))
            for lexeme, times, moved in zip(lexemes, drawn["times"], drawn["moved"], strict=False)
        ]
    return {"lexemes": lexemes, "weights": weights, "counts_terms": False}


def test_the_first_places_are_those_of_all(words: Words) -> None:
    certain = [0, 0]

    @settings(max_examples=120)
    @given(drawn=ASKED)
    def run(drawn: dict[str, Any]) -> None:
        question, limit = asked(words, drawn), drawn["question"]["limit"]
        everything = words.rows(ALL, **question, limit=10**9)
        alone = words.rows(BY_BLOCKS, **question, limit=limit, others=None)
        certain[bool(alone)] += 1
        assert alone in ([], everything[:limit])
        others = {row[0] for row in everything[limit + 5 :: 97]}
        found = words.rows(BY_BLOCKS, **question, limit=limit, others=[*others, 2**50])
        assert found in ([], [row for n, row in enumerate(everything) if n < limit or row[0] in others])
        assert words.rows(TOP, **question, limit=limit) == everything[:limit]

    run()
    assert certain[True] > 0.3 * sum(certain), "the blocks are hardly ever certain"


@pytest.mark.parametrize("moved", [(1.0, 1.029), (1.0, 1.5)], ids=["factors close together", "factors that lie apart"])
def test_what_is_just_below_the_threshold_is_no_first_place(words: Words, moved: tuple[float, ...]) -> None:
    """Few first places and chunks of nearly the same score: weights that have moved since the vectors were made change which come first."""
    chance = random.Random(3)
    idfs = words.connection.execute(
        "SELECT i.lexeme, min(i.idf) FROM kbsearch.kb_keyword_impacts AS i WHERE i.org_id = %s GROUP BY 1 ORDER BY 1",
        [words.org_id],
    ).fetchall()
    certain = 0
    for _ in range(NEAR_MISSES):
        chosen = chance.sample(idfs, chance.randint(2, 8))
        question = {
            "lexemes": [lexeme for lexeme, _idf in chosen],
            "weights": [float(round(1e6 * idf * chance.choice(moved))) for _lexeme, idf in chosen],
            "counts_terms": False,
        }
        limit = chance.choice((1, 1, 2, 3, 30))
        found = words.rows(BY_BLOCKS, **question, limit=limit, others=None)
        assert found in ([], words.rows(ALL, **question, limit=limit))
        certain += bool(found)
    assert certain > 0


def test_many_equal_chunks_are_left_to_the_postings(words: Words) -> None:
    """A tie longer than the candidates: ids decide, which sums know nothing of."""
    with words.connection.transaction(force_rollback=True):
        words.connection.execute(
            """INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
            SELECT %s, 200000 + n, 1, 'word0 word1 word2' FROM generate_series(1, 1500) AS n""",
            [words.org_id],
        )
        build(words.connection, words.org_id)
        question = {"lexemes": ["word0", "word1", "word2"], "weights": [1e10] * 3, "counts_terms": False}
        everything = words.rows(ALL, **question, limit=100)
        assert words.rows(BY_BLOCKS, **question, limit=100, others=None) in ([], everything)
