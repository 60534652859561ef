"""`kbsearch evaluate`: legs and fusions side by side on a collection with relevance judgements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    OrgOption,
    SchemaOption,
    clean,
    connected,
    console,
    counted,
    emit,
    find_organization,
    messages,
)
from kbsearch.cli.complaints import complaining
from kbsearch.cli.embedders import LOCAL, NONE, EmbedderChoice, takes_embedder
from kbsearch.cli.progress import progress_bars
from kbsearch.embed import Embedder, MissingExtraError, ModelFileError
from kbsearch.evaluate import (
    METRICS,
    SYSTEMS,
    Collection,
    CollectionError,
    Evaluation,
    RunError,
    evaluate,
    evaluate_in_place,
)
from kbsearch.evaluate.gold import GoldError, questions
from kbsearch.ingest import UsageError
from kbsearch.ingest.report import Progress
from kbsearch.ingest.spaces import active_identity
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


@takes_embedder
def evaluate_command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="Folder of a collection: kbsearch's layout (corpus.jsonl, queries.jsonl, qrels.tsv; if there are any, minilm.docs.npy and "
            "minilm.queries.npy), BEIR's or TREC's (topics, qrels, documents).",
            show_default=False,
        ),
    ] = None,
    *,
    gold: Annotated[
        str | None,
        typer.Option(
            metavar="SET", help="Ask this gold set of an organisation, as it is; nothing is loaded.", show_default=False
        ),
    ] = None,
    org: OrgOption = None,
    split: Annotated[Split, typer.Option(help="One chunk a document, or a chunk a sentence.")] = Split.none,
    system: Annotated[
        list[str] | None, typer.Option(help=f"Only this system; may be repeated. {', '.join(SYSTEMS)}.")
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME@VERSION",
            help="Only this ranking profile; may be repeated. With --gold the organisation's own, too.",
            show_default=False,
        ),
    ] = None,
    syntax: Annotated[
        bool | None,
        typer.Option(
            "--syntax/--no-syntax",
            help='Whether quotes and leading hyphens of the questions are operators: "phrase", -word. By default in a gold set, not in a folder.',
            show_default=False,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write each system's rankings into this folder: SYSTEM.run (TREC), SYSTEM.json (what decided it), qrels.",
            show_default=False,
        ),
    ] = None,
    embedding: EmbedderChoice,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Measure how well questions are answered: a collection's, which is loaded for that and removed again, or a gold set's.

    An embedder that is named computes the vectors; else those of the folder are used, and the local model computes what it lacks.

    Exit code 1 if some questions were refused: they count 0. A question that an arbitrated search escalates counts 0, too, and is told.
    """
    errors = messages()
    with complaining(
        MissingExtraError, ModelFileError, CollectionError, GoldError, RunError, UsageError, work="evaluation"
    ):
        if (folder is None) == (gold is None):
            raise CollectionError("name a folder, or a gold set by --gold SET")
        systems = _systems(system, profile)
        collection = Collection.load(folder) if folder is not None else None
        with connected(dsn, schema) as connection, progress_bars(errors) as progress:
            asked = _Asked(connection, systems, embedding, progress, schema)
            evaluation = (
                asked.gold_set(gold or "", org, syntax is not False)
                if collection is None
                else asked.collection(collection, split, bool(syntax))
            )
        if save is not None:
            for result in evaluation.systems.values():
                result.run.save(save)
    if as_json:
        emit(evaluation.as_json())
    else:
        _show(console(), evaluation, split)
    _complain(errors, evaluation)
    if evaluation.refused:
        raise typer.Exit(NO)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is measured, but for where the questions come from."""

    connection: Any
    systems: Mapping[str, str]
    embedding: EmbedderChoice
    progress: Progress
    schema: str

    def gold_set(self, name: str, org: str | None, syntax: bool) -> Evaluation:
        org_id = find_organization(self.connection, org, self.schema).id
        asked, unjudged = questions(self.connection, org_id, name, self.schema)
        with embedder_in_place(self.connection, org_id, self.embedding, self.schema) as chosen:
            return evaluate_in_place(
                self.connection,
                org_id,
                asked,
                systems=self.systems,
                embedder=chosen,
                syntax=syntax,
                unjudged=unjudged,
                progress=self.progress,
                schema=self.schema,
            )

    def collection(self, collection: Collection, split: Split, syntax: bool) -> Evaluation:
        with embedder_of(self.embedding, [collection], split) as ((given,), chosen):
            return evaluate(
                self.connection,
                given,
                systems=self.systems,
                split=split.value,
                embedder=chosen,
                syntax=syntax,
                progress=self.progress,
                schema=self.schema,
            )


def _systems(system: list[str] | None, profile: list[str] | None) -> dict[str, str]:
    """Ranking profiles by the names of what is compared."""
    if unknown := sorted(set(system or ()) - set(SYSTEMS)):
        raise CollectionError(f"unknown system {unknown[0]!r}: there are {', '.join(SYSTEMS)}; others by --profile")
    named = {name: found for name, found in SYSTEMS.items() if name in (system or (() if profile else SYSTEMS))}
    return named | {one if "@" in one else f"{one}@1": one for one in profile or ()}


@contextmanager
def embedder_of(
    embedding: EmbedderChoice, collections: Sequence[Collection], split: Split
) -> Iterator[tuple[list[Collection], Embedder | None]]:
    """Collections with the vectors that are to be used, and the embedder of what they lack: one that is named computes all of them anew."""
    found = list(collections)
    if embedding.embedder not in (None, NONE):
        found = [replace(one, document_vectors=None, query_vectors=None) for one in found]
    complete = all(one.query_vectors is not None and one.document_vectors is not None for one in found)
    default = NONE if complete and split is Split.none else LOCAL
    with embedding.made(default=default) as chosen:
        if chosen is None and default != NONE:
            raise CollectionError("the folder brings no vectors for this: name an --embedder")
        yield found, chosen


@contextmanager
def embedder_in_place(
    connection: Any, org_id: int, embedding: EmbedderChoice, schema: str
) -> Iterator[Embedder | None]:
    """The embedder of the organisation's questions: the one named, or the local model if it is of the active space."""
    active = active_identity(connection, org_id, schema)
    if active is None or embedding.embedder == NONE:
        if embedding.embedder not in (None, NONE):
            raise UsageError("the organisation has no embeddings: --embedder none asks by words only")
        yield None
        return
    space, identity, _ = active
    with embedding.made() as chosen:
        if chosen is None or (chosen.model, chosen.revision, chosen.dimensions) != identity:
            raise UsageError(
                f"searches use the space {space.name!r}, of {identity[0]}: name its --embedder, or ask by words only (--embedder none)"
            )
        yield chosen


def _complain(errors: Console, evaluation: Evaluation) -> None:
    for name, result in evaluation.systems.items():
        if result.escalated:
            errors.print(
                clean(
                    f"{name}: {counted(len(result.escalated), 'question')} of {evaluation.queries} escalated, with no ranking: counted as 0"
                ),
                style="yellow",
                markup=False,
                soft_wrap=True,
            )
    for query, reason in evaluation.refused.items():
        errors.print(
            clean(f"query {query} was refused and counts 0: {reason}"), style="yellow", markup=False, soft_wrap=True
        )


def _show(output: Console, evaluation: Evaluation, split: Split) -> None:
    left = [
        f"{counted(evaluation.skipped, 'document')} without text skipped",
        *([f"{counted(evaluation.unjudged, 'question')} without a judgement"] if evaluation.unjudged else []),
    ]
    table = Table(
        title=Text(
            f"{clean(evaluation.collection)}: {counted(evaluation.documents, 'article')}, {counted(evaluation.chunks, 'chunk')}"
            f"{' (a sentence each)' if split is Split.sentences else ''}, {counted(evaluation.queries, 'question')}; {', '.join(left)}"
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
