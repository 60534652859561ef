"""Which embedder a command uses: the options, and the embedder that they name."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from functools import reduce, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from kbsearch.embed import CallableEmbedder, Embedder, LocalEmbedder, OpenAIEmbedder, SentenceTransformersEmbedder
from kbsearch.embed.remote import KEY_VARIABLE, OPENAI_KEY_VARIABLE, OPENAI_URL_VARIABLE, URL_VARIABLE

LOCAL, OPENAI, SENTENCE_TRANSFORMERS, NONE = "local", "openai", "sentence-transformers", "none"
_KINDS = f"{LOCAL}, {OPENAI}, {SENTENCE_TRANSFORMERS}, {NONE} or MODULE:NAME"
_VARIABLES = {
    "model": "KBSEARCH_EMBED_MODEL",
    "base_url": URL_VARIABLE,
    "dimensions": "KBSEARCH_EMBED_DIMENSIONS",
    "query_prefix": "KBSEARCH_EMBED_QUERY_PREFIX",
    "passage_prefix": "KBSEARCH_EMBED_PASSAGE_PREFIX",
}
"""Where a setting comes from that the command line does not give. Read for the embedder chosen only, and not by typer: what the environment
has for one embedder is no mistake in the command line of another."""
_TAKEN = {
    LOCAL: (),
    NONE: (),
    OPENAI: tuple(_VARIABLES),
    SENTENCE_TRANSFORMERS: tuple(name for name in _VARIABLES if name != "base_url"),
}

EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        envvar="KBSEARCH_EMBEDDER",
        metavar="KIND",
        help=f"What turns text into vectors. {LOCAL}: the small model of the extra local; {OPENAI}: a service with OpenAI's interface, its key "
        f"in {KEY_VARIABLE} (or {OPENAI_KEY_VARIABLE}); {SENTENCE_TRANSFORMERS}: a model of that library; MODULE:NAME: an embedder or a "
        f"function of yours; {NONE}: words only.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help=f"Model for {OPENAI}; name or folder of one for {SENTENCE_TRANSFORMERS}. [env var: {_VARIABLES['model']}]",
        show_default=False,
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help=f"Service for {OPENAI}, up to /embeddings; by default OpenAI's own. [env var: {URL_VARIABLE}, {OPENAI_URL_VARIABLE}]",
        show_default=False,
    ),
]
DimensionsOption = Annotated[
    int | None,
    typer.Option(
        "--dimensions",
        help=f"Components of a vector to ask the model for; by default its own. [env var: {_VARIABLES['dimensions']}]",
        show_default=False,
    ),
]
QueryPrefixOption = Annotated[
    str | None,
    typer.Option(
        "--query-prefix",
        metavar="TEXT",
        help=f"Goes before each question to the model, like 'query: '. [env var: {_VARIABLES['query_prefix']}]",
        show_default=False,
    ),
]
PassagePrefixOption = Annotated[
    str | None,
    typer.Option(
        "--passage-prefix",
        metavar="TEXT",
        help=f"Goes before each passage to the model, like 'passage: '. [env var: {_VARIABLES['passage_prefix']}]",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """The options that name an embedder, as a command was given them."""

    embedder: EmbedderOption = None
    model: ModelOption = None
    base_url: BaseUrlOption = None
    dimensions: DimensionsOption = None
    query_prefix: QueryPrefixOption = None
    passage_prefix: PassagePrefixOption = None

    @property
    def is_given(self) -> bool:
        """Whether there is any of them."""
        return any(getattr(self, one.name) for one in fields(self))

    def made(self, default: str = LOCAL) -> AbstractContextManager[Embedder | None]:
        """The embedder that they name: see chosen_embedder."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return chosen_embedder(given.pop("embedder"), default=default, **given)


def takes_embedder(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of EmbedderChoice in place of the one parameter that is annotated with it."""
    signature = inspect.signature(command, eval_str=True)
    options = inspect.signature(EmbedderChoice, eval_str=True).parameters
    (bundle,) = (name for name, one in signature.parameters.items() if one.annotation is EmbedderChoice)
    parameters: list[inspect.Parameter] = []
    for name, one in signature.parameters.items():
        parameters += [option.replace(kind=one.kind) for option in options.values()] if name == bundle else [one]

    @wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        choice = EmbedderChoice(**{name: given.pop(name) for name in options})
        command(*arguments, **given, **{bundle: choice})

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


@contextmanager
def chosen_embedder(
    choice: str | None,
    *,
    model: str | None = None,
    base_url: str | None = None,
    dimensions: int | None = None,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    default: str = LOCAL,
) -> Iterator[Embedder | None]:
    """The embedder that the options name, closed at the end; None for `none`.

    What is not given is taken from the environment, if the embedder takes it. default: the choice when there is none.

    Raises:
        typer.BadParameter: the options do not go together, or name nothing.
        EmbeddingError: the embedder cannot be made: a package, a model or a key is missing.
    """
    kind = choice or default
    given = {
        "model": model,
        "base_url": base_url,
        "dimensions": dimensions,
        "query_prefix": query_prefix,
        "passage_prefix": passage_prefix,
    }
    embedder = _custom(kind, given) if ":" in kind else _builtin(kind, given)
    try:
        yield embedder
    finally:
        close = getattr(embedder, "close", None)
        if callable(close):
            close()


def _builtin(kind: str, given: Mapping[str, Any]) -> Embedder | None:
    if kind not in _TAKEN:
        raise _wrong("embedder", f"there is no embedder {kind!r}: {_KINDS}")
    settings = _settings(kind, given, _TAKEN[kind])
    if kind == NONE:
        return None
    if kind == LOCAL:
        return LocalEmbedder()
    model = settings.pop("model", None)
    if model is None:
        raise _wrong("model", f"--embedder {kind} needs the name of a model (or {_VARIABLES['model']})")
    if kind == OPENAI:
        return OpenAIEmbedder(model, **settings)
    folder = Path(model).expanduser()
    if folder.is_dir():
        return SentenceTransformersEmbedder(folder.resolve().name, path=folder, **settings)
    return SentenceTransformersEmbedder(model, **settings)


def _custom(kind: str, given: Mapping[str, Any]) -> Embedder:
    """What MODULE:NAME names: an embedder, a class or function without arguments that makes one, or a function that embeds texts."""
    module, _, name = kind.partition(":")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  (as python -m has it; a script's path begins elsewhere)
    try:
        named: Any = reduce(getattr, name.split("."), importlib.import_module(module))
        made: Any = named() if inspect.isclass(named) or _is_factory(named) else named
    except Exception as error:
        raise _wrong("embedder", f"{kind} cannot be had: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if isinstance(made, Embedder):
        _settings(kind, given, ())
        return made
    if made is not named or not callable(made):
        raise _wrong(
            "embedder",
            f"{kind} is a {type(made).__name__}: neither an embedder (kbsearch.embed.Embedder) nor a function that takes a list of texts",
        )
    settings = _settings(kind, given, ("model", "dimensions", "query_prefix", "passage_prefix"))
    return CallableEmbedder(made, **{"model": kind, **settings})


def _is_factory(named: object) -> bool:
    """Whether this is a function without arguments: one that embeds takes the texts."""
    if isinstance(named, Embedder) or not callable(named):
        return False
    try:
        parameters = inspect.signature(named).parameters.values()
    except ValueError:
        return False
    return not any(
        one.kind is one.VAR_POSITIONAL or (one.default is one.empty and one.kind is not one.VAR_KEYWORD)
        for one in parameters
    )


def _settings(kind: str, given: Mapping[str, Any], taken: tuple[str, ...]) -> dict[str, Any]:
    """The settings that an embedder takes, from the command line or else the environment."""
    for name, value in given.items():
        if value is not None and name not in taken:
            raise _wrong(name, f"--embedder {kind} takes no --{name.replace('_', '-')}")
    settings: dict[str, Any] = {}
    for name in taken:
        value = given[name] if given[name] is not None else os.environ.get(_VARIABLES[name]) or None
        if name == "dimensions" and isinstance(value, str):
            try:
                value = int(value)
            except ValueError as error:
                raise _wrong(name, f"{_VARIABLES[name]} is {value!r}, not a whole number") from error
        if value is not None:
            settings[name] = value
    return settings


def _wrong(parameter: str, message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint=f"--{parameter.replace('_', '-')}")
