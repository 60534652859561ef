"""Explanations of a ranking, for people. Nothing is said by colour alone, and an id never looks like a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import clean, counted
from kbsearch.cli.results import arbitrated, reasons
from kbsearch.models import ArticleExplanation, Candidate, Explanation, Match, Page

MEANING, WORDS = "meaning", "words"
COLOURS = {MEANING: "cyan", WORDS: "yellow"}
BILLION = 1_000_000_000
BY_ID = "is by id and says nothing about relevance"
AROUND_THE_CUT = 2
"""Candidates that are shown on either side of a quota's cut, however far down it is."""


class Bars:
    """Bars of text whose parts are told from each other by their glyphs, and on a terminal by their colours, too.

    Args:
        output: where they are printed.
        width: columns of a full bar.
        full: billionths that fill it.
    """

    def __init__(self, output: Console, width: int, full: int) -> None:
        """Choose glyphs that the output can express."""
        self._width, self._full = width, max(full, 1)
        meaning, words = ("#", "=") if output.options.ascii_only else ("█", "░")
        self._glyphs = {MEANING: meaning, WORDS: words}

    def bar(self, vector: int, keyword: int) -> Text:
        """One part after the other; what is not 0 is seen."""
        meaning = self._columns(vector)
        words = max(self._columns(vector + keyword) - meaning, keyword > 0)
        return self.glyph(MEANING, meaning) + self.glyph(WORDS, words)

    def glyph(self, part: str, columns: int = 1) -> Text:
        """So much of a part."""
        return Text(self._glyphs[part] * columns, style=COLOURS[part])

    def _columns(self, billionths: int) -> int:
        return max(round(billionths * self._width / self._full), billionths > 0)


def show_explanations(output: Console, page: Page, explained: Sequence[Explanation], next_page: str | None) -> None:
    """Print what made the scores and places of a page; next_page: the command for the one after it, None where a cursor says enough."""
    if explained:
        output.print(Text(f"{counted(page.total, 'article')}, {clean(page.profile)}", style="bold"))
        output.print(_table(output, page, explained))
        if any(one.matches for one in explained):
            several = " in its language" if len(page.legs.keyword.languages) > 1 else ""
            output.print(f"(n): number of passages{several} that have the word", style="dim", highlight=False)
    else:
        output.print(
            "Nothing found." if page.total == 0 else f"Nothing on this page; {counted(page.total, 'article')} in all."
        )
    for line in reasons(page):
        output.print(clean(line), markup=False, highlight=False)
    if page.next_cursor is not None and next_page is None:
        output.print(f"Next page: --cursor {page.next_cursor}", markup=False, highlight=False, soft_wrap=True)


def _table(output: Console, page: Page, explained: Sequence[Explanation]) -> Table:
    width = max((output.width - 9) * 3 // 5, 44)
    bars = Bars(output, width - 10, max(one.score_billionths for one in explained))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), expand=True)
    table.add_column("place", justify="right")
    table.add_column("article", overflow="fold", ratio=1)
    table.add_column("score, and what made it", overflow="fold", width=width)
    for number, one in enumerate(explained, 1):
        table.add_row(str(one.place), _article(one), _made_of(one, page, bars))
        if number < len(explained):
            table.add_row()
    return table


def _article(one: Explanation) -> Text:
    name = one.external_ref or f"id {one.article_id}"
    kind = one.kind if one.quota is None else f"{one.kind}, {one.place_in_kind} of at most {one.quota}"
    lines = [Text(_flow(one.title or name), style="bold"), Text(_flow(f"{name} ({kind})"))]
    if one.other_chunk_count:
        lines.append(Text(f"the best of {counted(one.other_chunk_count + 1, 'passage')}", style="dim"))
    return Text("\n").join(lines)


def _made_of(one: Explanation, page: Page, bars: Bars) -> Text:
    """Score, bar, what each leg that takes part gave, words, tie: a line each."""
    lines = [Text(f"{one.score:.6f}  ") + bars.bar(one.vector_contribution, one.keyword_contribution)]
    if page.legs.vector.takes_part:
        found = _leg(one.vector_contribution, one.vector_rank, "cosine", one.vector_similarity)
        lines.append(bars.glyph(MEANING) + f" {MEANING} {found}")
    if page.legs.keyword.takes_part:
        found = _leg(one.keyword_contribution, one.keyword_rank, "match", one.keyword_score)
        lines.append(bars.glyph(WORDS) + f" {WORDS}   {found}")
    if one.matches:
        lines.append(Text(f"has {', '.join(_weightiest(one.matches))}"))
    if one.settled_by_identity:
        lines.append(Text(f"tied with {counted(one.tied_with, 'other')}, by id", style="italic"))
    return Text("\n").join(lines)


def _leg(billionths: int, rank: int | None, name: str, value: float | None) -> str:
    if rank is None:
        return "nothing"
    return f"{billionths / BILLION:.6f}  place {rank}" + ("" if value is None else f", {name} {value:.3f}")


def _weightiest(matches: Sequence[Match]) -> Iterator[str]:
    for match in sorted(matches, key=lambda match: (-match.contribution, match.lexeme)):
        yield f"{clean(match.lexeme)} ({match.document_frequency:,})"


def show_why(
    output: Console,
    why: ArticleExplanation,
    name: str,
    explained: Explanation | None = None,
    best: Page | None = None,
) -> None:
    """Print why an article is where it is, or why it is not there.

    Args:
        output: where to.
        why: the reason.
        name: what the article was called by whoever asks.
        explained: what made its score, of an article in the ranking.
        best: a page with the first article of that ranking.
    """
    output.print(Text(_flow(why.title or name), style="bold") if explained is None else _article(explained))
    output.print(clean(why.explanation), markup=False, highlight=False)
    if why.tied_with and BY_ID not in why.explanation:
        others = counted(why.tied_with, "other")
        output.print(f"It shares its score with {others}; their order {BY_ID}.", markup=False, highlight=False)
    if explained is not None and best is not None:
        full = max(round(item.score * BILLION) for item in best.items)
        bars = Bars(output, min(output.width - 10, 60), full)
        output.print()
        output.print(_made_of(replace(explained, settled_by_identity=False), best, bars), highlight=False)
        for line in arbitrated(best):
            output.print(clean(line), markup=False, highlight=False)


def show_candidates(output: Console, candidates: Sequence[Candidate], limit: int) -> None:
    """Print what the quota made of the candidates, kind by kind: the best `limit` of each, and those on either side of the cut."""
    if not candidates:
        output.print("Nothing found.")
        return
    kept = sum(one.kept for one in candidates)
    output.print(Text(f"{counted(len(candidates), 'candidate')}, {kept:,} kept", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), expand=True)
    table.add_column("kind", overflow="fold", max_width=20)
    table.add_column("place", justify="right")
    table.add_column("article", overflow="fold", ratio=1)
    table.add_column("score", justify="right")
    table.add_column("in the ranking", overflow="fold", max_width=24)
    for _, group in groupby(candidates, key=lambda one: one.kind):
        _add_kind(table, list(group), limit)
    output.print(table)
    if any(one.is_tie_cut for one in candidates):
        output.print(
            f"tie cut: the quota cuts through articles of equal score; which of them is kept {BY_ID}", highlight=False
        )


def _add_kind(table: Table, group: Sequence[Candidate], limit: int) -> None:
    """A section of the table; what is left out in the middle is counted."""
    quota = group[0].quota
    kept = sum(one.kept for one in group)
    cells = iter([Text(_flow(group[0].kind), style="bold"), Text(f"{kept:,} of {len(group):,} kept")])
    last = 0
    for one in group:
        if one.place_in_kind > limit and not _is_at_the_cut(one):
            continue
        _add_omitted(table, one.place_in_kind - last - 1, cells)
        if quota is not None and one.place_in_kind == quota + 1:
            table.add_row(next(cells, ""), "", f"── quota {quota:,} ──", "", "")
        name = one.title or one.external_ref or f"id {one.article_id}"
        table.add_row(next(cells, ""), f"{one.place_in_kind}", Text(_flow(name)), f"{one.score:.6f}", _fate(one))
        last = one.place_in_kind
    _add_omitted(table, len(group) - last, cells)
    for cell in cells:
        table.add_row(cell)
    table.add_section()


def _is_at_the_cut(one: Candidate) -> bool:
    return one.quota is not None and 0 < one.place_in_kind - one.quota + AROUND_THE_CUT <= 2 * AROUND_THE_CUT


def _add_omitted(table: Table, count: int, cells: Iterator[Text]) -> None:
    if count:
        table.add_row(next(cells, ""), "", f"… {count:,} more", "", "", style="dim")


def _fate(one: Candidate) -> str:
    return ("cut" if one.place is None else f"place {one.place}") + (" (tie cut, by id)" if one.is_tie_cut else "")


def _flow(text: str) -> str:
    return clean(" ".join(text.split()))
