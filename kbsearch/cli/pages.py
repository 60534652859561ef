"""`kbsearch pages`: the pages of a search walked in three ways, and whether each walk gives the ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.asking import (
    CacheOption,
    EmbedOption,
    ExploratoryOption,
    KindOption,
    LanguageOption,
    MinScoreOption,
    ProfileOption,
    QuestionArgument,
    QuotaOption,
    asking,
    escalated,
    one_moment,
)
from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    OrgOption,
    SchemaOption,
    clean,
    console,
    counted,
    emit,
    messages,
)
from kbsearch.cli.embedders import EmbedderChoice, takes_embedder
from kbsearch.cli.results import arbitrated, reasons
from kbsearch.errors import SnapshotError
from kbsearch.models import Page, Result
from kbsearch.schema import DEFAULT
from kbsearch.walks import WAYS, WHOLE, Question, partition_faults

FIRST_PAGES, LAST_PAGES = 5, 2
"""Pages that are shown of a long walk, beside those that differ."""
MOST_LINES = 6
"""Of a page that is as it should be."""
SHOWN_FAULTS = 5
_NUMBERS = {1: "one way", 2: "two ways", 3: "three ways"}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("pages", cls=Checked)(pages)


@takes_embedder
def pages(
    context: typer.Context,
    question: QuestionArgument,
    *,
    size: Annotated[int, typer.Option(min=1, max=WHOLE, help="Articles on a page.")] = 10,
    first: Annotated[int, typer.Option(min=1, max=WHOLE, help="Check so many articles, the best ones.")] = WHOLE,
    org: OrgOption = None,
    kind: KindOption = None,
    quota: QuotaOption = None,
    profile: ProfileOption = None,
    min_score: MinScoreOption = None,
    language: LanguageOption = None,
    exploratory: ExploratoryOption = False,
    embed: EmbedOption = None,
    cache: CacheOption = False,
    embedding: EmbedderChoice,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Walk all pages by offset, by cursor and by snapshot, and check that each walk gives the ranking: nothing twice, nothing missing.

    Nothing is left behind. Exit code 1 if something is wrong, or nothing was found.
    """
    with (
        asking(context, embedding, dsn=dsn, schema=schema, org=org, embed=embed, cache=cache) as asked,
        one_moment(asked.connection),
    ):
        ranking = asked.ranking(kind, quota, profile, min_score, language, exploratory)
        asks = Question(asked.client, asked.organization.id, question, options=ranking)
        whole = asks.ask(limit=first)
        if whole.verdict == "escalated" and whole.manifest is not None:
            raise escalated(whole.manifest)
        walks = [_walk(asks, way, size, whole) for way in WAYS]
    if as_json:
        emit(_as_json(size, whole, walks))
    else:
        _show(console(), size, whole, walks)
    if whole.total == 0 or any(walk.faults for walk in walks):
        raise typer.Exit(NO)


@dataclass(frozen=True, slots=True)
class Walk:
    """The pages of a search, walked in one way.

    Attributes:
        way: offset, cursor or snapshot.
        pages: the articles of each.
        faults: what is wrong with them, in words.
        refused: why there are none: the server stores nothing.
    """

    way: str
    pages: tuple[tuple[Result, ...], ...] = ()
    faults: list[str] = field(default_factory=list)
    refused: str | None = None


def _walk(asks: Question, way: str, size: int, whole: Page) -> Walk:
    """Walk to the end, or as far as the ranking is to be checked, and check it."""
    wanted = len(whole.items)
    walked: list[tuple[Result, ...]] = []
    with messages().status(f"Walking by {way} …"):
        try:
            for page in WAYS[way](asks, size):
                left = wanted - sum(map(len, walked))
                # A walk that goes on beyond the end of the ranking is shown to do so, for a page.
                walked.append(page.items if whole.end_reached else page.items[:left])
                if left < len(page.items) or (left == len(page.items) and not whole.end_reached):
                    break
        except SnapshotError as error:
            return Walk(way, refused=f"{error} ({error.sqlstate})")
    faults = partition_faults(whole.items, walked)
    faults += [
        f"page {number} has {counted(len(items), 'article')} instead of {size}"
        for number, items in enumerate(walked[:-1], 1)
        if len(items) != size
    ]
    return Walk(way, tuple(walked), faults)


def _as_json(size: int, whole: Page, walks: Sequence[Walk]) -> dict[str, Any]:
    names = ("place", "article_id", "external_ref", "title", "score", "tied_with")
    return {
        "size": size,
        "total": whole.total,
        "checked": len(whole.items),
        "verdict": whole.verdict,
        "directive": whole.manifest and whole.manifest["directive"],
        "holds": not any(walk.faults for walk in walks),
        "ways": {
            walk.way: {
                "refused": walk.refused,
                "faults": walk.faults,
                "pages": [[{name: getattr(item, name) for name in names} for item in items] for items in walk.pages],
            }
            for walk in walks
        },
    }


def _show(output: Console, size: int, whole: Page, walks: Sequence[Walk]) -> None:
    walked = [walk for walk in walks if walk.refused is None]
    if whole.items:
        heading = f"{counted(whole.total, 'article')}, {clean(whole.profile)}, pages of {size:,}"
        output.print(Text(heading, style="bold"))
        output.print(_table(size, whole, walked))
        if any(item.settled_by_identity for item in whole.items):
            output.print("= equal score; the article's id decides the place", markup=False)
    else:
        output.print("Nothing found.")
    for line in arbitrated(whole) if whole.items else reasons(whole):
        output.print(clean(line), markup=False, highlight=False)
    for walk in walks:
        if walk.refused is not None:
            output.print(f"No pages by {walk.way}: {clean(walk.refused)}", markup=False, highlight=False)
        for fault in walk.faults[:SHOWN_FAULTS]:
            output.print(f"by {walk.way}: {fault}", style="red", markup=False, highlight=False)
        if len(walk.faults) > SHOWN_FAULTS:
            output.print(f"by {walk.way}: and {counted(len(walk.faults) - SHOWN_FAULTS, 'more fault')}", style="red")
    if whole.items:
        output.print(_verdict(whole, walked), soft_wrap=True)


def _verdict(whole: Page, walked: Sequence[Walk]) -> Text:
    wrong = [f"by {walk.way}" for walk in walked if walk.faults]
    if wrong:
        return Text(f"WRONG: the pages {' and '.join(wrong)} are not the ranking.", style="bold red")
    articles = counted(whole.total, "article")
    if not whole.end_reached:
        articles = f"the first {len(whole.items):,} of {articles}"
    count = counted(len(walked[0].pages), "page")
    return Text(f"{articles} in {count}, {_NUMBERS[len(walked)]}, nothing twice, nothing missing", style="bold green")


def _table(size: int, whole: Page, walked: Sequence[Walk]) -> Table:
    """A row a page, a column a way; of many pages that are as they should be the first and the last."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), expand=True)
    table.add_column("page", justify="right")
    for walk in walked:
        table.add_column(f"by {walk.way}", no_wrap=True, overflow="ellipsis", ratio=1)
    count = max(len(walk.pages) for walk in walked)
    width = len(f"{len(whole.items)}")
    last = -1
    for number in range(count):
        cells = [_cell(walk.pages, number, whole.items[number * size : (number + 1) * size], width) for walk in walked]
        if FIRST_PAGES <= number < count - LAST_PAGES and all(cell.style != WRONG for cell in cells):
            continue
        if last >= 0:
            table.add_row()
        if number > last + 1:
            table.add_row("…", f"{number - last - 1:,} more, all right", style="dim")
            table.add_row()
        table.add_row(f"{number + 1}", *cells)
        last = number
    return table


WRONG = "red"


def _cell(pages: Sequence[Sequence[Result]], number: int, expected: Sequence[Result], width: int) -> Text:
    """What a walk has on a page; marked where it is not what the ranking has there."""
    items = pages[number] if number < len(pages) else ()
    lines = [f"{item.place:>{width}}{'=' if item.settled_by_identity else ' '} {_name(item)}" for item in items]
    if [item.article_id for item in items] != [item.article_id for item in expected]:
        return Text("\n".join([*lines, "WRONG" if items else "WRONG: no such page"]), style=WRONG)
    if len(lines) > MOST_LINES:
        left_out = len(lines) - MOST_LINES + 1
        lines[MOST_LINES - 2 : -1] = [f"{'…':>{width}}  {left_out:,} more"]
    return Text("\n".join(lines))


def _name(item: Result) -> str:
    return clean(" ".join((item.title or item.external_ref or f"id {item.article_id}").split()))
