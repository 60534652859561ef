"""Embedding spaces: which one an embedder's vectors belong to, how whole it is, and when searches switch to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from kbsearch.embed.base import Embedder
from kbsearch.errors import SpaceError, raise_translated
from kbsearch.ingest.notes import digest
from kbsearch.ingest.report import Connection, UsageError
from kbsearch.ingest.splitter import Splitter
from kbsearch.schema import DEFAULT, in_schema

_INSERT = """INSERT INTO kbsearch.kb_embedding_spaces (name, model, revision, dimensions, recipe)
VALUES (%(name)s, %(model)s, %(revision)s, %(dimensions)s, %(recipe)s) ON CONFLICT (name) DO NOTHING
RETURNING id, name"""
# A space may bear any name. Of two that are the same the one that was there first is meant.
_SAME = """SELECT s.id, s.name
FROM kbsearch.kb_embedding_spaces AS s
WHERE s.model = %(model)s AND s.revision = %(revision)s AND s.dimensions = %(dimensions)s AND s.recipe = %(recipe)s
    AND (%(called)s::pg_catalog.text IS NULL OR s.name = %(called)s::pg_catalog.text)
ORDER BY s.id
LIMIT 1"""
_NAMED = """SELECT s.id, s.name, s.model, s.revision, s.dimensions, s.recipe
FROM kbsearch.kb_embedding_spaces AS s
WHERE s.name = %s"""
_ACTIVE = """SELECT s.id, s.name, s.model, s.revision, s.dimensions, s.recipe
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_embedding_spaces AS s ON s.id = o.active_space_id
WHERE o.id = %s"""
_IN_USE = """SELECT s.id, s.name
FROM kbsearch.organizations AS o
INNER JOIN kbsearch.kb_embedding_spaces AS s
    ON s.model = %(model)s AND s.revision = %(revision)s AND s.dimensions = %(dimensions)s
WHERE o.id = %(org_id)s AND (s.id = o.active_space_id OR EXISTS (
    SELECT FROM kbsearch.kb_article_embeddings AS e WHERE e.org_id = o.id AND e.space_id = s.id))
ORDER BY (s.id = o.active_space_id) IS NOT TRUE, s.id DESC
LIMIT 1"""
_ACTIVATE = "SELECT kbsearch.activate_kb_space_v1(p_org_id => %s, p_space_id => %s)"
_DROP = "SELECT kbsearch.drop_kb_space_v1(p_org_id => %s, p_space_id => %s)"


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space of the database."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """An embedding space as an organisation has it: a row of list_kb_spaces_v1.

    Attributes:
        space_id: its id.
        name: its name.
        model: the model's published name.
        revision: which weights.
        dimensions: components of a vector.
        recipe_sha256: sha256 of the recipe.
        is_active: whether searches use it.
        embedded: published chunks that have a vector in it.
        lacking: published chunks with something to embed that have none.
        stale: published chunks whose vector is of an older content.
        without_direction: published chunks whose vector has no direction.
        cached: vectors in the cache.
    """

    space_id: int
    name: str
    model: str
    revision: str
    dimensions: int
    recipe_sha256: str
    is_active: bool
    embedded: int
    lacking: int
    stale: int
    without_direction: int
    cached: int


_LIST = f"""SELECT {", ".join(f"l.{one.name}" for one in fields(SpaceStatus))}
FROM kbsearch.list_kb_spaces_v1(p_org_id => %s) AS l"""


def space_recipe(embedder: Embedder, splitter: Splitter) -> dict[str, Any]:
    """Everything beside the model that decides a chunk's vector, as JSON values."""
    return {
        **embedder.recipe,
        "template": splitter.layout,
        "title_and_heading": "whole" if splitter.tokens is None else "at most a quarter of the tokens each",
        "machine_names": "refused" if splitter.guarded else "allowed",
        "chunker": dict(splitter.settings),
    }


def space_name(embedder: Embedder, splitter: Splitter) -> str:
    """Name of a new embedding space: the embedder's name and ten digits of a digest of model, revision, dimensions and recipe."""
    identity = [embedder.model, embedder.revision, embedder.dimensions, space_recipe(embedder, splitter)]
    return f"{embedder.name}/{digest(identity)[:10]}"


def ensure_space(
    connection: Connection, embedder: Embedder, splitter: Splitter, schema: str = DEFAULT, *, name: str | None = None
) -> Space:
    """The embedding space of an embedder and a splitter, which is inserted when it is missing; with a name the one of that name.

    Raises UsageError when the one of that name is of another model or recipe.
    """
    values = {
        "name": name or space_name(embedder, splitter),
        "called": name,
        "model": embedder.model,
        "revision": embedder.revision,
        "dimensions": embedder.dimensions,
        "recipe": Jsonb(space_recipe(embedder, splitter)),
    }
    for statement in (_SAME, _INSERT, _SAME):
        row = connection.execute(in_schema(statement, schema).encode(), values).fetchone()
        if row is not None:
            return Space(int(row[0]), str(row[1]))
    raise UsageError(f"the embedding space {values['name']!r} exists with another model or recipe")


def named_space(connection: Connection, name: str, schema: str = DEFAULT) -> Space:
    """The embedding space of a name. Raises SpaceError when there is none."""
    row = connection.execute(in_schema(_NAMED, schema).encode(), (name,)).fetchone()
    if row is None:
        raise SpaceError(
            f"there is no embedding space {name!r}", detail={"name": name}, hint="kbsearch space status lists them."
        )
    return Space(int(row[0]), str(row[1]))


def active_space(connection: Connection, org_id: int, schema: str = DEFAULT) -> Space | None:
    """The embedding space that searches of an organisation use; None while it has none."""
    row = connection.execute(in_schema(_ACTIVE, schema).encode(), (org_id,)).fetchone()
    return None if row is None else Space(int(row[0]), str(row[1]))


def active_space_of(
    connection: Connection, org_id: int, embedder: Embedder, splitter: Splitter, schema: str = DEFAULT
) -> Space | None:
    """The organisation's active space if the embedder's vectors belong to it, however its texts were split; else None."""
    active = active_identity(connection, org_id, schema)
    if active is None:
        return None
    space, identity, recipe = active
    found, wanted = (_without_chunker(one) for one in (recipe, space_recipe(embedder, splitter)))
    return space if (*identity, found) == (embedder.model, embedder.revision, embedder.dimensions, wanted) else None


def active_identity(
    connection: Connection, org_id: int, schema: str = DEFAULT
) -> tuple[Space, tuple[str, str, int], Mapping[str, Any]] | None:
    """The space that searches of an organisation use, with its model, revision and dimensions, and its recipe; None while it has none."""
    return _identity(connection.execute(in_schema(_ACTIVE, schema).encode(), (org_id,)).fetchone())


def _identity(row: Sequence[Any] | None) -> tuple[Space, tuple[str, str, int], Mapping[str, Any]] | None:
    if row is None:
        return None
    space_id, name, model, revision, dimensions, recipe = row
    return Space(int(space_id), str(name)), (model, revision, dimensions), recipe


def _without_chunker(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in recipe.items() if key != "chunker"}


def splitter_of(
    connection: Connection, org_id: int, embedder: Embedder, schema: str = DEFAULT, *, name: str | None = None
) -> Splitter:
    """The splitter for an embedder as a space has it that is of the embedder's model: that of a name, or the organisation's active one.

    Where there is no such space, what suits the embedder.
    """
    if name is None:
        found = active_identity(connection, org_id, schema)
    else:
        found = _identity(connection.execute(in_schema(_NAMED, schema).encode(), (name,)).fetchone())
    if found is None or found[1] != (embedder.model, embedder.revision, embedder.dimensions):
        return Splitter.of(embedder)
    recipe = found[2]
    chunker = recipe.get("chunker", {})
    try:
        by_tokens = chunker["measure"] == "tokens"
        return Splitter.of(
            embedder,
            tokens=chunker["capacity"] if by_tokens else None,
            characters=None if by_tokens else chunker["capacity"],
            layout=recipe["template"],
            path=chunker["headings"] != "above",
            guarded=recipe["machine_names"] != "allowed",
        )
    except (KeyError, TypeError, ValueError):
        return Splitter.of(embedder)  # a recipe that an application wrote


def space_in_use(connection: Connection, org_id: int, embedder: Embedder, schema: str = DEFAULT) -> Space | None:
    """A space of an embedder's model that an organisation has vectors in: the active one, else the newest; None where there is none."""
    keys = {
        "org_id": org_id,
        "model": embedder.model,
        "revision": embedder.revision,
        "dimensions": embedder.dimensions,
    }
    row = connection.execute(in_schema(_IN_USE, schema).encode(), keys).fetchone()
    return None if row is None else Space(int(row[0]), str(row[1]))


def list_spaces(connection: Connection, org_id: int, schema: str = DEFAULT) -> Sequence[SpaceStatus]:
    """The embedding spaces that an organisation uses or has vectors in. Raises OrganizationError when there is no such organisation."""
    with translating(schema), connection.cursor(row_factory=class_row(SpaceStatus)) as cursor:
        return cursor.execute(in_schema(_LIST, schema).encode(), (org_id,)).fetchall()


def activate_space(connection: Connection, org_id: int, space: Space, schema: str = DEFAULT) -> int | None:
    """Let searches use a space; the id of the one before.

    Raises SpaceError when a published chunk has no vector in it, or one of an older content.
    """
    is_outermost = connection.info.transaction_status == TransactionStatus.IDLE
    with translating(schema), connection.transaction():
        if is_outermost:
            connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        row = connection.execute(in_schema(_ACTIVATE, schema).encode(), (org_id, space.id)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def drop_space(connection: Connection, org_id: int, space: Space, schema: str = DEFAULT) -> int:
    """Delete an organisation's vectors of a space, and what its cache has of it; the number of vectors.

    Raises SpaceError when searches use it.
    """
    with translating(schema):
        row = connection.execute(in_schema(_DROP, schema).encode(), (org_id, space.id)).fetchone()
    return 0 if row is None else int(row[0])


@contextmanager
def translating(schema: str) -> Iterator[None]:
    """Errors of the database as ours."""
    try:
        yield
    except psycopg.Error as error:
        raise_translated(error, schema)
