"""Reports of ingests, as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import clean
from kbsearch.ingest import EmbedReport, IngestReport, Rejected

SHOWN_REJECTED = 20
ALWAYS_SHOWN = (
    "documents read",
    "articles written",
    "articles unchanged",
    "chunks without a vector",
    "chunks embedded now",
)


def show_report(console: Console, report: IngestReport, organization: str) -> None:
    """Print what an ingest did."""
    rows = [
        ("documents read", report.read),
        ("articles written", report.written),
        ("articles unchanged", report.unchanged),
        ("articles embedded anew, unchanged otherwise", report.reembedded),
        ("articles that another source had before", report.taken_over),
        ("articles deleted", report.deleted),
        ("documents skipped", len(report.rejected)),
        ("chunks written", report.chunks),
        ("chunks embedded", report.embedded_chunks),
        ("chunks longer than the model reads", report.truncated_chunks),
    ]
    title = f"Ingest into {clean(organization)!r} (organisation {report.org_id})"
    _show(console, title, rows, report.space, report.seconds)
    _show_rest(console, report.notes, report.rejected, "document")


def show_embedded(console: Console, report: EmbedReport, organization: str) -> None:
    """Print what embedding the chunks without a vector did."""
    rows = [
        ("chunks without a vector", report.missing),
        ("chunks embedded now", report.embedded),
        ("chunks changed meanwhile", report.changed),
        ("chunks skipped", len(report.rejected)),
        ("chunks longer than the model reads", report.truncated),
    ]
    title = f"Vectors for {clean(organization)!r} (organisation {report.org_id})"
    _show(console, title, rows, report.space, report.seconds)
    _show_rest(console, report.notes, report.rejected, "chunk")


def _show(console: Console, title: str, rows: Sequence[tuple[str, int]], space: str | None, seconds: float) -> None:
    table = Table(title=Text(title), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for label, count in rows:
        if count or label in ALWAYS_SHOWN:
            table.add_row(label, f"{count:,}")
    if space is not None:
        table.add_row("embedding space", Text(clean(space)))
    table.add_row("seconds", f"{seconds:.1f}")
    console.print(table)


def _show_rest(console: Console, notes: Sequence[str], rejected: Sequence[Rejected], what: str) -> None:
    for note in notes:
        console.print(clean(note), style="yellow", markup=False)
    if rejected:
        skipped = Table(what, "skipped because", title="Skipped")
        for entry in rejected[:SHOWN_REJECTED]:
            skipped.add_row(Text(clean(entry.where)), Text(clean(entry.reason)))
        if len(rejected) > SHOWN_REJECTED:
            skipped.caption = f"and {len(rejected) - SHOWN_REJECTED} more: --json lists all"
        console.print(skipped)
