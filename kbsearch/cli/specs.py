"""A second embedder on a command line, in one word: KIND[,NAME=VALUE…]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from kbsearch.cli.embedders import NONE, chosen_embedder
from kbsearch.embed import Embedder, LocalEmbedder, MissingExtraError
from kbsearch.ingest import UsageError
from kbsearch.ingest.report import Connection
from kbsearch.ingest.spaces import active_identity
from kbsearch.schema import DEFAULT

_NAMES = {
    "model": "model",
    "base-url": "base_url",
    "dimensions": "dimensions",
    "query-prefix": "query_prefix",
    "passage-prefix": "passage_prefix",
}
SPEC = "KIND[,NAME=VALUE…]"

AlsoOption = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar=SPEC,
        help="While the organisation moves to another embedding space: embedder of the other one, so that what is written has vectors in both. "
        f"Like openai,model=text-embedding-3-small; names: {', '.join(_NAMES)}. May be repeated.",
        show_default=False,
    ),
]


@contextmanager
def embedder_of(spec: str, parameter: str) -> Iterator[Embedder]:
    """The embedder that a word names, closed at the end.

    Raises typer.BadParameter for what names none, EmbeddingError when it cannot be made.
    """
    kind, *settings = spec.split(",")
    given: dict[str, str | int] = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign or name not in _NAMES:
            raise typer.BadParameter(
                f"{setting!r} is none of {', '.join(f'{one}=…' for one in _NAMES)}", param_hint=parameter
            )
        given[_NAMES[name]] = _number(value, parameter) if name == "dimensions" else value
    if kind in ("", NONE):
        raise typer.BadParameter(f"{spec!r} names no embedder: {SPEC}", param_hint=parameter)
    with chosen_embedder(kind, **given) as embedder:  # type: ignore[arg-type]
        if embedder is None:
            raise typer.BadParameter(f"{spec!r} names no embedder: {SPEC}", param_hint=parameter)
        yield embedder


def _number(value: str, parameter: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise typer.BadParameter(f"dimensions={value} is no whole number", param_hint=parameter) from error


@contextmanager
def embedders_of(specs: Sequence[str], parameter: str) -> Iterator[list[Embedder]]:
    """The embedders that some words name."""
    with ExitStack() as stack:
        yield [stack.enter_context(embedder_of(spec, parameter)) for spec in specs]


@contextmanager
def embedder_of_active_space(
    spec: str | None, parameter: str, connection: Connection, org_id: int, other: Embedder, schema: str = DEFAULT
) -> Iterator[Embedder]:
    """The embedder of the space that searches use: the one that a word names; without one `other` or the local model, if it is that.

    Raises UsageError when none of them is it.
    """
    active = active_identity(connection, org_id, schema)
    if active is None:
        raise UsageError("the organisation has no embedding space yet: there is nothing to compare with")
    space, identity, recipe = active

    def is_its(embedder: Embedder) -> bool:
        same = identity == (embedder.model, embedder.revision, embedder.dimensions)
        return same and recipe.get("query_prefix") == embedder.recipe.get("query_prefix")

    with ExitStack() as stack:
        if spec is not None:
            embedder: Embedder | None = stack.enter_context(embedder_of(spec, parameter))
        elif is_its(other):
            embedder = other
        else:
            embedder = _local()
        if embedder is None or not is_its(embedder):
            raise UsageError(
                f"searches use the space {space.name!r}, of {identity[0]}: name its embedder by {parameter} {SPEC}"
                + ("" if spec is None else f"; {spec!r} is another one")
            )
        yield embedder


def _local() -> Embedder | None:
    try:
        return LocalEmbedder()
    except MissingExtraError:
        return None
