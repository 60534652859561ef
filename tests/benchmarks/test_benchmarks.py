from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.data import DIMENSIONS, RANKS, VOCABULARY, Generator, word
from benchmarks.database import spread
from benchmarks.figures import Figure, markdown, table


def test_a_figure_meets_its_limit_or_not() -> None:
    good, bad, plain = (
        Figure("a", "good", 2.0, "other", 1.0, limit=2.0, goal=1.5),
        Figure("b", "bad", 1.0, "other", 7.0, limit=1 / 8),
        Figure("c", "plain", 1234.5, unit="MB"),
    )
    assert [good.met, bad.met, plain.met] == [True, False, None]
    assert good.cells() == ("a", "good", "2 ms", "other: 1 ms", "2.00 x", "≤ 2.00 x (goal 1.50 x)", "met")
    assert bad.cells()[4:] == ("1/7.0", "≤ 1/8.0", "MISSED")
    assert plain.cells() == ("c", "plain", "1,234 MB", "", "", "", "")
    text = markdown([good, bad, plain], ["2 cores"])
    assert "| b | bad | 1 ms | other: 7 ms | 1/7.0 | ≤ 1/8.0 | MISSED |" in text
    assert "bar [100, 114]" in text
    assert table([good, bad, plain]).row_count == 3


def test_data_are_the_same_for_the_same_seed() -> None:
    first, second = Generator(3), Generator(3)
    assert first.chunk() == second.chunk()
    assert np.array_equal(first.vectors(2), second.vectors(2))
    assert first.question(RANKS["mixed"]).words == second.question(RANKS["mixed"]).words


def test_every_rank_has_a_word_of_its_own() -> None:
    assert len({word(rank) for rank in range(VOCABULARY)}) == VOCABULARY


def test_a_chunk_has_about_75_distinct_words_and_vectors_have_norm_1() -> None:
    generator = Generator(4)
    sizes = [len(set(generator.chunk().split())) - 16 for _ in range(100)]
    assert np.mean(sizes) == pytest.approx(75, abs=3)
    vectors = generator.vectors(5)
    assert vectors.shape == (5, DIMENSIONS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5))


def test_organisations_are_interleaved() -> None:
    chunks = spread({1: 50, 2: 50}, Generator(5), [1])
    owners = [chunk.org_id for chunk in chunks]
    assert owners.count(1) == 50
    assert sum(a != b for a, b in pairwise(owners)) > 30
    assert [chunk.id for chunk in chunks] == list(range(1, 101))
