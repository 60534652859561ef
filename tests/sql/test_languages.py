"""Articles of several languages in one organisation."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.corpus import Corpus, refused


def keyword(corpus: Corpus, text: str, **arguments: Any) -> dict[int, float]:
    return {row["article_id"]: row["keyword_score"] for row in corpus.search(text, **arguments)}


def test_an_articles_language_decides_its_lexemes(corpus: Corpus) -> None:
    german = corpus.article("Die Häuser der Stadt", language="german")
    english = corpus.article("The houses of the town")
    assert corpus.found("haus") == [german]
    assert corpus.found("house") == [english]
    assert corpus.found("Häusern") == [german]


def test_a_question_is_analysed_in_every_language_in_use(corpus: Corpus) -> None:
    corpus.article("The houses of the town")
    assert corpus.page("maisons")["legs"]["keyword"]["languages"] == ["english"]
    french = corpus.article("Les maisons de la ville", language="french")
    corpus.article("Unveröffentlicht", language="german", published=False)
    legs = corpus.page("maison")["legs"]["keyword"]
    assert (legs["languages"], legs["words"], legs["unknown_words"]) == (["english", "french"], ["maison"], [])
    assert corpus.found("maison") == [french]


def test_the_named_language_alone_decides_about_words(corpus: Corpus) -> None:
    german = corpus.article("Gift in der Suppe", language="german")
    english = corpus.article("A gift for you")
    assert set(corpus.found("gift")) == {german, english}
    assert corpus.found("gift", language="german") == [german]
    assert corpus.found("gift", language="pg_catalog.english") == [english]
    assert corpus.page("gift", language="french")["legs"]["keyword"] == {
        "takes_part": False,
        "reason": "no_known_words",
        "languages": ["french"],
        "words": [],
        "unknown_words": ["gift"],
        "ignored": [],
    }


def test_a_language_that_there_is_not_is_refused(corpus: Corpus) -> None:
    for name in ("klingon", "", "nowhere.english", "German", "a.b.c", "english "):
        with refused("KBLNG") as refusal:
            corpus.search("house", language=name)
        assert refusal.detail == {"argument": "p_language", "given": name}
        with refused("KBLNG"):
            corpus.call("upsert_kb_article_v1", title="x", language=name)


def test_articles_of_another_language_move_no_score_of_this_one(corpus: Corpus) -> None:
    for text in ("reset your password", "a new password", "the town hall", "reset reset"):
        corpus.article(text)
    before = keyword(corpus, "reset the password")
    for _ in range(3):
        corpus.article("Das Passwort zurücksetzen, the password", language="german")
    after = keyword(corpus, "reset the password")
    assert before.items() <= after.items()
    assert keyword(corpus, "reset the password", language="english") == before


def test_a_stray_word_of_the_question_is_not_all_that_an_article_needs(corpus: Corpus) -> None:
    answer = corpus.article("Reset the password of your account in the settings of the town hall")
    corpus.article("town and country")
    stray = corpus.article("Die Band heißt the", language="german")
    ranking = keyword(corpus, "reset the password")
    assert ranking[answer] > 2 * ranking[stray]


@pytest.mark.parametrize("question", ['"die Häuser"', "Stadt -Häuser", 'Stadt -"der Stadt"'])
def test_phrases_and_exclusions_hold_in_every_language(corpus: Corpus, question: str) -> None:
    both = corpus.article("Die Häuser der Stadt", language="german")
    one = corpus.article("Die Stadt", language="german")
    english = corpus.article("town", vector=[1, 0])
    corpus.run("UPDATE kbsearch.organizations SET active_space_id = %s WHERE id = %s", corpus.space(), corpus.org_id)
    wanted = [both] if question.startswith('"') else [one]
    others = [] if question.startswith('"') else [english]
    assert set(corpus.found(question, [1, 0])) == {*wanted, *others}
    assert set(corpus.found(question, [1, 0], language="english")) == {*wanted, *others} - ({both, one})


def test_a_change_of_language_reaches_the_chunks(corpus: Corpus) -> None:
    article = corpus.article("Die Häuser der Stadt")
    assert corpus.found("haus") == []
    corpus.run("UPDATE kbsearch.kb_articles SET language = 'german' WHERE org_id = %s", corpus.org_id)
    assert corpus.found("haus") == [article]
    corpus.run("UPDATE kbsearch.organizations SET language = 'german' WHERE id = %s", corpus.org_id)
    assert corpus.found("haus") == [article]
    assert corpus.value("SELECT count(*) FROM kbsearch.count_kb_languages_v1(%s)", corpus.org_id) == 0
    corpus.run("UPDATE kbsearch.organizations SET language = 'simple' WHERE id = %s", corpus.org_id)
    assert corpus.found("haus") == [article]
    corpus.run("UPDATE kbsearch.kb_articles SET language = NULL WHERE org_id = %s", corpus.org_id)
    assert corpus.found("haus") == []


def test_the_articles_own_language_and_the_organisations_are_one_where_they_are_equal(corpus: Corpus) -> None:
    named, unnamed = corpus.article("town halls", language="english"), corpus.article("town halls")
    rows = corpus.search("hall")
    assert [row["article_id"] for row in rows] == sorted([named, unnamed])
    assert {row["tied_with"] for row in rows} == {1}


def test_a_cursor_keeps_the_languages_of_page_1(corpus: Corpus) -> None:
    """What is written in a language new to the organisation meanwhile is not there for the later pages, and disturbs none."""
    articles = [corpus.article(f"town hall {'x ' * n}") for n in range(6)]
    corpus.article("Rathaus town", language="german")
    ranking = corpus.search("town hall rathaus")
    first = ranking[1]["cursor"]
    corpus.article("la ville town", language="french")
    corpus.article("Rathaus", language="german")
    rest = corpus.search("town hall rathaus", cursor=first)
    known = [row["article_id"] for row in ranking]
    assert [row["article_id"] for row in rest if row["article_id"] in known] == known[2:]
    assert {row["article_id"]: row["score"] for row in ranking[2:]}.items() <= {
        row["article_id"]: row["score"] for row in rest
    }.items()
    assert set(articles) <= set(known)


def test_a_cursor_is_for_the_named_language(corpus: Corpus) -> None:
    for n in range(3):
        corpus.article(f"gift {n}", language="german")
        corpus.article(f"gift {n}")
    cursor = corpus.search("gift", language="german")[0]["cursor"]
    assert len(corpus.search("gift", language="pg_catalog.german", cursor=cursor)) == 2
    for other in ("english", None):
        with refused("KBCUR"):
            corpus.search("gift", language=other, cursor=cursor)


def test_a_forged_language_in_a_cursor_is_refused(corpus: Corpus) -> None:
    corpus.article("gift", language="german")
    payload = base64.urlsafe_b64decode(corpus.search("gift")[0]["cursor"] + "==")[9:].decode()
    for tag in ("\x1fklingon", "german", "\x1f"):
        forged = payload.replace(b"\x1fgerman".hex(), tag.encode().hex())
        with refused("KBCUR"):
            corpus.search("gift", cursor=corpus.value("SELECT kbsearch.seal_kb_cursor_v1(%s)", forged))


def test_a_configuration_of_the_hosts_own(corpus: Corpus, shared_database: str, admin: Callable[[str], str]) -> None:
    with psycopg.connect(admin(shared_database)) as host:
        host.execute("CREATE SCHEMA texts")
        host.execute("GRANT USAGE ON SCHEMA texts TO PUBLIC")
        host.execute('CREATE TEXT SEARCH CONFIGURATION texts."Plain words" (COPY = pg_catalog.simple)')
    article = corpus.call("upsert_kb_article_v1", title="The the", language="texts.Plain words")
    assert corpus.found("the") == [article]
    assert corpus.page("the")["legs"]["keyword"]["languages"] == ["english", "texts.Plain words"]


def test_a_configuration_that_was_renamed_is_an_error_and_no_silence(corpus: Corpus) -> None:
    """Else -word would not exclude its articles any more."""
    corpus.run("CREATE TEXT SEARCH CONFIGURATION kbsearch.one (COPY = pg_catalog.german)")
    secret, other = corpus.article("streng geheim town", language="kbsearch.one"), corpus.article("town")
    assert corpus.found("town -geheim") == [other]
    cursor = corpus.search("town", limit=1)[0]["cursor"]
    corpus.run("ALTER TEXT SEARCH CONFIGURATION kbsearch.one RENAME TO two")
    for others in ({}, {"cursor": cursor}, {"language": "german"}):
        with refused("KBLNG") as refusal:
            corpus.search("town", **others)
        assert refusal.detail["languages"] == ["kbsearch.one"]
    corpus.call("reanalyze_kb_chunks_v1")
    assert corpus.found("town -geheim") == [other]
    assert set(corpus.found("town")) == {secret, other}
    corpus.run("DROP TEXT SEARCH CONFIGURATION kbsearch.two")
    with refused("KBLNG") as refusal:
        corpus.run(
            "UPDATE kbsearch.kb_article_chunks SET content = 'x' WHERE org_id = %s AND article_id = %s",
            corpus.org_id,
            secret,
        )
    assert refusal.detail["article_id"] == secret
    corpus.run(
        "UPDATE kbsearch.kb_articles SET language = 'german' WHERE org_id = %s AND id = %s", corpus.org_id, secret
    )
    assert corpus.found("town -geheim") == [other]


def test_a_long_question_in_many_languages_is_answered(corpus: Corpus) -> None:
    """The words that are unknown in each take neither a place in every row's cursor nor a comparison with every other."""
    for language in ("german", "french", "dutch", "danish", "swedish", "spanish", "italian"):
        corpus.article("town hall", language=language)
    question = " ".join(f"q{number}" for number in range(4500)) + " town"
    corpus.run("SET statement_timeout = '20s'")
    rows = corpus.search(question)
    assert len(rows) == 7
    assert max(len(row["cursor"]) for row in rows) < 1000
    assert [row["article_id"] for row in corpus.search(question, cursor=rows[2]["cursor"])] == [
        row["article_id"] for row in rows[3:]
    ]
