"""Compare arbitration policies with plain fusion: `python -m benchmarks.arbitration`. Writes benchmarks/ARBITRATION.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.arbitration import report
from benchmarks.arbitration.collect import COLLECTED, COLLECTIONS, SHARED, TRAINING, Asked, Track, collect, missing
from benchmarks.arbitration.compare import DifferentError, candidates, check_figures, check_searches, compare, systems
from benchmarks.arbitration.rankings import study
from benchmarks.arbitration.tuning import Grid, best_policy, best_weight
from kbsearch.embed import MissingExtraError, ModelFileError
from kbsearch.evaluate import CollectionError

DIFFERENT = 1
USAGE = 2


def main(
    *,
    collections: Annotated[Path, typer.Option(help="Folder of the collections.")] = SHARED,
    collected: Annotated[Path, typer.Option(help="Where the server's answers are kept.")] = COLLECTED,
    page: Annotated[Path, typer.Option(help="The page to write.")] = report.PAGE,
    again: Annotated[bool, typer.Option("--again", help="Ask the server again, also what it has answered.")] = False,
) -> None:
    """Tune arbitration policies on some questions of public collections and compare them on the others.

    Asking takes some 5 minutes, once; the rest 2. A run that is stopped goes on where it was.

    Exit status 1: what is computed is not what the server answers; 2: the collections are missing.
    """
    console, errors = Console(), Console(stderr=True)
    if absent := missing(collections):
        errors.print(
            f"The collections with relevance judgements, which are no part of the repository, are not in {collections}: {absent[0]} "
            f"is missing, the first of {len(absent)} files. Name the folder with --collections, or the one above it in KBSEARCH_SHARED.",
            style="red",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(USAGE)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=errors) as progress:

            def track(items: Sequence[int], description: str) -> Iterator[int]:
                task = progress.add_task(description, total=len(items))
                for item in items:
                    yield item
                    progress.advance(task)

            found = _run(collect(collections, collected, track, again=again), track)
    except KeyboardInterrupt:
        errors.print("Stopped; what was collected is kept.")
        raise typer.Exit(130) from None
    except DifferentError as error:
        errors.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(DIFFERENT) from error
    except (CollectionError, MissingExtraError, ModelFileError) as error:
        errors.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(USAGE) from error
    console.print(report.table(found))
    page.write_text(report.markdown(found), encoding="utf-8")
    console.print(f"wrote {page}", soft_wrap=True)


def _run(answers: Mapping[str, Asked], track: Track) -> report.Found:
    """Compute, check, tune and compare."""
    studied = {name: study(answers[name], track, name) for name in (*COLLECTIONS, TRAINING)}
    searches = {}
    for name in COLLECTIONS:
        check_figures(name, studied[name])
        searches[name] = check_searches(name, answers[name], studied[name])
    first, second = studied["stackfaq"].halves()
    tuning = {TRAINING: studied[TRAINING], "stackfaq": first}
    held_out = {"scifact": studied["scifact"], "cranfield": studied["cranfield"], "stackfaq": second}
    weights = best_weight(list(tuning.values()))
    policies = best_policy(list(tuning.values()), Grid(), track)
    chosen = candidates(weights, policies)
    builtin = answers["scifact"].builtin()
    compared = systems(chosen, builtin)
    names = list(compared)
    rows = [
        compare(names[number], compared[names[number]], held_out) for number in track(range(len(names)), "comparing")
    ]
    return report.Found(
        rows=rows,
        candidates=chosen,
        tuning=tuning,
        held_out=held_out,
        weights=weights,
        policies=policies,
        builtin=builtin,
        searches=searches,
        server=str(answers["scifact"].server),
    )


if __name__ == "__main__":
    typer.run(main)
