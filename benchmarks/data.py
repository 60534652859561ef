"""Made-up text and vectors, seeded: Zipf words with stop words between them, unit vectors in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DIMENSIONS = 384
VOCABULARY = 30_000
"""Distinct words. The most frequent is in nearly every chunk, number 1,000 in about one of a hundred."""

WORDS_PER_CHUNK = 88
"""Words that are no stop words: about 75 distinct ones."""

STOP_WORDS_PER_CHUNK = 40

_STOP_WORDS = ("the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "with", "as", "was", "on", "are", "by")
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvz" for vowel in "aeiou"]

RANKS = {
    "rare": ((1000, 20000),) * 6,
    "medium": ((30, 1000),) * 6,
    "common": ((0, 30),) * 6,
    "mixed": ((0, 30), (30, 1000), (30, 1000), (1000, 20000), (1000, 20000), (1000, 20000)),
}
"""Kinds of six-word questions: for each word the range of frequency ranks that it is drawn from."""

Vectors = npt.NDArray[np.float32]


def word(rank: int) -> str:
    """The word of a frequency rank (0 is the most frequent): three syllables, spread over the alphabet."""
    number = rank * 104_729 % len(_SYLLABLES) ** 3  # a prime that shares no factor with 85: every rank has its own word
    base = len(_SYLLABLES)
    return _SYLLABLES[number // base**2] + _SYLLABLES[number // base % base] + _SYLLABLES[number % base]


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for: words, and a vector of DIMENSIONS numbers with norm 1."""

    words: tuple[str, ...]
    embedding: Vectors

    @property
    def text(self) -> str:
        """The words with spaces between them."""
        return " ".join(self.words)

    @property
    def tsquery(self) -> str:
        """The words OR-ed, for to_tsquery."""
        return " | ".join(self.words)


class Generator:
    """A seeded source of chunks, vectors and questions."""

    def __init__(self, seed: int) -> None:
        """Start over from a seed."""
        self.random = np.random.default_rng(seed)
        weights = 1 / (np.arange(VOCABULARY) + 2.7)  # Zipf's law as Mandelbrot (1953) corrected it
        self._cumulated = np.cumsum(weights / weights.sum())
        self._words = np.array([word(rank) for rank in range(VOCABULARY)])
        self._centres = np.random.default_rng(0).standard_normal((200, DIMENSIONS)).astype(np.float32)

    def chunk(self) -> str:
        """Text of a chunk."""
        ranks = np.searchsorted(self._cumulated, self.random.random(WORDS_PER_CHUNK)).clip(max=VOCABULARY - 1)
        words = [*self._words[ranks].tolist(), *self.random.choice(_STOP_WORDS, STOP_WORDS_PER_CHUNK).tolist()]
        self.random.shuffle(words)
        return " ".join(words)

    def title(self) -> str:
        """Three words."""
        return " ".join(word(int(rank)) for rank in self.random.integers(0, 20_000, 3))

    def vectors(self, count: int) -> Vectors:
        """Unit vectors, shape (count, DIMENSIONS), around 200 centres that are the same for every seed."""
        centres = self._centres[self.random.integers(0, len(self._centres), count)]
        points = centres + 0.8 * self.random.standard_normal((count, DIMENSIONS), dtype=np.float32)
        unit: Vectors = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def question(self, ranks: Sequence[tuple[int, int]]) -> Question:
        """A question with a word out of each range of ranks."""
        words = tuple(word(int(self.random.integers(low, high))) for low, high in ranks)
        return Question(words, self.vectors(1)[0])
