"""Embedding spaces: which one an embedder's vectors belong to, and when searches switch to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from kbsearch.embed.base import Embedder
from kbsearch.ingest.notes import digest
from kbsearch.ingest.report import Connection, UsageError
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.template import TEMPLATE
from kbsearch.schema import DEFAULT, in_schema

_INSERT = """INSERT INTO kbsearch.kb_embedding_spaces (name, model, revision, dimensions, recipe)
VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING"""
_FIND = """SELECT s.id, s.model = %s AND s.revision = %s AND s.dimensions = %s AND s.recipe = %s
FROM kbsearch.kb_embedding_spaces AS s WHERE s.name = %s"""
_ACTIVE = """SELECT s.id, s.name, s.model, s.revision, s.dimensions, s.recipe
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = o.active_space_id
WHERE o.id = %s"""
_LOCK = "SELECT o.active_space_id FROM kbsearch.organizations AS o WHERE o.id = %s FOR UPDATE"
_LACKING = """SELECT count(*)
FROM kbsearch.kb_article_embeddings AS old
WHERE old.org_id = %s AND old.space_id = %s AND NOT EXISTS (
    SELECT FROM kbsearch.kb_article_embeddings AS new
    WHERE new.org_id = old.org_id AND new.article_id = old.article_id AND new.chunk_id = old.chunk_id AND new.space_id = %s)"""
_SWITCH = "UPDATE kbsearch.organizations SET active_space_id = %s WHERE id = %s"


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space of the database."""

    id: int
    name: str


def space_recipe(embedder: Embedder, splitter: Splitter) -> dict[str, Any]:
    """Everything beside the model that decides a chunk's vector, as JSON values."""
    return {**embedder.recipe, "template": TEMPLATE, "chunker": dict(splitter.settings)}


def space_name(embedder: Embedder, splitter: Splitter) -> str:
    """Name of the embedding space: the embedder's name and ten digits of a digest of model, revision, dimensions and recipe."""
    identity = [embedder.model, embedder.revision, embedder.dimensions, space_recipe(embedder, splitter)]
    return f"{embedder.name}/{digest(identity)[:10]}"


def ensure_space(connection: Connection, embedder: Embedder, splitter: Splitter, schema: str = DEFAULT) -> Space:
    """The embedding space of an embedder and a splitter, which is inserted when it is missing.

    Raises UsageError when one of its name is of another model or recipe.
    """
    name, recipe = space_name(embedder, splitter), Jsonb(space_recipe(embedder, splitter))
    model = (embedder.model, embedder.revision, embedder.dimensions, recipe)
    with connection.transaction():
        connection.execute(in_schema(_INSERT, schema).encode(), (name, *model))
        row = connection.execute(in_schema(_FIND, schema).encode(), (*model, name)).fetchone()
    if row is None or not row[1]:
        raise UsageError(f"the embedding space {name!r} exists with another model or recipe")
    return Space(int(row[0]), name)


def active_space(connection: Connection, org_id: int, schema: str = DEFAULT) -> Space | None:
    """The embedding space that searches of an organisation use; None while it has none."""
    row = connection.execute(in_schema(_ACTIVE, schema).encode(), (org_id,)).fetchone()
    return None if row is None else Space(int(row[0]), str(row[1]))


def active_space_of(
    connection: Connection, org_id: int, embedder: Embedder, splitter: Splitter, schema: str = DEFAULT
) -> Space | None:
    """The organisation's active space if the embedder's vectors belong to it, however its texts were split; else None."""
    row = connection.execute(in_schema(_ACTIVE, schema).encode(), (org_id,)).fetchone()
    if row is None:
        return None
    space_id, name, model, revision, dimensions, recipe = row
    ours = space_recipe(embedder, splitter)
    found, wanted = ({key: value for key, value in one.items() if key != "chunker"} for one in (recipe, ours))
    same = (model, revision, dimensions, found) == (embedder.model, embedder.revision, embedder.dimensions, wanted)
    return Space(int(space_id), str(name)) if same else None


def activate(connection: Connection, org_id: int, space: Space, schema: str = DEFAULT) -> int:
    """Let searches use a space as soon as no vector of the one before lacks its counterpart; the number of those that still do."""
    with connection.transaction():
        row = connection.execute(in_schema(_LOCK, schema).encode(), (org_id,)).fetchone()
        active = None if row is None else row[0]
        if active == space.id:
            return 0
        counted = connection.execute(in_schema(_LACKING, schema).encode(), (org_id, active, space.id)).fetchone()
        lacking = 0 if counted is None else int(counted[0])
        if not lacking:
            connection.execute(in_schema(_SWITCH, schema).encode(), (space.id, org_id))
        return lacking
