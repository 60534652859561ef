"""Organisations and questions drawn from tiny alphabets, so that ties are the normal case.

Ids cross powers of ten, rows are loaded in another order than that of their ids, cosines differ below the sixth decimal, and there is always
something that must not count: unpublished articles, articles that were deleted, vectors without direction, vectors of another space.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tests.oracle import BUILT_IN, Article, Brief, Chunk, Phrase, Profile, Search, Vector, policy

WORDS = ("lamp", "stone", "cloud", "milk")
FILLERS = ("the", "of", "and")
UNKNOWN = ("zebra", "walrus")
KINDS = ("article", "policy", "faq", "leaflet")
METADATA: tuple[dict[str, Any], ...] = (
    {"lang": "de", "tags": ["new", "hot"]},
    {"lang": "de", "tags": ["hot"], "nested": {"level": 1}},
    {"tags": ["new"], "lang": "en"},
    {},
)
WANTED: tuple[dict[str, Any], ...] = (
    {"lang": "de"},
    {"tags": ["hot"]},
    {"tags": ["new"], "lang": "en"},
    {"nested": {"level": 1}},
    {},
)
FILTERS = ("quota", "kinds", "metadata", "min_score")
DIMENSIONS = (2, 3, 4)
START_IDS = (7, 95, 995, 1, 2**33 - 5, 2**50 - 200)

# In two dimensions; more are filled up with zeros. The first three are one direction as far as six decimals go.
DIRECTIONS: tuple[Vector, ...] = (
    (1, 0),
    (2000, 1),
    (3, 0),
    (0, 1),
    (1, 1),
    (3, 4),
    (-1, 0),
    (-4, 3),
    (1000, 2),
)
NO_DIRECTION: tuple[Vector, ...] = ((0, 0), (1e-23, 0), (0, 1e20))

OWN_PROFILES = (
    Profile("own", "weighted", vector_weight=0.7, keyword_weight=0.3),
    Profile("own", "weighted", vector_weight=0.1, keyword_weight=0.9),
    Profile("own", "weighted", "term_count", vector_weight=0.25, keyword_weight=0.75),
    Profile("own", "weighted", vector_weight=0.0, keyword_weight=1.0),
    Profile("own", "rrf", vector_weight=1.0, keyword_weight=0.5, rrf_k=1),
    Profile("own", "rrf", "term_count", vector_weight=0.3, keyword_weight=0.9, rrf_k=10),
    Profile("own", "arbitrate", policy=policy("own", top_k=3, moderate_rule="apply_rule", severe_rule="apply_rule")),
    Profile(
        "own",
        "arbitrate",
        policy=policy(
            "own",
            severe_rule="apply_rule",
            similarity_threshold=0.99,
            privilege=0.8,
            vector_weight=0.7,
            keyword_weight=0.3,
        ),
    ),
    Profile("own", "arbitrate", "term_count", policy=policy("own", top_k=2, advisory_leg="keyword")),
    Profile("own", "arbitrate", policy=policy("own", max_disagreement=0.6, advisory_leg="vector")),
)
PROFILES = BUILT_IN + OWN_PROFILES
ABSOLUTE = tuple(profile for profile in PROFILES if profile.fusion not in ("rrf", "arbitrate"))
"""The profiles whose scores law 7 speaks of."""


def examples(number: int) -> settings:
    """Settings of a property: so many examples, ten times as many under HYPOTHESIS_PROFILE=long."""
    factor = 10 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1
    return settings(max_examples=number * factor)


class DullExamplesError(Exception):
    """A property held, but its examples had too little of what it is about. No AssertionError: nothing is wrong with what is tested."""


class Coverage:
    """Counts what the examples of a property had, so that a generator that went dull is noticed."""

    def __init__(self) -> None:
        self.total = 0
        self.seen: Counter[str] = Counter()

    def example(self, **had: bool) -> None:
        """Count an example and those features that it had."""
        self.total += 1
        self.seen.update(name for name, value in had.items() if value)

    def require(self, **shares: float) -> None:
        """Raise DullExamplesError unless each feature was in at least this share of the examples."""
        report = ", ".join(f"{name} {self.seen[name]}" for name in shares)
        print(f"{self.total} examples: {report}")  # noqa: T201 -- pytest -s or -rP shows it
        for name, share in shares.items():
            if not self.seen[name] >= share * self.total > 0:
                raise DullExamplesError(f"too few examples have {name}: {report} of {self.total}")


@dataclass(frozen=True, slots=True, repr=False)
class Organisation(Brief):
    """What is loaded.

    Attributes:
        articles: in the order in which they are inserted.
        removed: loaded with them and deleted again before anything is asked.
        scattered: chunks are inserted in an order of their own and not article by article.
        unmerged: postings stay as each statement wrote them, also removals, and are not merged into what stands there.
    """

    articles: tuple[Article, ...]
    dimensions: int = 2
    reference_length: int = 100
    removed: tuple[Article, ...] = ()
    scattered: bool = False
    unmerged: bool = False


def padded(vector: Vector, dimensions: int) -> Vector:
    return (*vector, *([0] * (dimensions - len(vector))))


def vectors(dimensions: int, *, directed: bool = False) -> st.SearchStrategy[Vector]:
    alphabet = DIRECTIONS if directed else (*DIRECTIONS, *DIRECTIONS, *NO_DIRECTION)
    return st.sampled_from([padded(vector, dimensions) for vector in alphabet])


def texts(least: int, most: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(WORDS * 3 + FILLERS), min_size=least, max_size=most).map(" ".join)


languages = st.sampled_from([None] * 7 + ["dutch", "simple", "english"])


def shapes(dimensions: int, most_chunks: int) -> st.SearchStrategy[Article]:
    """Articles without ids yet: several articles take one shape, and tie."""
    chunk = st.builds(
        Chunk,
        id=st.just(0),
        content=st.one_of(*[texts(1, 3), texts(2, 6)] * 4, st.just("")),
        heading=st.none() | texts(1, 2),
        vector=st.one_of(*[vectors(dimensions)] * 5, st.none()),
    )
    return st.builds(
        Article,
        id=st.just(0),
        chunks=st.tuples(st.lists(chunk, min_size=1, max_size=most_chunks), st.sampled_from([1, 1, 2])).map(
            lambda drawn: tuple(drawn[0] * drawn[1])[:most_chunks]  # some of them twice
        ),
        title=st.sampled_from([None, "", *WORDS, "the lamp"]),
        kind=st.sampled_from(KINDS),
        metadata=st.sampled_from(METADATA),
        published=st.sampled_from([True] * 7 + [False]),
        language=languages,
    )


def numbered(shapes: Sequence[Article], first_article: int, first_chunk: int, seed: int) -> tuple[Article, ...]:
    """Give ids: consecutive but for small gaps, handed out in an order of their own (seed 0: in the order of the list)."""
    chance = random.Random(seed)

    def ids(first: int, count: int) -> list[int]:
        taken = []
        for _ in range(count):
            taken.append(first)
            first += 1 + (chance.random() < 0.2 if seed else 0)
        if seed:
            chance.shuffle(taken)
        return taken

    article_ids = ids(first_article, len(shapes))
    chunk_ids = iter(ids(first_chunk, sum(len(shape.chunks) for shape in shapes)))
    return tuple(
        replace(shape, id=article_id, chunks=tuple(replace(chunk, id=next(chunk_ids)) for chunk in shape.chunks))
        for article_id, shape in zip(article_ids, shapes, strict=True)
    )


@st.composite
def organisations(
    draw: st.DrawFn, least_articles: int = 2, most_articles: int = 16, most_chunks: int = 3
) -> Organisation:
    dimensions = draw(st.sampled_from(DIMENSIONS))
    pool = draw(st.lists(shapes(dimensions, most_chunks), min_size=2, max_size=5))
    # mostly many, so that there is something to page through
    count = max(
        least_articles,
        draw(st.sampled_from([1, most_articles // 2, *[most_articles * 3 // 4] * 3, *[most_articles] * 3])),
    )
    taken = draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count))
    removed = draw(st.lists(st.sampled_from(pool), max_size=3))
    articles = numbered(
        [*taken, *removed],
        draw(st.sampled_from(START_IDS)),
        draw(st.sampled_from(START_IDS)),
        draw(st.integers(0, 2**16)),
    )
    return Organisation(
        articles=articles[:count],
        removed=articles[count:],
        dimensions=dimensions,
        reference_length=draw(st.sampled_from([100, 100, 3, 1])),
        scattered=draw(st.booleans()),
        unmerged=draw(st.sampled_from([True, False])),
    )


def phrases(most: int) -> st.SearchStrategy[Phrase]:
    return st.lists(st.sampled_from(WORDS[::-1] + FILLERS), min_size=1, max_size=most).map(tuple)


@st.composite
def searches(
    draw: st.DrawFn,
    dimensions: int,
    profiles: Sequence[Profile] = PROFILES,
    *,
    filters: Sequence[str] | None = None,
    operators: bool | None = None,
) -> Search:
    """A question that is not refused: with a word or a vector for a leg of its profile.

    filters: those of FILTERS that it has, None: sometimes one or two; operators: whether it has phrases or exclusions, None: sometimes.
    """
    profile = draw(st.sampled_from(profiles))
    words = tuple(draw(st.lists(st.sampled_from(WORDS * 3 + FILLERS[:1] + UNKNOWN[:1]), min_size=1, max_size=5)))
    if draw(st.integers(0, 9)) == 9:
        words = ()
    vector = draw(st.one_of(*[vectors(dimensions, directed=True)] * 4, st.none()))
    answerable = (profile.fusion != "keyword" and vector is not None) or (
        profile.fusion != "vector" and any(word not in FILLERS for word in words)
    )
    if not answerable:
        words = (*words, draw(st.sampled_from(WORDS)))
        if profile.fusion == "vector":
            vector = draw(vectors(dimensions, directed=True))
    search = Search(words=words, vector=vector, profile=profile, language=draw(st.none() | languages))
    if operators or (operators is None and draw(st.integers(0, 5)) == 5):
        kinds = draw(st.sampled_from(["phrase", "exclusion", "both"]))
        search = replace(
            search,
            phrases=() if kinds == "exclusion" else (draw(phrases(2)),),
            excluded=() if kinds == "phrase" else (draw(phrases(2)),),
        )
    if filters is None and draw(st.integers(0, 2)) == 2:
        filters = draw(st.lists(st.sampled_from(FILTERS), min_size=1, max_size=2))
    if filters:
        search = draw(filtered(search, filters))
    return search


@st.composite
def filtered(draw: st.DrawFn, search: Search, filters: Sequence[str]) -> Search:
    """The same question with these of FILTERS; none of them has a part in a score of law 7."""
    kinds, quota, metadata, min_score = None, None, None, None
    if "quota" in filters:
        quota = draw(
            st.dictionaries(st.sampled_from((*KINDS, "*")), st.sampled_from([2, 1, 3, 4, 0]), min_size=1, max_size=3)
        )
    if "kinds" in filters:
        kinds = draw(st.lists(st.sampled_from((*KINDS, "nothing")), min_size=2, max_size=4).map(tuple))
    if "metadata" in filters:
        objects = st.sampled_from(WANTED)
        metadata = draw(objects | st.lists(objects, min_size=1, max_size=2))
    if "min_score" in filters:
        floors = (
            [0.015, 0.016393443, 0.0, 0.03] if search.profile.fusion == "rrf" else [0.1, 0.25, 0.0, 0.5, 0.50000001]
        )
        min_score = draw(st.sampled_from(floors))
    return replace(search, kinds=kinds, quota=quota, metadata=metadata, min_score=min_score)


@st.composite
def questions_of(draw: st.DrawFn, /, **options: Any) -> tuple[Organisation, Search]:
    """An organisation and a question to it; options: of organisations() and searches()."""
    sizes = {name: options.pop(name) for name in ("least_articles", "most_articles", "most_chunks") if name in options}
    organisation = draw(organisations(**sizes))
    return organisation, draw(searches(organisation.dimensions, **options))
