"""Rankings computed here are the server's, article by article and billionth by billionth."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch.evaluate.choice import RRF, WEIGHTS, Setting
from kbsearch.evaluate.legs import Legs, ndcg, read_legs
from kbsearch.evaluate.metrics import per_query
from kbsearch.evaluate.profiles import create_profile
from tests.sql.corpus import Corpus

Connection = psycopg.Connection[Any]

WORDS = ("cats", "dogs", "birds", "mice", "purr", "bark", "sing", "night")
VECTORS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.6, 0.8, 0.0), (-1.0, 0.2, 0.1), (0.3, 0.3, 0.9))
_RANKED = """SELECT found.article_id, round(found.score * 1e9)::bigint
FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => 1000, p_profile => %s) AS found
ORDER BY found.place"""


def corpus(connection: Connection, seed: int) -> Corpus:
    """Articles of few words and few vectors, so that ties are many; chunks without a vector, and one article with none."""
    drawn = random.Random(seed)
    made = Corpus(connection)
    for number in range(40):
        count = drawn.randint(1, 3)
        made.article(
            *(" ".join(drawn.choices(WORDS, k=drawn.randint(1, 5))) for _ in range(count)),
            title=drawn.choice(WORDS),
            vectors=[drawn.choice(VECTORS) if number and drawn.random() < 0.9 else None for _ in range(count)],
        )
    return made


QUESTIONS = (
    ("cats that purr at night", (0.9, 0.1, 0.2)),
    ("dogs", (1.0, 0.0, 0.0)),
    ("unknown words", (0.0, 1.0, 0.0)),  # no keyword leg
    ('"birds sing" mice', (0.5, 0.5, 0.5)),
    ("mice -dogs", (-0.2, 0.1, 0.9)),
)
SETTINGS = (
    *(Setting("weighted", weight) for weight in (0.0, 0.025, 0.5, 0.7, 0.925, 1.0)),
    *(Setting("rrf", weight, k) for k, weight in ((60, 0.5), (1, 0.9), (10, 0.1), (500, 0.7))),
    Setting("weighted", 0.3, scorer="term_count"),
    Setting("weighted by class", 0.4, class_weights={"keywords": 0.9, "quoted": 0.1}),
)


@pytest.mark.parametrize("seed", range(3))
def test_computed_rankings_are_those_of_the_server(connection: Connection, seed: int) -> None:
    given = corpus(connection, seed)
    for setting in SETTINGS:
        profile = create_profile(connection, given.org_id, "tried", setting)
        for text, vector in QUESTIONS:
            legs = read_legs(connection, given.org_id, text, str(list(vector)), setting.scorer)
            weight = setting.class_weights.get(legs.query_class, setting.vector_weight)
            scores = legs.rrf([(setting.rrf_k, weight)]) if setting.family == "rrf" else legs.weighted([weight])
            order = legs.best(scores, len(legs.articles))[0].tolist()
            computed = [(article, int(scores[0][np.searchsorted(legs.articles, article)])) for article in order]
            ranked = connection.execute(_RANKED, (given.org_id, text, str(list(vector)), profile)).fetchall()
            assert computed == ranked, f"{setting}, {text!r}"
            assert len(ranked) > (0 if '"' in text else 5)
            top = legs.best(scores)[0].tolist()
            assert [article for article in top if article >= 0] == order[:10]


def test_what_neither_leg_finds_is_an_empty_ranking(connection: Connection) -> None:
    given = Corpus(connection)
    given.article("cats", vector=[1.0, 0.0])
    connection.execute("UPDATE kbsearch.kb_articles SET published = false")
    legs = read_legs(connection, given.org_id, "cats", "[1,0]", "bm25")
    assert legs.articles.tolist() == []
    assert legs.best(legs.weighted(WEIGHTS)).shape == (len(WEIGHTS), 10)
    assert (legs.best(legs.rrf(RRF)) == -1).all()


def test_without_a_vector_the_words_have_full_weight(connection: Connection) -> None:
    given = corpus(connection, 1)
    legs = read_legs(connection, given.org_id, "cats that purr", None, "bm25")
    assert (legs.uses_vector, legs.uses_keyword, legs.query_class) == (False, True, "keywords")
    scores = legs.weighted([0.1, 0.9])
    assert (scores[0] == scores[1]).all()


def test_the_best_are_those_of_a_full_sort() -> None:
    drawn = np.random.default_rng(4)
    articles = np.arange(100, 400)
    empty = np.zeros(0)
    legs = Legs(
        "keywords", articles, np.zeros(0, dtype=np.int64), empty, empty, 1.0, uses_vector=True, uses_keyword=True
    )
    scores = drawn.integers(0, 30, (20, 300)).astype(np.float64)
    expected = [
        [int(articles[column]) for column in sorted(range(300), key=lambda one: (-row[one], one))[:10]]
        for row in scores
    ]
    assert legs.best(scores).tolist() == expected


def test_ndcg_is_that_of_the_library() -> None:
    drawn = random.Random(2)
    for _ in range(50):
        found = drawn.sample(range(20), drawn.randint(0, 12))
        grades = {drawn.randrange(30): drawn.randint(0, 3) for _ in range(drawn.randint(1, 15))}
        qrels = {"q": {str(article): grade for article, grade in grades.items()}}
        expected = per_query(qrels, {"q": [str(article) for article in found]})["nDCG@10"]["q"]
        top = np.array([[*found, *([-1] * 10)][:10]])
        there = {article: grade for article, grade in grades.items() if article < 20}
        assert ndcg(top, there, list(grades.values()))[0] == pytest.approx(expected)
