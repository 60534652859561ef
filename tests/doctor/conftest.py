from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import Databases
from tests.doctor.patient import Patient


@pytest.fixture(scope="session")
def healthy(databases: Databases, template: str) -> Iterator[str]:
    """Name of a database with one healthy organisation, `shop`, to be cloned."""
    dsn = databases.create(template)
    try:
        Patient(dsn, databases.admin(dsn)).organization("shop")
        yield str(conninfo_to_dict(dsn)["dbname"])
    finally:
        databases.drop(dsn)


@pytest.fixture
def patient(databases: Databases, healthy: str) -> Iterator[Patient]:
    """A fresh database with one healthy organisation, `shop`."""
    dsn = databases.create(healthy)
    try:
        yield Patient(dsn, databases.admin(dsn))
    finally:
        databases.drop(dsn)


@pytest.fixture
def empty(database: str, admin: Callable[[str], str]) -> Patient:
    """A fresh database without organisations."""
    return Patient(database, admin(database))


@pytest.fixture
def role(patient: Patient) -> Iterator[str]:
    """A role without any rights, which an administrator may step into (SET ROLE)."""
    name = f"kbsearch_doctor_{uuid.uuid4().hex[:12]}"
    patient.operate(f"CREATE ROLE {name} NOSUPERUSER", f"GRANT {name} TO CURRENT_USER")
    try:
        yield name
    finally:
        patient.operate(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.fixture
def as_role(patient: Patient, role: str) -> Callable[..., object]:
    """Runs statements with the rights of that role alone."""

    def run(*statements: str) -> object:
        with psycopg.connect(patient.admin_dsn, autocommit=True) as connection:
            connection.execute(f"SET ROLE {role}".encode())
            connection.execute("SET search_path = ''")
            row = None
            for statement in statements:
                cursor = connection.execute(statement.encode())
                row = cursor.fetchone() if cursor.description else None
            return None if row is None else row[0]

    return run
