"""Made-up text and vectors, seeded: Zipf words with stop words between them, unit vectors in clusters.

What an organisation has depends on the seed, its id and the place in it alone: the same organisation is the same in every database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

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

PIECE = 500
"""Chunks that are drawn together."""

VERSION = 2
"""Of what is drawn for a seed: prepared data of another version are stale."""

RANKS = {
    "rare": ((1000, 20000),) * 6,
    "medium": ((30, 1000),) * 6,
    "common": ((0, 30),) * 6,
    "mixed": ((0, 30), (30, 1000), (30, 1000), (1000, 20000), (1000, 20000), (1000, 20000)),
}
"""Kinds of six-word questions: for each word the range of frequency ranks that it is drawn from."""

CLASSES = {"rare": "rare", "medium": "medium", "common": "very common"}
"""The kinds that comparisons use, and their names. Of 88 words a chunk: rare words are in at most 0.9 % of the chunks, medium ones in 0.9 to 25
%, very common ones in 25 to 97 %."""

_CENTRES = 1000
_DECAY = 0.5
_NOISE = 0.8
"""Calibrated on vectors of a sentence model: 5,000 vectors have an intrinsic dimension (TwoNN; Facco et al. 2017) of 14 and a median cosine with the
nearest of 0.69; SciFact's abstracts embedded by all-MiniLM-L6-v2 13 and 0.68. Noise of equal strength in all dimensions would have 70, which no
text has."""

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


@dataclass(frozen=True, slots=True)
class Piece:
    """Chunks of one organisation.

    Attributes:
        titles: of their articles.
        contents: their texts.
        vectors: their vectors, a row a chunk.
    """

    titles: Sequence[str]
    contents: Sequence[str]
    vectors: Vectors


class Generator:
    """A seeded source of chunks, vectors and questions."""

    def __init__(self, *seed: int) -> None:
        """Start over from a seed."""
        self.random = np.random.default_rng(seed)
        weights = 1 / (np.arange(VOCABULARY) + 2.7)  # Zipf's law as Mandelbrot (1953) corrected it
        self._cumulated = np.cumsum(weights / weights.sum())
        self._words, self._spread, self._centres = _constants()

    def chunks(self, count: int) -> list[str]:
        """Texts of chunks."""
        drawn = self.random.random((count, WORDS_PER_CHUNK))
        ranks = np.searchsorted(self._cumulated, drawn).clip(max=VOCABULARY - 1)
        fill = self.random.integers(VOCABULARY, VOCABULARY + len(_STOP_WORDS), (count, STOP_WORDS_PER_CHUNK))
        mixed = self.random.permuted(np.concatenate([ranks, fill], axis=1), axis=1)
        return [" ".join(row) for row in self._words[mixed].tolist()]

    def chunk(self) -> str:
        """Text of a chunk."""
        return self.chunks(1)[0]

    def titles(self, count: int) -> list[str]:
        """Three words each."""
        return [" ".join(row) for row in self._words[self.random.integers(0, 20_000, (count, 3))].tolist()]

    def title(self) -> str:
        """Three words."""
        return self.titles(1)[0]

    def vectors(self, count: int) -> Vectors:
        """Unit vectors, shape (count, DIMENSIONS), around centres that are the same for every seed."""
        centres = self._centres[self.random.integers(0, len(self._centres), count)]
        points = centres + self._spread * self.random.standard_normal((count, DIMENSIONS), dtype=np.float32)
        unit: Vectors = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def piece(self, count: int = PIECE) -> Piece:
        """Chunks with titles and vectors."""
        return Piece(self.titles(count), self.chunks(count), self.vectors(count))

    def question(self, ranks: Sequence[tuple[int, int]]) -> Question:
        """A question with a word out of each range of ranks."""
        words = tuple(word(int(self.random.integers(low, high))) for low, high in ranks)
        return Question(words, self.vectors(1)[0])


@cache
def _constants() -> tuple[npt.NDArray[np.str_], Vectors, Vectors]:
    """Words and stop words, strength of the noise by dimension, centres."""
    words = np.array([*(word(rank) for rank in range(VOCABULARY)), *_STOP_WORDS])
    strength = np.arange(1, DIMENSIONS + 1) ** -_DECAY
    strength = (strength / np.sqrt((strength**2).mean())).astype(np.float32)
    centres = strength * np.random.default_rng(0).standard_normal((_CENTRES, DIMENSIONS), dtype=np.float32)
    return words, (_NOISE * strength).astype(np.float32), centres


def questions(seed: int, kind: str, count: int) -> list[Question]:
    """Questions of a kind."""
    generator = Generator(1000 + seed)
    return [generator.question(RANKS[kind]) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Row:
    """A chunk to load; it is the only one of its article, and both have the same id."""

    org_id: int
    id: int
    title: str
    content: str
    vector: Vectors


class Crowd:
    """Chunks of several organisations, their rows in random order, so that those of one lie between the others'."""

    def __init__(self, counts: Mapping[int, int], seed: int = 1) -> None:
        """Of so many chunks by organisation."""
        self._seed = seed
        owners = np.repeat(np.array(list(counts)), list(counts.values()))
        self.owners = np.random.default_rng(seed).permutation(owners)
        self._places = np.empty(len(owners), np.int64)
        for org_id, count in counts.items():
            self._places[self.owners == org_id] = np.arange(count)
        self._kept: dict[int, tuple[int, Piece]] = {}

    def __len__(self) -> int:
        """How many chunks there are."""
        return len(self.owners)

    def rows(self, begin: int, end: int) -> list[Row]:
        """Those from a place on; ids are places from 1."""
        return [self._row(place) for place in range(begin, min(end, len(self)))]

    def _row(self, place: int) -> Row:
        org_id = int(self.owners[place])
        number, within = divmod(int(self._places[place]), PIECE)
        kept = self._kept.get(org_id)
        if kept is None or kept[0] != number:
            kept = self._kept[org_id] = number, Generator(self._seed, org_id, number).piece()
        piece = kept[1]
        return Row(org_id, place + 1, piece.titles[within], piece.contents[within], piece.vectors[within])
