"""Options of a recipe: what the model is given of a document."""

from __future__ import annotations

from typing import Annotated

import typer

from kbsearch.embed import Embedder
from kbsearch.ingest import Splitter, UsageError
from kbsearch.ingest.splitter import CHARACTERS, TOKENS
from kbsearch.ingest.template import FIELDS, TEMPLATE

ChunkTokensOption = Annotated[
    int | None,
    typer.Option(
        "--chunk-tokens",
        min=32,
        metavar="N",
        help=f"Size of chunks in the model's tokens, title and heading included; by default {TOKENS}, or what the model reads. "
        "For embedders that count tokens.",
        show_default=False,
    ),
]
ChunkCharactersOption = Annotated[
    int | None,
    typer.Option(
        "--chunk-characters",
        min=50,
        max=60_000,
        metavar="N",
        help=f"Size of chunks in characters; {CHARACTERS} where tokens are not counted.",
        show_default=False,
    ),
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        "--template",
        metavar="TEXT",
        help=f"What the model is given of a chunk: a text with {', '.join(f'{{{name}}}' for name in FIELDS)} in it and \\n for a new line; "
        f"lines whose fields are empty are left out. By default {TEMPLATE!r}.",
        show_default=False,
    ),
]
NoPathOption = Annotated[
    bool,
    typer.Option(
        "--no-path", help="Leave the relative paths of files out: they begin the heading paths of chunks otherwise."
    ),
]
AllowMachineNamesOption = Annotated[
    bool,
    typer.Option(
        "--allow-machine-names",
        help="Embed chunks that have absolute paths, the user's or the host's name in them; they are skipped otherwise.",
    ),
]


def chosen_splitter(
    embedder: Embedder | None,
    *,
    tokens: int | None = None,
    characters: int | None = None,
    template: str | None = None,
    no_path: bool = False,
    allow_machine_names: bool = False,
) -> Splitter | None:
    """The splitter asked for; None for what suits the embedder.

    Raises UsageError for what cannot be.
    """
    if tokens is None and characters is None and template is None and not no_path and not allow_machine_names:
        return None
    if tokens is not None and characters is not None:
        raise UsageError("--chunk-tokens and --chunk-characters do not go together")
    try:
        return Splitter.of(
            embedder,
            tokens=tokens,
            characters=characters,
            layout=TEMPLATE if template is None else template.replace("\\n", "\n"),
            path=not no_path,
            guarded=not allow_machine_names,
        )
    except ValueError as error:
        raise UsageError(f"{'--chunk-tokens' if tokens is not None else '--template'}: {error}") from error
