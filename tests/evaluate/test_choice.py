"""What is chosen, and when nothing is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbsearch.evaluate.choice import (
    OF_CLASS,
    RRF,
    WEIGHTS,
    Asked,
    Setting,
    TuningError,
    choose,
    decide,
    fold_numbers,
    measure_difference,
    split_apart,
)
from kbsearch.evaluate.legs import Array


def asked(
    weighted: Array,
    *,
    base: Array | float = 0.5,
    classes: list[str] | None = None,
    groups: list[int] | None = None,
    rrf: float = 0.1,
) -> Asked:
    """Questions with these values by weight."""
    count = len(weighted)
    return Asked(
        queries=tuple(f"q{row:04}" for row in range(count)),
        classes=tuple(classes or ["question"] * count),
        groups=np.array(groups or range(count), dtype=np.int64),
        base=np.broadcast_to(np.asarray(base, dtype=np.float64), (count,)).copy(),
        weighted=weighted,
        rrf=np.full((count, len(RRF)), rrf),
        weighted_tops=np.zeros((count, len(WEIGHTS), 10), dtype=np.int64),
        rrf_tops=np.zeros((count, len(RRF), 10), dtype=np.int64),
    )


def peak(at: float, count: int, *, seed: int = 1, noise: float = 0.1, height: float = 0.3) -> Array:
    """nDCG by weight that is best at one place, for each question with noise of its own."""
    drawn = np.random.default_rng(seed).normal(0, noise, (count, 1))
    curve = 0.6 - height * (np.array(WEIGHTS) - at) ** 2
    return np.clip(curve[None, :] + drawn, 0, 1)


def test_a_better_weight_is_chosen_and_its_held_out_gain_told() -> None:
    values = peak(0.8, 200)
    found = decide(asked(values, base=values[:, WEIGHTS.index(0.5)]), "weighted@1")
    assert found.chosen is not None
    assert found.chosen.setting == Setting("weighted", 0.8)
    assert found.chosen.folds == (found.chosen.setting,) * 5
    held = found.chosen.held_out
    assert held.difference == pytest.approx(0.3 * 0.3**2)
    assert 0 < held.low <= held.difference <= held.high
    assert held.mean - held.base == pytest.approx(held.difference)
    assert "better than weighted@1" in found.reason


def test_noise_is_not_chosen() -> None:
    """Every setting is as good as every other, but for chance: of 100 sets of questions hardly any has something chosen on it."""
    drawn = np.random.default_rng(8)
    chosen = 0
    for _ in range(100):
        values = drawn.beta(2, 1, (40, len(WEIGHTS)))
        noise = asked(values, base=values[:, WEIGHTS.index(0.5)])
        found = decide(noise, "weighted@1", resamples=199)
        chosen += found.chosen is not None
        # Where it was chosen it looks better.
        assert max(family.tuned for family in found.families) >= noise.base.mean()
    assert chosen / 100 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 100)


def test_where_nothing_is_better_the_present_profile_stays() -> None:
    values = peak(0.5, 100)
    found = decide(asked(values, base=values[:, WEIGHTS.index(0.5)]), "weighted@1")
    assert found.chosen is None
    assert found.reason.startswith("weighted@1 stays")
    assert found.best.setting == Setting("weighted", 0.5)
    assert found.best.held_out.p == 1


def test_weights_by_class_are_chosen_only_where_they_are_better_than_one_for_all() -> None:
    classes = ["question"] * 100 + ["keywords"] * 100
    different = np.concatenate([peak(0.2, 100), peak(0.9, 100)])
    base = different[:, WEIGHTS.index(0.0)]
    found = decide(asked(different, base=base, classes=classes), "keyword@1")
    assert found.chosen is not None
    assert found.chosen.setting.family == "weighted by class"
    assert found.chosen.setting.class_weights == {"question": 0.2, "keywords": 0.9}
    same = np.concatenate([peak(0.6, 100), peak(0.6, 100, seed=2)])
    found = decide(asked(same, base=same[:, WEIGHTS.index(0.0)], classes=classes), "keyword@1")
    assert found.chosen is not None
    assert found.chosen.setting == Setting("weighted", 0.6)


def test_a_class_of_few_questions_has_no_weight_of_its_own() -> None:
    few = OF_CLASS - 1
    values = np.concatenate([peak(0.3, 100), peak(0.9, few)])
    given = asked(values, classes=["question"] * 100 + ["quoted"] * few)
    assert "quoted" not in choose(given, "weighted by class").class_weights
    more = asked(np.concatenate([values, peak(0.9, 1)]), classes=["question"] * 100 + ["quoted"] * (few + 1))
    assert choose(more, "weighted by class").class_weights["quoted"] == 0.9


def test_of_equals_the_one_nearest_to_equal_weights_is_chosen() -> None:
    flat = asked(np.full((30, len(WEIGHTS)), 0.7))
    assert choose(flat, "weighted") == Setting("weighted", 0.5)
    assert choose(flat, "rrf") == Setting("rrf", 0.5, 60)
    assert choose(flat, "weighted by class").class_weights == {}


def test_questions_with_the_same_answers_are_in_one_fold_and_folds_are_of_a_size() -> None:
    groups = [row // 3 for row in range(90)]
    given = asked(peak(0.5, 90), groups=groups)
    parts = fold_numbers(given, 5)
    for group in set(groups):
        assert len(set(parts[np.array(groups) == group].tolist())) == 1
    assert sorted(np.bincount(parts).tolist()) == [18] * 5
    assert (parts == fold_numbers(given, 5)).all()
    shuffled = np.random.default_rng(3).permutation(90)
    assert (fold_numbers(given.select(shuffled), 5) == parts[shuffled]).all()


def test_paraphrases_count_as_one_question_in_the_test() -> None:
    """Ten questions, each asked in twenty ways: 200 differences that are ten."""
    values = np.repeat(np.array([0.1] * 8 + [-0.1] * 2), 20) + 0.5
    alone = measure_difference(values, np.full(200, 0.5), np.arange(200))
    together = measure_difference(values, np.full(200, 0.5), np.repeat(np.arange(10), 20))
    assert alone.p < 0.001
    assert together.p > 0.05
    assert together.p == pytest.approx(2 * (1 + 10 + 45) / 2**10)
    assert together.difference == pytest.approx(alone.difference)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_questions_are_set_apart_by_their_order_and_none_is_lost() -> None:
    given = asked(peak(0.5, 40))
    for share, count in ((0.0, 0), (0.5, 20), (0.25, 10), (0.9, 36)):
        kept, apart = split_apart(given, share)
        assert len(apart.queries) == count
        assert sorted(kept.queries + apart.queries) == list(given.queries)
    kept, apart = split_apart(given, 0.5)
    assert kept.queries[:2] == ("q0000", "q0002")
    assert apart.queries[:2] == ("q0001", "q0003")


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_paraphrases_are_on_one_side(share: float) -> None:
    numbers = [3, 3, 1, 2, 3, 0, 1, 1, 4, 4, 5, 6, 7, 7, 7, 7, 8, 2, 9, 0]
    given = asked(peak(0.5, 20), groups=numbers)
    kept, apart = split_apart(given, share)
    assert not set(kept.groups) & set(apart.groups)
    assert sorted(kept.queries + apart.queries) == list(given.queries)
    assert kept.queries == tuple(sorted(kept.queries))
    assert abs(len(apart.queries) - 20 * share) < 4, "the largest group has four"


def test_what_is_worse_elsewhere_is_not_chosen() -> None:
    values = peak(0.8, 200)
    found = decide(asked(values, base=values[:, WEIGHTS.index(0.5)]), "weighted@1")
    other = peak(0.3, 200)
    worse = found.measured("other", asked(other, base=other[:, WEIGHTS.index(0.5)]))
    assert worse.chosen is None
    assert "worse on other" in worse.reason
    assert worse.elsewhere["other"].difference < 0
    better = found.measured("third", asked(values, base=values[:, WEIGHTS.index(0.5)]))
    assert better.chosen == found.chosen
    assert better.measured("other", asked(other, base=other[:, WEIGHTS.index(0.5)])).elsewhere.keys() == {
        "third",
        "other",
    }


def test_too_few_questions_are_refused() -> None:
    with pytest.raises(TuningError, match="19 questions"):
        decide(asked(peak(0.5, 19)), "weighted@1")
    with pytest.raises(TuningError, match="9 different sets"):
        decide(asked(peak(0.5, 45), groups=[row // 5 for row in range(45)]), "weighted@1")


def test_a_setting_is_written_as_people_read_it() -> None:
    assert str(Setting("weighted", 0.925)) == "weighted: vector weight 0.925"
    assert str(Setting("rrf", 0.9, 5)) == "rrf: vector weight 0.9, k 5"
    assert (
        str(Setting("weighted by class", 0.5, class_weights={"quoted": 0.1}))
        == "weighted by class: vector weight 0.5, quoted 0.1"
    )
