"""Another embedding space beside the one that searches use, filled while they go on, and switched to in one transaction."""

from __future__ import annotations

from contextlib import suppress

from kbsearch.embed.base import Embedder
from kbsearch.errors import SpaceError
from kbsearch.ingest.machine import Machine
from kbsearch.ingest.report import Connection, EmbedReport, Progress, UsageError, quiet
from kbsearch.ingest.spaces import activate_space, active_space, ensure_space, splitter_of
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.vectors import Filler, count_lacking
from kbsearch.schema import DEFAULT

SWITCHES = 20
"""Times that the switch is tried while others go on writing articles: each time what they wrote is embedded before."""


def reembed(
    connection: Connection,
    org_id: int,
    embedder: Embedder,
    *,
    space: str | None = None,
    splitter: Splitter | None = None,
    machine: Machine | None = None,
    activate: bool = False,
    progress: Progress = quiet,
    schema: str = DEFAULT,
) -> EmbedReport:
    """Embed all chunks of an organisation into a space of an embedder's, beside the one that searches use.

    Searches go on unchanged, and so does who writes articles: what is written meanwhile is embedded, too, pass after pass, until nothing
    lacks its vector. A run that was stopped is completed by the next one. Chunks stay as they are; ingest splits anew what it would split
    otherwise for this embedder once searches use the space. The connection must be in autocommit mode.

    Args:
        connection: to the database with kbsearch.
        org_id: the organisation.
        embedder: computes the vectors.
        space: name of the space; by default the one that an ingest with this embedder writes to. It is made when it is missing.
        splitter: has the template of what the model is given; by default that of the named space, else what suits the embedder.
        machine: whose names are refused in what the model is given; by default this one.
        activate: let searches use the space when it is whole.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Raises UsageError when the space is of another model or recipe, or the organisation has nothing to embed; SpaceError when the space cannot
    be activated; EmbeddingError, or what else the embedder raises; psycopg.Error when the database fails. What was committed before stays.
    """
    if not connection.autocommit:
        raise UsageError("embedding needs a connection in autocommit mode: vectors are committed as they are made")
    if count_lacking(connection, org_id, None, schema) == 0:
        raise UsageError("the organisation has no chunk to embed: ingest something first")
    splitter = splitter or splitter_of(connection, org_id, embedder, schema, name=space)
    chosen = ensure_space(connection, embedder, splitter, schema, name=space)
    filler = Filler(connection, org_id, chosen, embedder, splitter, machine, progress, schema)
    _run(filler)
    if activate:
        for _ in range(SWITCHES - 1):
            with suppress(SpaceError):
                activate_space(connection, org_id, chosen, schema)
                break
            if not _run(filler):
                break  # what lacks a vector cannot have one
        activate_space(connection, org_id, chosen, schema)
    return filler.report(active=active_space(connection, org_id, schema) == chosen)


def _run(filler: Filler) -> int:
    """Passes until one finds nothing to embed; the number of chunks embedded."""
    embedded = 0
    while made := filler.run(noted=False):
        embedded += made
    return embedded
