"""Models of the library sentence-transformers, where it is installed; kbsearch does not depend on it."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from kbsearch.embed.checked import CheckedEmbedder, Role
from kbsearch.embed.errors import EmbeddingError, require

_PROMPTS: dict[Role, tuple[str, ...]] = {"query": ("query",), "passage": ("document", "passage", "corpus")}
"""Names under which models keep the prompts of a role, in the order in which the library looks for them."""
_METHODS: dict[Role, str] = {"query": "encode_query", "passage": "encode_document"}
"""The library has them since 5.0; they also choose the part of a model that is meant for the role."""


class SentenceTransformersEmbedder(CheckedEmbedder):
    """Embeds with a `sentence_transformers.SentenceTransformer` on this machine.

    The revision of the identity is the commit that the weights were published with, or a digest of the files of a model that is read from a
    folder; what the library does not tell is the revision that was asked for.

    Args:
        model: the model's published name, such as `intfloat/e5-small-v2`.
        path: folder to read the model from; by default the library finds it by its name.
        revision: branch, tag or commit to load.
        device: `cpu`, `cuda`, …; the library's choice by default. Not part of the identity.
        dimensions: fewer components than the model has, for models that can be shortened.
        query_prefix: put before each question; by default the prompt `query` that the model comes with, or nothing.
        passage_prefix: put before each passage; by default the prompt `document`, `passage` or `corpus` that the model comes with.
        normalise: divide each vector by its length.
        batch_size: texts at a time.
        name: short name for people; by default the last part of the model's.
        options: further arguments of SentenceTransformer, such as `trust_remote_code` or `cache_folder`. What changes the vectors
            (`backend`, `model_kwargs`) is not part of the identity: give such a model another name or revision.

    Raises:
        MissingExtraError: the package sentence-transformers is not installed.
        EmbeddingError: the model cannot be loaded, or `model` is a path: those of one machine are no name.
    """

    def __init__(
        self,
        model: str,
        *,
        path: Path | str | None = None,
        revision: str | None = None,
        device: str | None = None,
        dimensions: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        normalise: bool = True,
        batch_size: int = 32,
        name: str | None = None,
        **options: Any,
    ) -> None:
        """Load the model."""
        if Path(model).is_absolute() or model.startswith((".", "~")):
            raise EmbeddingError(
                f"{model!r} is a path, and a model's name is part of the identity of its vectors",
                hint="Give its published name as model, and the folder as path.",
            )
        library = require("sentence_transformers", "models of sentence-transformers")
        source = str(path or model)
        try:
            loaded = library.SentenceTransformer(
                source, revision=revision, device=device, truncate_dim=dimensions, **options
            )
        except (OSError, ValueError) as error:
            raise EmbeddingError(
                f"sentence-transformers cannot load {source!r}: {error}",
                hint="Check the name and the revision, or load it once with a connection to the hub.",
            ) from error
        cache = options.get("cache_folder") or os.environ.get("SENTENCE_TRANSFORMERS_HOME")
        weights = _digest(Path(source)) if Path(source).is_dir() else _commit(model, revision, cache)
        prompts: dict[str, str] = getattr(loaded, "prompts", None) or {}
        own = {role: next((prompts[key] for key in keys if prompts.get(key)), "") for role, keys in _PROMPTS.items()}
        super().__init__(
            model=model,
            name=name,
            revision=weights or revision or "",
            dimensions=_dimensions(loaded),
            query_prefix=own["query"] if query_prefix is None else query_prefix,
            passage_prefix=own["passage"] if passage_prefix is None else passage_prefix,
            normalise=normalise,
            recipe={
                "interface": "sentence-transformers",
                "max_tokens": getattr(loaded, "max_seq_length", None),
                "truncated_dimensions": dimensions,
            },
        )
        self._loaded, self._batch_size, self._truncated = loaded, batch_size, 0

    @property
    def max_tokens(self) -> int | None:
        """What the model reads at most of a text, special tokens and prefix included; None if it does not tell."""
        longest = getattr(self._loaded, "max_seq_length", None)
        return int(longest) if longest is not None and callable(getattr(self._loaded, "tokenizer", None)) else None

    def count_tokens(self, text: str) -> int:
        """Tokens of a passage as the model is given it, special tokens and prefix included, nothing cut off."""
        return self._count_tokens([self._prefixes["passage"] + text])[0]

    @property
    def truncated(self) -> int:
        """How many texts so far were longer than the model reads: their ends are not in their vectors. 0 if the model does not tell."""
        return self._truncated

    def _answer(self, texts: list[str], role: Role) -> Any:
        prefix = self._prefixes[role]
        self._truncated += self._too_long([prefix + text for text in texts])
        encode = getattr(self._loaded, _METHODS[role], self._loaded.encode)
        # The prefix goes as a prompt, not into the texts: some models leave a prompt's tokens out of the mean.
        return encode(
            texts,
            prompt=prefix,
            batch_size=self._batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=False,
        )

    def _too_long(self, inputs: list[str]) -> int:
        """How many inputs have more tokens than the model reads; 0 if it does not tell."""
        longest = self.max_tokens
        return 0 if longest is None else sum(count > longest for count in self._count_tokens(inputs))

    def _count_tokens(self, inputs: list[str]) -> list[int]:
        """Tokens of each input, special ones included, nothing cut off."""
        return [
            len(row)
            for row in self._loaded.tokenizer(inputs, add_special_tokens=True, truncation=False, verbose=False)[
                "input_ids"
            ]
        ]


def _dimensions(loaded: Any) -> int | None:
    """Components of a vector; None if the model does not know. The method was renamed in 6.0."""
    ask = getattr(loaded, "get_embedding_dimension", None) or loaded.get_sentence_embedding_dimension
    number = ask()
    return None if number is None else int(number)


def _digest(folder: Path) -> str:
    """Digest of the names and contents of a folder's files."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with file.open("rb") as content:
            own = hashlib.file_digest(content, "sha256").hexdigest()
        digest.update(f"{own} {file.relative_to(folder).as_posix()}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _commit(model: str, revision: str | None, cache: str | None) -> str | None:
    """The commit that a model's files in the hub's cache are of, where they were just loaded from; None if they are not there."""
    try:
        hub: Any = import_module("huggingface_hub")
    except ImportError:
        return None
    for name in (model, f"sentence-transformers/{model}"):  # the library's own models need no organisation
        for file in ("modules.json", "config.json"):
            with suppress(ValueError):  # no name that the hub could know
                found = hub.try_to_load_from_cache(name, file, cache_dir=cache, revision=revision)
                if isinstance(found, str):
                    return Path(found).parent.name
    return None
