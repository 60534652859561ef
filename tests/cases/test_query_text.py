"""Whatever people paste as a question: it never raises what is not ours, and its words are searched."""

from __future__ import annotations

import time

import psycopg
import pytest

from kbsearch import KBSearch
from kbsearch.errors import QueryTextError
from tests.sql.corpus import Corpus, refused

PUNCTUATION = (
    "a & | !",
    "\\",
    "<->",
    "!!!",
    "''",
    "' OR 1=1 --",
    "%s %(x)s",
    "$1",
    ":*",
    "((",
    "a:b:c:*",
    '"',
    '"""',
    "-",
    "- -",
    '-"',
    "*",
    "a\\'b",
)
TABLE = "| plan | policy |\n|" + "-" * 40 + "|" + "-" * 40 + "|\n| basic | refunds |"


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("What's the policy?", "the policy on returns"),
        ("What\u2019s the policy?", "the policy on returns"),
        ("team:foobar", "the foobar unit"),
        ("team:foobar", "a team of five"),
        ("one'", "number one"),
        ("L\u2018Content", "content of the shelf"),
        ("bob.smith+list@example.com", "write to bob.smith+list@example.com"),
        ("bob.smith+list@example.com", "smith forged it"),
        ("https://example.com/shelf?x=1&y=2#top", "see https://example.com/shelf?x=1&y=2#top"),
        ("https://example.com/shelf?x=1&y=2", "on the shelf"),
        (TABLE, "all refunds"),
        ("-" * 33 + " refunds", "all refunds"),
        ("=" * 500 + " refunds " + "_" * 500, "all refunds"),
        ("a & | ! refunds", "all refunds"),
        ("refunds \\", "all refunds"),
        ("refunds<->returns", "all refunds"),
        ("(refunds", "all refunds"),
        ("refunds:*", "all refunds"),
        ('say "refunds', "all refunds"),
        ("\U0001f44d refunds \U0001f44d", "all refunds"),
        ("\uff32\uff25\uff26\uff35\uff2e\uff24\uff33", "all refunds"),
    ],
)
def test_words_between_any_signs_are_searched(corpus: Corpus, question: str, content: str) -> None:
    wanted = corpus.article(content)
    corpus.article("something else entirely")
    assert corpus.found(question) == [wanted]


@pytest.mark.parametrize("signs", PUNCTUATION)
def test_signs_never_break_a_question(corpus: Corpus, signs: str) -> None:
    wanted = corpus.article("all refunds")
    assert corpus.found(f"refunds {signs}") in ([wanted], [])
    assert corpus.found(f"{signs} refunds")[:1] in ([wanted], [])


@pytest.mark.parametrize(
    "character", [*range(1, 0x30), 0x7F, 0x85, 0xA0, 0xAD, 0x200B, 0x2028, 0xFEFF, 0xFFFD, 0xFFFF, 0x1F600, 0x10FFFF]
)
def test_any_single_character_beside_a_word(corpus: Corpus, character: int) -> None:
    wanted = corpus.article("all refunds")
    assert corpus.found(f"{chr(character)} refunds") == [wanted]


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("the of and", "stop_words_only"),
        ("\U0001f44d", "empty_query"),
        ("!!!", "empty_query"),
        ("", "empty_query"),
        (" \t\n\u3000", "empty_query"),
        (None, "empty_query"),
        ("-billing", "only_exclusions"),
    ],
)
def test_without_a_word_the_vector_leg_answers_alone_or_nobody_does(
    corpus: Corpus, question: str | None, reason: str
) -> None:
    wanted = corpus.article("all refunds", vector=[1, 0])
    page = corpus.page(question, [1, 0])
    assert [item["article_id"] for item in page["items"]] == [wanted]
    assert (page["legs"]["keyword"]["takes_part"], page["legs"]["keyword"]["reason"]) == (False, reason)
    assert page["items"][0]["score"] == 1
    with refused("KBQRY") as refusal:
        corpus.page(question)
    assert refusal.detail["keyword"] == reason
    assert refusal.detail["vector"] == "no_embedding"


def test_words_are_ored_so_that_an_unknown_one_costs_nothing(corpus: Corpus) -> None:
    wanted = corpus.article("reset your password in settings")
    page = corpus.page("how do I reset my password on payroll")
    assert [item["article_id"] for item in page["items"]] == [wanted]
    assert page["legs"]["keyword"]["unknown_words"] == ["payrol"]


def test_no_known_word_is_an_empty_page_with_the_reason(corpus: Corpus) -> None:
    corpus.article("all refunds")
    page = corpus.page("payroll")
    assert (page["items"], page["total"], page["end_reached"]) == ([], 0, True)
    assert page["legs"]["keyword"]["reason"] == "no_known_words"


@pytest.mark.parametrize("embedding", [None, [1, 0]], ids=["words", "words and vector"])
@pytest.mark.parametrize("profile", ["weighted@1", "rrf@1"])
def test_a_phrase_and_an_exclusion_hold_for_both_legs(
    corpus: Corpus, embedding: list[int] | None, profile: str
) -> None:
    phrase = corpus.article("how to reset your password today", vector=[0, 1])
    title = corpus.article("in the settings", title="Reset your password", vector=[0.5, 1])
    scattered = corpus.article("your password: reset it", vector=[1, 0])
    billing = corpus.article("reset your password", "billing", vectors=[[1, 0], [1, 0]])
    nothing = corpus.article("about llamas", vector=[1, 0])
    asked = {"embedding": embedding, "profile": profile}
    assert set(corpus.found('"reset your password"', **asked)) == {phrase, title, billing}
    assert set(corpus.found('"reset your password" -billing', **asked)) == {phrase, title}
    assert set(corpus.found('\u201creset your password\u201d -"billing"', **asked)) == {phrase, title}
    by_words = set(corpus.found("reset your password -billing", **asked))
    assert by_words == {phrase, title, scattered} | ({nothing} if embedding else set())
    if embedding:
        assert set(corpus.found("-billing", **asked)) == {phrase, title, scattered, nothing}
        assert set(corpus.found('-"your password"', **asked)) == {nothing}
    else:
        with refused("KBQRY"):
            corpus.found("-billing", **asked)


def test_an_operator_that_cannot_be_applied_is_reported(corpus: Corpus) -> None:
    wanted = corpus.article("all refunds")
    page = corpus.page('refunds "!!!"')
    assert [item["article_id"] for item in page["items"]] == [wanted]
    assert page["legs"]["keyword"]["ignored"] == ['"!!!"']


@pytest.mark.parametrize(
    "question",
    ["re\0funds", "\0", "refunds \ud800", "\udfff"],
    ids=["NUL", "only NUL", "high surrogate", "low surrogate"],
)
def test_what_no_database_text_can_hold_is_refused_by_the_client(corpus: Corpus, question: str) -> None:
    corpus.article("all refunds")
    with pytest.raises(QueryTextError) as refusal:
        KBSearch(corpus.connection).search(corpus.org_id, question)
    assert refusal.value.sqlstate == "KBQRY"


@pytest.mark.parametrize("question", ["x" * 200_000, "word " * 40_000, "-" * 200_000, '"' * 200_000, "\u6587" * 70_000])
def test_a_question_of_200_kilobytes_is_refused_fast_with_the_limit(corpus: Corpus, question: str) -> None:
    corpus.article("all refunds", vector=[1, 0])
    started = time.monotonic()
    with refused("KBQRY") as refusal:
        corpus.page(question, [1, 0])
    assert time.monotonic() - started < 1
    assert refusal.detail["maximum_bytes"] == 32768
    assert "32768" in refusal.message


@pytest.mark.parametrize(
    "question",
    ["word " * 6553, "a" * 32768, "a-" * 16384, '"a" ' * 8192, "-b " * 10922, "\u6587" * 10922, "+#" * 16384],
)
def test_a_question_at_the_limit_is_answered_in_time(corpus: Corpus, question: str) -> None:
    wanted = corpus.article("refunds for a word", vector=[1, 0])
    with corpus.connection.transaction():
        corpus.run("SET LOCAL statement_timeout = '20s'")
        assert corpus.found(question, [1, 0]) in ([wanted], [])


def test_the_reason_is_there_too_when_the_profile_uses_one_leg(corpus: Corpus) -> None:
    corpus.article("all refunds", vector=[1, 0])
    assert corpus.page("refunds", [1, 0], profile="keyword@1")["legs"]["vector"]["reason"] == "not_in_fusion"
    assert corpus.page("refunds", [1, 0], profile="vector@1")["legs"]["keyword"]["reason"] == "not_in_fusion"
    for profile, embedding in (("vector@1", None), ("keyword@1", [1, 0])):
        with refused("KBQRY"):
            corpus.page("the" if profile == "keyword@1" else "refunds", embedding, profile=profile)


def test_no_exception_but_ours_reaches_a_caller_of_sql(corpus: Corpus) -> None:
    """psycopg itself refuses NUL; sent as an escape the server does, before any function is called."""
    with pytest.raises(psycopg.DataError):
        corpus.search("\0")
