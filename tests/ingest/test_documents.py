from __future__ import annotations

import math
from typing import Any

import pytest

from kbsearch.ingest import Document, validate


def document(**fields: Any) -> Document:
    return Document(**{"external_ref": "a", "title": "t", "text": "x", **fields})


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"text": "a\0b"}, "text contains a NUL character"),
        ({"title": "\ud800"}, "title contains a lone surrogate"),
        ({"external_ref": "a\udcff.md"}, "id contains a lone surrogate"),
        ({"source_uri": "\0"}, "source_uri contains a NUL"),
        ({"kind": "x\0"}, "kind contains a NUL"),
        ({"metadata": {"a": [{"b\0": 1}]}}, "metadata contains a NUL"),
        ({"metadata": {"a": ["\udfff"]}}, "metadata contains a lone surrogate"),
        ({"metadata": {"a": math.inf}}, "not finite"),
        ({"metadata": {"a": [math.nan]}}, "not finite"),
        ({"external_ref": ""}, "no id"),
        ({"kind": "*"}, "not a kind"),
        ({"kind": " "}, "not a kind"),
        ({"title": " ", "text": "\n"}, "neither title nor text"),
    ],
)
def test_what_cannot_be_stored_is_named(fields: dict[str, Any], fault: str) -> None:
    assert fault in (validate(document(**fields)) or "nothing")


@pytest.mark.parametrize(
    "fields",
    [{}, {"text": ""}, {"title": ""}, {"text": "😀 é \x01"}, {"metadata": {"a": [1, 2.5, None, True, {"é": "😀"}]}}],
)
def test_all_else_is_stored(fields: dict[str, Any]) -> None:
    assert validate(document(**fields)) is None
