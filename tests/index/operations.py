"""Single writes of every kind, drawn from a random number generator and from what the database holds at that moment.

The alphabet is tiny on purpose: two organisations, a dozen words, two embedding spaces, so that operations meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from kbsearch.doctor.rights import DERIVED

Connection: TypeAlias = psycopg.Connection[Any]
Row: TypeAlias = tuple[Any, ...]

WORDS = ("ant", "ants", "bee", "cat", "the", "DS-7604NI", "日本語", "C++", "café", "42")
KINDS = ("article", "faq", "policy")
LANGUAGES = (None, "pg_catalog.english", "pg_catalog.simple", "pg_catalog.german")
SPACES = {1: 2, 2: 3}
"""Dimensions of the embedding spaces by id."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with its parameters; `combines`: it can stand in a WITH query beside others (it is an INSERT, UPDATE or DELETE)."""

    sql: str
    parameters: tuple[Any, ...] = ()
    combines: bool = True


Operation: TypeAlias = Callable[[Connection, Random], Statement | None]
"""Draws a statement; None when there is nothing to apply it to."""


def reset(connection: Connection, organizations: int = 2) -> None:
    """Empty everything and start again with the same ids: the given number of organisations and the two spaces.

    TRUNCATE would give tables and indexes new files, and all sessions would have to plan everything anew: most of a short test's time.
    """
    with connection.transaction():
        connection.execute("DELETE FROM kbsearch.organizations")
        connection.execute("DELETE FROM kbsearch.kb_embedding_spaces")
        # Gone with their organisations, unless what a test has found wrong left them.
        for table in DERIVED:
            connection.execute(sql.SQL("DELETE FROM kbsearch.{}").format(sql.Identifier(table)))
        connection.execute(
            "SELECT pg_catalog.setval(s.seqrelid::regclass, s.seqstart, false)"
            " FROM pg_catalog.pg_sequence AS s INNER JOIN pg_catalog.pg_class AS c ON c.oid = s.seqrelid"
            " WHERE c.relnamespace = 'kbsearch'::regnamespace"
        )
    connection.execute(
        "INSERT INTO kbsearch.organizations (name) SELECT 'organisation ' || n FROM generate_series(1, %s) AS n",
        (organizations,),
    )
    connection.execute(
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('two', 'm', 2), ('three', 'm', 3)"
    )


def text(random: Random) -> str:
    """Up to five words, sometimes none."""
    return " ".join(random.choice(WORDS) for _ in range(random.randint(0, 5)))


def vector(random: Random, dimensions: int) -> str:
    """An embedding with tiny whole components; now and then the zero vector."""
    return "[" + ",".join(str(random.randint(-1, 2)) for _ in range(dimensions)) + "]"


def _pick(connection: Connection, random: Random, rows: str) -> Row | None:
    found = connection.execute(rows).fetchall()
    return random.choice(found) if found else None


def _organization(connection: Connection, random: Random) -> int | None:
    row = _pick(connection, random, "SELECT id FROM kbsearch.organizations ORDER BY id")
    return None if row is None else int(row[0])


def _article(connection: Connection, random: Random) -> Row | None:
    return _pick(connection, random, "SELECT org_id, id FROM kbsearch.kb_articles ORDER BY org_id, id")


def _chunk(connection: Connection, random: Random) -> Row | None:
    return _pick(
        connection, random, "SELECT org_id, id, article_id FROM kbsearch.kb_article_chunks ORDER BY org_id, id"
    )


def _embedding(connection: Connection, random: Random) -> Row | None:
    return _pick(
        connection,
        random,
        "SELECT org_id, article_id, chunk_id, space_id FROM kbsearch.kb_article_embeddings ORDER BY org_id, chunk_id, space_id",
    )


def add_organization(connection: Connection, random: Random) -> Statement | None:
    if connection.execute("SELECT count(*) < 3 FROM kbsearch.organizations").fetchone() != (True,):
        return None
    return Statement(
        "INSERT INTO kbsearch.organizations (name, language) VALUES ('new', %s)", (random.choice(LANGUAGES[1:]),)
    )


def delete_organization(connection: Connection, random: Random) -> Statement | None:
    org_id = _organization(connection, random)
    if org_id is None or random.random() < 0.5:
        return None
    return Statement("DELETE FROM kbsearch.organizations WHERE id = %s", (org_id,))


def change_language(connection: Connection, random: Random) -> Statement | None:
    org_id = _organization(connection, random)
    return Statement(
        "UPDATE kbsearch.organizations SET language = %s WHERE id = %s", (random.choice(LANGUAGES[1:]), org_id)
    )


def change_reference_length(connection: Connection, random: Random) -> Statement | None:
    org_id = _organization(connection, random)
    return Statement(
        "UPDATE kbsearch.organizations SET reference_length = %s WHERE id = %s", (random.choice((1, 5, 100)), org_id)
    )


def change_both(connection: Connection, random: Random) -> Statement | None:
    org_id = _organization(connection, random)
    return Statement(
        "UPDATE kbsearch.organizations SET reference_length = %s, language = %s WHERE id = %s",
        (random.choice((1, 5, 100)), random.choice(LANGUAGES[1:]), org_id),
    )


def add_article(connection: Connection, random: Random) -> Statement | None:
    org_id = _organization(connection, random)
    if org_id is None:
        return None
    return Statement(
        "INSERT INTO kbsearch.kb_articles (org_id, kind, title, language, published) VALUES (%s, %s, %s, %s, %s)",
        (org_id, random.choice(KINDS), text(random) or None, random.choice(LANGUAGES), random.random() < 0.8),
    )


def edit_article(connection: Connection, random: Random) -> Statement | None:
    article = _article(connection, random)
    if article is None:
        return None
    column, value = random.choice(
        (
            ("title", text(random) or None),
            ("kind", random.choice(KINDS)),
            ("language", random.choice(LANGUAGES)),
            ("metadata", '{"n": 1}'),
            ("body", text(random)),
        )
    )
    return Statement(f"UPDATE kbsearch.kb_articles SET {column} = %s WHERE org_id = %s AND id = %s", (value, *article))


def toggle_publication(connection: Connection, random: Random) -> Statement | None:
    article = _article(connection, random)
    if article is None:
        return None
    return Statement("UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %s AND id = %s", article)


def publish_all(connection: Connection, random: Random) -> Statement | None:
    return Statement("UPDATE kbsearch.kb_articles SET published = %s", (random.random() < 0.7,))


def renumber_article(connection: Connection, random: Random) -> Statement | None:
    article = _article(connection, random)
    if article is None:
        return None
    return Statement(
        "UPDATE kbsearch.kb_articles SET id = id + 100000, title = %s WHERE org_id = %s AND id = %s AND id < 1000000",
        (text(random), *article),
    )


def delete_article(connection: Connection, random: Random) -> Statement | None:
    article = _article(connection, random)
    if article is None:
        return None
    return Statement("DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id = %s", article)


def add_chunk(connection: Connection, random: Random) -> Statement | None:
    article = _article(connection, random)
    if article is None:
        return None
    return Statement(
        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, chunk_no, heading, content) VALUES (%s, %s, %s, %s, %s)",
        (*article, random.randint(0, 3), text(random) or None, text(random)),
    )


def edit_chunk(connection: Connection, random: Random) -> Statement | None:
    chunk = _chunk(connection, random)
    if chunk is None:
        return None
    column = random.choice(("content", "heading"))
    return Statement(
        f"UPDATE kbsearch.kb_article_chunks SET {column} = %s WHERE org_id = %s AND id = %s", (text(random), *chunk[:2])
    )


def edit_many_chunks(connection: Connection, random: Random) -> Statement | None:
    return Statement(
        "UPDATE kbsearch.kb_article_chunks SET content = content || ' ' || %s WHERE length(content) < 40 AND id %% 2 = %s",
        (random.choice(WORDS), random.randint(0, 1)),
    )


def write_derived_columns(connection: Connection, random: Random) -> Statement | None:
    """What a careless application does: the triggers put it right."""
    return Statement(
        random.choice(
            (
                "UPDATE kbsearch.kb_article_chunks SET searchable = NOT searchable, lexemes = '{x}', title = 'x', occurrence_count = 7",
                "UPDATE kbsearch.kb_article_chunks SET term_counts = '{}', language = 'simple', phrase_text = content, chunk_no = chunk_no + 1",
                "UPDATE kbsearch.kb_article_embeddings SET searchable = NOT searchable",
                "UPDATE kbsearch.kb_article_chunks SET content = content",
            )
        )
    )


def move_chunk(connection: Connection, random: Random) -> Statement | None:
    chunk = _chunk(connection, random)
    if chunk is None:
        return None
    articles = connection.execute(
        "SELECT id FROM kbsearch.kb_articles WHERE org_id = %s ORDER BY id", (chunk[0],)
    ).fetchall()
    if not articles:
        return None
    return Statement(
        "UPDATE kbsearch.kb_article_chunks SET article_id = %s WHERE org_id = %s AND id = %s",
        (random.choice(articles)[0], *chunk[:2]),
    )


def delete_chunk(connection: Connection, random: Random) -> Statement | None:
    chunk = _chunk(connection, random)
    if chunk is None:
        return None
    return Statement("DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %s AND id = %s", chunk[:2])


def delete_many_chunks(connection: Connection, random: Random) -> Statement | None:
    return Statement("DELETE FROM kbsearch.kb_article_chunks WHERE id %% 3 = %s", (random.randint(0, 2),))


def add_embedding(connection: Connection, random: Random) -> Statement | None:
    chunk = _chunk(connection, random)
    if chunk is None:
        return None
    space_id, dimensions = random.choice(tuple(SPACES.items()))
    return Statement(
        "INSERT INTO kbsearch.kb_article_embeddings (org_id, chunk_id, article_id, space_id, embedding) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (org_id, article_id, chunk_id, space_id) DO UPDATE SET embedding = excluded.embedding",
        (*chunk, space_id, vector(random, dimensions)),
    )


def edit_embedding(connection: Connection, random: Random) -> Statement | None:
    embedding = _embedding(connection, random)
    if embedding is None:
        return None
    return Statement(
        "UPDATE kbsearch.kb_article_embeddings SET embedding = %s WHERE org_id = %s AND article_id = %s AND chunk_id = %s AND space_id = %s",
        (vector(random, SPACES[embedding[3]]), *embedding),
    )


def delete_embedding(connection: Connection, random: Random) -> Statement | None:
    embedding = _embedding(connection, random)
    if embedding is None:
        return None
    return Statement(
        "DELETE FROM kbsearch.kb_article_embeddings WHERE org_id = %s AND article_id = %s AND chunk_id = %s AND space_id = %s",
        embedding,
    )


def load_chunks(connection: Connection, random: Random) -> Statement | None:
    """INSERT … SELECT into all articles at once."""
    return Statement(
        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content)"
        " SELECT a.org_id, a.id, %s || ' ' || n FROM kbsearch.kb_articles AS a CROSS JOIN generate_series(1, %s) AS n"
        " WHERE (SELECT count(*) FROM kbsearch.kb_article_chunks) < 150",
        (text(random), random.choice((1, 2, 5))),
    )


def load_many_chunks(connection: Connection, random: Random) -> Statement | None:
    """More rows than are merged one by one, and more of one word than a block holds."""
    article = _article(connection, random)
    if article is None or random.random() < 0.7:
        return None
    return Statement(
        "INSERT INTO kbsearch.kb_article_chunks (org_id, article_id, content)"
        " SELECT %s, %s, CASE WHEN n %% 3 = 0 THEN 'ant bee' ELSE 'ant' END FROM generate_series(1, 280) AS n"
        " WHERE (SELECT count(*) FROM kbsearch.kb_article_chunks) < 150",
        article,
    )


def embed_all(connection: Connection, random: Random) -> Statement | None:
    return Statement(
        "INSERT INTO kbsearch.kb_article_embeddings (org_id, chunk_id, article_id, space_id, embedding)"
        " SELECT c.org_id, c.id, c.article_id, 1, (array['[1,0]', '[0,1]', '[0,0]'])[1 + c.id %% 3]::ext.vector"
        " FROM kbsearch.kb_article_chunks AS c ON CONFLICT DO NOTHING",
    )


def merge_chunks(connection: Connection, random: Random) -> Statement | None:
    """One MERGE that inserts, updates and deletes."""
    return Statement(
        "MERGE INTO kbsearch.kb_article_chunks AS c"
        " USING (SELECT a.org_id, a.id, n FROM kbsearch.kb_articles AS a CROSS JOIN generate_series(0, 1) AS n) AS s"
        " ON c.org_id = s.org_id AND c.article_id = s.id AND c.chunk_no = s.n"
        " WHEN MATCHED AND c.id %% 3 = 0 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET content = %s"
        " WHEN NOT MATCHED THEN INSERT (org_id, article_id, chunk_no, content) VALUES (s.org_id, s.id, s.n, %s)",
        (text(random), text(random)),
        combines=False,
    )


def upsert_chunk(connection: Connection, random: Random) -> Statement | None:
    """INSERT … ON CONFLICT DO UPDATE, which fires the triggers of both."""
    chunk = _chunk(connection, random)
    if chunk is None:
        return None
    return Statement(
        "INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (org_id, id) DO UPDATE SET content = excluded.content",
        (*chunk, text(random)),
    )


def upsert_article(connection: Connection, random: Random) -> Statement | None:
    org_id = _organization(connection, random)
    if org_id is None:
        return None
    return Statement(
        "SELECT kbsearch.upsert_kb_article_v1(p_org_id => %s, p_external_ref => %s, p_title => %s, p_body => %s, p_published => %s)",
        (org_id, random.choice("abc"), text(random), text(random), random.random() < 0.8),
        combines=False,
    )


def truncate_articles(connection: Connection, random: Random) -> Statement | None:
    return Statement("TRUNCATE kbsearch.kb_articles CASCADE", combines=False) if random.random() < 0.3 else None


def truncate_chunks(connection: Connection, random: Random) -> Statement | None:
    return Statement("TRUNCATE kbsearch.kb_article_chunks CASCADE", combines=False) if random.random() < 0.3 else None


def _maintenance(function: str) -> Operation:
    def draw(connection: Connection, random: Random) -> Statement | None:
        org_id = _organization(connection, random)
        return None if org_id is None else Statement(f"SELECT kbsearch.{function}(%s)", (org_id,), combines=False)

    return draw


WRITES: Mapping[str, Operation] = {
    operation.__name__: operation
    for operation in (
        add_organization,
        delete_organization,
        change_language,
        change_reference_length,
        change_both,
        add_article,
        edit_article,
        toggle_publication,
        publish_all,
        renumber_article,
        delete_article,
        add_chunk,
        edit_chunk,
        edit_many_chunks,
        write_derived_columns,
        move_chunk,
        delete_chunk,
        delete_many_chunks,
        add_embedding,
        edit_embedding,
        delete_embedding,
        load_chunks,
        load_many_chunks,
        embed_all,
        merge_chunks,
        upsert_chunk,
        upsert_article,
    )
}
TRUNCATIONS: Mapping[str, Operation] = {"truncate_articles": truncate_articles, "truncate_chunks": truncate_chunks}
MAINTENANCE: Mapping[str, Operation] = {
    "compact": _maintenance("compact_kb_postings_v1"),
    "rebuild": _maintenance("rebuild_kb_index_v1"),
    "calibrate": _maintenance("calibrate_kb_corpus_v1"),
}
ALL: Mapping[str, Operation] = {**WRITES, **TRUNCATIONS, **MAINTENANCE}
COMBINABLE = tuple(name for name in WRITES if name not in ("merge_chunks", "upsert_article", "add_organization"))


def combined(statements: list[Statement]) -> Statement:
    """Several writes in one statement: data-modifying WITH queries."""
    queries = ", ".join(f"w{n} AS ({statement.sql} RETURNING 1)" for n, statement in enumerate(statements))
    parameters = tuple(value for statement in statements for value in statement.parameters)
    return Statement(f"WITH {queries} SELECT 1", parameters, combines=False)
