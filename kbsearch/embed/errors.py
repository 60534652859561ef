"""What goes wrong when texts are embedded, and how a package that is missing is named."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kbsearch.errors import KBSearchError


class EmbeddingError(KBSearchError):
    """KB004: texts cannot be embedded: the service fails or refuses the key, an answer is malformed, or time is up.

    Attributes:
        failures: why a text has no vector, by its position among the texts given; empty where the fault is found before any is embedded.
        vectors: what was embedded before, float32 of shape (texts, dimensions), NaN in the rows of texts without vector; None if nothing was.
    """

    default_sqlstate = "KB004"
    http_status: ClassVar[int] = 502

    def __init__(
        self,
        message: str,
        *,
        failures: Mapping[int, str] | None = None,
        vectors: NDArray[np.float32] | None = None,
        sqlstate: str | None = None,
        detail: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the message and what belongs to it."""
        super().__init__(message, sqlstate=sqlstate, detail=detail, hint=hint)
        self.failures = dict(failures or {})
        self.vectors = vectors


class TextsRefusedError(EmbeddingError):
    """KB004: some texts have no vector and never will: too long for the model, or what it gives for them is no vector.

    All others were embedded: `vectors` has a row for each, and `failures` says what is wrong with the rest.
    """

    http_status: ClassVar[int] = 422


class RequestRefusedError(EmbeddingError):
    """KB004: a service refuses a request for what may be in it; OpenAIEmbedder finds out which text that is."""

    def __init__(self, message: str, *, server_error: bool = False) -> None:
        """Keep the message; server_error: it was an error 500 each time, which some services give for a text they cannot take."""
        super().__init__(message)
        self.server_error = server_error


class MissingExtraError(EmbeddingError, ImportError):
    """KB004: a package that an embedder needs is not installed."""

    http_status: ClassVar[int] = 500


class ModelFileError(EmbeddingError, RuntimeError):
    """KB004: the model or the vocabulary is not the file it should be."""

    http_status: ClassVar[int] = 500


def how_to_install(extra: str) -> str:
    """How kbsearch, which is on no package index, is installed with one of its extras."""
    return (
        f"Install kbsearch with its extra {extra!r}: pip install '/path/to/checkout[{extra}]', "
        f"or from a wheel: pip install '/path/to/kbsearch-VERSION-py3-none-any.whl[{extra}]'"
    )


def require(module: str, purpose: str, *, extra: str | None = None) -> ModuleType:
    """Import a package that not every installation has.

    Args:
        module: name of the module.
        purpose: what needs it, in the plural: it begins the message.
        extra: the extra of kbsearch that installs it; None for a package that is installed by itself.

    Raises:
        MissingExtraError: it, or a package that it needs itself, is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        how = f"pip install {module.replace('_', '-')}" if extra is None else how_to_install(extra)
        # In the message, too: not everybody who shows an ImportError knows of hints.
        raise MissingExtraError(f"{purpose} need the package {missing!r}, which is not installed. {how}") from error
