"""`kbsearch evaluate`: legs and fusions side by side on a collection with relevance judgements."""

from __future__ import annotations

from dataclasses import replace
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
    SchemaOption,
    clean,
    connected,
    console,
    counted,
    emit,
    messages,
)
from kbsearch.cli.embedders import (
    LOCAL,
    NONE,
    BaseUrlOption,
    DimensionsOption,
    EmbedderOption,
    ModelOption,
    PassagePrefixOption,
    QueryPrefixOption,
    chosen_embedder,
)
from kbsearch.cli.progress import progress_bars
from kbsearch.embed import MissingExtraError, ModelFileError
from kbsearch.embed.errors import how_to_install
from kbsearch.evaluate import METRICS, SYSTEMS, Collection, CollectionError, Evaluation, evaluate
from kbsearch.schema import DEFAULT

_HEADINGS = {name: name.replace("Success", "hit").replace("RR", "MRR") for name in METRICS}
"""Short enough for 80 columns."""


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
    embedder: EmbedderOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    dimensions: DimensionsOption = None,
    query_prefix: QueryPrefixOption = None,
    passage_prefix: PassagePrefixOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Measure how well a collection's questions are answered; the database is left as it was.

    An embedder that is named computes the vectors; else those of the folder are used, and the local model computes what it lacks.

    Exit code 1 if some questions were refused: they count 0.
    """
    errors = messages()
    try:
        if unknown := sorted(set(system or ()) - set(SYSTEMS)):
            raise CollectionError(f"unknown system {unknown[0]!r}: there are {', '.join(SYSTEMS)}")  # noqa: TRY301
        collection = Collection.load(folder)
        if embedder not in (None, NONE):
            collection = replace(collection, document_vectors=None, query_vectors=None)
        complete = collection.query_vectors is not None and collection.document_vectors is not None
        default = NONE if complete and split is Split.none else LOCAL
        with (
            chosen_embedder(
                embedder,
                model=model,
                base_url=base_url,
                dimensions=dimensions,
                query_prefix=query_prefix,
                passage_prefix=passage_prefix,
                default=default,
            ) as chosen,
            connected(dsn, schema) as connection,
            progress_bars(errors) as progress,
        ):
            if chosen is None and default != NONE:
                raise CollectionError("the folder brings no vectors for this: name an --embedder")  # noqa: TRY301
            evaluation = evaluate(
                connection,
                collection,
                systems={name: profile for name, profile in SYSTEMS.items() if not system or name in system},
                split=split.value,
                embedder=chosen,
                syntax=syntax,
                progress=progress,
                schema=schema,
            )
    except (MissingExtraError, ModelFileError, CollectionError) as error:
        errors.print(clean(str(error)), style="red", markup=False)
        raise typer.Exit(USAGE) from error
    except ModuleNotFoundError as error:
        errors.print(
            f"evaluation needs the package {error.name}, which is not installed. {how_to_install('evaluate')}",
            style="red",
            markup=False,
            soft_wrap=True,
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
        caption=f"loaded in {evaluation.load_seconds:.1f} s, all in {evaluation.seconds:.1f} s; ms: median of a search; best of each metric in bold",
    )
    table.add_column("system", overflow="fold")
    for name in (*_HEADINGS.values(), "ms"):
        table.add_column(name, justify="right", no_wrap=True)
    best = {name: max(round(result.metrics[name], 3) for result in evaluation.systems.values()) for name in METRICS}
    for name, result in evaluation.systems.items():
        cells = [
            f"[bold]{value:.3f}[/bold]" if round(value, 3) == best[metric] else f"{value:.3f}"
            for metric, value in ((metric, result.metrics[metric]) for metric in METRICS)
        ]
        table.add_row(name, *cells, f"{result.median_ms:.1f}")
    output.print(table)
