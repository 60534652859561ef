"""The plots show what the functions say: the numbers in each are computed again and compared."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tools.docs_figures import FIGURES, FOLDER, Numbers, numbers_in, svg

SVG = "{http://www.w3.org/2000/svg}"
ROOT = FOLDER.parents[1]


def flat(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from flat(one)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize("name", FIGURES)
def test_the_functions_still_give_the_numbers_of_a_plot(name: str, connection: psycopg.Connection[Any]) -> None:
    computed = json.loads(json.dumps(FIGURES[name][0](connection)))
    assert computed == numbers_in(FOLDER / f"{name}.svg"), "draw anew: python -m tools.docs_figures"


@pytest.mark.parametrize("name", FIGURES)
def test_a_plot_is_drawn_from_its_numbers(name: str) -> None:
    """The picture has the texts that drawing its numbers gives, so that numbers and picture cannot part."""
    numbers: Numbers = numbers_in(FOLDER / f"{name}.svg")
    drawn, kept = (
        ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
        for root in (ET.fromstring(svg(name, numbers)), ET.parse(FOLDER / f"{name}.svg").getroot())  # noqa: S314
    )
    assert drawn == kept


@pytest.mark.parametrize("name", FIGURES)
def test_a_plot_stands_in_a_page_with_an_alternative_text_of_true_numbers(name: str) -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    (alternative,) = [
        match[1] for page in pages for match in re.finditer(rf"!\[([^\]]+)\]\([^)]*figures/{name}\.svg\)", page)
    ]
    assert len(alternative) > 80
    numbers = list(flat(numbers_in(FOLDER / f"{name}.svg")))
    for said in re.findall(r"\d+\.\d+", alternative):
        places = len(said.partition(".")[2])
        assert any(f"{number:.{places}f}" == said for number in numbers), said
