"""kbsearch search: one page of answers, for people or as JSON."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import psycopg
import typer
from rich.console import Console
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    Organization,
    OrgOption,
    clean,
    connected,
    console,
    counted,
    emit,
    find_organization,
    messages,
)
from kbsearch.client import KBSearch, QueryEmbedder
from kbsearch.errors import QueryTextError, SpaceError
from kbsearch.models import Page, Result

VECTOR_REASONS = {
    "no_embedding": "the question has no embedding",
    "no_embedded_chunks": "no chunk has an embedding in this space",
    "no_direction": "no vector has a direction",
    "not_in_fusion": "the ranking profile does not use it",
}
KEYWORD_REASONS = {
    "empty_query": "the question is empty",
    "stop_words_only": "the question has stop words only",
    "only_exclusions": "the question has exclusions only",
    "no_known_words": "no article has a word of the question",
    "not_in_fusion": "the ranking profile does not use it",
}
NO_WORD = {
    "empty_query": "",
    "stop_words_only": ": it has stop words only",
    "only_exclusions": ": it has exclusions only",
}
"""What to say of a question that the database has nothing to search with for."""
EXCERPT_COLUMNS = 120
TITLE_COLUMNS = 80
FLOW_LINES = 2
INDENT = 7


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("search", cls=Checked)(search)


def search(
    question: Annotated[str, typer.Argument(help='Words are OR-ed; "a phrase" must occur; -word excludes.')],
    org: OrgOption = None,
    limit: Annotated[int, typer.Option(help="Articles on the page, at most 1000.")] = 10,
    offset: Annotated[int, typer.Option(help="Articles to skip; not together with a cursor.")] = 0,
    cursor: Annotated[str | None, typer.Option(help="Where the page begins, from the page before.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only articles of this kind; may be repeated.")] = None,
    profile: Annotated[str | None, typer.Option(help="Ranking profile, name@version.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Only articles of at least this score.")] = None,
    embed: Annotated[
        bool | None,
        typer.Option(
            "--embed/--no-embed",
            help="Embed the question with the local model; by default if it is installed and the organisation's space is of that model.",
            show_default=False,
        ),
    ] = None,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search an organisation's articles. Exit code 1 if nothing was found."""
    with connected(dsn) as connection:
        organization = find_organization(connection, org)
        embedder = None if embed is False else _embedder(connection, organization, required=bool(embed))
        try:
            page = KBSearch(connection, embedder=embedder).search(
                organization.id,
                question,
                limit=limit,
                offset=offset,
                cursor=cursor,
                kinds=kind or None,
                profile=profile,
                min_score=min_score,
            )
        except QueryTextError as error:
            reason = error.detail.get("keyword")
            if reason not in NO_WORD:
                raise
            raise QueryTextError(
                f"the question has no word to search for{NO_WORD[reason]}",
                detail=error.detail,
                hint="Ask with other words.",
            ) from error
    if as_json:
        emit(page)
    else:
        _show(page, question, org)
    if not page.items and page.total == 0:
        raise typer.Exit(NO)


def _embedder(
    connection: psycopg.Connection[Any], organization: Organization, *, required: bool
) -> QueryEmbedder | None:
    """The local model, if it is installed and its vectors may be compared with the organisation's."""
    space = None
    if organization.active_space_id is not None:
        space = connection.execute(
            """SELECT spaces.model, spaces.revision, spaces.dimensions
FROM kbsearch.kb_embedding_spaces AS spaces
WHERE spaces.id = %s""",
            [organization.active_space_id],
        ).fetchone()
    if space is None:
        if required:
            raise SpaceError(f"the organisation {organization.name} has no embeddings", hint="Search with --no-embed.")
        return None
    from kbsearch.embed.local import LocalEmbedder, MissingExtraError  # noqa: PLC0415  (an extra, and slow to load)

    try:
        embedder = LocalEmbedder()
    except MissingExtraError as error:
        if required:
            raise SpaceError(str(error), hint="pip install 'kbsearch[local]'") from error
        return None
    if (embedder.model, embedder.revision, embedder.dimensions) == tuple(space) or required:
        return embedder  # if it does not fit, the client says so
    return None


def _show(page: Page, question: str, org: str | None) -> None:
    output = console()
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
    if page.next_cursor is not None:
        if sys.stdout.isatty():
            words = ["kbsearch", "search", *(["--org", org] if org else []), "--cursor", page.next_cursor]
            words += ["--", question] if question.startswith("-") else [question]
            messages().print(clean(f"Next page: {shlex.join(words)}"), markup=False, highlight=False, soft_wrap=True)
        else:
            output.print(f"Next page: --cursor {page.next_cursor}", markup=False, highlight=False, soft_wrap=True)


def _show_result(output: Console, item: Result) -> None:
    """Three lines of 80 columns at most: numbers and reference; title and excerpt in one flow."""
    mark = "=" if item.settled_by_identity else " "
    numbers = (
        f"{item.place:>5}{mark} {item.score:>8.6f}  {_number(item.vector_similarity)}  {_number(item.keyword_score)}  "
    )
    name = Text(_flow(f"{item.external_ref or f'id {item.article_id}'} ({item.kind})"))
    name.truncate(max(output.width - len(numbers), 20), overflow="ellipsis")
    output.print(Text.assemble(numbers, name), soft_wrap=True)
    title, excerpt = Text(_flow(item.title or ""), style="bold"), Text(_flow(item.excerpt or ""))
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


def reasons(page: Page) -> list[str]:
    """What the legs could not contribute, in words."""
    lines = []
    vector, keyword = page.legs.vector, page.legs.keyword
    if not vector.takes_part:
        lines.append(f"No vector leg: {VECTOR_REASONS.get(vector.reason or '', vector.reason)}.")
    elif vector.chunks_without_embedding or vector.chunks_without_direction:
        lines.append(
            f"Vector leg: chunks without embedding {vector.chunks_without_embedding or 0}, "
            f"with one that has no direction {vector.chunks_without_direction or 0}."
        )
    if not keyword.takes_part:
        lines.append(f"No keyword leg: {KEYWORD_REASONS.get(keyword.reason or '', keyword.reason)}.")
    if keyword.words:
        lines.append(f"Word stems known: {', '.join(keyword.words)}")
    if keyword.unknown_words:
        lines.append(f"Word stems in no article: {', '.join(keyword.unknown_words)}")
    if keyword.ignored:
        lines.append(f"Not applied: {', '.join(keyword.ignored)}")
    return lines
