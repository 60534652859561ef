from __future__ import annotations

import re
from http import HTTPStatus

import psycopg
import pytest
import sqlalchemy as sa

from kbsearch import errors, migrate
from tests.client.worlds import engine


@pytest.mark.parametrize("sqlstate", sorted(errors.ERRORS_BY_SQLSTATE))
def test_every_sqlstate_has_its_class(server_dsn: str, sqlstate: str) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(
            f"DO $$BEGIN RAISE EXCEPTION 'what' USING ERRCODE = '{sqlstate}', DETAIL = '{{\"a\": 1}}', HINT = 'do'; END$$".encode()
        )
    ours = errors.translate(caught.value)
    assert type(ours) is errors.ERRORS_BY_SQLSTATE[sqlstate]
    assert (str(ours), ours.sqlstate, ours.detail, ours.hint) == ("what", sqlstate, {"a": 1}, "do")


def test_every_sqlstate_that_the_functions_raise_has_a_class() -> None:
    raised = {
        state
        for file in migrate.sql_root().rglob("*.sql")
        if file.name != "head.sql"
        for state in re.findall(r"'(KB[A-Z]{3})'", file.read_text(encoding="utf-8"))
    }
    assert raised == set(errors.ERRORS_BY_SQLSTATE)


def test_an_unknown_sqlstate_of_the_class_is_still_ours(server_dsn: str) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute("DO $$BEGIN RAISE EXCEPTION 'what' USING ERRCODE = 'KBXYZ', DETAIL = 'no json'; END$$")
    ours = errors.translate(caught.value)
    assert type(ours) is errors.KBSearchError
    assert (ours.sqlstate, ours.detail, ours.hint) == ("KBXYZ", {"text": "no json"}, None)


def test_other_errors_stay_the_drivers(server_dsn: str) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute("SELECT 1 / 0")
    assert errors.translate(caught.value) is caught.value
    with pytest.raises(psycopg.errors.DivisionByZero):
        errors.raise_translated(caught.value)


@pytest.mark.parametrize(
    ("statement", "ours"),
    [
        ("SELECT 1 FROM kbsearch.organizations", True),
        ("SELECT kbsearch.search_kb_hybrid_v1()", True),
        ("CREATE TABLE kbsearch.x (id int)", True),
        ("SELECT 1 FROM kbsearch_of_mine", False),
        ("SELECT 1 FROM nowhere.organizations", False),
    ],
)
def test_what_is_missing_of_kbsearch_is_not_installed(server_dsn: str, statement: str, ours: bool) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    assert isinstance(errors.translate(caught.value), errors.NotInstalledError) is ours


def test_a_dimension_error_is_a_vector_error() -> None:
    assert issubclass(errors.DimensionError, errors.VectorError)
    assert all(issubclass(error, errors.KBSearchError) for error in errors.ERRORS_BY_SQLSTATE.values())


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_sqlalchemys_exceptions_are_translated(server_dsn: str, driver: str) -> None:
    with engine(server_dsn, driver).connect() as connection:
        with pytest.raises(sa.exc.DBAPIError) as caught:
            connection.exec_driver_sql(
                "DO $$BEGIN RAISE EXCEPTION 'what' USING ERRCODE = 'KBLIM', DETAIL = '{\"a\": 1}', HINT = 'do'; END$$"
            )
        ours = errors.translate(caught.value)
        assert isinstance(ours, errors.LimitError)
        assert (str(ours), ours.sqlstate, ours.detail, ours.hint) == ("what", "KBLIM", {"a": 1}, "do")
        connection.rollback()
        with pytest.raises(sa.exc.DBAPIError) as caught:
            connection.exec_driver_sql("SELECT 1 / 0")
        assert errors.translate(caught.value) is caught.value
        assert errors.sqlstate(caught.value) == "22012"


def test_an_exception_without_a_sqlstate_is_left_alone() -> None:
    error = ValueError("no database is in this")
    assert errors.translate(error) is error
    assert errors.sqlstate(error) == ""
    ours = errors.ConnectionKindError("already ours")
    assert errors.translate(ours) is ours


def every(kind: type[errors.KBSearchError] = errors.KBSearchError) -> set[type[errors.KBSearchError]]:
    return {kind}.union(*map(every, kind.__subclasses__()))


def test_every_error_has_a_status_of_http() -> None:
    kinds = {kind.__name__: kind.http_status for kind in every() if kind.__module__ == "kbsearch.errors"}
    assert kinds == {
        "KBSearchError": 500,
        "OrganizationError": 404,
        "QueryTextError": 422,
        "VectorError": 422,
        "DimensionError": 422,
        "SpaceError": 422,
        "LanguageError": 422,
        "ProfileError": 422,
        "ArticleError": 422,
        "LimitError": 400,
        "CursorError": 400,
        "FilterError": 400,
        "ChunkError": 413,
        "ApproximateIndexError": 409,
        "IndexStateError": 409,
        "SnapshotError": 410,
        "SourceError": 404,
        "ArbitrationError": 422,
        "PolicyError": 422,
        "EscalatedError": 409,
        "SecurityError": 403,
        "NotInstalledError": 503,
        "MigrationError": 500,
        "EmbeddedServerError": 503,
        "ConnectionKindError": 500,
        "BudgetError": 504,
        "StatementTimeoutError": 504,
    }
    assert errors.LimitError("x").http_status == 400
    assert {HTTPStatus(status).value for status in kinds.values()} == set(kinds.values())


def test_a_detail_that_python_cannot_read_is_kept_as_text() -> None:
    class Deep(Exception):  # noqa: N818
        sqlstate = "KBFLT"
        pgcode = None

        class diag:  # noqa: N801
            message_primary = "no"
            message_detail = '{"given": ' + "[" * 100_000 + "]" * 100_000 + "}"
            message_hint = None

    error = errors.translate(Deep())
    assert isinstance(error, errors.FilterError)
    assert error.detail["text"].startswith('{"given": [[[')
