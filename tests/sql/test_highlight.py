"""Excerpts around the question's words, as HTML."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sql.corpus import Corpus
from tests.strategies import examples


def excerpt(corpus: Corpus, content: str, question: str, language: str | None = None) -> str:
    article = corpus.article(content, language=language)
    shown = {row["article_id"]: row["excerpt_html"] for row in corpus.search(question, highlight=True)}
    return str(shown[article])


@pytest.mark.parametrize(
    ("content", "question", "expected"),
    [
        ("Reset your password.", "passwords", "Reset your <mark>password</mark>."),
        (
            "a & b <i>town</i> \"x\" 'y'",
            "town",
            "a &amp; b &lt;i&gt;<mark>town</mark>&lt;/i&gt; &quot;x&quot; &#39;y&#39;",
        ),
        ("<mark>town</mark>", "town", "&lt;mark&gt;<mark>town</mark>&lt;/mark&gt;"),
        ("(towns), town-hall; -town-", "town", "(<mark>towns</mark>), <mark>town-hall</mark>; -<mark>town</mark>-"),
        ("C++ and C and c#", "c++", "<mark>C++</mark> and <mark>C</mark> and <mark>c#</mark>"),
        ("caf\u00e9, cafe\u0301, CAFE", "café", "<mark>caf\u00e9</mark>, <mark>cafe\u0301</mark>, <mark>CAFE</mark>"),
        ("这是一个测试。", "测试", "这是一个<mark>测试</mark>。"),
        ("日本語のテスト", "テスト", "日本語の<mark>テスト</mark>"),
        ("the town of the north", "the town", "the <mark>town</mark> of the north"),
        ("CVE-2026-2332 fixed", "2332", "<mark>CVE-2026-2332</mark> fixed"),
    ],
)
def test_words_of_the_question_are_marked_and_all_else_is_escaped(
    corpus: Corpus, content: str, question: str, expected: str
) -> None:
    assert excerpt(corpus, content, question) == expected


def test_words_are_marked_in_the_language_of_the_article(corpus: Corpus) -> None:
    corpus.article("house")
    assert excerpt(corpus, "Die Häuser, the houses", "haus", language="german") == "Die <mark>Häuser</mark>, the houses"


def test_only_where_it_is_asked_for(corpus: Corpus) -> None:
    corpus.article("town")
    assert corpus.search("town")[0]["excerpt_html"] is None
    assert corpus.page("town")["items"][0]["excerpt_html"] is None
    assert corpus.page("town", highlight=True)["items"][0]["excerpt_html"] == "<mark>town</mark>"


def test_the_excerpt_is_where_most_of_the_questions_words_are(corpus: Corpus) -> None:
    filler = " ".join(f"filler{n}" for n in range(120))
    shown = excerpt(corpus, f"hall {filler} town hall {filler}", "town hall")
    assert "<mark>town</mark> <mark>hall</mark>" in shown
    assert shown.startswith("…filler")
    assert shown.endswith("…")
    assert len(html.unescape(re.sub("</?mark>", "", shown)).strip("…")) <= 240


def test_what_was_found_by_meaning_or_title_begins_at_the_beginning(corpus: Corpus) -> None:
    corpus.article("<b>" + "x " * 200, title="town")
    (row,) = corpus.search("town", highlight=True)
    assert row["excerpt_html"] == "&lt;b&gt;" + ("x " * 200)[:237] + "…"


def test_a_long_chunk_is_no_trouble(corpus: Corpus) -> None:
    shown = excerpt(corpus, "word " * 3000 + "needle", "needle")
    assert shown.endswith("<mark>needle</mark>")


def test_without_the_marks_it_is_text_of_the_chunk(corpus: Corpus) -> None:
    """Whatever the text: nothing but <mark> is markup, the marks pair up, and the text is a part of the chunk's."""
    alphabet = st.sampled_from(
        ["town", "hall", "Town's", "<b>", "&amp;", "测试", "\u0301", "c++", "-", "…", " ", "\n", "x" * 50, '"']
    )

    @examples(60)
    @given(st.lists(alphabet, min_size=1, max_size=60).map("".join))
    def run(content: str) -> None:
        shown = str(
            corpus.value(
                "SELECT kbsearch.highlight_kb_text_v1(%s, 'english', '', '{town,hall,测试,c++}', 100)",
                content,
            )
        )
        assert re.fullmatch("(?:[^<]|<mark>[^<]+</mark>)*", shown)
        plain = html.unescape(re.sub("</?mark>", "", shown))
        core = plain[1:] if plain.startswith("…") and plain not in content else plain
        core = core[:-1] if core.endswith("…") and core not in content else core
        assert core in content
        assert len(plain) <= 102
        if len(content) <= 100:
            assert plain == content
        if "town" in content.split():
            assert "<mark>" in shown

    run()
