"""Comparisons of two runs: when there is a verdict, what it says, and how it is shown."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kbsearch.evaluate.compare import (
    Comparison,
    ComparisonError,
    Moved,
    SameTwice,
    compare,
    differing_fields,
    leaves,
    moves,
)
from kbsearch.evaluate.report import chance, html_report, number
from kbsearch.evaluate.runs import SavedRun

QUERIES = [f"q{number:02}" for number in range(40)]
QRELS = {query: {f"{query}-right": 1} for query in QUERIES}
RECORD: dict[str, Any] = {
    "collection": {"name": "c", "queries_sha256": "1", "qrels_sha256": "2"},
    "system": {"profile": "a@1", "definition": {"rrf_k": 60}},
    "space": {"model": "m"},
    "data": {"fingerprint": "f"},
}


def run(right_at: int, *, wrong: int = 0, worse_at: int = 5, **record: Any) -> SavedRun:
    """Every question's right answer at a place, those of the first `wrong` at another."""
    rankings = {}
    for index, query in enumerate(QUERIES):
        place = worse_at if index < wrong else right_at
        others = [f"{query}-other{number}" for number in range(9)]
        rankings[query] = (*others[: place - 1], f"{query}-right", *others[place - 1 :])
    return SavedRun("s", RECORD | record, rankings, QRELS)


OTHER_SYSTEM: dict[str, Any] = {"system": {"profile": "b@1", "definition": {"rrf_k": 60}}}


def test_a_run_that_answers_better_is_better_and_the_other_is_worse() -> None:
    low, high = run(3), run(1, **OTHER_SYSTEM)
    found = compare(low, high)
    assert (found.verdict, found.confounded, found.is_worse) == ("better", False, False)
    assert [field.name for field in found.fields] == ["system.profile"]
    ndcg = found.metrics[0]
    assert (ndcg.metric, ndcg.first, ndcg.second, ndcg.wins) == ("nDCG@10", 0.5, 1, 40)
    back = compare(high, low)
    assert (back.verdict, back.is_worse) == ("worse", True)
    assert "worse" in back.reason


def test_better_by_one_metric_and_worse_by_another_is_said() -> None:
    """The right answer always third, against first for most questions and never found for some."""
    steady = run(3)
    risky = run(1, wrong=16, worse_at=10, **OTHER_SYSTEM)
    found = compare(steady, risky, metrics=("Success@1", "Success@5"))
    assert (found.verdict, found.is_worse) == ("mixed", True)
    assert "better than s (1) by hit@1, and worse by hit@5" in found.reason


def test_a_few_questions_show_no_difference() -> None:
    found = compare(run(1), run(1, wrong=3, **OTHER_SYSTEM))
    assert found.verdict == "no difference"
    assert "chance would do the same" in found.reason
    assert found.metrics[0].losses == 3
    assert found.identical == 37


def test_two_identical_profiles_differ_in_no_question() -> None:
    found = compare(run(2), run(2, **OTHER_SYSTEM))
    assert (found.verdict, found.identical, found.overlap, found.changed) == ("no difference", 40, 1, ())
    assert all(
        (metric.wins, metric.losses, metric.p, metric.low, metric.high) == (0, 0, 1, 0, 0) for metric in found.metrics
    )
    assert "do not differ in any question" in found.reason


@pytest.mark.parametrize(
    ("record", "undeclared"),
    [
        ({"space": {"model": "n"}}, ["space.model"]),
        ({"data": {"fingerprint": "g"}}, ["data.fingerprint"]),
        ({"data": {}}, ["data", "data.fingerprint"]),
        ({"systems": 1}, ["systems"]),
        ({**OTHER_SYSTEM, "settings": {"depth": 5}}, ["settings.depth"]),
    ],
)
def test_there_is_no_verdict_where_more_than_the_treatment_differs(
    record: dict[str, Any], undeclared: list[str]
) -> None:
    found = compare(run(3), run(1, **record))
    assert found.verdict == "none"
    assert [field.name for field in found.undeclared] == undeclared
    assert found.metrics == ()
    assert "--treatment system" in found.reason
    assert f"--treatment {undeclared[0].split('.')[0]}" in found.reason
    insisted = compare(run(3), run(1, **record), allow_confounded=True)
    assert (insisted.verdict, insisted.confounded) == ("better", True)
    declared = compare(run(3), run(1, **record), treatment=["system", *undeclared])
    assert (declared.verdict, declared.confounded, declared.undeclared) == ("better", False, ())


def test_a_treatment_is_declared_by_a_prefix_of_whole_names() -> None:
    second = run(1, space={"model": "n", "dimensions": 3}, data={"fingerprint": "g"})
    assert compare(run(3), second, treatment=["space", "data.fingerprint"]).verdict == "better"
    assert compare(run(3), second, treatment=["space.mod", "data.fingerprint"]).verdict == "none"
    assert compare(run(3), run(1, **OTHER_SYSTEM), treatment=["space"]).verdict == "none"


def test_rankings_that_differ_for_no_recorded_reason_get_no_verdict() -> None:
    found = compare(run(3), run(3, wrong=2))
    assert (found.verdict, found.fields) == ("none", ())
    assert "rankings of 2 questions" in found.reason
    insisted = compare(run(3), run(3, wrong=2), allow_confounded=True)
    assert (insisted.verdict, insisted.confounded) == ("no difference", True)
    assert compare(run(3), run(3)).verdict == "no difference"


def test_other_questions_or_judgements_are_an_error() -> None:
    first = run(1)
    fewer = {query: grades for query, grades in QRELS.items() if query != "q07"}
    for qrels, message in (
        (fewer, "q07"),
        (QRELS | {"q08": {"x": 1}}, "different judgements: query q08"),
        (QRELS | {"q08": {"q08-right": 2}}, "different judgements: query q08"),
    ):
        with pytest.raises(ComparisonError, match=message):
            compare(first, SavedRun("s", RECORD, first.rankings, qrels))
    changed = RECORD | {"collection": {**RECORD["collection"], "queries_sha256": "9"}}
    with pytest.raises(ComparisonError, match="different questions"):
        compare(first, SavedRun("s", changed, first.rankings, QRELS), allow_confounded=True)
    with pytest.raises(ComparisonError, match="no judgements"):
        compare(SavedRun("s", {}, {}, {}), SavedRun("s", {}, {}, {}))
    with pytest.raises(ComparisonError, match="unknown metric 'x'"):
        compare(first, first, metrics=["x"])


def test_a_difference_within_that_of_two_builds_is_not_called_real() -> None:
    low, high = run(3), run(2, **OTHER_SYSTEM)  # nDCG@10 .5 and .63
    within = SameTwice(questions=40, differing=40, ndcg_difference=-0.2, stage="vector")
    found = compare(low, high, same=within)
    assert (found.verdict, found.metrics[0].significant) == ("no difference", True)
    assert "built twice" in found.reason
    less = SameTwice(questions=40, differing=1, ndcg_difference=0.001)
    assert compare(low, high, same=less).verdict == "better"
    assert (less.tolerance("nDCG@10"), less.tolerance("RR")) == (0.001, 1 / 40)
    assert SameTwice(questions=40, differing=2, ndcg_difference=None).tolerance("nDCG@10") == 2 / 40


def test_what_aa_writes_is_read_and_anything_else_refused(tmp_path: Path) -> None:
    file = tmp_path / "aa.json"
    whole = {"questions": 10, "differing": 1, "first_place": 3, "stage": "fusion", "ndcg_difference": 0.01}
    file.write_text(json.dumps(whole), encoding="utf-8")
    assert SameTwice.load(file) == SameTwice(10, 1, 0.01, "fusion")
    for broken in (
        "",
        "[]",
        "{}",
        json.dumps(whole | {"differing": 11}),
        json.dumps(whole | {"ndcg_difference": "0"}),
    ):
        file.write_text(broken, encoding="utf-8")
        with pytest.raises(ComparisonError, match="not what kbsearch aa"):
            SameTwice.load(file)
    with pytest.raises(ComparisonError, match="cannot read"):
        SameTwice.load(tmp_path / "none")


def test_leaves_have_dotted_names_and_differ_as_json_does() -> None:
    assert leaves({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "a.c": {}, "d": [1]}
    found = differing_fields({"a": 1, "b": {"c": 1}, "same": [1, {"x": 2}]}, {"a": True, "b": 1, "same": [1, {"x": 2}]})
    assert [(field.name, field.first, field.second) for field in found] == [
        ("a", 1, True),
        ("b", None, 1),
        ("b.c", 1, None),
    ]


def test_articles_that_moved_come_by_what_they_gain() -> None:
    found = moves(["x", "a", "b", "far"], ["a", "x", "b", "new", "far"], {"a": 2, "far": 0, "gone": 1})
    # a: of grade 2, from .63 to 1; new: 0 to .43; x: from 1 to .63, of no worth; far: .43 to .39.
    assert found == [Moved("a", 2, 2, 1), Moved("new", None, None, 4), Moved("x", None, 1, 2), Moved("far", 0, 4, 5)]
    relevant_far = moves([f"d{n}" for n in range(50)] + ["right"], ["right"], {"right": 1})
    assert relevant_far[0] == Moved("right", 1, 51, 1)
    assert len(relevant_far) == 5
    assert moves(["a"], ["a"], {"a": 1}) == []


def test_the_questions_that_changed_most_are_shown_first() -> None:
    found = compare(run(1), run(1, wrong=15, **OTHER_SYSTEM))
    assert [question.query for question in found.changed] == QUERIES[:10]
    assert found.changed[0].moved[0] == Moved("q00-right", 1, 1, 5)
    assert 0 < found.changed[0].overlap < 1


@pytest.mark.parametrize("seed", range(3))
def test_labels_swapped_at_random_make_no_difference(seed: int) -> None:
    """Two systems whose names are swapped by coin, question by question: there is nothing to find, however different they are."""
    drawn = random.Random(seed)
    low, high = run(3), run(1)
    swapped = [drawn.random() < 0.5 for _ in QUERIES]
    mixed = [
        SavedRun(
            "s",
            RECORD | record,
            {
                query: (high if flip == swap else low).rankings[query]
                for query, flip in zip(QUERIES, swapped, strict=True)
            },
            QRELS,
        )
        for swap, record in ((True, {}), (False, OTHER_SYSTEM))
    ]
    assert compare(*mixed, resamples=999).verdict == "no difference"


class Page(HTMLParser):
    """What a page holds: tags, their attributes, text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "path", "use", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "path", "use", "link"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = "<script>alert('&')</script>\x1b[31m"


def hostile() -> Comparison:
    query = f"q{HOSTILE}"
    qrels = {query: {HOSTILE: 1}, "2": {"a": 1}}
    runs = [
        SavedRun("s", {"system": {HOSTILE: value}}, {query: ranking, "2": ("a",)}, qrels)
        for value, ranking in ((HOSTILE, (HOSTILE, "b")), ("x", ("b", HOSTILE)))
    ]
    return compare(*runs, names=(HOSTILE, f"{HOSTILE} 2"))


def test_a_page_is_whole_stands_alone_and_escapes_what_it_shows() -> None:
    found = hostile()
    written = html_report(found, {f"q{HOSTILE}": f"{HOSTILE}\ud800"}, {HOSTILE: f"{HOSTILE}\ud800"})
    written.encode("utf-8")
    page = Page(written)
    assert page.open == []
    assert "script" not in page.tags
    assert page.tags.count("svg") == 3
    assert "\x1b" not in written
    assert "alert" in page.text
    # Nothing is fetched: every reference stays in the page.
    references = [value or "" for name, value in page.attributes if name in ("href", "src", "xlink:href")]
    assert all(reference.startswith("#") for reference in references)
    assert "url(http" not in written
    assert ("name", "viewport") in page.attributes


def test_a_page_without_verdict_says_what_to_do_and_shows_no_figures() -> None:
    page = Page(html_report(compare(run(3), run(1, space={"model": "n"}))))
    assert "No verdict" in page.text
    assert "space.model" in page.text
    assert "--treatment space" in page.text
    assert "svg" not in page.tags
    assert "detectable" not in page.text


def test_a_confounded_verdict_is_marked_in_the_page() -> None:
    page = Page(html_report(compare(run(3), run(1, space={"model": "n"}), allow_confounded=True)))
    assert "Better (confounded)" in page.text
    assert "More than the treatment differs (space.model)" in page.text


def test_the_same_comparison_gives_the_same_page_and_the_same_json() -> None:
    pages = {html_report(compare(run(1), run(1, wrong=15, **OTHER_SYSTEM))) for _ in range(2)}
    assert len(pages) == 1
    answers = {json.dumps(compare(run(1), run(1, wrong=15, **OTHER_SYSTEM)).as_json()) for _ in range(2)}
    assert len(answers) == 1


def test_numbers_are_written_without_a_negative_zero() -> None:
    assert [number(-0.00001), number(-0.00001, signed=True), number(-0.5), number(0.25, signed=True)] == [
        *("0.0000", "0.0000", "\N{MINUS SIGN}0.5000", "+0.2500")
    ]
    assert [chance(0.0002), chance(0.0314), chance(1.0)] == ["<.001", ".031", "1.000"]
