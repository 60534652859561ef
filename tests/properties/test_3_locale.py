"""Law 3: the same data and the same question give byte-identical rows, whatever the database's locale."""

# ruff: noqa: RUF001  (that letters look alike is the point)

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.types.json import Jsonb

from kbsearch import migrate
from tests.conftest import Databases

LOCALES: dict[str, LiteralString] = {
    "libc C": "LOCALE_PROVIDER libc LOCALE 'C'",
    "ICU, Turkish": "LOCALE_PROVIDER icu LOCALE 'C' ICU_LOCALE 'tr-TR'",
    "ICU, Lithuanian": "LOCALE_PROVIDER icu LOCALE 'C' ICU_LOCALE 'lt-LT'",
    "ICU, numbers by value": "LOCALE_PROVIDER icu LOCALE 'C' ICU_LOCALE 'en-u-kn-true-kf-upper'",
    "built in": "LOCALE_PROVIDER builtin LOCALE 'C' BUILTIN_LOCALE 'C.UTF-8'",
}
BUILT_IN_SINCE = 170000

# Letters that locales treat differently: dotted and dotless i, sharp s, Lithuanian accents, ligatures, digraphs, final sigma, other scripts' digits.
TEXTS = (
    "TITLE title TİTLE tıtle TITLE\u0307 IŞIK ışık ISPARTA Isparta",
    "STRASSE Straße STRAẞE straße Grüße GRÜSSE Ångström A\u030angstro\u0308m",
    "Í\u0307 i\u0307\u0301 J\u0303 Įsakymas ĮSAKYMAS ǅungla ǄUNGLA ŒUVRE œuvre ﬁle FILE",
    "ΣΊΣΥΦΟΣ Σίσυφος σίσυφοσ ПОЛИТИКА Политика ١٢٣ 123 item10 item9 item2 re-do redo",
)
LANGUAGES = ("simple", "english", "turkish", "german", "greek", "russian", "lithuanian")
QUESTIONS = (
    "title",
    "ISIK",
    "ıSıK",
    "strasse",
    "GRÜSSE -title",
    "ΣΊΣΥΦΟΣ",
    "политика",
    '"re-do redo"',
    "FILE œuvre i̇́",
    "item10",
)


@pytest.fixture(params=LOCALES)
def other(request: pytest.FixtureRequest, databases: Databases) -> Any:
    """Connection string of a database with kbsearch installed, of another locale."""
    with psycopg.connect(databases.server_dsn) as connection:
        if request.param == "built in" and connection.info.server_version < BUILT_IN_SINCE:
            pytest.skip("a provider that servers before PostgreSQL 17 do not have")
    try:
        dsn = databases.create(locale=LOCALES[request.param])
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(str(error))
    try:
        migrate.upgrade(dsn)
        yield dsn
    finally:
        databases.drop(dsn)


def rows(dsn: str) -> list[Any]:
    """All that is derived from texts, and the pages of questions."""
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('store')")
        for language in LANGUAGES:
            for number, text in enumerate(TEXTS):
                connection.execute(
                    """SELECT kbsearch.upsert_kb_article_v1(
                        p_org_id => 1, p_external_ref => %s, p_title => %s, p_language => %s, p_chunks => %s)""",
                    (f"{language} {number}", text[:5], language, Jsonb([{"content": text}])),
                )
        derived = connection.execute(
            "SELECT c.id, c.lexemes, c.term_counts, c.phrase_text FROM kbsearch.kb_article_chunks AS c ORDER BY c.id"
        ).fetchall()
        postings = connection.execute(
            "SELECT p.lexeme, u.entry FROM kbsearch.kb_postings AS p, unnest(p.entries) AS u (entry) ORDER BY p.lexeme, u.entry"
        ).fetchall()
        pages = [
            connection.execute(
                "SELECT kbsearch.search_kb_hybrid_page_v1(1, %s, p_highlight => true)::text", [question]
            ).fetchone()
            for question in QUESTIONS
        ]
    assert len(derived) == len(TEXTS) * len(LANGUAGES)
    found = [question for question, page in zip(QUESTIONS, pages, strict=True) if page and '"total": 0,' not in page[0]]
    assert found == list(QUESTIONS)
    return [derived, postings, pages]


def test_rows_do_not_depend_on_the_locale(database: str, other: str) -> None:
    assert rows(other) == rows(database)
