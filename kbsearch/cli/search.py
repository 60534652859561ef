"""`kbsearch search`: one page of answers, for people or as JSON."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kbsearch.cli.asking import (
    CacheOption,
    CursorOption,
    EmbedOption,
    ExploratoryOption,
    KindOption,
    LanguageOption,
    LimitOption,
    MinScoreOption,
    OffsetOption,
    ProfileOption,
    QuestionArgument,
    QuotaOption,
    asking,
    escalated,
    next_command,
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
    emit,
    messages,
)
from kbsearch.cli.embedders import EmbedderChoice, takes_embedder
from kbsearch.cli.results import show_page
from kbsearch.schema import DEFAULT


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("search", cls=Checked)(search)


@takes_embedder
def search(
    context: typer.Context,
    question: QuestionArgument,
    *,
    org: OrgOption = None,
    limit: LimitOption = 10,
    offset: OffsetOption = 0,
    cursor: CursorOption = None,
    kind: KindOption = None,
    quota: QuotaOption = None,
    profile: ProfileOption = None,
    min_score: MinScoreOption = None,
    language: LanguageOption = None,
    exploratory: ExploratoryOption = False,
    highlight: Annotated[
        bool, typer.Option("--highlight", help="Excerpts around the question's words, those words in bold.")
    ] = False,
    log_arbitration: Annotated[
        bool,
        typer.Option(
            "--log-arbitration",
            help="Log what was decided where the profile arbitrates; the organisation has to keep a log.",
        ),
    ] = False,
    embed: EmbedOption = None,
    cache: CacheOption = False,
    embedding: EmbedderChoice,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Search an organisation's articles. Exit code 1 if nothing was found."""
    with asking(context, embedding, dsn=dsn, schema=schema, org=org, embed=embed, cache=cache) as asked:
        page = asked.client.search(
            asked.organization.id,
            question,
            limit=limit,
            offset=offset,
            cursor=cursor,
            highlight=highlight,
            log_arbitration=log_arbitration,
            **asked.ranking(kind, quota, profile, min_score, language, exploratory),
        )
    if as_json:
        emit(page)
    if page.verdict == "escalated" and page.manifest is not None:
        raise escalated(page.manifest)
    if not as_json:
        next_page = None
        if page.next_cursor is not None and sys.stdout.isatty():
            next_page = next_command(context, page.next_cursor)
        show_page(console(), page, next_page)
        if next_page is not None:
            messages().print(clean(f"Next page: {next_page}"), markup=False, highlight=False, soft_wrap=True)
    if not page.items and page.total == 0:
        raise typer.Exit(NO)
