"""`kbsearch explain`: what made the scores and places of a page, why an article is where it is, what a quota kept and cut."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kbsearch.cli.asking import (
    Asking,
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
    is_typed,
    next_command,
    one_moment,
)
from kbsearch.cli.common import (
    NO,
    OK,
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
from kbsearch.cli.explanations import show_candidates, show_explanations, show_why
from kbsearch.models import ArticleExplanation
from kbsearch.options import ExplainOptions, RankingOptions
from kbsearch.schema import DEFAULT, in_schema

_ARTICLE = """SELECT a.id
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %(org_id)s AND (a.external_ref = %(name)s OR a.id = %(id)s)
ORDER BY a.external_ref = %(name)s DESC NULLS LAST
LIMIT 1"""
_BIGINT_DIGITS = 18
NO_SUCH_ARTICLE = "not_in_organization"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explain", cls=Checked)(explain)


@takes_embedder
def explain(
    context: typer.Context,
    question: QuestionArgument,
    *,
    why: Annotated[
        str | None,
        typer.Option(metavar="ARTICLE", help="Why this article, by reference or id, is where it is or is not there."),
    ] = None,
    candidates: Annotated[
        bool,
        typer.Option("--candidates", help="What the quota kept and cut of each kind; --limit is how many are shown."),
    ] = False,
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
    embed: EmbedOption = None,
    cache: CacheOption = False,
    embedding: EmbedderChoice,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Explain a search: what each leg gave, which words matched, and which places were settled by an id alone. Exit code 1 if nothing was found."""
    if candidates and (why is not None or is_typed(context, "offset") or is_typed(context, "cursor")):
        raise typer.BadParameter("goes with neither --why nor --offset nor --cursor", param_hint="--candidates")
    with (
        asking(context, embedding, dsn=dsn, schema=schema, org=org, embed=embed, cache=cache) as asked,
        one_moment(asked.connection),
    ):
        ranking = asked.ranking(kind, quota, profile, min_score, language, exploratory)
        options = ExplainOptions(limit=limit, offset=offset, cursor=cursor, **ranking)
        if candidates:
            code = _candidates(asked, question, limit, ranking, as_json=as_json)
        elif why is not None:
            code = _why(asked, question, why, options, as_json=as_json)
        else:
            code = _page(context, asked, question, options, as_json=as_json)
    if code != OK:
        raise typer.Exit(code)


def _page(context: typer.Context, asked: Asking, question: str, options: ExplainOptions, *, as_json: bool) -> int:
    page = asked.client.search(asked.organization.id, question, **options)
    explained = asked.client.explain(asked.organization.id, question, **options)
    if as_json:
        emit(
            {
                "total": page.total,
                "profile": page.profile,
                "verdict": page.verdict,
                "manifest": page.manifest,
                "legs": page.legs,
                "items": explained,
            }
        )
    else:
        next_page = None
        if page.next_cursor is not None and sys.stdout.isatty():
            next_page = next_command(context, page.next_cursor)
        show_explanations(console(), page, explained, next_page)
        if next_page is not None:
            messages().print(clean(f"Next page: {next_page}"), markup=False, highlight=False, soft_wrap=True)
    return NO if page.total == 0 else OK


def _candidates(asked: Asking, question: str, limit: int, ranking: RankingOptions, *, as_json: bool) -> int:
    found = asked.client.explain_candidates(asked.organization.id, question, **ranking)
    if as_json:
        emit(found)
    else:
        show_candidates(console(), found, limit)
    return OK if found else NO


def _why(asked: Asking, question: str, name: str, options: ExplainOptions, *, as_json: bool) -> int:
    why = _explained(asked, question, name, options)
    if as_json:
        emit(why)
    elif why.place is None:
        show_why(console(), why, name)
    else:
        there = options.copy()
        there["limit"], there["offset"], there["cursor"] = 1, why.place - 1, None
        (explained,) = asked.client.explain(asked.organization.id, question, **there)
        there["offset"] = 0
        best = asked.client.search(asked.organization.id, question, **there)
        show_why(console(), why, name, explained, best)
    return NO if why.status == NO_SUCH_ARTICLE else OK


def _explained(asked: Asking, question: str, name: str, options: ExplainOptions) -> ArticleExplanation:
    number = int(name) if name.isascii() and name.isdigit() and len(name) <= _BIGINT_DIGITS else None
    given = {"org_id": asked.organization.id, "name": name, "id": number}
    row = asked.connection.execute(in_schema(_ARTICLE, asked.schema).encode(), given).fetchone()
    if row is None:
        said = f"No article of {asked.organization.name} has that reference or id."
        return ArticleExplanation(article_id=number, title=None, status=NO_SUCH_ARTICLE, explanation=said)
    return asked.client.explain_article(asked.organization.id, question, article_id=row[0], **options)
