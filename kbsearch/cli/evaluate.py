"""`kbsearch evaluate`: legs and fusions side by side on a collection with relevance judgements."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    USAGE,
    Checked,
    DsnOption,
    JsonOption,
    clean,
    connected,
    console,
    counted,
    emit,
    messages,
)
from kbsearch.cli.ingest import progress_bars
from kbsearch.embed import Embedder, LocalEmbedder, MissingExtraError, ModelFileError
from kbsearch.evaluate import METRICS, SYSTEMS, Collection, CollectionError, Evaluation, evaluate


class Split(StrEnum):
    """How documents become chunks."""

    none = "none"
    sentences = "sentences"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", cls=Checked)(evaluate_command)


def evaluate_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder with corpus.jsonl, queries.jsonl, qrels.tsv and, if there are any, minilm.docs.npy and minilm.queries.npy.",
        ),
    ],
    *,
    split: Annotated[Split, typer.Option(help="One chunk a document, or a chunk a sentence.")] = Split.none,
    system: Annotated[
        list[str] | None, typer.Option(help=f"Only this system; may be repeated. {', '.join(SYSTEMS)}.")
    ] = None,
    syntax: Annotated[
        bool,
        typer.Option("--syntax", help='Quotes and leading hyphens of the questions are operators: "phrase", -word.'),
    ] = False,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how well a collection's questions are answered; the database is left as it was.

    Exit code 1 if some questions were refused: they count 0.
    """
    errors = messages()
    try:
        if unknown := sorted(set(system or ()) - set(SYSTEMS)):
            raise CollectionError(f"unknown system {unknown[0]!r}: there are {', '.join(SYSTEMS)}")  # noqa: TRY301
        collection = Collection.load(folder)
        complete = collection.query_vectors is not None and collection.document_vectors is not None
        embedder: Embedder | None = None if complete and split is Split.none else LocalEmbedder()
        with connected(dsn) as connection, progress_bars(errors) as progress:
            evaluation = evaluate(
                connection,
                collection,
                systems={name: profile for name, profile in SYSTEMS.items() if not system or name in system},
                split=split.value,
                embedder=embedder,
                syntax=syntax,
                progress=progress,
            )
    except (MissingExtraError, ModelFileError, CollectionError) as error:
        errors.print(clean(str(error)), style="red", markup=False)
        raise typer.Exit(USAGE) from error
    except ModuleNotFoundError as error:
        errors.print(
            f"evaluation needs the package {error.name}: pip install 'kbsearch[evaluate]'", style="red", markup=False
        )
        raise typer.Exit(USAGE) from error
    if as_json:
        emit(evaluation.as_json())
    else:
        _show(console(), evaluation, split)
    for query, reason in evaluation.refused.items():
        errors.print(clean(f"query {query} was refused and counts 0: {reason}"), style="yellow", markup=False)
    if evaluation.refused:
        raise typer.Exit(NO)


def _show(output: Console, evaluation: Evaluation, split: Split) -> None:
    table = Table(
        title=Text(
            f"{clean(evaluation.collection)}: {counted(evaluation.documents, 'article')}, {counted(evaluation.chunks, 'chunk')}"
            f"{' (a sentence each)' if split is Split.sentences else ''}, {counted(evaluation.queries, 'question')}; "
            f"{counted(evaluation.skipped, 'document')} without text skipped"
        ),
        caption=f"loaded in {evaluation.load_seconds:.1f} s, all in {evaluation.seconds:.1f} s; best of each metric in bold",
    )
    table.add_column("system")
    for name in (*METRICS, "median ms"):
        table.add_column(name, justify="right")
    best = {name: max(round(result.metrics[name], 4) for result in evaluation.systems.values()) for name in METRICS}
    for name, result in evaluation.systems.items():
        cells = [
            f"[bold]{value:.4f}[/bold]" if round(value, 4) == best[metric] else f"{value:.4f}"
            for metric, value in ((metric, result.metrics[metric]) for metric in METRICS)
        ]
        table.add_row(name, *cells, f"{result.median_ms:.1f}")
    output.print(table)
