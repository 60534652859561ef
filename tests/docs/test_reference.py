"""The reference says everything: no argument, column or error of a function that people call is left out."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from kbsearch import migrate
from tools import docs_cli, docs_sql
from tools.docs_sql import Function, Relation

ROOT = Path(__file__).resolve().parents[2]
CALLED = {
    "calibrate_kb_corpus_v1",
    "compact_kb_postings_v1",
    "create_kb_ranking_profile_v1",
    "delete_kb_article_v1",
    "rebuild_kb_index_v1",
    "reserve_kb_articles_v1",
    "search_kb_hybrid_page_v1",
    "search_kb_hybrid_v1",
    "upsert_kb_article_v1",
}
WRITTEN_BY_APPLICATIONS = {
    "kb_article_chunks",
    "kb_article_embeddings",
    "kb_articles",
    "kb_embedding_spaces",
    "kb_source_kinds",
    "organizations",
}


@pytest.fixture(scope="session")
def functions(shared_database: str) -> list[Function]:
    with psycopg.connect(shared_database) as connection:
        return docs_sql.read_functions(connection)


@pytest.fixture(scope="session")
def relations(shared_database: str) -> list[Relation]:
    with psycopg.connect(shared_database) as connection:
        return docs_sql.read_relations(connection)


def test_functions_that_people_call_are_public(functions: list[Function]) -> None:
    assert {one.name for one in functions if one.public} >= CALLED


def test_the_comment_of_a_public_function_describes_every_argument_and_column(functions: list[Function]) -> None:
    assert [gap for one in functions if one.public for gap in one.gaps()] == []


def test_the_comment_of_a_public_function_names_the_errors_that_it_raises_itself(functions: list[Function]) -> None:
    sources = {file.stem: file for file in (migrate.sql_root() / "functions").rglob("*.sql")}
    left_out = {}
    for one in functions:
        if one.public:
            raised = set(re.findall(r"'(KB[A-Z]{3})'", sources[one.name].read_text(encoding="utf-8")))
            left_out[one.name] = raised - set(re.findall(r"KB[A-Z]{3}", one.sections["Errors"].text))
    assert {name: errors for name, errors in left_out.items() if errors} == {}


def test_every_column_of_a_table_that_applications_write_is_described(relations: list[Relation]) -> None:
    tables = {one.name: one for one in relations}
    assert [
        f"{name}.{column.name}"
        for name in sorted(WRITTEN_BY_APPLICATIONS)
        for column in tables[name].columns
        if not column.comment
    ] == []


def test_the_page_of_functions_has_all_of_them(functions: list[Function]) -> None:
    page = docs_sql.functions_page(functions)
    for one in functions:
        heading = f"### {one.name} {{ #{one.name} }}" if one.public else f'??? note "{one.name}"'
        assert page.count(heading) == 1, one.name


def test_defaults_are_as_people_write_them(functions: list[Function]) -> None:
    (search,) = [one for one in functions if one.name == "search_kb_hybrid_v1"]
    defaults = {argument.name: (argument.type, argument.default) for argument in search.arguments}
    assert defaults["p_org_id"] == ("bigint", None)
    assert defaults["p_query_embedding"] == ("vector", "NULL")
    assert defaults["p_kinds"] == ("text[]", "NULL")
    assert defaults["p_limit"] == ("bigint", "10")


@pytest.mark.parametrize(
    ("comment", "gap"),
    [
        ("Sums.\n\nArguments:\np_a: One.\n\nReturns: it.\n\nErrors: none.", "p_b is not described"),
        (
            "Sums.\n\nArguments:\np_a: One.\np_b: Two.\np_c: Three.\n\nReturns: it.\n\nErrors: none.",
            "p_c does not exist",
        ),
        ("Sums.\n\nArguments:\np_a: One.\np_b: Two.\n\nErrors: none.", "Returns: is missing"),
        ("Sums.\n\nArguments:\np_a: One.\np_b: Two.\n\nReturns: it.", "Errors: is missing"),
    ],
)
def test_a_gap_in_a_comment_is_found(comment: str, gap: str) -> None:
    arguments = tuple(docs_sql.Argument(name, "bigint", None) for name in ("p_a", "p_b"))
    made = Function("sum_v1", "search", comment, "bigint", arguments, (), "STABLE", definer=False)
    assert [found for found in made.gaps() if found.endswith(gap)] != []


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("p_limit of 1 | 2", "`p_limit` of 1 \\| 2"),
        ("words in <mark> & more", "words in `<mark>` &amp; more"),
        ('{"policy": 3, "*": 0}; *', '`{"policy": 3, "*": 0}`; \\*'),
        ("see organizations.ranking_profile.", "see `organizations.ranking_profile`."),
    ],
)
def test_comments_become_markdown_that_shows_them_as_they_are(text: str, markdown: str) -> None:
    assert docs_sql.prose(text) == markdown


def test_the_page_of_commands_has_every_command_and_option() -> None:
    page = docs_cli.commands_page()
    for name in ("db upgrade", "demo", "evaluate", "ingest", "search"):
        assert f"## kbsearch {name} {{" in page
    assert "`--limit" in page
    assert "Articles on the page, at most 1000." in page
    assert "[default: 10]" in page


def test_the_page_of_variables_has_those_of_options_and_those_read_in_the_source() -> None:
    page = docs_cli.environment_page()
    assert re.search(r"^\| `KBSEARCH_DSN` \| .*`--dsn`", page, re.MULTILINE)
    assert re.search(r"^\| `KBSEARCH_HOME` \| Directory", page, re.MULTILINE)
    assert "LC_ALL" not in page  # it is set for a while, and is nobody's to choose
