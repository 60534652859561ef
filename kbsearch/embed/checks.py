"""What every embedder is held to: as many vectors as texts, one number of dimensions, numbers that are a direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbsearch.embed.base import Vectors
from kbsearch.embed.errors import EmbeddingError

MAX_DIMENSIONS = 2000
"""What an embedding space can have: a row must fit a page of the database."""
SMALLEST_NORM, LARGEST_NORM = 1e-15, 1e15
"""Outside of these a vector has no direction; the database draws the line there."""
_FEWER = "Ask the model for fewer dimensions, if it can give them, or take another model."


def check_dimensions(dimensions: int, model: str) -> int:
    """Return the number of dimensions; raise EmbeddingError if no embedding space can have so many."""
    if isinstance(dimensions, bool) or not isinstance(dimensions, int):
        raise EmbeddingError(f"dimensions must be an integer, not a {type(dimensions).__name__}")
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise EmbeddingError(
            f"the vectors of {model} have {dimensions} dimensions: an embedding space has 1 … {MAX_DIMENSIONS}",
            detail={"dimensions": dimensions, "maximum": MAX_DIMENSIONS},
            hint=_FEWER,
        )
    return dimensions


def check_vectors(
    answer: Any, count: int, dimensions: int | None, *, normalise: bool
) -> tuple[Vectors, dict[int, str]]:
    """Take what a model answered for some texts apart and check it.

    Args:
        answer: vectors in the order of the texts: an array, or an iterable of arrays or lists of numbers.
        count: how many texts there were.
        dimensions: of each vector; None: as many as the first has.
        normalise: divide each vector by its length.

    Returns:
        float32 of shape (count, dimensions), and why a text has no vector, by its position; such a row is NaN.

    Raises:
        EmbeddingError: the answer as a whole cannot be trusted: another number of vectors, other dimensions, no numbers.
    """
    if isinstance(answer, (str, bytes, Mapping)) or not isinstance(answer, Iterable):
        raise EmbeddingError(f"the answer is a {type(answer).__name__}, not a sequence of vectors")
    rows = list(answer)
    if len(rows) != count:
        raise EmbeddingError(
            f"the answer has {len(rows)} vectors for {count} texts", detail={"vectors": len(rows), "texts": count}
        )
    if not rows:
        return np.empty((0, dimensions or 0), dtype=np.float32), {}
    values = [_numbers(row, position) for position, row in enumerate(rows)]
    expected = len(values[0]) if dimensions is None else dimensions
    for position, row in enumerate(values):
        if len(row) != expected:
            raise EmbeddingError(
                f"vector {position} of {count} has {len(row)} dimensions, "
                + (f"the first has {expected}" if dimensions is None else f"expected are {expected}"),
                detail={"dimensions": len(row), "expected": expected},
                hint="Is it the model it was before? A model that can shorten its vectors must be asked to.",
            )
    if expected == 0:
        raise EmbeddingError("the vectors are empty")
    return _with_direction(np.stack(values), normalise=normalise)


def _numbers(row: Any, position: int) -> NDArray[np.float64]:
    """One vector; what is missing (None, a null of JSON) becomes NaN."""
    try:
        given = np.asarray(row)
        if given.dtype.kind == "O" and given.ndim == 1:
            odd = next((one for one in row if one is not None and not isinstance(one, (int, float, np.number))), None)
            if odd is not None:
                raise EmbeddingError(f"vector {position} has a {type(odd).__name__} among its numbers")
            given = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise EmbeddingError(f"vector {position} is no list of numbers: {error}") from error
    if given.ndim != 1:
        raise EmbeddingError(
            f"vector {position} is a {type(row).__name__} of shape {given.shape}, not a list of numbers"
        )
    if given.dtype.kind not in "fiu" and given.size:
        raise EmbeddingError(f"vector {position} has values of type {given.dtype}, not numbers")
    return given.astype(np.float64)


def _with_direction(values: NDArray[np.float64], *, normalise: bool) -> tuple[Vectors, dict[int, str]]:
    failures: dict[int, str] = {}
    unusable = ~np.isfinite(values)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(values, axis=1)
    for position, norm in enumerate(norms):
        if unusable[position].any():
            failures[position] = f"component {unusable[position].argmax()} of its vector is no finite number"
        elif norm == 0:
            failures[position] = "all components of its vector are zero"
        elif not SMALLEST_NORM <= norm <= LARGEST_NORM:
            failures[position] = f"its vector has the length {norm:.3g}, outside {SMALLEST_NORM:g} … {LARGEST_NORM:g}"
    values[list(failures)] = np.nan
    if normalise:
        values = values / norms[:, np.newaxis]
    return values.astype(np.float32), failures
