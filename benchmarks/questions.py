"""Questions as people ask them: of one document, with words of it and of others, and a vector as near to its own as a sentence model's would be.

Those of benchmarks.data have words and a vector that have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from benchmarks.data import PIECE, RANKS, VOCABULARY, Generator, Piece, Question, word

SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Of pairs of a question and a document that is right for it: where in their order the values below lie."""

COSINES = (0.30, 0.36, 0.46, 0.59, 0.67, 0.75, 0.78)
"""Cosine of a question's vector with its document's: of the 339 judged pairs of SciFact, by all-MiniLM-L6-v2."""

WORDS = (0.17, 0.23, 0.40, 0.60, 0.80, 0.91, 1.0)
"""Share of a question's words that its document has: of the same pairs, words as PostgreSQL's english stems them, those that no document has left
out. A question that is near in one of the two tends to be in the other (correlation 0.53; of drawn ones a half)."""

ASKED = "asked"
"""The kind of questions whose words are as rare as people's are."""

OFTEN = {"rare": 0.28, "medium": 0.64, "common": 0.08}
"""How many of the words of SciFact's questions are of each class: in at most 0.9 % of the documents, in up to 25 %, in more. Of Cranfield's and
StackFAQ's 15 and 9 % are very common. None of the three's 1,774 questions has very common words only."""

_Range = tuple[int, int]


def of_one_document(org_id: int, chunks: int, seed: int, kind: str, count: int) -> list[Question]:
    """Questions of a kind, each of one of an organisation's chunks.

    The rest of a question's vector, at a right angle to its document's, points to where another document might lie: with noise of equal strength in
    all dimensions every question's nearest would be its own. So the document is the 1st, 2nd and 8th of 5,000 by its vector at the quartiles;
    SciFact's are the 1st, 2nd and 6th of 5,183.

    Args:
        org_id: the organisation.
        chunks: how many it has.
        seed: of what is drawn.
        kind: ASKED, or of RANKS: for each word the range of frequency ranks that it is of.
        count: how many questions.
    """
    generator = Generator(2000 + seed, org_id, [ASKED, *RANKS].index(kind))
    found = []
    for _ in range(count):
        number, place = divmod(int(generator.random.integers(chunks)), PIECE)
        piece = _piece(org_id, number)
        first, second, other = generator.random.random(3)
        near, share = drawn(COSINES, first), drawn(WORDS, first if other < 1 / 2 else second)
        ranks = _as_asked(generator) if kind == ASKED else RANKS[kind]
        found.append(_question(generator, piece, place, ranks, near, share))
    return found


def drawn(values: Sequence[float], place: float) -> float:
    """The value at a place (0 … 1) of the order that SHARES and these values say; beyond the first and last it stays the same."""
    return float(np.interp(place, SHARES, values))


def _as_asked(generator: Generator) -> list[_Range]:
    """Six ranges of ranks, of the classes as often as people's words are of them."""
    classes = generator.random.choice(list(OFTEN), size=6, p=list(OFTEN.values()))
    return [RANKS[one][0] for one in classes.tolist()]


def _question(
    generator: Generator, piece: Piece, place: int, ranks: Sequence[_Range], near: float, share: float
) -> Question:
    random = generator.random
    own = int(share * len(ranks) + random.random())
    of_document = set(random.permutation(len(ranks))[:own].tolist())
    document = f"{piece.titles[place]} {piece.contents[place]}"
    words: list[str] = []
    for slot, among in enumerate(ranks):
        text = document if slot in of_document else generator.chunk()
        while not (choice := sorted(set(_of_rank(text, among)) - set(words))):
            text = generator.chunk()  # a document may have no more words of a kind
        words.append(choice[int(random.integers(len(choice)))])
    vector = piece.vectors[place]
    away = generator.vectors(1)[0]
    away -= (away @ vector) * vector
    asked = near * vector + np.sqrt(1 - near**2) * away / np.linalg.norm(away)
    return Question(tuple(words), (asked / np.linalg.norm(asked)).astype(np.float32))


def _of_rank(text: str, among: _Range) -> list[str]:
    low, high = among
    ranks = _ranks()
    return [one for one in text.split() if low <= ranks.get(one, -1) < high]


@cache
def _ranks() -> dict[str, int]:
    return {word(rank): rank for rank in range(VOCABULARY)}


@lru_cache(maxsize=64)
def _piece(org_id: int, number: int) -> Piece:
    return Generator(1, org_id, number).piece()
