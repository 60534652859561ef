"""Questions of one document are as near to theirs, in words and in meaning, as they are said to be."""

from __future__ import annotations

from collections import Counter
from statistics import median

import numpy as np
import pytest

from benchmarks.data import DIMENSIONS, RANKS, Crowd, word
from benchmarks.questions import ASKED, COSINES, OFTEN, SHARES, WORDS, drawn, of_one_document

ORG, CHUNKS, ASKED_TIMES = 3, 1_000, 300


@pytest.fixture(scope="module")
def rows() -> list[tuple[set[str], np.ndarray]]:
    """Words and vectors of the organisation as a preparation loads it."""
    return [(set(f"{row.title} {row.content}".split()), row.vector) for row in Crowd({ORG: CHUNKS}).rows(0, CHUNKS)]


def test_they_are_the_same_for_the_same_seed() -> None:
    first, second, other = (of_one_document(ORG, CHUNKS, seed, ASKED, 3) for seed in (1, 1, 2))
    assert [one.text for one in first] == [one.text for one in second] != [one.text for one in other]
    assert all(np.array_equal(one.embedding, two.embedding) for one, two in zip(first, second, strict=True))


def test_each_has_a_document_that_is_as_near_as_people_s_questions_are(
    rows: list[tuple[set[str], np.ndarray]],
) -> None:
    """Its cosine is the distribution's, though the vector's rest is no noise: half of the documents have others before them."""
    vectors = np.stack([vector for _, vector in rows])
    asked = of_one_document(ORG, CHUNKS, 5, "rare", ASKED_TIMES)
    near, shares, first = [], [], 0
    for one in asked:
        cosines = vectors @ one.embedding
        own = [len(set(one.words) & words) for words, _ in rows]
        place = int(np.argmax([10 * count + cosine for count, cosine in zip(own, cosines, strict=True)]))
        if own[place] < 3:  # fewer rare words may be another document's by chance
            continue
        near.append(float(cosines[place]))
        shares.append(own[place] / len(one.words))
        first += int(np.argmax(cosines)) == place
    assert len(near) > 0.6 * ASKED_TIMES
    assert median(near) == pytest.approx(0.6, abs=0.04)
    assert min(near) > COSINES[0] - 0.01
    assert max(near) < COSINES[-1] + 0.01
    assert median(shares) == pytest.approx(4 / 6, abs=0.17)
    assert 0.4 < first / len(near) < 0.8


def test_words_are_as_rare_as_people_s_and_of_the_kind_asked_for() -> None:
    ranks = {word(rank): rank for rank in range(20_000)}

    def kinds(kind: str) -> Counter[str]:
        words = [one for question in of_one_document(ORG, CHUNKS, 6, kind, 100) for one in question.words]
        return Counter(name for one in words for name in OFTEN if RANKS[name][0][0] <= ranks[one] < RANKS[name][0][1])

    assert {kind: set(kinds(kind)) for kind in OFTEN} == {kind: {kind} for kind in OFTEN}
    found = kinds(ASKED)
    assert {kind: found[kind] / found.total() for kind in OFTEN} == pytest.approx(OFTEN, abs=0.06)


def test_their_words_are_distinct_and_their_vectors_have_norm_1() -> None:
    for kind in (ASKED, *RANKS):
        for one in of_one_document(ORG, 40, 7, kind, 10):
            assert len(set(one.words)) == len(one.words) == 6
            assert one.embedding.shape == (DIMENSIONS,)
            assert np.linalg.norm(one.embedding) == pytest.approx(1)


def test_values_lie_where_the_order_says() -> None:
    assert [drawn(WORDS, place) for place in (0, *SHARES, 1)] == [WORDS[0], *WORDS, WORDS[-1]]
    assert drawn(COSINES, 0.375) == pytest.approx((0.46 + 0.59) / 2)
