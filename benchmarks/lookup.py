"""What was measured: names of systems and of kinds of questions, and looking values up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.data import CLASSES
from benchmarks.peers import PEERS
from benchmarks.questions import ASKED

TITLES = {
    "kbsearch ann": "kbsearch, `ann`, window 200",
    "kbsearch exact": "kbsearch, `exact`",
    "kbsearch leg": "kbsearch, keyword leg, from the question's text",
    "kbsearch leg, prepared": "kbsearch, keyword leg, of words analysed and weighed before",
    "kbsearch search": "kbsearch, `keyword` search through a window of 400",
    "kbsearch weighted": "kbsearch, `weighted`",
    "kbsearch rrf": "kbsearch, `rrf`",
    "kbsearch keyword": "kbsearch, `keyword` (words only)",
    "pg_textsearch": "pg_textsearch (words only)",
    **{one.key: one.title for one in PEERS},
    "langchain": "LangChain's hybrid search",
}
KINDS = {**CLASSES, "mixed": "mixed", ASKED: "of one document"}
UNRELATED, DOCUMENT = "unrelated", "one document"
"""What recall is measured with: words and a vector that have nothing to do with each other, or both of one document."""
ALL = "all"
"""Words of all of RANKS, of each in a quarter of the questions."""
CLIENTS = (1, 2, 4, 8)

NOWHERE: Mapping[str, Any] = {}

Results = Mapping[str, Mapping[str, Any]]


def find(found: Sequence[Mapping[str, Any]] | None, **wanted: Any) -> Mapping[str, Any]:
    """The first entry with these values; an empty one where there is none."""
    return next((one for one in found or () if all(one.get(name) == value for name, value in wanted.items())), NOWHERE)


def number_of(found: Sequence[Mapping[str, Any]] | None, name: str, **wanted: Any) -> float:
    """A number of the first entry with these values; NaN where there is none."""
    return float(find(found, **wanted).get(name, math.nan))


def tps(result: Mapping[str, Any], system: str, clients: int) -> float:
    """Answers a second of so many clients; NaN where they were not counted."""
    values = [
        one["tps"] for one in result.get("throughput", ()) if one["system"] == system and one["clients"] == clients
    ]
    return sum(values) / len(values) if values else math.nan
