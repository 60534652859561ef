"""A page of a search, for people: three lines an article, what the legs did, and how to get the next page."""

from __future__ import annotations

import html
import re

from rich.console import Console
from rich.text import Text

from kbsearch.cli.common import clean, counted
from kbsearch.models import Page, Result

VECTOR_REASONS = {
    "no_embedding": "the question has no embedding",
    "no_embedded_chunks": "no chunk has an embedding in this space",
    "no_direction": "no vector has a direction",
    "not_in_fusion": "the ranking profile does not use it",
    "not_chosen": "the arbitration trusts the other leg",
    "found_nothing": "it found nothing",
}
KEYWORD_REASONS = {
    "empty_query": "the question is empty",
    "stop_words_only": "the question has stop words only",
    "only_exclusions": "the question has exclusions only",
    "no_known_words": "no article has a word of the question",
    "not_in_fusion": "the ranking profile does not use it",
    "not_chosen": "the arbitration trusts the other leg",
    "found_nothing": "it found nothing",
}
EXCERPT_COLUMNS = 120
TITLE_COLUMNS = 80
FLOW_LINES = 2
INDENT = 7
_MARK = re.compile("<mark>|</mark>")


def show_page(output: Console, page: Page, next_page: str | None) -> None:
    """Print a page; next_page: the command for the one after it, None where a cursor says enough."""
    if page.items:
        output.print(Text(f"{counted(page.total, 'article')}, {clean(page.profile)}", style="bold"))
        output.print("place     score  cosine   words  reference (kind)", style="dim", highlight=False)
        for item in page.items:
            _show_result(output, item)
        if any(item.settled_by_identity for item in page.items):
            output.print("= equal score; the article's id decides the place", markup=False)
    else:
        output.print(
            "Nothing found." if page.total == 0 else f"Nothing on this page; {counted(page.total, 'article')} in all."
        )
    for line in reasons(page):
        output.print(clean(line), markup=False, highlight=False)
    if page.next_cursor is not None and next_page is None:
        output.print(f"Next page: --cursor {page.next_cursor}", markup=False, highlight=False, soft_wrap=True)


def arbitrated(page: Page) -> list[str]:
    """What an arbitration decided, in a line; nothing where there was none."""
    if page.verdict is None or page.manifest is None:
        return []
    if "directive" not in page.manifest:
        return [f"Arbitration: {page.verdict}, as on the first page"]
    rule, policy = page.manifest["arbitration_rule_id"], page.manifest["policy"]
    return [f"Arbitration: {page.verdict} ({rule} of {policy}). {page.manifest['directive']}"]


def reasons(page: Page) -> list[str]:
    """What an arbitration decided and what the legs could not contribute, in words."""
    lines = arbitrated(page)
    vector, keyword = page.legs.vector, page.legs.keyword
    if not vector.takes_part:
        lines.append(f"No vector leg: {VECTOR_REASONS.get(vector.reason or '', vector.reason)}.")
    elif vector.chunks_without_embedding or vector.chunks_without_direction or vector.chunks_with_stale_embedding:
        lines.append(
            f"Vector leg: chunks without embedding {vector.chunks_without_embedding or 0}, "
            f"with one that has no direction {vector.chunks_without_direction or 0}, "
            f"with one of what they said before {vector.chunks_with_stale_embedding or 0}."
        )
    if not keyword.takes_part:
        lines.append(f"No keyword leg: {KEYWORD_REASONS.get(keyword.reason or '', keyword.reason)}.")
    if keyword.words:
        lines.append(f"Word stems known: {', '.join(keyword.words)}")
    if keyword.unknown_words:
        lines.append(f"Word stems in no article: {', '.join(keyword.unknown_words)}")
    if len(keyword.languages) > 1:
        lines.append(f"Languages of the words: {', '.join(keyword.languages)}")
    if keyword.ignored:
        lines.append(f"Not applied: {', '.join(keyword.ignored)}")
    return lines


def marked(excerpt: str) -> Text:
    """An excerpt in HTML as text, what is in `<mark>` in bold; nothing else of HTML is obeyed, and no control character passes."""
    text = Text()
    is_marked = False
    position = 0
    for tag in [*_MARK.finditer(excerpt), None]:
        piece = excerpt[position : None if tag is None else tag.start()]
        words = clean(re.sub(r"\s+", " ", html.unescape(piece)))
        text.append(words, style="bold" if is_marked else None)
        if tag is not None:
            is_marked, position = tag[0] == "<mark>", tag.end()
    return text


def _show_result(output: Console, item: Result) -> None:
    """Three lines of 80 columns at most: numbers and reference; title and excerpt in one flow."""
    mark = "=" if item.settled_by_identity else " "
    numbers = (
        f"{item.place:>5}{mark} {item.score:>8.6f}  {_number(item.vector_similarity)}  {_number(item.keyword_score)}  "
    )
    name = Text(_flow(f"{item.external_ref or f'id {item.article_id}'} ({item.kind})"))
    name.truncate(max(output.width - len(numbers), 20), overflow="ellipsis")
    output.print(Text.assemble(numbers, name), soft_wrap=True)
    title = Text(_flow(item.title or ""), style="bold")
    excerpt = Text(_flow(item.excerpt or "")) if item.excerpt_html is None else marked(item.excerpt_html)
    title.truncate(TITLE_COLUMNS, overflow="ellipsis")
    excerpt.truncate(EXCERPT_COLUMNS, overflow="ellipsis")
    width = max(output.width - INDENT, 20)
    lines = Text("  ").join(part for part in (title, excerpt) if part).wrap(output, width)
    if len(lines) > FLOW_LINES:
        lines[FLOW_LINES - 1].rstrip()
        lines[FLOW_LINES - 1].append(" …")
    for line in lines[:FLOW_LINES]:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
        output.print(Text(" " * INDENT).append_text(line), highlight=False, soft_wrap=True)


def _flow(text: str) -> str:
    return clean(" ".join(text.split()))


def _number(value: float | None) -> str:
    return f"{'' if value is None else format(value, '.3f'):>6}"
