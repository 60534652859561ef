from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from kbsearch import migrate
from tests.conftest import Databases
from tests.doctor.patient import Patient
from tests.http.postgrest import PostgREST

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/http.md").read_text(encoding="utf-8")
ROLES = ("kb_reader", "anon", "authenticated", "service_role", "authenticator", "installer")


@dataclass(frozen=True, slots=True)
class Site:
    """A database as Supabase has one: pgvector in `extensions`, kbsearch installed by a role without superuser, and what the page says to run.

    Attributes:
        installer: connection string of the role that installed kbsearch.
        authenticator: connection string of the role that PostgREST connects as.
        admin: connection string of a superuser.
        suffix: what the roles' names end with here; roles belong to the whole server.
    """

    installer: str
    authenticator: str
    admin: str
    suffix: str

    def role(self, name: str) -> str:
        return f"{name}_{self.suffix}"

    def local(self, text: str) -> str:
        """Text with the roles named as they are named here."""
        return re.sub(rf"\b({'|'.join(ROLES)})\b", lambda found: self.role(found[1]), text)

    def postgrest(self, *schemas: str, prepared: bool = True, max_rows: int | None = None) -> PostgREST:
        return PostgREST(self.authenticator, schemas, anonymous=self.role("anon"), prepared=prepared, max_rows=max_rows)

    @property
    def patient(self) -> Patient:
        return Patient(self.installer, self.admin)


def sql_blocks() -> list[str]:
    """The SQL of the page, block by block."""
    return re.findall(r"^```sql[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site(databases: Databases) -> Iterator[Site]:
    suffix, password = uuid.uuid4().hex[:10], uuid.uuid4().hex
    admin = databases.bare()
    name = psycopg.conninfo.conninfo_to_dict(admin)["dbname"]
    site = Site(
        installer=make_conninfo(admin, user=f"installer_{suffix}", password=password),
        authenticator=make_conninfo(admin, user=f"authenticator_{suffix}", password=password),
        admin=admin,
        suffix=suffix,
    )
    try:
        site.patient.operate(
            *site.local(
                f"""CREATE ROLE installer LOGIN CREATEROLE PASSWORD '{password}'
CREATE ROLE anon
CREATE ROLE authenticated
CREATE ROLE service_role
CREATE ROLE authenticator LOGIN NOINHERIT PASSWORD '{password}'
GRANT anon, authenticated, service_role TO authenticator
CREATE SCHEMA extensions
CREATE EXTENSION vector SCHEMA extensions
GRANT USAGE ON SCHEMA extensions TO installer WITH GRANT OPTION
GRANT CREATE ON DATABASE {name} TO installer"""
            ).splitlines()
        )
        migrate.upgrade(site.installer)
        with psycopg.connect(site.installer, autocommit=True) as connection:
            for block in sql_blocks():
                connection.execute(site.local(block).encode())
        yield site
    finally:
        databases.drop(admin)
        with psycopg.connect(databases.server_dsn, autocommit=True) as connection:
            for role in ROLES:
                connection.execute(f"DROP ROLE IF EXISTS {site.role(role)}".encode())
