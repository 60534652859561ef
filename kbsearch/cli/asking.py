"""What the commands that ask a question have in common: their options, and the client that asks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from kbsearch.cli.common import Organization, connected, find_organization
from kbsearch.cli.embedders import LOCAL, NONE, EmbedderChoice
from kbsearch.client import KBSearch, QueryEmbedder
from kbsearch.embed import Embedder, LocalEmbedder, MissingExtraError
from kbsearch.embed.local import MINILM
from kbsearch.errors import EscalatedError, QueryTextError, SpaceError
from kbsearch.options import RankingOptions
from kbsearch.schema import in_schema

NO_WORD = {
    "empty_query": "",
    "stop_words_only": ": it has stop words only",
    "only_exclusions": ": it has exclusions only",
}
"""What to say of a question that the database has nothing to search with for."""
NOT_REPEATED = ("question", "cursor", "offset", "as_json", "log_arbitration")
"""Parameters that the command for the next page does not have, or has otherwise."""
_SPACE = """SELECT s.model, s.revision, s.dimensions
FROM kbsearch.kb_embedding_spaces AS s
WHERE s.id = %s"""

QuestionArgument = Annotated[str, typer.Argument(help='Words are OR-ed; "a phrase" must occur; -word excludes.')]
LimitOption = Annotated[int, typer.Option(help="Articles on the page, at most 1000.")]
OffsetOption = Annotated[int, typer.Option(help="Articles to skip; not together with a cursor.")]
CursorOption = Annotated[str | None, typer.Option(help="Where the page begins, from the page before.")]
KindOption = Annotated[list[str] | None, typer.Option(help="Only articles of this kind; may be repeated.")]
QuotaOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND=NUMBER",
        help="At most so many articles of this kind, or of '*', every kind not named; may be repeated.",
        show_default=False,
    ),
]
ProfileOption = Annotated[str | None, typer.Option(help="Ranking profile, name@version.")]
MinScoreOption = Annotated[float | None, typer.Option(help="Only articles of at least this score.")]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        metavar="LANGUAGE",
        help="Language of the question, like de, pt-BR or german; by default every language that articles are in.",
        show_default=False,
    ),
]
ExploratoryOption = Annotated[
    bool, typer.Option("--exploratory", help="Fuse the legs however much they disagree, where the profile arbitrates.")
]
EmbedOption = Annotated[
    bool | None,
    typer.Option(
        "--embed/--no-embed",
        help="Embed the question; by default with the local model, if it is installed and the organisation's space is of it.",
        show_default=False,
    ),
]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Look the question's vector up in the organisation's cache, and keep it there; without it nothing is written.",
    ),
]


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and whom."""

    connection: psycopg.Connection[Any]
    organization: Organization
    client: KBSearch
    schema: str

    def ranking(
        self,
        kind: list[str] | None,
        quota: list[str] | None,
        profile: str | None,
        min_score: float | None,
        language: str | None,
        exploratory: bool,
    ) -> RankingOptions:
        """What is ranked and how, as the command line says it."""
        configuration = language
        if language:
            from kbsearch.ingest.languages import Languages  # noqa: PLC0415  (importing kbsearch.ingest takes as long as a search)

            # A name that is none is the database's to refuse.
            configuration = Languages.of(self.connection).configuration(language) or language
        return RankingOptions(
            kinds=kind or None,
            kind_quota=_quota(quota) if quota else None,
            profile=profile,
            min_score=min_score,
            language=configuration,
            exploratory=exploratory,
        )


@contextmanager
def asking(
    context: typer.Context,
    embedding: EmbedderChoice,
    *,
    dsn: str | None,
    schema: str,
    org: str | None,
    embed: bool | None,
    cache: bool,
) -> Iterator[Asking]:
    """Connect, find the organisation and make the embedder that the options name.

    Raises:
        KBSearchError: there is no such organisation, no such embedder for it, or, from the block, no word to search for or no answer.
        typer.BadParameter: the question's vector is to be kept, and it has none.
    """
    choice = NONE if embed is False else embedding.embedder or (LOCAL if embed else None)
    with connected(dsn, schema) as connection:
        organization = find_organization(connection, org, schema)
        required = bool(embed) or is_typed(context, "embedder")
        with (
            _embedder(
                connection, organization, replace(embedding, embedder=choice), schema, required=required
            ) as chosen,
            ExitStack() as opened,
        ):
            asked: QueryEmbedder | None = chosen
            if cache:
                if chosen is None:
                    raise typer.BadParameter(
                        "the question is not embedded: there is no vector to keep", param_hint="--cache"
                    )
                from kbsearch.ingest import CachedEmbedder  # noqa: PLC0415  (as in ranking)

                # a connection of its own: what is searched in a transaction that is taken back is kept all the same
                writer = opened.enter_context(connected(dsn, schema))
                asked = CachedEmbedder(chosen, writer, organization.id, schema=schema)
            client = KBSearch(connection, embedder=asked and _Remembering(asked), schema=schema)
            try:
                yield Asking(connection, organization, client, schema)
            except EscalatedError as error:
                raise escalated(error.manifest) from error
            except QueryTextError as error:
                reason = error.detail.get("keyword")
                if reason not in NO_WORD:
                    raise
                raise QueryTextError(
                    f"the question has no word to search for{NO_WORD[reason]}",
                    detail=error.detail,
                    hint="Ask with other words.",
                ) from error


def escalated(manifest: Mapping[str, Any]) -> EscalatedError:
    """The refusal of an escalated search, with advice for the command line."""
    return EscalatedError.of(
        manifest,
        hint=f"{manifest['directive']} Look at both legs (--profile vector@1, --profile keyword@1), or fuse them with --exploratory.",
    )


@contextmanager
def one_moment(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """What is asked meanwhile is answered from the data of one moment, and what is written is taken back."""
    with connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


class _Remembering:
    """An embedder that is asked once for a question that comes again and again."""

    def __init__(self, embedder: QueryEmbedder) -> None:
        self._embedder = embedder
        self._vectors: dict[tuple[str, ...], Any] = {}

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def revision(self) -> str:
        return self._embedder.revision

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def embed_queries(self, texts: Sequence[str]) -> Any:
        key = tuple(texts)
        if key not in self._vectors:
            self._vectors[key] = self._embedder.embed_queries(texts)
        return self._vectors[key]


@contextmanager
def _embedder(
    connection: psycopg.Connection[Any],
    organization: Organization,
    embedding: EmbedderChoice,
    schema: str,
    *,
    required: bool,
) -> Iterator[Embedder | None]:
    """The embedder chosen; without a choice the local model, if it is installed and its vectors may be compared with the organisation's."""
    if not embedding.is_given:
        yield _local(connection, organization, schema)
        return
    if embedding.embedder != NONE and organization.active_space_id is None:
        if required:
            raise SpaceError(f"the organisation {organization.name} has no embeddings", hint="Search with --no-embed.")
        yield None
        return
    with embedding.made() as chosen:
        yield chosen  # if it does not fit, the client says so


def _local(connection: psycopg.Connection[Any], organization: Organization, schema: str) -> Embedder | None:
    if organization.active_space_id is None:
        return None
    space = connection.execute(in_schema(_SPACE, schema).encode(), [organization.active_space_id]).fetchone()
    if space is None or space[0] != MINILM:
        return None  # to load it takes longer than to search
    try:
        embedder = LocalEmbedder()
    except MissingExtraError:
        return None
    return embedder if (embedder.model, embedder.revision, embedder.dimensions) == space else None


def _quota(given: Sequence[str]) -> dict[str, int]:
    """`KIND=NUMBER` of the command line."""
    quota: dict[str, int] = {}
    for one in given:
        kind, equals, number = one.rpartition("=")
        if not equals or not number.isascii() or not number.isdigit():
            raise typer.BadParameter(f"{one!r} is no KIND=NUMBER, like policy=3 or '*=0'", param_hint="--quota")
        quota[kind] = int(number)
    return quota


def next_command(context: typer.Context, cursor: str) -> str:
    """The command for the page after this one: the same options and the cursor. A connection string with a password is left out."""
    words = ["kbsearch", str(context.info_name)]
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if name in NOT_REPEATED or not is_typed(context, name):
            continue
        if isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        elif name != "dsn" or not _has_password(str(value)):
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [parameter.opts[0], str(one)]
    words += ["--cursor", cursor]
    question = str(context.params["question"])
    return shlex.join([*words, *(["--", question] if question.startswith("-") else [question])])


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line, and not in the environment only."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _has_password(dsn: str) -> bool:
    try:
        return "password" in conninfo_to_dict(dsn)
    except psycopg.Error:
        return True
