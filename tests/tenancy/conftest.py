"""A database with two organisations under row-level security, and the roles that use it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.conftest import Databases
from tests.load import Database
from tests.oracle import BUILT_IN, Article, Chunk, Search
from tests.strategies import Organisation, numbered

A, B, NOBODY = 710001, 710002, 710009
"""Two organisations, and the id of none; their digits occur in nothing else."""

RIGHTS = ("reader", "writer", "admin")
QUESTION = Search(words=("lamp", "stone"), vector=(1, 0), profile=BUILT_IN[0])


@dataclass(slots=True)
class Tenants:
    """Where A and B live.

    Attributes:
        dsn: connection string of the owner.
        admin: connection string of a superuser.
        roles: names of the roles by what they may.
        given: ids of B's, by the arguments of functions that take them; A has none of them.
    """

    dsn: str
    admin: str
    owner: str
    roles: dict[str, str]
    given: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def connected(
        self, right: str, org_id: int | str | None, setting: str = "kbsearch.org_id"
    ) -> Iterator[psycopg.Connection[Any]]:
        """A session of a role, or of the owner, bound to an organisation."""
        with psycopg.connect(self.admin, autocommit=True) as connection:
            name = self.owner if right == "owner" else self.roles[right]
            connection.execute("SET search_path = ''")
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(name)))
            if org_id is not None:
                connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", [setting, str(org_id)])
            yield connection


def shapes(word: str) -> Organisation:
    chunks = (Chunk(0, f"{word} lamp stone", vector=(1, 0)), Chunk(0, "cloud milk", vector=(3, 4)))
    return Organisation(
        numbered(
            [
                Article(0, chunks, title=title, published=title != "draft")
                for title in ("lamp", "stone", "draft", "milk", "lamp")
            ],
            1 if word == "north" else 9001,
            1 if word == "north" else 9001,
            seed=1,
        )
    )


def load(tenants: Tenants) -> None:
    """A and B, each with articles (one of them a draft), a cache, a log, a source and a stored ranking."""
    with psycopg.connect(tenants.dsn, autocommit=True) as connection:
        db = Database(tenants.dsn, connection)
        db.prepare()
        space = db.spaces[2][0]
        for sequence in ("kb_articles_id_seq", "kb_article_chunks_id_seq"):
            connection.execute("SELECT pg_catalog.setval(%s, 100000)", [f"kbsearch.{sequence}"])
        for org_id, word in ((A, "north"), (B, "south")):
            db.load(shapes(word), org_id=org_id)
            connection.execute("UPDATE kbsearch.organizations SET arbitration_log = 'text' WHERE id = %s", [org_id])
            connection.execute(
                "WITH i AS (INSERT INTO kbsearch.kb_embedding_inputs (org_id, input_sha256, input) VALUES (%(org)s, sha256('x'), 'x'))"
                "INSERT INTO kbsearch.kb_embedding_cache (org_id, input_sha256, space_id, role, embedding) "
                "VALUES (%(org)s, sha256('x'), %(space)s, 'query', '[1,0]')",
                {"org": org_id, "space": space},
            )
            connection.execute(
                "INSERT INTO kbsearch.kb_embedding_counts (org_id, space_id, role) VALUES (%s, %s, 'query')",
                [org_id, space],
            )
            connection.execute("INSERT INTO kbsearch.kb_ingest_sources (org_id, name) VALUES (%s, 'files')", [org_id])
            connection.execute(
                "SELECT kbsearch.create_kb_ranking_profile_v1(%s, %s, 'keyword', 'bm25', 0, 1)", [org_id, word]
            )
            connection.execute("SELECT kbsearch.create_kb_arbitration_policy_v1(%s, %s)", [org_id, word])
            connection.execute("SELECT kbsearch.set_kb_cursor_key_v1(%s)", [org_id])
            connection.execute("SELECT kbsearch.create_kb_ann_index_v1(%s, %s)", [org_id, space])
            manifest = db.value(
                "SELECT kbsearch.arbitrate_kb_search_v1(%s, 'lamp stone', '[1,0]', p_profile => 'arbitrate@1')",
                [org_id],
            )
            connection.execute("SELECT kbsearch.log_kb_arbitration_v1(%s, %s, 'lamp stone')", [org_id, Jsonb(manifest)])
            snapshot = db.value("SELECT s.snapshot FROM kbsearch.open_kb_search_v1(%s, 'lamp stone') AS s", [org_id])
        article = db.value("SELECT max(a.id) FROM kbsearch.kb_articles AS a WHERE a.org_id = %s AND a.published", [B])
        tenants.given |= {
            "p_article_id": article,
            "p_article_ids": [article],
            "p_chunk_id": db.value(
                "SELECT max(c.id) FROM kbsearch.kb_article_chunks AS c WHERE c.article_id = %s", [article]
            ),
            "p_external_ref": f"ref-{article}",
            "p_snapshot": snapshot,
            "p_profile": "south@1",
            "p_policy": "south@1",
            "p_space_id": space,
            "p_cursor": db.page(B, QUESTION, p_limit=1)["next_cursor"],
            "p_manifest": Jsonb(manifest),
        }


@pytest.fixture(scope="module")
def tenants(databases: Databases, template: str) -> Iterator[Tenants]:
    """A and B under row-level security from the setting kbsearch.org_id."""
    if not databases.has_role or not databases.is_superuser:
        pytest.skip("needs a superuser, and roles to be made")
    dsn = databases.create(template)
    admin = databases.admin(dsn)
    made = Tenants(dsn, admin, databases.role, {right: f"kb_test_{right}_{uuid.uuid4().hex[:8]}" for right in RIGHTS})
    try:
        load(made)
        with psycopg.connect(admin, autocommit=True) as connection:
            for name in made.roles.values():
                connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(name)))
                connection.execute(sql.SQL("GRANT USAGE ON SCHEMA ext TO {}").format(sql.Identifier(name)))
        with psycopg.connect(dsn, autocommit=True) as connection:
            for right, name in made.roles.items():
                connection.execute("SELECT kbsearch.grant_kb_rights_v1(%s, %s)", [right, name])
            connection.execute("SELECT kbsearch.enable_kb_row_security_v1('setting')")
        yield made
    finally:
        databases.drop(dsn)
        with psycopg.connect(databases.server_dsn, autocommit=True) as connection:
            for name in made.roles.values():
                connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(name)))


class Say(Protocol):
    """Runs a statement and gives its rows, or the whole error."""

    def __call__(self, connection: psycopg.Connection[Any], statement: str, parameters: Any = ()) -> Any:
        """Run it; nothing of it stays."""


@pytest.fixture
def say() -> Say:
    """Runs a statement and gives its rows as text, or the whole error; nothing of it stays."""

    def run(connection: psycopg.Connection[Any], statement: str, parameters: Any = ()) -> Any:
        try:
            with connection.transaction(force_rollback=True):
                cursor = connection.execute(statement.encode(), parameters)
                return cursor.fetchall() if cursor.description else cursor.rowcount
        except psycopg.Error as error:
            diag = error.diag
            return (
                error.sqlstate,
                diag.message_primary,
                diag.message_detail,
                diag.message_hint,
                diag.table_name,
                diag.constraint_name,
            )

    return run
