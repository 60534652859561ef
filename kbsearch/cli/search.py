"""kbsearch search: one page of answers, for people or as JSON."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import psycopg
import typer
from rich.table import Table
from rich.text import Text

from kbsearch.cli.common import (
    NO,
    DsnOption,
    JsonOption,
    Organization,
    OrgOption,
    connected,
    console,
    emit,
    find_organization,
    messages,
)
from kbsearch.client import KBSearch, QueryEmbedder
from kbsearch.errors import SpaceError
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
EXCERPT_CHARACTERS = 240


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("search")(search)


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
        table = Table("place", "score", "title", "kind", "excerpt", title=f"{page.total} articles, {page.profile}")
        table.columns[0].justify = table.columns[1].justify = "right"
        table.columns[2].max_width = 40
        for item in page.items:
            table.add_row(*_row(item))
        output.print(table)
        if any(item.settled_by_identity for item in page.items):
            output.print("= equal score; the article's id decides the place", markup=False)
    else:
        output.print("Nothing found." if page.total == 0 else f"Nothing on this page; {page.total} articles in all.")
    for line in reasons(page):
        output.print(line, markup=False, highlight=False)
    if page.next_cursor is not None:
        words = ["kbsearch", "search", question, *(["--org", org] if org else []), "--cursor", page.next_cursor]
        if sys.stdout.isatty():
            messages().print(f"Next page: {shlex.join(words)}", markup=False, highlight=False, soft_wrap=True)
        else:
            output.print(f"Next page: --cursor {page.next_cursor}", markup=False, highlight=False, soft_wrap=True)


def _row(item: Result) -> tuple[str, str, Text, Text, Text]:
    excerpt = " ".join((item.excerpt or "").split())
    if len(excerpt) > EXCERPT_CHARACTERS:
        excerpt = excerpt[: EXCERPT_CHARACTERS - 1] + "…"
    place = f"{item.place}{' =' if item.settled_by_identity else ''}"
    return place, f"{item.score:.6f}", Text(item.title or ""), Text(item.kind), Text(excerpt)


def reasons(page: Page) -> list[str]:
    """What the legs could not contribute, in words."""
    lines = []
    vector, keyword = page.legs.vector, page.legs.keyword
    if not vector.takes_part:
        lines.append(f"No vector leg: {VECTOR_REASONS.get(vector.reason or '', vector.reason)}.")
    elif vector.chunks_without_embedding or vector.chunks_without_direction:
        lines.append(
            f"Vector leg: {vector.chunks_without_embedding} chunks have no embedding, "
            f"{vector.chunks_without_direction} have one without direction."
        )
    if not keyword.takes_part:
        lines.append(f"No keyword leg: {KEYWORD_REASONS.get(keyword.reason or '', keyword.reason)}.")
    if keyword.unknown_words:
        lines.append(f"In no article: {', '.join(keyword.unknown_words)}")
    if keyword.ignored:
        lines.append(f"Not applied: {', '.join(keyword.ignored)}")
    return lines
