"""The first place where two values differ, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

_MISSING = object()
_LONGEST = 120
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two values differ.

    Attributes:
        path: where, as in `[2].score`; empty for the values themselves.
        left: what one has there.
        right: what the other has there.
    """

    path: str
    left: Any
    right: Any

    def told(self, left: str, right: str) -> str:
        """The difference in a line, with names for the two sides."""
        return f"{self.path or 'the whole'}: {_shown(self.left)} in {left}, {_shown(self.right)} in {right}"


def first_difference(left: Any, right: Any, path: str = "") -> Difference | None:
    """Compare as bytes would be: 1, 1.0 and True are three values, a list is no tuple, NaN is NaN. The order of a mapping's keys does not count.

    Returns None if there is no difference.
    """
    if type(left) is not type(right):
        return Difference(path, left, right)
    ours, theirs = _parts(left), _parts(right)
    if ours is None or theirs is None:
        same = repr(left) == repr(right) if isinstance(left, float) else left == right
        return None if same else Difference(path, left, right)
    for name in dict.fromkeys((*ours, *theirs)):
        values = ours.get(name, _MISSING), theirs.get(name, _MISSING)
        if any(value is _MISSING for value in values):
            return Difference(path + name, *values)
        if found := first_difference(*values, path + name):
            return found
    return None


def kept(value: Any) -> Any:
    """The value, or a list of what an iterator gives: that can be looked at more than once."""
    return list(value) if isinstance(value, Iterator) else value


def _parts(value: Any) -> dict[str, Any] | None:
    """What a value consists of, by where it is; None where it is one thing."""
    if is_dataclass(value):
        return {f".{one.name}": getattr(value, one.name) for one in fields(value) if one.compare}
    if isinstance(value, Mapping):
        return {f"[{key!r}]": part for key, part in value.items()}
    if hasattr(value, "shape") and hasattr(value, "tolist"):  # numpy's, and those of its kind
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return {f"[{position}]": part for position, part in enumerate(value)}
    return None


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
