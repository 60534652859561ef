"""`kbsearch search`: one page of answers, for people or as JSON."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from kbsearch.cli.common import (
    NO,
    Checked,
    DsnOption,
    JsonOption,
    Organization,
    OrgOption,
    SchemaOption,
    clean,
    connected,
    console,
    emit,
    find_organization,
    messages,
)
from kbsearch.cli.embedders import (
    LOCAL,
    NONE,
    BaseUrlOption,
    DimensionsOption,
    EmbedderOption,
    ModelOption,
    PassagePrefixOption,
    QueryPrefixOption,
    chosen_embedder,
)
from kbsearch.cli.results import show_page
from kbsearch.client import KBSearch, QueryEmbedder
from kbsearch.embed import LocalEmbedder, MissingExtraError
from kbsearch.errors import QueryTextError, SpaceError
from kbsearch.ingest.languages import Languages
from kbsearch.schema import DEFAULT, in_schema

NO_WORD = {
    "empty_query": "",
    "stop_words_only": ": it has stop words only",
    "only_exclusions": ": it has exclusions only",
}
"""What to say of a question that the database has nothing to search with for."""
NOT_REPEATED = ("question", "cursor", "offset", "as_json")
"""Parameters that the command for the next page does not have, or has otherwise."""
_SPACE = """SELECT s.model, s.revision, s.dimensions
FROM kbsearch.kb_embedding_spaces AS s
WHERE s.id = %s"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("search", cls=Checked)(search)


def search(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help='Words are OR-ed; "a phrase" must occur; -word excludes.')],
    *,
    org: OrgOption = None,
    limit: Annotated[int, typer.Option(help="Articles on the page, at most 1000.")] = 10,
    offset: Annotated[int, typer.Option(help="Articles to skip; not together with a cursor.")] = 0,
    cursor: Annotated[str | None, typer.Option(help="Where the page begins, from the page before.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only articles of this kind; may be repeated.")] = None,
    profile: Annotated[str | None, typer.Option(help="Ranking profile, name@version.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Only articles of at least this score.")] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Language of the question, like de, pt-BR or german; by default every language that articles are in.",
            show_default=False,
        ),
    ] = None,
    highlight: Annotated[
        bool, typer.Option("--highlight", help="Excerpts around the question's words, those words in bold.")
    ] = False,
    embed: Annotated[
        bool | None,
        typer.Option(
            "--embed/--no-embed",
            help="Embed the question; by default with the local model, if it is installed and the organisation's space is of it.",
            show_default=False,
        ),
    ] = None,
    embedder: EmbedderOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    dimensions: DimensionsOption = None,
    query_prefix: QueryPrefixOption = None,
    passage_prefix: PassagePrefixOption = None,
    dsn: DsnOption = None,
    schema: SchemaOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Search an organisation's articles. Exit code 1 if nothing was found."""
    choice = NONE if embed is False else embedder or (LOCAL if embed else None)
    settings = {
        "model": model,
        "base_url": base_url,
        "dimensions": dimensions,
        "query_prefix": query_prefix,
        "passage_prefix": passage_prefix,
    }
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        required = bool(embed) or _is_typed(context, "embedder")
        with _embedder(connection, organization, choice, settings, schema, required=required) as chosen:
            try:
                page = KBSearch(connection, embedder=chosen, schema=schema).search(
                    organization.id,
                    question,
                    limit=limit,
                    offset=offset,
                    cursor=cursor,
                    kinds=kind or None,
                    profile=profile,
                    min_score=min_score,
                    # A name that is none is the database's to refuse.
                    language=language and (Languages.of(connection).configuration(language) or language),
                    highlight=highlight,
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
        next_page = None
        if page.next_cursor is not None and sys.stdout.isatty():
            next_page = next_command(context, page.next_cursor)
        show_page(console(), page, next_page)
        if next_page is not None:
            messages().print(clean(f"Next page: {next_page}"), markup=False, highlight=False, soft_wrap=True)
    if not page.items and page.total == 0:
        raise typer.Exit(NO)


@contextlib.contextmanager
def _embedder(
    connection: psycopg.Connection[Any],
    organization: Organization,
    choice: str | None,
    settings: dict[str, Any],
    schema: str,
    *,
    required: bool,
) -> Iterator[QueryEmbedder | None]:
    """The embedder chosen; without a choice the local model, if it is installed and its vectors may be compared with the organisation's."""
    if choice is None and not any(settings.values()):
        yield _local(connection, organization, schema)
        return
    if choice != NONE and organization.active_space_id is None:
        if required:
            raise SpaceError(f"the organisation {organization.name} has no embeddings", hint="Search with --no-embed.")
        yield None
        return
    with chosen_embedder(choice, **settings) as chosen:
        yield chosen  # if it does not fit, the client says so


def _local(connection: psycopg.Connection[Any], organization: Organization, schema: str) -> QueryEmbedder | None:
    if organization.active_space_id is None:
        return None
    space = connection.execute(in_schema(_SPACE, schema).encode(), [organization.active_space_id]).fetchone()
    try:
        embedder = LocalEmbedder()
    except MissingExtraError:
        return None
    return embedder if (embedder.model, embedder.revision, embedder.dimensions) == space else None


def next_command(context: typer.Context, cursor: str) -> str:
    """The command for the page after this one: the same options and the cursor. A connection string with a password is left out."""
    words = ["kbsearch", "search"]
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if name in NOT_REPEATED or not _is_typed(context, name):
            continue
        if isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        elif name != "dsn" or not _has_password(str(value)):
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [parameter.opts[0], str(one)]
    words += ["--cursor", cursor]
    question = str(context.params["question"])
    return shlex.join([*words, *(["--", question] if question.startswith("-") else [question])])


def _is_typed(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line, and not in the environment only."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _has_password(dsn: str) -> bool:
    try:
        return "password" in conninfo_to_dict(dsn)
    except psycopg.Error:
        return True
