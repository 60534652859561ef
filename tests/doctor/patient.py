"""A database to break and to cure: written as the application does, operated on as the administrator does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from kbsearch import doctor
from kbsearch.doctor import Finding, Level
from kbsearch.doctor.base import Examination, run_check

SQL = re.compile(
    r"(ALTER|BEGIN|COMMIT|CREATE EXTENSION|DELETE|DROP|GRANT|REINDEX|REVOKE|ROLLBACK|SELECT|SET|UPDATE|VACUUM)\b"
)


@dataclass(frozen=True, slots=True)
class Patient:
    """A database with kbsearch.

    Attributes:
        dsn: connection string of the application, which owns kbsearch.
        admin_dsn: connection string of a superuser.
    """

    dsn: str
    admin_dsn: str

    def run(self, *statements: str) -> Any:
        """Run statements as the application; the first column of the last one's first row."""
        return _run(self.dsn, statements)

    def operate(self, *statements: str) -> Any:
        """Run statements as a superuser."""
        return _run(self.admin_dsn, statements)

    def without_triggers(self, *statements: str) -> None:
        """Run statements as they run in a data-only restore or in replication: no trigger and no foreign key looks."""
        _run(self.admin_dsn, ["SET session_replication_role = replica", *statements])

    def organization(self, name: str, articles: int = 20, *, vectors: bool = True, words: int = 40) -> int:
        """Make an organisation: articles of two chunks of so many words, each with a vector of three dimensions if wanted."""
        org_id = self.run(f"INSERT INTO kbsearch.organizations (name) VALUES ('{name}') RETURNING id")
        self.run(
            f"""INSERT INTO kbsearch.kb_articles (org_id, external_ref, title)
SELECT {org_id}, 'ref' || n, 'title' || n FROM generate_series(1, {articles}) AS g (n)""",
            f"""INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, content)
SELECT a.org_id, a.id, c.n, (
    SELECT string_agg('word' || (a.id * 7 + c.n * 13 + w.n * w.n) % 211 || 'x', ' ') FROM generate_series(1, {words}) AS w (n)
)
FROM kbsearch.kb_articles AS a CROSS JOIN generate_series(0, 1) AS c (n)
WHERE a.org_id = {org_id}
ORDER BY a.id, c.n""",
        )
        if vectors:
            self.embed(org_id, self.space())
        return int(org_id)

    def space(self, name: str = "toy", dimensions: int = 3) -> int:
        """The embedding space of this name."""
        self.run(
            f"INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('{name}', 'toy', {dimensions}) ON CONFLICT DO NOTHING"
        )
        return int(self.run(f"SELECT id FROM kbsearch.kb_embedding_spaces WHERE name = '{name}'"))

    def embed(self, org_id: int, space_id: int, dimensions: int = 3) -> None:
        """Give every chunk of an organisation a vector."""
        with psycopg.connect(self.dsn) as connection:
            chunks = connection.execute(
                "SELECT id, article_id FROM kbsearch.kb_article_chunks WHERE org_id = %s ORDER BY id", [org_id]
            ).fetchall()
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, chunk_id, article_id, embedding)"
                    " VALUES (%s, %s, %s, %s, %s)",
                    [
                        (org_id, space_id, chunk, article, str([chunk % (7 + axis) + 1 for axis in range(dimensions)]))
                        for chunk, article in chunks
                    ],
                )

    def findings(self, *checks: str, **arguments: Any) -> Sequence[Finding]:
        """All findings of these checks or groups, as the application sees them."""
        return doctor.examine(self.dsn, checks=checks or None, **arguments).findings

    def bad(self, *checks: str, **arguments: Any) -> list[Finding]:
        """Those findings that are not well."""
        return [finding for finding in self.findings(*checks, **arguments) if finding.level is not Level.OK]

    def one(self, check: str, level: Level, **arguments: Any) -> Finding:
        """The one finding of a check, which is of this level."""
        (finding,) = self.bad(check, **arguments)
        assert finding.level is level, finding
        assert finding.check == check
        assert finding.expected
        assert finding.advice
        return finding

    def cure(self, *findings: Finding) -> None:
        """Run the SQL in the advice as a superuser, line by line as it stands."""
        statements = [line for finding in findings for line in finding.advice.splitlines() if SQL.match(line)]
        assert statements
        _run(self.admin_dsn, statements)

    def look(self, check: Callable[..., Any], **replaced: Any) -> list[Finding]:
        """Run one check's function with parts of the examination replaced."""
        with psycopg.connect(self.dsn, autocommit=True, prepare_threshold=None) as connection:
            connection.read_only = True
            given: dict[str, Any] = {
                "connection": connection,
                "dsn": self.dsn,
                "schema": "kbsearch",
                "role": connection.info.user,
                "deep": False,
                "org_name": None,
                "server_version": connection.info.server_version,
                **replaced,
            }
            (one,) = doctor.choose([f"{check.__module__.rpartition('.')[2]}.{check.__name__}"])
            return run_check(one, Examination(**given))


def _run(dsn: str, statements: Iterable[str]) -> Any:
    value = None
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            value = None if row is None else row[0]
    return value
