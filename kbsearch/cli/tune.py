"""`kbsearch tune`: weights that answer a collection's or a gold set's questions better, and a ranking profile of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    REFUSED,
    Checked,
    DsnOption,
    JsonOption,
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
from kbsearch.cli.embedders import EmbedderChoice, takes_embedder
from kbsearch.cli.evaluate import Split, embedder_in_place, embedder_of
from kbsearch.cli.progress import progress_bars
from kbsearch.embed import MissingExtraError, ModelFileError
from kbsearch.embed.errors import require
from kbsearch.evaluate.choice import FOLDS, Difference, TuningError
from kbsearch.evaluate.collection import Collection, CollectionError
from kbsearch.evaluate.gold import GoldError, questions
from kbsearch.evaluate.plots import save_surface
from kbsearch.evaluate.profiles import NAME, sql_of
from kbsearch.evaluate.report import chance, number
from kbsearch.evaluate.tune import DifferentRankingError, Plan, Tuned, tune_collection, tune_in_place
from kbsearch.ingest import UsageError
from kbsearch.ingest.report import Progress
from kbsearch.schema import DEFAULT


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tune", cls=Checked)(tune_command)


@takes_embedder
def tune_command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="Folder of a collection, as kbsearch evaluate takes it.", show_default=False
        ),
    ] = None,
    *,
    gold: Annotated[
        str | None,
        typer.Option(
            metavar="SET",
            help="Tune on this gold set of an organisation, as it is; nothing is loaded.",
            show_default=False,
        ),
    ] = None,
    org: Annotated[
        str | None,
        typer.Option(
            "--org",
            help="Organisation that a better profile is written into; with --gold, of the gold set. Without it a folder's profile is shown only.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="What a new profile is called; its version is the next one.")] = NAME,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="NAME@VERSION", help="The profile to be better than.", show_default="the one that searches use"
        ),
    ] = None,
    hold_out: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.9, help="Share of the questions that nothing is chosen on, to be told how it does on them."
        ),
    ] = 0.0,
    folds: Annotated[int, typer.Option(min=2, max=50, help="Parts of the cross-validation.")] = FOLDS,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Another collection: nothing is chosen that is significantly worse on it. May be repeated.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the surface into this file: .png or .svg.", dir_okay=False, show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write no profile.")] = False,
    split: Annotated[Split, typer.Option(help="One chunk a document, or a chunk a sentence.")] = Split.none,
    syntax: Annotated[
        bool | None,
        typer.Option(
            "--syntax/--no-syntax",
            help="Whether quotes and leading hyphens of the questions are operators. By default in a gold set, not in a folder.",
            show_default=False,
        ),
    ] = None,
    embedding: EmbedderChoice,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Search weights, k of rrf and weights by class of question; make a profile if it answers held-out questions significantly better.

    Profiles never change: a better one is a new version, and no search uses it until it is asked for or pinned. A run that is stopped leaves
    nothing. Exit code 0: something better was found. 1: nothing is. 2: wrong command line, or too few questions. 3: refused by kbsearch.
    """
    errors = messages()
    if not re.fullmatch("[a-z][a-z0-9_]{0,62}", name):
        raise typer.BadParameter(
            f"{clean(name)!r} is not 1 to 63 of a-z, 0-9 and _, a letter first", param_hint="--name"
        )
    plan = Plan(base=base, name=name, folds=folds, hold_out=hold_out)
    with (
        complaining(DifferentRankingError, code=REFUSED),
        complaining(MissingExtraError, ModelFileError, CollectionError, GoldError, TuningError, UsageError),
    ):
        require("scipy", "statistics", extra="evaluate")
        if plot is not None:
            _check_plot(plot)
        if (folder is None) == (gold is None) or (gold is not None and also):
            raise CollectionError("name a folder, or a gold set by --gold SET; --also goes with a folder")
        collections = [Collection.load(one) for one in (folder, *(also or ())) if one is not None]
        with connected(dsn, schema) as connection, progress_bars(errors) as progress:
            asking = _Asking(connection, plan, not dry_run, embedding, progress, schema)
            tuned = (
                asking.folders(collections, org, split, bool(syntax))
                if gold is None
                else asking.gold_set(gold, org, syntax is not False)
            )
        if plot is not None:
            save_surface(plot, tuned.tuning)
    if as_json:
        emit({**tuned.tuning.as_json(), "profile": tuned.profile})
    else:
        _show(console(), tuned, name, schema)
        if plot is not None:
            console().print(f"wrote {clean(str(plot))}", markup=False, highlight=False, soft_wrap=True)
    if tuned.tuning.chosen is None:
        raise typer.Exit(NO)


@dataclass(frozen=True, slots=True)
class _Asking:
    """How to tune, but for where the questions come from."""

    connection: Any
    plan: Plan
    write: bool
    embedding: EmbedderChoice
    progress: Progress
    schema: str

    def gold_set(self, name: str, org: str | None, syntax: bool) -> Tuned:
        org_id = find_organization(self.connection, org, self.schema).id
        asked, _ = questions(self.connection, org_id, name, self.schema)
        with embedder_in_place(self.connection, org_id, self.embedding, self.schema) as chosen:
            if chosen is None:
                raise CollectionError("without vectors there is one leg, and nothing to weigh")
            return tune_in_place(
                self.connection,
                org_id,
                asked,
                self.plan,
                write=self.write,
                embedder=chosen,
                syntax=syntax,
                progress=self.progress,
                schema=self.schema,
            )

    def folders(self, collections: Sequence[Collection], org: str | None, split: Split, syntax: bool) -> Tuned:
        """Tune on the first, and look at the others."""
        into = None if org is None else find_organization(self.connection, org, self.schema).id
        with embedder_of(self.embedding, collections, split) as (asked, chosen):
            return tune_collection(
                self.connection,
                asked[0],
                self.plan,
                also=asked[1:],
                org_id=into,
                write=self.write,
                split=split.value,
                embedder=chosen,
                syntax=syntax,
                progress=self.progress,
                schema=self.schema,
            )


def _check_plot(file: Path) -> None:
    problem = None
    if file.suffix not in (".png", ".svg"):
        problem = "the file's name ends in .png or .svg"
    elif not file.resolve().parent.is_dir():
        problem = f"there is no folder {clean(str(file.parent))!r}"
    if problem:
        raise typer.BadParameter(problem, param_hint="--plot")
    require("matplotlib", "plots", extra="evaluate")


def _show(output: Console, tuned: Tuned, name: str, schema: str) -> None:
    tuning = tuned.tuning
    table = Table(
        title=Text(
            clean(
                f"nDCG@10 against {tuning.base}: {counted(tuning.questions, 'question')} in {counted(tuning.groups, 'group')}"
            )
        ),
        title_justify="left",
        caption="held out: each question by what the other folds chose; p of a paired randomisation test over groups of questions with the "
        "same relevant articles, adjusted for three families (Holm)",
    )
    table.add_column("setting")
    for column in ("chosen\non", "held\nout", "now", "change", "95 %", "p", "won\nlost"):
        table.add_column(column, justify="right")
    for found in tuning.families:
        held = found.held_out
        style = "green" if tuning.chosen is not None and found.setting == tuning.chosen.setting else ""
        table.add_row(
            Text(clean(str(found.setting)), style=style),
            number(found.tuned),
            number(held.mean),
            number(held.base),
            number(held.difference, signed=True),
            f"{number(held.low, signed=True)}\n{number(held.high, signed=True)}",
            chance(found.p_adjusted),
            f"{held.wins:,}\n{held.losses:,}",
        )
    output.print(table)
    setting = tuning.best.setting
    if tuning.apart is not None:
        _tell(output, f"On the questions held out altogether, {setting}", tuning.apart)
    for collection, difference in tuning.elsewhere.items():
        _tell(output, f"On {collection}, {setting}", difference)
    if tuning.asked.refused:
        output.print(
            f"{counted(len(tuning.asked.refused), 'question')} refused, counted as 0", style="yellow", highlight=False
        )
    output.print(
        clean(tuning.reason), style="green" if tuning.chosen else "", markup=False, highlight=False, soft_wrap=True
    )
    if tuned.profile is not None:
        pin = f"UPDATE {schema}.organizations SET ranking_profile = '{tuned.profile}' WHERE id = …"
        lines = [
            f"Made the profile {tuned.profile}. No search uses it until it is asked for (--profile) or pinned:",
            f"  {pin}",
        ]
    elif tuning.chosen is not None:
        lines = ["No profile was written. The SQL that makes it, with an organisation's id as :org_id:"]
        lines.append(sql_of(setting, name, tuned.kept, schema))
    else:
        lines = []
    for line in lines:
        output.print(clean(line, keep="\n"), markup=False, highlight=False, soft_wrap=True)


def _tell(output: Console, what: str, found: Difference) -> None:
    change = f"{number(found.difference, signed=True)}, p {chance(found.p)}"
    text = clean(f"{what}: {number(found.mean)}, now {number(found.base)} ({change})")
    output.print(text, markup=False, highlight=False, soft_wrap=True)
