"""Faults that were found by trying to break the promises: each fixed kind has its smallest input here."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.sql.corpus import Corpus, refused


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("GRO\u1e9eE STRA\u1e9eE", "GRO\u1e9eE"),
        ("GRO\u1e9eE", "grosse"),
        ("gro\u00dfe", "GRO\u1e9eE"),
        ("Kindle\u2122 guide", "Kindle"),
        ("\u00c6sir", "aesir"),
    ],
)
def test_a_word_is_found_however_its_letters_are_written(corpus: Corpus, stored: str, asked: str) -> None:
    article = corpus.article(stored)
    assert corpus.found(asked) == [article]


def test_folding_twice_is_folding_once(corpus: Corpus) -> None:
    """Questions are folded before they are parsed and once more with the words."""
    differing = corpus.value(
        """
        SELECT string_agg(to_hex(c.code), ' ')
        FROM generate_series(1, 131071) AS c (code)
        CROSS JOIN LATERAL (SELECT kbsearch.fold_kb_text_v1('x' || chr(c.code) || 'y') AS once) AS f
        WHERE c.code NOT BETWEEN 55296 AND 57343 AND kbsearch.fold_kb_text_v1(f.once) <> f.once
        """
    )
    assert differing is None


@pytest.mark.parametrize(
    "text",
    [
        "apple a" + "\u0301" * 8000 + "\u0323" * 8000,
        "apple a" + "\u05b8\u05b0" * 7000,
        "-b " * 10922,
        '"a" ' * 8192,
        " ".join(f"w{n}" for n in range(5000)),
        " ".join(f"a{n}-b" for n in range(3500)),
    ],
    ids=["marks", "points", "exclusions", "phrases", "words", "compounds"],
)
def test_no_question_is_slow_by_its_form(corpus: Corpus, text: str) -> None:
    """Quadratic work would take from five seconds to minutes; the limit is far above what linear work needs on any machine."""
    corpus.article("apple")
    corpus.run("SET statement_timeout = '3s'")
    try:
        corpus.page(text)
    except psycopg.DatabaseError as error:
        assert error.sqlstate == "KBQRY"  # noqa: PT017
    finally:
        corpus.run("RESET statement_timeout")


def test_filters_cost_no_more_than_their_articles(corpus: Corpus) -> None:
    """A filter that searches a list for every row takes two seconds and more here."""
    corpus.run(
        "INSERT INTO kbsearch.kb_articles (org_id, title) SELECT %s, 'pie' FROM generate_series(1, 30000)",
        corpus.org_id,
    )
    corpus.run("ALTER TABLE kbsearch.kb_article_chunks DISABLE TRIGGER USER")
    corpus.run(
        "INSERT INTO kbsearch.kb_article_chunks"
        " (org_id, article_id, article_version, searchable, lexemes, term_counts, occurrence_count, phrase_text, language)"
        " SELECT a.org_id, a.id, 1, true, '{pie}', '{3}', 1, ' pie ', 'english' FROM kbsearch.kb_articles AS a WHERE a.org_id = %s",
        corpus.org_id,
    )
    corpus.run("ALTER TABLE kbsearch.kb_article_chunks ENABLE TRIGGER USER")
    corpus.value("SELECT kbsearch.rebuild_kb_index_v1(%s)", corpus.org_id)
    corpus.run("SET statement_timeout = '1500ms'")
    try:
        assert corpus.page("pie", kinds=["article"])["total"] == 30000
        assert corpus.page("pie", metadata={})["total"] == 30000
        assert corpus.page('"pie" -cake')["total"] == 30000
    finally:
        corpus.run("RESET statement_timeout")
        corpus.run("DELETE FROM kbsearch.organizations WHERE id = %s", corpus.org_id)


@pytest.mark.parametrize(
    "change", ["language = 'simple'", "reference_length = 7"], ids=["another language", "another reference length"]
)
def test_a_cursor_does_not_outlive_what_its_scores_are_made_of(corpus: Corpus, change: str) -> None:
    for _ in range(5):
        corpus.article("zebra beta")
    cursor = corpus.page("a beta zebra", limit=2)["next_cursor"]
    corpus.run(f"UPDATE kbsearch.organizations SET {change} WHERE id = %s", corpus.org_id)
    with refused("KBCUR"):
        corpus.page("a beta zebra", limit=2, cursor=cursor)


def test_later_pages_have_the_legs_of_the_first_and_say_why(corpus: Corpus) -> None:
    articles = [corpus.article("zebra") for _ in range(4)]
    space = corpus.space()
    corpus.run("UPDATE kbsearch.organizations SET active_space_id = %s WHERE id = %s", space, corpus.org_id)
    first = corpus.page("zebra", "[1,0]", limit=2)
    assert first["legs"]["vector"]["reason"] == "no_embedded_chunks"
    corpus.run(
        "INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding)"
        " SELECT c.org_id, %s, c.id, c.article_id, '[1,0]' FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %s",
        space,
        corpus.org_id,
    )
    second = corpus.page("zebra", "[1,0]", limit=2, cursor=first["next_cursor"])
    assert second["legs"]["vector"] == {**first["legs"]["vector"]}
    assert [item["article_id"] for item in (*first["items"], *second["items"])] == articles

    embedded = corpus.page("zebra", "[1,0]", limit=2)
    corpus.run("DELETE FROM kbsearch.kb_article_embeddings WHERE org_id = %s", corpus.org_id)
    after = corpus.page("zebra", "[1,0]", limit=2, cursor=embedded["next_cursor"])
    assert (after["legs"]["vector"]["takes_part"], after["legs"]["vector"]["reason"]) == (True, None)


def test_an_empty_page_in_the_middle_is_not_the_end(corpus: Corpus) -> None:
    for _ in range(3):
        corpus.article("zebra")
    first = corpus.page("zebra", limit=2)
    middle = corpus.page("zebra", limit=0, cursor=first["next_cursor"])
    assert (middle["items"], middle["end_reached"], middle["next_cursor"], middle["total"]) == (
        [],
        False,
        first["next_cursor"],
        3,
    )
    last = corpus.page("zebra", limit=2, cursor=first["next_cursor"])["items"][-1]["cursor"]
    end = corpus.page("zebra", limit=0, cursor=last)
    assert (end["end_reached"], end["next_cursor"], end["total"]) == (True, None, 3)


def test_old_string_syntax_changes_nothing(corpus: Corpus) -> None:
    article = corpus.article("apple pie")
    corpus.run("SET escape_string_warning = off")
    corpus.run("SET standard_conforming_strings = off")
    try:
        with psycopg.connect(corpus.connection.info.dsn, autocommit=True) as fresh:
            fresh.execute("SET standard_conforming_strings = off")
            found = fresh.execute(
                b"SELECT article_id FROM kbsearch.search_kb_hybrid_v1(%s, %s)", (corpus.org_id, '"apple pie" -cake')
            ).fetchall()
    finally:
        corpus.run("RESET standard_conforming_strings")
    assert found == [(article,)]


def test_a_dash_before_a_word_is_punctuation(corpus: Corpus) -> None:
    article = corpus.article("Our policy \u2014refunds and returns\u2014 explained")
    assert corpus.found("policy \u2014refunds and returns\u2014 explained") == [article]
    assert corpus.found("policy -refunds") == []


def test_kinds_must_be_a_simple_list(corpus: Corpus) -> None:
    with refused("KBFLT"):
        corpus.page("zebra", kinds=[["a", "b"], ["c", "d"]])


def test_two_writers_of_a_new_article_store_it_once(corpus: Corpus, shared_database: str) -> None:
    upsert = (
        b"SELECT kbsearch.upsert_kb_article_v1(p_org_id => %s, p_external_ref => 'zz', p_title => 't', p_body => %s)"
    )
    ids: list[int] = []

    def second() -> None:
        with psycopg.connect(shared_database, autocommit=True) as connection:
            row = connection.execute(upsert, (corpus.org_id, "second")).fetchone()
            ids.append(0 if row is None else row[0])

    with psycopg.connect(shared_database) as first:
        row = first.execute(upsert, (corpus.org_id, "first")).fetchone()
        other = threading.Thread(target=second)
        other.start()
        time.sleep(0.3)
        first.commit()
    other.join(10)
    assert row is not None
    assert ids == [row[0]]
    assert corpus.found("second") == [row[0]]
    assert corpus.found("first") == []
