from __future__ import annotations

import inspect
import json
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest

from kbsearch import statements
from kbsearch.client.plans import Settings
from kbsearch.errors import (
    ArticleError,
    CursorError,
    FilterError,
    KBSearchError,
    LimitError,
    OrganizationError,
    QueryTextError,
    SnapshotError,
    SpaceError,
    VectorError,
)
from kbsearch.models import Chunk
from kbsearch.options import (
    ArticleOptions,
    ClientOptions,
    ExplainOptions,
    FetchOptions,
    PageOptions,
    RankingOptions,
    SearchOptions,
)
from kbsearch.statements import Statement

SNAPSHOT = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    "value",
    [
        [1, 0, -2],
        [1.0, 0.0, -2.0],
        (1, 0.0, -2),
        [np.float32(1), np.float32(0), np.int64(-2)],
        np.array([1, 0, -2]),
        np.array([1, 0, -2], dtype=np.float16),
        np.array([1, 0, -2], dtype=np.float32),
        np.array([1, 0, -2], dtype=np.float64),
        np.array([9, 1, 9, 0, 9, -2], dtype=np.float32)[1::2],
    ],
)
def test_every_form_of_embedding_is_taken(value: Any) -> None:
    assert statements.vector_text(value) == "[1.0,0.0,-2.0]"


def test_a_pgvector_value_is_taken() -> None:
    pgvector = pytest.importorskip("pgvector")
    assert statements.vector_text(pgvector.Vector([1, 0, -2])) == "[1.0,0.0,-2.0]"


def test_the_digits_give_the_same_float32_back() -> None:
    vector = np.random.default_rng(1).standard_normal(384).astype(np.float32) * np.float32(1e-3)
    again = np.array(json.loads(statements.vector_text(vector)), dtype=np.float64).astype(np.float32)
    assert (again == vector).all()


@pytest.mark.parametrize(
    "value",
    [
        ["1", "2"],
        [1, "2"],
        "[1,2]",
        b"12",
        [True, False],
        np.array([True, False]),
        np.array(["1", "2"]),
        [],
        np.zeros((2, 2)),
        [[1, 2]],
        [[1], [2, 3]],
        [1, None],
        {1: 2},
        {1, 2},
        1.5,
        [float("nan"), 1],
        [float("inf"), 1],
        [1e39, 1],
        [10**400, 1],
        [1j, 1],
        np.array(1.0),
        [0.0] * 16_001,
    ],
)
def test_what_is_no_embedding_is_refused(value: Any) -> None:
    with pytest.raises(VectorError) as caught:
        statements.vector_text(value)
    assert caught.value.sqlstate == "KBVEC"


def test_a_list_of_strings_is_named_as_such() -> None:
    with pytest.raises(VectorError, match="must be made of numbers, not of str"):
        statements.vector_text(["0.1", "0.2"])


@pytest.mark.parametrize("name", ["limit", "offset"])
@pytest.mark.parametrize("value", ["3", 2.5, 3.0, True, np.True_, None, 2**63, -(2**63) - 1, [3], np.float64(3)])
def test_a_limit_or_offset_that_is_no_integer_is_refused(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {name: value}
    with pytest.raises(LimitError, match=name):
        statements.search_page(1, "a", **arguments)


@pytest.mark.parametrize("value", [0, 3, -1, 2**63 - 1, np.int32(3), np.uint64(3)])
def test_an_integer_is_passed_on(value: Any) -> None:
    assert statements.search_page(1, "a", limit=value).parameters["limit"] == int(value)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"org_id": "1"}, OrganizationError),
        ({"org_id": True}, OrganizationError),
        ({"org_id": 2**63}, OrganizationError),
        ({"text": b"a"}, QueryTextError),
        ({"text": "a\0b"}, QueryTextError),
        ({"text": "a\ud800b"}, QueryTextError),
        ({"cursor": "a\0"}, CursorError),
        ({"cursor": 1}, CursorError),
        ({"kinds": "faq"}, FilterError),
        ({"kinds": ["faq", None]}, FilterError),
        ({"kinds": ["f\0q"]}, FilterError),
        ({"kind_quota": [("faq", 1)]}, FilterError),
        ({"kind_quota": {"faq": 1.5}}, FilterError),
        ({"kind_quota": {"faq": True}}, FilterError),
        ({"metadata": {"a": {1, 2}}}, FilterError),
        ({"metadata": {"a": float("nan")}}, FilterError),
        ({"metadata": {"a": "\0"}}, FilterError),
        ({"metadata": {"a": "\\\0"}}, FilterError),
        ({"metadata": {"a": "\udfff"}}, FilterError),
        ({"min_score": "0.5"}, FilterError),
        ({"min_score": float("nan")}, FilterError),
        ({"space_id": 1.0}, SpaceError),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: dict[str, Any], error: type[KBSearchError]) -> None:
    given = {"org_id": 1, "text": "a", **arguments}
    with pytest.raises(error):
        statements.search_page(given.pop("org_id"), given.pop("text"), **given)


def test_a_backslash_before_u0000_is_no_nul() -> None:
    assert json.loads(statements.json_text({"a": "\\u0000"}, "metadata", FilterError)) == {"a": "\\u0000"}


def test_values_are_never_part_of_the_text() -> None:
    first = statements.search_page(1, "a'; DROP TABLE x; --", kinds=["x"], metadata={"a": "b"})
    assert first.sql == statements.search_page(2, "b").sql


def test_chunks_become_json() -> None:
    statement = statements.upsert_article(
        1,
        external_ref="x",
        chunks=[Chunk("text", heading="H", embedding=np.array([0.1, 1], dtype=np.float32)), Chunk("b")],
    )
    assert json.loads(statement.parameters["chunks"]) == [
        {"content": "text", "heading": "H", "embedding": [0.1, 1.0], "input_sha256": None},
        {"content": "b", "heading": None, "embedding": None, "input_sha256": None},
    ]


@pytest.mark.parametrize("chunks", ["text", [{"content": "a"}], [Chunk("a\0")], [Chunk("a\ud800")], 5])
def test_chunks_that_cannot_be_are_refused(chunks: Any) -> None:
    with pytest.raises(ArticleError):
        statements.upsert_article(1, chunks=chunks)


@pytest.mark.parametrize(
    ("function", "statement"),
    [
        ("search_kb_hybrid_page_v1", statements.search_page(1, "a")),
        ("open_kb_search_v1", statements.open_search(1, "a")),
        ("fetch_kb_page_v1", statements.fetch_page(1, SNAPSHOT)),
        ("close_kb_search_v1", statements.close_search(1, SNAPSHOT)),
        ("log_kb_arbitration_v1", statements.log_arbitration(1, {"a": 1})),
        ("explain_kb_search_v1", statements.explain_search(1, "a")),
        ("explain_kb_article_v1", statements.explain_article(1, "a", article_id=1)),
        ("explain_kb_candidates_v1", statements.explain_candidates(1, "a")),
        ("get_kb_source_v1", statements.get_source(1, 1)),
        ("upsert_kb_article_v1", statements.upsert_article(1)),
        ("delete_kb_article_v1", statements.delete_article(1)),
        ("reserve_kb_articles_v1", statements.reserve_articles(1, [])),
    ],
)
def test_arguments_are_those_of_the_function(shared_database: str, function: str, statement: Statement) -> None:
    with psycopg.connect(shared_database) as connection:
        row = connection.execute(
            "SELECT p.proargnames[:p.pronargs], p.pronargdefaults FROM pg_catalog.pg_proc AS p "
            "WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.proname = %s",
            [function],
        ).fetchone()
    assert row is not None
    assert re.findall(r"(p_\w+) =>", statement.sql) == row[0]
    assert [f"p_{name}" for name in statement.parameters] == row[0]


@pytest.mark.parametrize(
    ("builder", "options"),
    [
        (statements.page_arguments, PageOptions),
        (statements.ranking_arguments, RankingOptions),
        (statements.upsert_article, ArticleOptions),
        (Settings, ClientOptions),
    ],
)
def test_options_are_the_keyword_arguments(builder: Callable[..., Any], options: type) -> None:
    parameters = inspect.signature(builder).parameters.values()
    keywords = {
        parameter.name: parameter.annotation
        for parameter in parameters
        if parameter.name not in ("org_id", "text", "embedding")
    }
    assert list(options.__annotations__) == list(keywords)
    assert {name: given.__forward_arg__ for name, given in options.__annotations__.items()} == keywords
    documented = re.findall(r"^ {8}(\w+): ", options.__doc__ or "", re.MULTILINE)
    assert documented == list(keywords)


@pytest.mark.parametrize(
    ("options", "parts", "own"),
    [
        (ExplainOptions, (PageOptions, RankingOptions), {}),
        (SearchOptions, (PageOptions, RankingOptions), {"highlight": "bool"}),
        (FetchOptions, (PageOptions,), {"highlight": "bool"}),
    ],
)
def test_options_that_are_made_of_others(options: type, parts: tuple[type, ...], own: dict[str, str]) -> None:
    made = {name: given.__forward_arg__ for part in parts for name, given in part.__annotations__.items()} | own
    assert {name: given.__forward_arg__ for name, given in options.__annotations__.items()} == made
    assert re.findall(r"^ {8}(\w+): ", options.__doc__ or "", re.MULTILINE) == list(own)
    assert all(part.__name__ in (options.__doc__ or "") for part in parts)


@pytest.mark.parametrize("value", ["x", "", None, 5, uuid.UUID(SNAPSHOT), "a\0", SNAPSHOT + "0"])
def test_what_names_no_snapshot_is_refused(value: Any) -> None:
    with pytest.raises(SnapshotError, match="snapshot"):
        statements.fetch_page(1, value)
    with pytest.raises(SnapshotError, match="snapshot"):
        statements.close_search(1, value)


def test_a_time_to_expire_in_is_a_timedelta(shared_database: str) -> None:
    for seconds in (900, 0.000001, 86_399.999999, -2.5, 1e9):
        given = timedelta(seconds=seconds)
        value = statements.open_search(1, "a", expires_in=given).parameters["expires_in"]
        with psycopg.connect(shared_database) as connection:
            row = connection.execute("SELECT make_interval(secs => %s)", [value]).fetchone()
        assert row == (given,)
    wrong: Any
    for wrong in (900, "15 minutes", True):
        with pytest.raises(LimitError, match="timedelta"):
            statements.open_search(1, "a", expires_in=wrong)


def test_a_statement_can_be_for_another_schema() -> None:
    statement = statements.searched_space(1, None)
    assert statement.in_schema("kbsearch") == statement
    other = statement.in_schema("help_search")
    assert "kbsearch" not in other.sql
    assert other.sql.count("help_search.") == statement.sql.count("kbsearch.") == 2
    assert other.parameters == statement.parameters


@pytest.mark.parametrize(
    "statement",
    [
        statements.search_page(1, "a"),
        statements.open_search(1, "a"),
        statements.fetch_page(1, SNAPSHOT),
        statements.close_search(1, SNAPSHOT),
        statements.log_arbitration(1, {"share": "5 %: all"}),
        statements.explain_search(1, "a"),
        statements.explain_article(1, "a", article_id=1),
        statements.explain_candidates(1, "a"),
        statements.get_source(1, 1),
        statements.upsert_article(1),
        statements.delete_article(1),
        statements.reserve_articles(1, []),
        statements.searched_space(1, 1),
        statements.set_timeout(5),
        statements.restore_timeout("0"),
    ],
)
def test_any_driver_can_be_told_the_placeholders(statement: Statement) -> None:
    rest = re.sub(r"%\(\w+\)s", "", statement.sql)
    assert not re.search(r"[%:]", rest)
    assert set(re.findall(r"%\((\w+)\)s", statement.sql)) == set(statement.parameters)
