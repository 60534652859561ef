"""Progress of long work, for people who wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from kbsearch.ingest.report import Progress  # importing kbsearch.ingest takes as long as many a command

_STAGES = {
    "read": "reading",
    "reserve": "reserving ids",
    "articles": "articles",
    "embed": "embedding",
    "prune": "deleting",
    "compare": "comparing",
    "maintain": "maintaining",
}


@contextmanager
def progress_bars(console: Console) -> Iterator[Progress]:
    """Bars for long work: a line a stage, with rate and remaining time where its size is known; nothing where the output is no terminal."""
    bars = Bars(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def progress(stage: str, done: int, size: int) -> None:
        if stage not in tasks:
            # Without a total of its own a bar would count to 100.
            tasks[stage] = bars.add_task(_STAGES.get(stage, stage), total=None, count="", rate="")
        task = bars.tasks[tasks[stage]]
        count = f"{done:,}/{size:,}" if size else f"{done:,}"
        rate = f"{task.speed:,.0f}/s" if task.speed else ""
        bars.update(task.id, completed=done, total=size or None, count=count, rate=rate)

    with bars:
        yield progress
