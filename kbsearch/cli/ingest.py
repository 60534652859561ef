"""`kbsearch ingest`: files, rows of a query and Python's documentation into an organisation; vectors for what has none."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer

from kbsearch.cli.common import (
    NO,
    USAGE,
    Checked,
    DsnOption,
    JsonOption,
    SchemaOption,
    clean,
    connected,
    console,
    database,
    emit,
    messages,
)
from kbsearch.cli.embedders import NONE, EmbedderChoice, takes_embedder
from kbsearch.cli.progress import progress_bars
from kbsearch.cli.recipes import (
    AllowMachineNamesOption,
    ChunkCharactersOption,
    ChunkTokensOption,
    NoPathOption,
    TemplateOption,
    chosen_splitter,
)
from kbsearch.cli.reports import show_embedded, show_report
from kbsearch.cli.specs import AlsoOption, embedders_of
from kbsearch.embed import Embedder, MissingExtraError, ModelFileError
from kbsearch.ingest import EmbedReport, IngestReport, Machine, Source, UsageError, embed_missing, ingest
from kbsearch.ingest.documents import printable
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.sources import FILE_SUFFIXES, JSONL_SUFFIXES, read_jsonl, read_paths, read_pydoc
from kbsearch.ingest.sql_mark import OVERLAP
from kbsearch.ingest.sql_query import Query, source_connection
from kbsearch.ingest.sql_rows import COLUMNS
from kbsearch.ingest.sql_source import SqlOptions, SqlSource
from kbsearch.ingest.writers import WRITERS, WRITERS_AT_MOST
from kbsearch.schema import DEFAULT

__all__ = ["ingest_command", "progress_bars", "register", "show_report"]


class Format(StrEnum):
    """What a body of a row is written in."""

    text = "text"
    markdown = "markdown"
    html = "html"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ingest", cls=Checked)(ingest_command)


@takes_embedder
def ingest_command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH…",
            help="Folders, or files: Markdown (.md, .markdown), text (.txt, .rst), HTML (.html, .htm), JSON lines (.jsonl, .ndjson).",
        ),
    ] = None,
    *,
    pydoc: Annotated[
        bool, typer.Option("--pydoc", help="Python's language reference, as it comes with Python.")
    ] = False,
    from_sql: Annotated[
        str | None,
        typer.Option(
            "--from-sql",
            metavar="QUERY",
            help=f"Rows of one SELECT, read in a read-only transaction. Columns: {', '.join(COLUMNS)}; id and title or body are needed.",
        ),
    ] = None,
    source_dsn: Annotated[
        str | None,
        typer.Option(
            metavar="DSN",
            envvar="KBSEARCH_SOURCE_DSN",
            help="Database of --from-sql; by default the one with kbsearch.",
            show_default=False,
        ),
    ] = None,
    body_format: Annotated[Format, typer.Option("--format", help="What the bodies of --from-sql are.")] = Format.text,
    updated_at: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of --from-sql that says when a row was changed: read only what was changed since the last complete run.",
            show_default=False,
        ),
    ] = None,
    overlap: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="With --updated-at: begin so long before the last run's end. More than any transaction takes that writes the rows.",
        ),
    ] = OVERLAP,
    missing: Annotated[
        bool,
        typer.Option(
            "--embed-missing",
            help="Ingest nothing; embed the chunks that have no vector, or one of an older text, like those of triggers and plain SQL.",
        ),
    ] = False,
    org: Annotated[str, typer.Option(metavar="NAME", help="Organisation; created when it is missing.")] = "default",
    kind: Annotated[str, typer.Option(help="Kind of the articles that name none.")] = "article",
    language: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Language of the documents that name none, like de, pt-BR or german; by default the organisation's.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the articles belong to, for --prune; by default the folder's or file's own name. Needed with --from-sql.",
        ),
    ] = None,
    chunk_tokens: ChunkTokensOption = None,
    chunk_characters: ChunkCharactersOption = None,
    template: TemplateOption = None,
    no_path: NoPathOption = False,
    allow_machine_names: AllowMachineNamesOption = False,
    embedding: EmbedderChoice,
    also: AlsoOption = None,
    no_embed: Annotated[
        bool,
        typer.Option(
            "--no-embed", help="Write no vectors, like --embedder none: articles are found by their words only."
        ),
    ] = False,
    writers: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=WRITERS_AT_MOST,
            help="Connections that write at the same time, beside the one that reads and embeds; 0: all on that one, one after the other.",
        ),
    ] = WRITERS,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete articles whose documents the same source has no more.")
    ] = False,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Ingest documents; what is unchanged is skipped, what was interrupted is completed.

    JSON lines are an object a line with the fields id (the article's external_ref) and title or text or both, and optionally kind,
    metadata (an object), source_uri, published (true or false) and language. Markdown may begin with front matter in YAML: title, kind,
    source_uri, published or draft, language or lang; all else in it becomes metadata.

    Exit code 1 if some documents were skipped (they are listed), 2 if there was nothing to do.
    """
    report: IngestReport | EmbedReport
    try:
        _check(
            {"PATH": bool(paths), "--pydoc": pydoc, "--from-sql": from_sql is not None, "--embed-missing": missing},
            {"--updated-at": updated_at},
            {
                "--prune": prune,
                "--language": language is not None,
                "--chunk-tokens": chunk_tokens is not None,
                "--chunk-characters": chunk_characters is not None,
                "--no-path": no_path,
                "--also": bool(also),
            },
            source,
        )
        options = SqlOptions(source or "", body_format.value, kind, updated_at, overlap, schema)
        with (
            (replace(embedding, embedder=NONE) if no_embed else embedding).made() as chosen,
            embedders_of(also or (), "--also") as others,
            _rows(from_sql, options, source_dsn or dsn) as rows,
            connected(dsn, schema) as connection,
            progress_bars(messages()) as progress,
        ):
            if missing:
                splitter = chosen_splitter(chosen, template=template, allow_machine_names=allow_machine_names)
                report = _embed_missing(connection, org, chosen, splitter=splitter, progress=progress, schema=schema)
            else:
                report = ingest(
                    connection,
                    organization_id(connection, org, create=True, schema=schema),
                    rows or file_sources(paths or [], pydoc=pydoc, kind=kind, name=source),
                    embedder=chosen,
                    splitter=chosen_splitter(
                        chosen,
                        tokens=chunk_tokens,
                        characters=chunk_characters,
                        template=template,
                        no_path=no_path,
                        allow_machine_names=allow_machine_names,
                    ),
                    language=language,
                    prune=prune,
                    machine=Machine.here(*paths or []),
                    also=others,
                    connect=functools.partial(connected, database(dsn, schema, upgrade=False), schema),
                    writers=writers,
                    progress=progress,
                    schema=schema,
                )
    except (UsageError, MissingExtraError, ModelFileError) as error:
        _complain(str(error))
        if isinstance(error, MissingExtraError) and not missing:
            _complain("Or ingest without vectors: --no-embed")
        raise typer.Exit(USAGE) from error
    if as_json:
        emit({**asdict(report), "organization": org})
    elif isinstance(report, IngestReport):
        show_report(console(), report, org)
    else:
        show_embedded(console(), report, org)
    if isinstance(report, IngestReport) and report.read == 0 and updated_at is None:
        _complain("There is no document to ingest.")
        raise typer.Exit(USAGE)
    if report.rejected:
        raise typer.Exit(NO)


def _check(
    origins: dict[str, bool], of_queries: dict[str, str | None], of_documents: dict[str, bool], source: str | None
) -> None:
    """Raise UsageError for what does not go together."""
    given = [name for name, is_given in origins.items() if is_given]
    if not given:
        raise UsageError("nothing to ingest: name a folder or a file, or give --from-sql, --pydoc or --embed-missing")
    if len(given) > 1 and given != ["PATH", "--pydoc"]:
        raise UsageError(f"{' and '.join(given)} do not go together: run kbsearch ingest for each")
    if origins["--embed-missing"] and (stray := [name for name, is_given in of_documents.items() if is_given]):
        raise UsageError(
            f"{stray[0]} and --embed-missing do not go together: no document is read, and chunks stay as they are"
        )
    if origins["--from-sql"] and not source:
        raise UsageError("--from-sql needs a name for what the rows are, which must stay the same: --source NAME")
    if not origins["--from-sql"] and (stray := [name for name, value in of_queries.items() if value is not None]):
        raise UsageError(f"{stray[0]} is about --from-sql, which is not given")


def _embed_missing(
    connection: psycopg.Connection[Any], org: str, embedder: Embedder | None, **options: Any
) -> EmbedReport:
    if embedder is None:
        raise UsageError("--embed-missing needs an embedder: leave --no-embed out, or name another --embedder")
    org_id = organization_id(connection, org, create=False, schema=options["schema"])
    return embed_missing(connection, org_id, embedder, **options)


def _complain(line: str) -> None:
    messages().print(clean(line), style="red", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _rows(query: str | None, options: SqlOptions, dsn: str | None) -> Iterator[SqlSource | None]:
    """The rows to ingest; None without a query."""
    if query is None:
        yield None
        return
    with source_connection(database(dsn, options.schema)) as connection:
        yield SqlSource(Query(connection, query), options)


def file_sources(paths: list[Path], *, pydoc: bool, kind: str, name: str | None) -> list[Source]:
    """What the paths of a command line are. Raises UsageError for one that is nothing that can be ingested."""
    sources = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
        own = printable(path.resolve().name if path.is_dir() else path.name).replace(":", "-") or "files"
        if path.is_dir():
            sources.append(Source(name or own, read_paths(path, kind=kind)))
        elif path.suffix.lower() in JSONL_SUFFIXES:
            sources.append(Source(name or own, read_jsonl(path, kind=kind)))
        elif path.suffix.lower() in FILE_SUFFIXES:
            # A file alone belongs to its folder, as if the folder were ingested.
            folder = printable(path.resolve().parent.name).replace(":", "-") or "files"
            sources.append(Source(name or folder, read_paths(path, kind=kind), complete=False))
        else:
            raise UsageError(
                f"{path.name} is of no type that can be ingested: {', '.join((*FILE_SUFFIXES, *JSONL_SUFFIXES))}"
            )
    if pydoc:
        sources.append(Source(name or "pydoc", read_pydoc(kind=kind)))
    return sources
