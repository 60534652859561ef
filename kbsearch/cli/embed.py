"""`kbsearch embed`: what the model is given for files, and what changed of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer

from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    OrgOption,
    SchemaOption,
    clean,
    connected,
    emit,
    find_organization,
    messages,
)
from kbsearch.cli.complaints import complaining
from kbsearch.cli.embedders import EmbedderChoice, takes_embedder
from kbsearch.cli.ingest import file_sources
from kbsearch.cli.recipes import (
    AllowMachineNamesOption,
    ChunkCharactersOption,
    ChunkTokensOption,
    NoPathOption,
    TemplateOption,
    chosen_splitter,
)
from kbsearch.embed import MissingExtraError, ModelFileError
from kbsearch.ingest import Machine, Rejected, UsageError
from kbsearch.ingest.preview import ModelInput, difference, preview, stored_inputs
from kbsearch.ingest.spaces import active_space
from kbsearch.schema import DEFAULT


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("embed", cls=Checked)(embed_command)


@takes_embedder
def embed_command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Folders and files, as for kbsearch ingest.")],
    *,
    show: Annotated[bool, typer.Option("--show", help="Print exactly what the model is given for each chunk.")] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff",
            help="Print what differs from what it was given for what is stored, in the space that searches use.",
        ),
    ] = False,
    org: OrgOption = None,
    embedding: EmbedderChoice,
    chunk_tokens: ChunkTokensOption = None,
    chunk_characters: ChunkCharactersOption = None,
    template: TemplateOption = None,
    no_path: NoPathOption = False,
    allow_machine_names: AllowMachineNamesOption = False,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Look at what the model is given; nothing is embedded and nothing written.

    Exit code 1 if a document or chunk would be skipped, and with --diff if there is a difference.
    """
    if show == diff:
        raise typer.BadParameter("give one of them", param_hint="--show, --diff")
    with (
        complaining(UsageError, MissingExtraError, ModelFileError),
        embedding.made() as chosen,
        _stored(dsn, schema, wanted=diff) as connection,
    ):
        if chosen is None:
            raise typer.BadParameter("none gives a model nothing", param_hint="--embedder")
        entries = preview(
            file_sources(paths, pydoc=False, kind="article", name=None),
            chosen,
            splitter=chosen_splitter(
                chosen,
                tokens=chunk_tokens,
                characters=chunk_characters,
                template=template,
                no_path=no_path,
                allow_machine_names=allow_machine_names,
            ),
            machine=Machine.here(*paths),
        )
        said_no = (
            _show(entries, as_json=as_json)
            if connection is None
            else _diff(entries, connection, org, schema, as_json=as_json)
        )
    if said_no:
        raise typer.Exit(NO)


@contextmanager
def _stored(dsn: str | None, schema: str, *, wanted: bool) -> Iterator[psycopg.Connection[Any] | None]:
    """The database, if it is needed."""
    if not wanted:
        yield None
        return
    with connected(dsn, schema) as connection:
        yield connection


def _show(entries: Iterator[tuple[str, Sequence[ModelInput]] | Rejected], *, as_json: bool) -> bool:
    """Print inputs; whether something would be skipped."""
    skipped, listed = False, []
    for entry in entries:
        if isinstance(entry, Rejected):
            skipped = True
            _tell(entry)
            continue
        for given in entry[1]:
            skipped = skipped or given.refused is not None
            if as_json:
                listed.append(asdict(given))
                continue
            state = f"sha256 {given.sha256}" if given.refused is None else f"skipped: {given.refused}"
            typer.echo(clean(f"=== {given.external_ref}, chunk {given.chunk}: {state}"))
            typer.echo(clean(given.text, keep="\n\t"))
    if as_json:
        emit(listed)
    return skipped


def _diff(
    entries: Iterator[tuple[str, Sequence[ModelInput]] | Rejected],
    connection: psycopg.Connection[Any],
    org: str | None,
    schema: str,
    *,
    as_json: bool,
) -> bool:
    """Print differences; whether there are any, or something would be skipped."""
    org_id = find_organization(connection, org, schema).id
    space = active_space(connection, org_id, schema)
    said, listed = False, []
    for entry in entries:
        if isinstance(entry, Rejected):
            said = True
            _tell(entry)
            continue
        reference, inputs = entry
        stored, now = stored_inputs(connection, org_id, space, reference, schema), [given.text for given in inputs]
        if lines := difference(reference, stored, now):
            said = True
            listed.append({"external_ref": reference, "stored": stored, "now": now})
            if not as_json:
                typer.echo("\n".join(clean(line, keep="\t") for line in lines))
    if as_json:
        emit(listed)
    return said


def _tell(entry: Rejected) -> None:
    messages().print(
        clean(f"skipped: {entry.where}: {entry.reason}"), style="yellow", markup=False, highlight=False, soft_wrap=True
    )
