"""Prepare a scale: kbsearch's tables, loaded by COPY through the triggers, its indexes, and the peers' copies of the same rows.

Every step is noted in the database when it is done; a preparation that was killed goes on where it was. What another version of the SQL or of
the generator
made is stale: functions are replaced in place, anything else is built again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg

from benchmarks import data, peers
from benchmarks.store import (
    BUILD_MEMORY,
    SCALES,
    TENANT,
    Scale,
    Store,
    advance,
    make_notes,
    note_size,
    recall,
    remember,
    scalar,
    stage,
    stages,
)
from kbsearch import embedded, migrate

BATCH = 5_000
"""Rows in a COPY."""

TABLES = (
    "kb_article_chunks",
    "kb_articles",
    "kb_article_embeddings",
    "kb_postings",
    "kb_corpus_stats",
    "kb_keyword_blocks",
    "kb_keyword_impacts",
    "kb_keyword_changes",
)

_CREATE = re.compile("^CREATE FUNCTION", re.MULTILINE)
_TYPE_FILE = "schema/0003_search_plan.sql"
"""Makes a type only, which no table uses: it can be replaced with the functions."""
_TYPE = ("type kbsearch.kb_search_plan", "column kbsearch.kb_search_plan.")
"""How the check of an installation names it and its parts."""


class StaleError(Exception):
    """Prepared data are of another version, in more than functions."""


def prepare(store: Store, scale: Scale, *, reindex: bool = False) -> None:
    """Make, or bring up to date, all that a scale is measured with.

    Args:
        store: where.
        scale: what.
        reindex: build the postings anew, by the functions as they are now.
    """
    for one in (scale, *(SCALES[name] for name in scale.beside)):
        _kbsearch(store, one, reindex=reindex)
    if scale.peers:
        peers.prepare(store, scale)


def _kbsearch(store: Store, scale: Scale, *, reindex: bool) -> None:
    identity = f"generator {data.VERSION}, {sorted(scale.organisations.items())}"
    if store.exists(scale.name) and not _is_current(store, scale, identity):
        store.say(f"{scale.name}: stale, built again", 0, 0)
        store.drop(scale.name)
    embedded.ensure_database(store.server(), scale.name)
    with store.connect(scale.name) as connection:
        make_notes(connection)
        remember(connection, "identity", identity)
        _load(store, connection, scale)
        _settle(store, connection, scale, reindex=reindex)
        _index(store, connection, scale)
        with stage(connection, "vacuum") as done:
            if done is not None:
                store.say(f"{scale.name}: VACUUM ANALYZE", 0, 0)
                connection.execute("VACUUM ANALYZE")


def _is_current(store: Store, scale: Scale, identity: str) -> bool:
    """Whether prepared data can be used, with functions replaced."""
    with store.connect(scale.name) as connection:
        if recall(connection, "identity") != identity:
            return False
    try:
        refresh(store, scale)
    except StaleError:
        return False
    return True


def refresh(store: Store, scale: Scale) -> list[str]:
    """Replace functions that differ from the files', and say which.

    Raises:
        StaleError: something else differs, too: the data are of no use.
    """
    dsn = store.server().dsn(scale.name)
    found = migrate.check(dsn)
    if not found:
        return []
    store.say(f"{scale.name}: replacing functions", 0, 0)
    if any(not one.name.startswith(("function ", *_TYPE)) for one in found):
        raise StaleError
    files = [name for name in migrate.files() if name.startswith("functions/")]
    texts = {name: _CREATE.sub("CREATE OR REPLACE FUNCTION", migrate.file_text(name)) for name in files}
    with psycopg.connect(dsn) as connection:
        before = _attached(connection)
        if any(one.name.startswith(_TYPE) for one in found):
            connection.execute("DROP TYPE kbsearch.kb_search_plan CASCADE")
            files = [_TYPE_FILE, *files]
        for name in _replaced(connection, found):
            connection.execute(f"DROP FUNCTION IF EXISTS {name} CASCADE".encode())
        migrate.install(connection, names=files, overrides=texts)
        if _attached(connection) != before:
            connection.rollback()
            raise StaleError
    if migrate.check(dsn):
        raise StaleError
    return [one.name for one in found]


def _replaced(connection: psycopg.Connection[Any], found: Sequence[migrate.Difference]) -> list[str]:
    """Functions that CREATE OR REPLACE won't replace: those that are no more, or return something else."""
    files = [name for name in migrate.files() if name.startswith("functions/")]
    known = set(migrate.created(files))
    rows = connection.execute(
        "SELECT p.proname, p.oid::regprocedure::text, pg_get_function_result(p.oid), pg_get_function_arguments(p.oid) FROM pg_proc AS p "
        "WHERE p.pronamespace = 'kbsearch'::regnamespace"
    ).fetchall()
    different = {one.name.split("kbsearch.")[-1].split("(")[0]: one for one in found if one.problem == "different"}
    unexpected = {one.name.split("kbsearch.")[-1].split("(")[0] for one in found if one.problem == "unexpected"}
    return [
        signature
        for name, signature, _result, _arguments in rows
        if name not in known or name in unexpected or (name in different and _head_differs(different[name]))
    ]


def _head_differs(one: migrate.Difference) -> bool:
    """Whether a function takes or returns something else than before."""

    def head(text: str | None) -> str:
        return re.split(r"\bLANGUAGE\b", text or "", maxsplit=1)[0]

    return head(one.installed) != head(one.expected)


def _attached(connection: psycopg.Connection[Any]) -> tuple[Any, ...]:
    """Triggers, constraints and columns that use functions: what dropping a function may take along."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal), (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_attrdef), "
        "(SELECT count(*) FROM pg_attribute AS a INNER JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.relkind = 'r' AND NOT a.attisdropped), "
        "(SELECT count(*) FROM pg_index)"
    ).fetchone()
    return tuple(row or ())


def _load(store: Store, connection: psycopg.Connection[Any], scale: Scale) -> None:
    with stage(connection, "load") as done:
        if done is None:
            return
        crowd = data.Crowd(scale.organisations)
        with connection.transaction():
            connection.cursor().executemany(
                "INSERT INTO kbsearch.organizations (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                [(org_id, f"organisation {org_id}") for org_id in sorted(scale.organisations)],
            )
            connection.execute(
                "INSERT INTO kbsearch.kb_embedding_spaces (id, name, model, dimensions) VALUES (1, 'made up', 'none', %s) ON CONFLICT DO NOTHING",
                [data.DIMENSIONS],
            )
        for begin in range(done, len(crowd), BATCH):
            rows = crowd.rows(begin, begin + BATCH)
            with connection.transaction():
                _copy(connection, rows)
                advance(connection, "load", begin + len(rows))
            store.say(f"{scale.name}: loading", begin + len(rows), len(crowd))
        note_size(connection, "load", *(f"kbsearch.{table}" for table in TABLES))


def _copy(connection: psycopg.Connection[Any], rows: Sequence[data.Row]) -> None:
    with connection.cursor() as cursor:
        with cursor.copy("COPY kbsearch.kb_articles (org_id, id, title) FROM STDIN") as copy:
            for row in rows:
                copy.write_row((row.org_id, row.id, row.title))
        with cursor.copy("COPY kbsearch.kb_article_chunks (org_id, id, article_id, content) FROM STDIN") as copy:
            for row in rows:
                copy.write_row((row.org_id, row.id, row.id, row.content))
        columns = "(org_id, space_id, chunk_id, article_id, embedding)"
        with cursor.copy(f"COPY kbsearch.kb_article_embeddings {columns} FROM STDIN WITH (FORMAT binary)") as copy:
            copy.set_types(["int8", "int8", "int8", "int8", "vector"])
            for row in rows:
                copy.write_row((row.org_id, 1, row.id, row.id, row.vector))


def _settle(store: Store, connection: psycopg.Connection[Any], scale: Scale, *, reindex: bool) -> None:
    """Postings as maintenance leaves them."""
    if reindex:
        for number, org_id in enumerate(sorted(scale.organisations)):
            store.say(f"{scale.name}: building postings anew", number, len(scale.organisations))
            connection.execute("SELECT kbsearch.rebuild_kb_index_v1(%s)", [org_id])
        connection.execute("DELETE FROM bench.stages WHERE name = 'compact'")
    with stage(connection, "compact") as done:
        if done is None:
            return
        for number, org_id in enumerate(sorted(scale.organisations)):
            store.say(f"{scale.name}: compacting postings", number, len(scale.organisations))
            connection.execute("SELECT kbsearch.compact_kb_postings_v1(%s)", [org_id])
        for table in TABLES:
            connection.execute(f"VACUUM ANALYZE kbsearch.{table}".encode())
        note_size(connection, "compact", "kbsearch.kb_postings")


def _index(store: Store, connection: psycopg.Connection[Any], scale: Scale) -> None:
    # The tenant's is for measuring what windows miss; its searches stay exact, as an organisation of this size would have it.
    for org_id in (*scale.indexed, *((TENANT,) if scale.indexed else ())):
        name = f"ann {org_id}"
        with stage(connection, name) as done:
            if done is None:
                continue
            store.say(f"{scale.name}: HNSW index of {scale.organisations[org_id]:,} vectors", 0, 0)
            with connection.transaction():
                connection.execute(f"SET LOCAL maintenance_work_mem = '{BUILD_MEMORY}'".encode())
                index = scalar(connection, "SELECT kbsearch.create_kb_ann_index_v1(%s, 1)", [org_id])
            note_size(connection, name, f"kbsearch.{index}")
            if org_id in scale.indexed:
                connection.execute(
                    "UPDATE kbsearch.organizations SET retrieval = 'ann', ann_window = 200 WHERE id = %s", [org_id]
                )


def state(store: Store, scale: Scale) -> dict[str, Any]:
    """What was built, how long it took and how large it is."""
    with store.connect(scale.name) as connection:
        return {
            name: {"seconds": one.seconds, "bytes": one.size, "load": one.load}
            for name, one in stages(connection).items()
        }
