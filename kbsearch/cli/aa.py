"""`kbsearch aa`: two builds of one configuration must rank the same."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    SchemaOption,
    clean,
    connected,
    console,
    database,
    emit,
    find_organization,
    messages,
)
from kbsearch.cli.complaints import complaining
from kbsearch.cli.embedders import LOCAL, NONE, EmbedderChoice, takes_embedder
from kbsearch.cli.evaluate import embedder_in_place
from kbsearch.cli.progress import progress_bars
from kbsearch.embed import MissingExtraError, ModelFileError
from kbsearch.evaluate.aa import Difference, Side, compare
from kbsearch.evaluate.build import BuildError
from kbsearch.evaluate.collection import Collection, CollectionError, prose
from kbsearch.evaluate.gold import GoldError, questions
from kbsearch.evaluate.variations import PROFILES, VARIATIONS, is_zero, some, summary, vary
from kbsearch.ingest import UsageError
from kbsearch.ingest.report import Progress
from kbsearch.schema import DEFAULT

Vary = StrEnum("Vary", list(VARIATIONS))  # type: ignore[misc]
IN_PLACE = "in place"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("aa", cls=Checked)(aa_command)


@takes_embedder
def aa_command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Folder of a collection, as for evaluate.", show_default=False),
    ] = None,
    *,
    vary_by: Annotated[
        list[Vary] | None,
        typer.Option(
            "--vary",
            help="What is built otherwise; may be repeated. By default all: "
            + "; ".join(f"{name}: {meaning}" for name, meaning in VARIATIONS.items())
            + ".",
            show_default=False,
        ),
    ] = None,
    other_dsn: Annotated[
        str | None,
        typer.Option("--other-dsn", help="The other server, or with --org the other database.", show_default=False),
    ] = None,
    org: Annotated[
        str | None,
        typer.Option(
            "--org", help="Build nothing: compare this organisation in both databases, as it is.", show_default=False
        ),
    ] = None,
    gold: Annotated[
        str | None,
        typer.Option(
            metavar="SET", help="With --org: the questions of this gold set, instead of a folder's.", show_default=False
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME@VERSION",
            help=f"Ranking profile; may be repeated. By default {', '.join(PROFILES)}.",
            show_default=False,
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--questions",
            min=1,
            help="Only so many questions, spread over all of them.",
            show_default=False,
        ),
    ] = None,
    syntax: Annotated[
        bool,
        typer.Option("--syntax", help='Quotes and leading hyphens of the questions are operators: "phrase", -word.'),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write what was found into this file, as JSON.", show_default=False)
    ] = None,
    embedding: EmbedderChoice,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Build a collection several times in other ways, and compare whole rankings: every difference is a fault.

    Builds are made in databases of their own, which are dropped again. An embedder that is named, or the local model where the folder has no vectors,
    computes them anew for each build. With --org nothing is built: the databases of --dsn and --other-dsn are compared, and nothing is written.

    Exit code 1 if anything differs; the first stage at which it does is named.
    """
    errors = messages()
    if (folder is None) == (gold is None) or (gold is not None and org is None):
        raise typer.BadParameter("name a folder, or an organisation and its gold set by --org NAME --gold SET")
    if org is not None and other_dsn is None:
        raise typer.BadParameter("the other database is missing", param_hint="--other-dsn")
    profiles = tuple(one if "@" in one else f"{one}@1" for one in profile or PROFILES)
    found: dict[str, Difference | str] = {}
    with complaining(BuildError, CollectionError, GoldError, MissingExtraError, ModelFileError, UsageError, work="A/A"):
        collection = None if folder is None else some(Collection.load(folder), number)
        with _terminated(), progress_bars(errors) as progress:
            asked = _Asked(profiles, number, embedding, progress, schema)
            if org is not None:
                found[IN_PLACE] = asked.in_place(dsn, str(other_dsn), org, gold, collection, syntax)
            elif collection is not None:
                names = list(dict.fromkeys(one.value for one in vary_by or Vary))
                for name, one in asked.varied(dsn, other_dsn, collection, names, syntax):
                    found[name] = one
                    if isinstance(one, str):
                        errors.print(f"{name}: not run: {one}", style="yellow", markup=False, soft_wrap=True)
    answer = {"collection": gold if collection is None else collection.name, **summary(found)}
    if output is not None:
        output.write_text(json.dumps(answer, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    if as_json:
        emit(answer)
    else:
        _show(console(), str(answer["collection"]), found)
    if not is_zero(found):
        raise typer.Exit(NO)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is compared, but for where it is."""

    profiles: tuple[str, ...]
    number: int | None
    embedding: EmbedderChoice
    progress: Progress
    schema: str

    def varied(
        self, dsn: str | None, other_dsn: str | None, collection: Collection, names: list[str], syntax: bool
    ) -> Iterator[tuple[str, Difference | str]]:
        """Builds of a collection."""
        complete = collection.document_vectors is not None and collection.query_vectors is not None
        with self.embedding.made(default=NONE if complete else LOCAL) as chosen:
            yield from vary(
                database(dsn, self.schema),
                collection,
                variations=names,
                profiles=self.profiles,
                other_dsn=other_dsn,
                embedder=chosen,
                syntax=syntax,
                progress=self.progress,
                schema=self.schema,
            )

    def in_place(
        self, dsn: str | None, other_dsn: str, org: str, gold: str | None, collection: Collection | None, syntax: bool
    ) -> Difference:
        """An organisation in two databases, each as it is at one moment."""
        with ExitStack() as stack:
            both = [stack.enter_context(connected(one, self.schema)) for one in (dsn, other_dsn)]
            for connection in both:
                stack.enter_context(connection.transaction())
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ids = [find_organization(connection, org, self.schema).id for connection in both]
            if collection is None:
                collection = some(questions(both[0], ids[0], str(gold), self.schema)[0], self.number)
            asked = [query.text for query in collection.queries]
            sides = []
            for connection, org_id in zip(both, ids, strict=True):
                with embedder_in_place(connection, org_id, self.embedding, self.schema) as chosen:
                    vectors = None if chosen is None else chosen.embed_queries(asked)
                sides.append(Side(connection, org_id, vectors, self.schema))
            return compare(
                sides[0],
                sides[1],
                collection,
                texts=asked if syntax or gold is not None else [prose(text) for text in asked],
                profiles=self.profiles,
                progress=self.progress,
            )


@contextmanager
def _terminated() -> Iterator[None]:
    """A request to end is obeyed as an interrupt is: what was made is taken away first."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(output: Console, collection: str, found: Mapping[str, Difference | str]) -> None:
    table = Table(title=Text(clean(f"A/A on {collection}: the same, built otherwise")))
    for title in ("variation", "questions", "places", "differing", "first place", "displaced by", "stage"):
        table.add_column(title, justify="left" if title in ("variation", "stage") else "right")
    for name, one in found.items():
        if isinstance(one, str):
            table.add_row(name, *("-",) * 5, Text("not run", style="yellow"))
            continue
        moved = f"{one.largest_displacement:.9f} ({one.leg})" if one.leg else "0"
        table.add_row(
            name,
            f"{one.questions:,}",
            f"{one.places:,}",
            f"{one.differing:,}",
            "-" if one.first_place is None else f"{one.first_place:,}",
            moved,
            Text(one.stage or "-", style="red" if one.stage else ""),
        )
    output.print(table)
    for name, one in found.items():
        if isinstance(one, Difference) and one.partings:
            for parting in one.partings:
                output.print(
                    Text(clean(f"{name}, {parting.stage} ({parting.count:,}): {parting.where}: {parting.what}")),
                    soft_wrap=True,
                )
            if not one.ids_in_order:
                output.print(Text(f"{name}: ids are in another order of the names: ties are settled otherwise"))
            for note in one.notes:
                output.print(Text(clean(f"{name}: {note}")), soft_wrap=True)
