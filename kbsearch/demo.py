"""What `make demo` runs: Python's language reference ingested, three questions answered, every page checked."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import clean, counted
from kbsearch.cli.progress import progress_bars
from kbsearch.cli.reports import show_report
from kbsearch.client import KBSearch
from kbsearch.embed import Embedder
from kbsearch.ingest import Source, ingest, read_pydoc
from kbsearch.ingest.organizations import organization_id
from kbsearch.schema import DEFAULT
from kbsearch.walks import WAYS, WHOLE, Question, mixed, partition_faults

ORGANIZATION = "python-docs"
QUESTIONS = (
    "Which branch of an if statement is executed?",
    "Why can a list not be a key of a dictionary?",
    "What does a generator do when it yields?",
)
SHOWN = 5
PAGE_SIZES = (10, 7)
MIXED_SIZES = (1, 2, 3, 5, 8, 13)


def run(output: Console, connection: psycopg.Connection[Any], embedder: Embedder, schema: str = DEFAULT) -> bool:
    """Run the demo on a connection in autocommit mode, and say whether all checks hold.

    Raises:
        KBSearchError, psycopg.Error: the database refused something or failed.
    """
    started = time.monotonic()
    org_id = organization_id(connection, ORGANIZATION, create=True, schema=schema)
    with progress_bars(output) as progress:
        source = Source("pydoc", read_pydoc(kind="page"))
        report = ingest(connection, org_id, [source], embedder=embedder, progress=progress, schema=schema)
    show_report(output, report, ORGANIZATION)
    client = KBSearch(connection, embedder=embedder, schema=schema)
    holds = [_answer(output, client, org_id, question, embedder) for question in QUESTIONS]
    if all(holds) and not report.rejected:
        output.print(f"[green]All pages are right.[/green] {time.monotonic() - started:.1f} s. What to try next:\n")
    else:
        output.print("[red]Something is wrong: see above.[/red]\n")
    for command in _next_commands():
        output.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)
    return all(holds) and not report.rejected


def _answer(output: Console, client: KBSearch, org_id: int, question: str, embedder: Embedder) -> bool:
    """Show the best answers to a question, walk its pages in several ways and say whether each walk gives the ranking."""
    (embedding,) = embedder.embed_queries([question])
    began = time.perf_counter()
    first = client.search(org_id, question, embedding, limit=WHOLE)
    milliseconds = (time.perf_counter() - began) * 1000
    whole = first.items
    words = clean(", ".join(first.legs.keyword.words)) or "none"
    table = Table(
        title=Text(question),
        caption=f"{counted(first.total, 'article')} ranked by {first.profile} in {milliseconds:.0f} ms; word stems known: {words}",
        title_justify="left",
        caption_justify="left",
    )
    for name, justify in (
        ("#", "right"),
        ("topic", "left"),
        ("title", "left"),
        ("score", "right"),
        ("cosine", "right"),
        ("words", "right"),
        ("ties", "left"),
    ):
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    for result in whole[:SHOWN]:
        tie = f"with {result.tied_with}{', by id' if result.settled_by_identity else ''}" if result.tied_with else ""
        table.add_row(
            str(result.place),
            Text(clean((result.external_ref or "").removeprefix("pydoc:"))),
            Text(clean(result.title or "")),
            f"{result.score:.6f}",
            _number(result.vector_similarity),
            _number(result.keyword_score),
            tie,
        )
    output.print(table)
    faults = (
        []
        if first.end_reached and first.total == len(whole)
        else [f"one page of {WHOLE} has {len(whole)} of {first.total} articles"]
    )
    asked = Question(client, org_id, question, embedding)
    walks = {f"pages of {size} by {way}": walk(asked, size) for size in PAGE_SIZES for way, walk in WAYS.items()}
    walks[f"pages of {', '.join(map(str, MIXED_SIZES))}, … by cursor"] = mixed(asked, MIXED_SIZES)
    checked = []
    for name, walk in walks.items():
        pages = [page.items for page in walk]
        faults.extend(f"{name}: {fault}" for fault in partition_faults(whole, pages))
        checked.append(f"{name} ({len([page for page in pages if page])})")
    tied = sum(1 for result in whole if result.tied_with)
    if faults:
        for fault in faults[:SHOWN]:
            output.print(f"  ✗ {fault}", style="red", markup=False)
    else:
        output.print(
            f"  [green]✓[/green] {counted(len(whole), 'article')}, {tied} of them tied; the same ranking from {'; '.join(checked)}\n",
            highlight=False,
        )
    return not faults


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _next_commands() -> list[str]:
    program = Path(sys.argv[0])
    with contextlib.suppress(ValueError):
        program = program.absolute().relative_to(Path.cwd())
    kbsearch = shlex.quote(str(program)) if program.name == "kbsearch" else "kbsearch"
    return [
        f"{kbsearch} search --org {ORGANIZATION} 'how are names looked up in enclosing scopes'",
        f"{kbsearch} search --org {ORGANIZATION} '\"context manager\" -async' --json",
        f"{kbsearch} explain --org {ORGANIZATION} 'how are names looked up in enclosing scopes' --limit 3",
        f"{kbsearch} pages --org {ORGANIZATION} 'how are names looked up in enclosing scopes' --size 3",
        f"{kbsearch} ingest ~/notes --org notes        # your own Markdown, text and HTML",
        f"{kbsearch} db url                            # the same functions from psql",
        f"{kbsearch} db stop                           # the embedded server stays up until then",
    ]
