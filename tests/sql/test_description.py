"""What a chunk's postings are made of is what the analysis says of its words one by one, whichever way it took."""

# ruff: noqa: RUF001  (letters that look alike are the point)

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.strategies import examples

Text: TypeAlias = str | None
Fields: TypeAlias = tuple[Text, Text, Text]

LANGUAGES = ("english", "simple", "german", "russian", "pg_temp.patient")
"""The last one has two dictionaries: what the first does not know is for the second."""

DESCRIBED = """
SELECT g.n, d.lexemes, d.term_counts, d.occurrence_count, d.phrase_text
FROM jsonb_to_recordset(%s::jsonb) AS g (n bigint, title text, heading text, content text)
CROSS JOIN LATERAL kbsearch.describe_kb_chunk_v1(g.title, g.heading, g.content, %s::regconfig, %s) AS d
ORDER BY g.n"""

# The plain way: all words of the analysis, counted.
COUNTED = """
SELECT g.n, d.lexemes, d.term_counts, d.occurrence_count, d.phrase_text
FROM jsonb_to_recordset(%s::jsonb) AS g (n bigint, title text, heading text, content text)
CROSS JOIN LATERAL (
    WITH words AS MATERIALIZED (
        SELECT a.field, a.n, a.part, a.form, a.lexeme, a.in_phrase
        FROM kbsearch.analyze_kb_text_v1(ARRAY[g.title, g.heading, g.content], %s::regconfig) AS a
    )
    SELECT
        coalesce(t.lexemes, '{}') AS lexemes,
        coalesce(t.term_counts, '{}') AS term_counts,
        coalesce(t.occurrence_count, 0) AS occurrence_count,
        coalesce((
            SELECT string_agg(s.words, E'\\n' ORDER BY s.field)
            FROM (
                SELECT w.field, ' ' || string_agg(coalesce(w.lexeme, w.form), ' ' ORDER BY w.n, w.part) || ' ' AS words
                FROM words AS w
                WHERE w.in_phrase
                GROUP BY w.field
            ) AS s
        ), '') AS phrase_text
    FROM (
        SELECT
            array_agg(m.lexeme ORDER BY m.lexeme COLLATE "C") AS lexemes,
            array_agg(m.term_count ORDER BY m.lexeme COLLATE "C") AS term_counts,
            sum(m.occurrences)::integer AS occurrence_count
        FROM (
            SELECT
                w.lexeme, least(255, count(*) + 2 * count(*) FILTER (WHERE w.field = 1))::smallint AS term_count,
                count(*) FILTER (WHERE w.in_phrase) AS occurrences
            FROM words AS w
            WHERE w.lexeme IS NOT NULL
            GROUP BY w.lexeme
        ) AS m
    ) AS t
) AS d
ORDER BY g.n"""

ASKED = """
SELECT coalesce(array_agg(t.lexeme ORDER BY t.lexeme), '{}'), coalesce(array_agg(t.term_count ORDER BY t.lexeme), '{}'),
    coalesce(array_agg(t.forms ORDER BY t.lexeme), '{}')
FROM (
    SELECT a.lexeme COLLATE "C" AS lexeme, count(*) AS term_count, string_agg(a.form, ' ' ORDER BY a.n, a.part) AS forms
    FROM kbsearch.analyze_kb_text_v1(ARRAY[%s], %s::regconfig) AS a
    WHERE a.lexeme IS NOT NULL AND a.in_question
    GROUP BY 1
) AS t"""
"""The words of a question without operators, counted."""
PARSED = "SELECT p.lexemes, p.term_counts, p.forms, p.reason, p.operators, p.ignored FROM kbsearch.parse_kb_query_v1(%s, %s::regconfig) AS p"

_LETTERS = st.characters(codec="utf-8", exclude_characters="\0")
_PLANES = st.one_of(
    [
        st.characters(min_codepoint=first, max_codepoint=first + 0xFFFD, codec="utf-8", exclude_characters="\0")
        for first in range(0, 0x110000, 0x10000)
    ]
)
_MARKS = st.text(st.sampled_from("\u0301\u0323\u05b8\u05b0\u064b\u0e48\u3099\u0f71"), min_size=1, max_size=40)
_JOINERS = st.text(st.sampled_from("-_./@:+#&"), min_size=1, max_size=3)
_SPACES = st.text(
    st.sampled_from(" \t\n\r,;!?()'\"[]{}<>|~`^*=%$\\\x01\x02\x1f\x7f\u00a0\u2003\u201c\u2019\u2013\u2122\u00ab\u3002"),
    min_size=1,
    max_size=3,
)
_ASCII = ["the", "of", "Running", "policies", "ds", "7604ni", "c++", "C#", "x86", "1e5", "2332", "a1b2c3"]
_LATIN = ["İI", "ıSıK", "Straße", "STRAẞE", "Ångström", "A\u030angstro\u0308m", "ﬁle", "１２３", "½", "…", "Kindle™"]
_OTHERS = ["ΣΊΣΥΦΟΣ", "политики", "日本語", "テスト", "번역", "ทดสอบ", "हिन्दी", "שָׁלוֹם", "ab" * 33, "é" * 65, "я" * 70]
_WORDS = st.sampled_from((*_ASCII, *_LATIN, *_OTHERS))
_PIECES = st.one_of(
    _WORDS, _WORDS, _JOINERS, _SPACES, _SPACES, _MARKS, st.text(_LETTERS, max_size=4), st.text(_PLANES, max_size=3)
)
TEXTS = st.lists(_PIECES, max_size=20).map("".join)
"""Texts of all planes of Unicode, with what joins words and what cuts them."""
FIELDS = st.tuples(
    st.none() | st.lists(_PIECES, max_size=6).map("".join),
    st.none() | st.lists(_PIECES, max_size=6).map("".join),
    TEXTS,
)


@pytest.fixture
def connection(shared_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute(
            # knows the stop words only
            "CREATE TEXT SEARCH DICTIONARY pg_temp.first (TEMPLATE = pg_catalog.simple, STOPWORDS = english, ACCEPT = false)"
        )
        connection.execute("CREATE TEXT SEARCH CONFIGURATION pg_temp.patient (COPY = pg_catalog.english)")
        connection.execute(
            "ALTER TEXT SEARCH CONFIGURATION pg_temp.patient ALTER MAPPING FOR asciiword, word WITH pg_temp.first, pg_catalog.french_stem"
        )
        yield connection


def rows_of(given: list[Fields]) -> str:
    return json.dumps([{"n": n, "title": t, "heading": h, "content": c} for n, (t, h, c) in enumerate(given)])


def agree(connection: psycopg.Connection[Any], given: list[Fields], language: str) -> None:
    """Both ways say the same of chunks."""
    rows = rows_of(given)
    described = connection.execute(DESCRIBED, (rows, language, "")).fetchall()
    counted = connection.execute(COUNTED, (rows, language)).fetchall()
    for fields, one, other in zip(given, described, counted, strict=True):
        assert one == other, f"{fields!r} in {language}"


def test_a_description_counts_the_words_of_the_analysis(connection: psycopg.Connection[Any]) -> None:
    @given(st.lists(FIELDS, min_size=1, max_size=8), st.sampled_from(LANGUAGES))
    @example([("", "", ""), (None, None, ""), ("!!!", "-.-", "\x01 \x02"), ("\x01", "\x01", "a \x01 b")], "english")
    @example(
        [("- a -", "+ +", "c++ c++. +c c+-+ -c+ a+b #1 1# ## #"), ("a.b", None, "a.b a.b"), ("7604ni-x9", "x9", "x9")],
        "english",
    )
    @example([("the", "the of", "of"), ("foo-the-bar", None, "the-the the-1a")], "pg_temp.patient")
    @example([("x" * 65, "y" * 64 + "-z", "-".join(["w" * 70] * 3)), ("é" * 65, "я" * 65, "x" * 65 + "\x02")], "simple")
    @example([("word " * 300, None, "word " * 300), (None, None, "a-1b " * 65), (None, None, "a-1b " * 64)], "english")
    @example(
        [
            ("日本語 a-b", None, "a-b"),
            ("a-b", "a-b", "a-b 日本語"),
            ("don’t “do” it", "what’s…", "naïve-Bayes α-helix β2"),
        ],
        "english",
    )
    @settings(examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def law(chunks: list[Fields], language: str) -> None:
        agree(connection, chunks, language)

    law()


def test_a_question_of_plain_words_counts_the_words_of_the_analysis(connection: psycopg.Connection[Any]) -> None:
    """Such a question takes a shorter way; a tab behind it, which cuts words as a space does, has it take the other one."""
    words = st.sampled_from(
        ["the", "of", "The", "Running", "runs", "policies", "2332", "a1b2c3", "x" * 65, "Y" * 70, "I"]
    )
    plain = st.text(st.sampled_from("abIXYZ09 "), max_size=12) | st.lists(words, max_size=8).map(" ".join)

    @given(plain, st.sampled_from(LANGUAGES))
    @example("", "english")
    @example("   ", "english")
    @example("the of", "english")
    @settings(examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def law(question: str, language: str) -> None:
        parsed = connection.execute(PARSED, (question, language)).fetchone()
        assert parsed is not None
        assert parsed[:3] == connection.execute(ASKED, (question, language)).fetchone()
        assert parsed == connection.execute(PARSED, (question + "\t", language)).fetchone()

    law()


@pytest.mark.parametrize("language", LANGUAGES)
def test_real_text_is_described_by_its_words(connection: psycopg.Connection[Any], language: str) -> None:
    """This repository's own pages and sources: prose, code, tables, other scripts."""
    root = Path(__file__).parents[2]
    files = sorted([*root.glob("docs/**/*.md"), *root.glob("sql/functions/*/*.sql"), *root.glob("tests/cases/*.py")])
    chunks: list[Fields] = []
    for file in files:
        text = file.read_text(encoding="utf-8")[:20_000]
        chunks += [
            (file.stem, f"{file.parent.name}/{file.name}", text[start : start + 1500])
            for start in range(0, len(text), 1500)
        ]
    agree(connection, chunks, language)


def test_a_tag_stands_behind_every_lexeme(connection: psycopg.Connection[Any]) -> None:
    rows = rows_of([("Reset", None, "reset the pass-word"), (None, None, "日本 x")])
    plain = connection.execute(DESCRIBED, (rows, "english", "")).fetchall()
    tagged = connection.execute(DESCRIBED, (rows, "english", "\x1fenglish")).fetchall()
    for (n, lexemes, counts, length, phrases), other in zip(plain, tagged, strict=True):
        assert other == (n, ["\x1fenglish", *(lexeme + "\x1fenglish" for lexeme in lexemes)], [1, *counts], length, phrases)  # fmt: skip
