from __future__ import annotations

import psycopg
import pytest

from kbsearch import errors


@pytest.mark.parametrize("sqlstate", sorted(errors.ERRORS_BY_SQLSTATE))
def test_every_sqlstate_has_its_class(server_dsn: str, sqlstate: str) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute(
            f"DO $$BEGIN RAISE EXCEPTION 'what' USING ERRCODE = '{sqlstate}', DETAIL = '{{\"a\": 1}}', HINT = 'do'; END$$".encode()
        )
    ours = errors.translate(caught.value)
    assert type(ours) is errors.ERRORS_BY_SQLSTATE[sqlstate]
    assert (str(ours), ours.sqlstate, ours.detail, ours.hint) == ("what", sqlstate, {"a": 1}, "do")


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
