from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.doctor.patient import Patient


@pytest.fixture
def patient(database: str, admin: Callable[[str], str]) -> Patient:
    """A fresh database with one healthy organisation, `shop`."""
    patient = Patient(database, admin(database))
    patient.organization("shop")
    return patient


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
