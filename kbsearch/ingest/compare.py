"""How rankings would change if searches used another embedding space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbsearch.client import KBSearch
from kbsearch.embed.base import Embedder
from kbsearch.ingest.report import Connection, Progress, UsageError, quiet
from kbsearch.ingest.spaces import Space
from kbsearch.schema import DEFAULT, in_schema

DEPTH = 10
"""Articles compared of each ranking."""
_TAU = "SELECT kbsearch.kendall_tau_top_k_v1(p_left => %s, p_right => %s)"


@dataclass(frozen=True, slots=True)
class Change:
    """How the ranking of a question would change.

    Attributes:
        question: the question.
        overlap: share of the first ten articles that stay among them, 0 … 1; 1 where there are none.
        tau: Kendall tau distance of the first ten, with the penalty 1/2 of Fagin, Kumar and Sivakumar (2003): 0 the same, 1 reversed.
        appear: articles that would be among the first ten and are not, best first, by external_ref, or id where they have none.
        vanish: articles that are and would not be.
    """

    question: str
    overlap: float
    tau: float
    appear: tuple[str, ...]
    vanish: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How rankings would change: the change of each question, and their means."""

    before: str
    after: str
    changes: tuple[Change, ...]

    @property
    def overlap(self) -> float:
        """Mean of the overlaps."""
        return sum(change.overlap for change in self.changes) / len(self.changes)

    @property
    def tau(self) -> float:
        """Mean of the tau distances."""
        return sum(change.tau for change in self.changes) / len(self.changes)


def compare(
    connection: Connection,
    org_id: int,
    questions: Sequence[str],
    before: tuple[Space, Embedder],
    after: tuple[Space, Embedder],
    *,
    progress: Progress = quiet,
    schema: str = DEFAULT,
) -> Comparison:
    """Ask questions in two embedding spaces, each through its own embedder, and compare the first ten articles.

    All questions are asked of one state of the data. Nothing is written.

    Raises UsageError without a question, KBSearchError when a question is refused, what the embedders raise.
    """
    asked = [question for question in dict.fromkeys(map(str.strip, questions)) if question]
    if not asked:
        raise UsageError("there is no question to compare by")
    vectors = [embedder.embed_queries(asked) for _, embedder in (before, after)]
    spaces = (before[0], after[0])
    client = KBSearch(connection, schema=schema)
    changes = []
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for number, question in enumerate(asked):
            lists: list[dict[int, str]] = []
            for space, found in zip(spaces, vectors, strict=True):
                page = client.search(org_id, question, found[number], limit=DEPTH, space_id=space.id)
                lists.append({item.article_id: item.external_ref or str(item.article_id) for item in page.items})
            old, new = lists
            row = connection.execute(in_schema(_TAU, schema).encode(), (list(old), list(new))).fetchone()
            longest = max(len(old), len(new))
            changes.append(
                Change(
                    question=question,
                    overlap=len(old.keys() & new.keys()) / longest if longest else 1.0,
                    tau=0.0 if row is None else float(row[0]),
                    appear=tuple(name for article, name in new.items() if article not in old),
                    vanish=tuple(name for article, name in old.items() if article not in new),
                )
            )
            progress("compare", number + 1, len(asked))
    return Comparison(before[0].name, after[0].name, tuple(changes))
