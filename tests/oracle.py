"""What a search must answer, worked out a second time: brute force in plain Python, without the database.

Texts are lower-case words that are their own stems but for one in Dutch, and stop words, so that splitting at spaces is nearly all the analysis there
is. Vectors have few and whole (or only tiny or huge) components, so that single precision loses nothing of their products.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

from tests.arbitration.oracle import decision

STOP_WORDS = {"english": frozenset({"the", "of", "and"}), "dutch": frozenset({"of"}), "simple": frozenset[str]()}
STEMS = {"dutch": {"stone": "ston"}}
OWN_LANGUAGE = "english"
"""The organisation's."""
NOT_INSPECTABLE = frozenset({"faq"})

Vector = tuple[float, ...]
Phrase = tuple[str, ...]


class Brief:
    """A short repr, without what has its default value: counterexamples are read by people."""

    __slots__ = ()

    def _shown(self) -> list[tuple[str, Any]]:
        shown = []
        for given in fields(self):  # type: ignore[arg-type]
            value = getattr(self, given.name)
            default = given.default_factory() if given.default_factory is not MISSING else given.default
            if value != default:
                shown.append((given.name, value))
        return shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._shown())})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What hypothesis prints: on several lines where one is too short."""
        with printer.group(1, f"{type(self).__name__}(", ")"):
            for number, (name, value) in enumerate(self._shown()):
                if number:
                    printer.text(",")
                    printer.breakable()
                printer.text(f"{name}=")
                printer.pretty(value)


@dataclass(frozen=True, slots=True, repr=False)
class Chunk(Brief):
    id: int
    content: str = ""
    heading: str | None = None
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Article(Brief):
    id: int
    chunks: tuple[Chunk, ...] = ()
    title: str | None = None
    kind: str = "article"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    published: bool = True
    language: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Brief):
    """name: without the version, which is 1."""

    name: str = "weighted"
    fusion: str = "weighted"
    scorer: str = "bm25"
    vector_weight: float = 0.5
    keyword_weight: float = 0.5
    rrf_k: int = 60
    policy: Mapping[str, Any] | None = None


def policy(name: str, **others: Any) -> dict[str, Any]:
    """An arbitration policy: everything is fused, but for what is said otherwise."""
    return {
        "name": name,
        "version": 1,
        "top_k": 5,
        "penalty": 0.5,
        "max_disagreement": 0.3,
        "similarity_threshold": 0.85,
        "moderate_rule": "fuse",
        "severe_rule": "fuse",
        "advisory_leg": None,
        "calibrated": False,
        "vector_weight": 0.5,
        "keyword_weight": 0.5,
        "privilege": 1,
        "class_rules": {},
        **others,
    }


BUILT_IN = (
    Profile(),
    Profile("rrf", "rrf", vector_weight=1.0, keyword_weight=1.0),
    Profile("vector", "vector", vector_weight=1.0, keyword_weight=0.0),
    Profile("keyword", "keyword", vector_weight=0.0, keyword_weight=1.0),
    Profile("term_count", "keyword", "term_count", vector_weight=0.0, keyword_weight=1.0),
    Profile("weighted_term_count", "weighted", "term_count"),
    Profile("arbitrate", "arbitrate", policy=policy("default", max_disagreement=0.7)),
)


@dataclass(frozen=True, slots=True, repr=False)
class Search(Brief):
    """A question and its filters.

    Attributes:
        words: in order, repetitions count.
        phrases: word sequences that one chunk must contain; their words count as the others do.
        excluded: word sequences that no chunk of the article may contain.
    """

    words: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    excluded: tuple[Phrase, ...] = ()
    vector: Vector | None = None
    kinds: tuple[str, ...] | None = None
    quota: Mapping[str, int] | None = None
    metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    min_score: float | None = None
    profile: Profile = field(default_factory=Profile)
    language: str | None = None

    @property
    def text(self) -> str:
        quoted = [f'"{" ".join(phrase)}"' for phrase in self.phrases]
        unwanted = [f"-{phrase[0]}" if len(phrase) == 1 else f'-"{" ".join(phrase)}"' for phrase in self.excluded]
        return " ".join([*self.words, *quoted, *unwanted])

    def terms(self, language: str) -> Counter[str]:
        """The question's lexemes in a language, and how often it says each."""
        return lexemes([*self.words, *(word for phrase in self.phrases for word in phrase)], language)


@dataclass(frozen=True, slots=True)
class Row:
    """score: billionths."""

    place: int
    article_id: int
    score: int
    chunk_id: int | None
    vector_similarity: float | None
    keyword_score: float | None
    tied_with: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a leg found; similarity: millionths; raw: the keyword score before it is normalised."""

    article_id: int
    chunk_id: int
    score: int
    similarity: int | None
    raw: int | None


def half_up(number: Fraction | Decimal) -> int:
    return math.floor(Fraction(number) + Fraction(1, 2))


def stem(word: str, language: str) -> str:
    return STEMS.get(language, {}).get(word, word)


def lexemes(words: Iterable[str], language: str) -> Counter[str]:
    return Counter(stem(word, language) for word in words if word not in STOP_WORDS[language])


def language_of(article: Article) -> str:
    return article.language or OWN_LANGUAGE


def fields_of(article: Article, chunk: Chunk) -> list[list[str]]:
    return [(text or "").split() for text in (article.title, chunk.heading, chunk.content)]


def occurrences(article: Article, chunk: Chunk) -> Counter[str]:
    return lexemes((word for words in fields_of(article, chunk) for word in words), language_of(article))


def impact(word: str, article: Article, chunk: Chunk, reference_length: int) -> int:
    """BM25 without idf in thousandths: k1 = 1.2, b = 0.75; a word of the title counts three times."""
    counts = occurrences(article, chunk)
    tf = min(255, counts[word] + 2 * lexemes((article.title or "").split(), language_of(article))[word])
    share = Fraction(counts.total(), reference_length)
    return half_up(1000 * tf * Fraction(22, 10) / (tf + Fraction(12, 10) * (Fraction(1, 4) + Fraction(3, 4) * share)))


def idf(chunk_count: int, document_frequency: int) -> int:
    """ln(1 + (N - df + 0.5) / (df + 0.5)) in thousandths, at least 1."""
    with localcontext(prec=50):
        ratio = (chunk_count - document_frequency + Decimal("0.5")) / (document_frequency + Decimal("0.5"))
        return max(1, int((1000 * (1 + ratio).ln()).quantize(Decimal(1), ROUND_HALF_UP)))


def has_direction(vector: Vector | None) -> bool:
    return vector is not None and 1e-15 <= math.hypot(*vector) <= 1e15


def similarity(left: Vector, right: Vector) -> int:
    """Cosine in millionths."""
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    cosine = product / math.sqrt(math.fsum(a * a for a in left) * math.fsum(b * b for b in right))
    distance = 1 - max(-1.0, min(1.0, cosine))
    return round((1 - distance) * 1e6)


def says(article: Article, phrase: Phrase) -> bool:
    """Whether a field of one of the article's chunks has the phrase."""
    wanted = f" {' '.join(phrase)} "
    return any(wanted in f" {' '.join(words)} " for chunk in article.chunks for words in fields_of(article, chunk))


def contains(whole: Any, part: Any) -> bool:
    """Containment of JSON, as the operator @> has it."""
    if isinstance(whole, Mapping) and isinstance(part, Mapping):
        return all(key in whole and contains(whole[key], value) for key, value in part.items())
    if isinstance(whole, list) and isinstance(part, list):
        return all(any(contains(element, wanted) for element in whole) for wanted in part)
    return bool(whole == part)


def passes(article: Article, search: Search) -> bool:
    wanted = [search.metadata] if isinstance(search.metadata, Mapping) else search.metadata
    return (
        (search.kinds is None or article.kind in search.kinds)
        and (wanted is None or any(contains(article.metadata, element) for element in wanted))
        and all(says(article, phrase) for phrase in search.phrases)
        and not any(says(article, phrase) for phrase in search.excluded)
    )


def best_of_article(hits: Iterable[Hit]) -> dict[int, Hit]:
    best: dict[int, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id)):
        best.setdefault(hit.article_id, hit)
    return best


def competition_ranks(best: Mapping[int, Hit]) -> dict[int, int]:
    return {article: 1 + sum(other.score > hit.score for other in best.values()) for article, hit in best.items()}


def legs_of(found: Sequence[Hit], bound: float) -> tuple[dict[int, Hit], dict[int, Hit]]:
    """The best chunk of each article in the vector leg and in the keyword leg, scored as the legs are ranked."""
    vector = (
        Hit(hit.article_id, hit.chunk_id, max(0, hit.similarity), hit.similarity, None)
        for hit in found
        if hit.similarity is not None
    )
    keyword = (
        Hit(hit.article_id, hit.chunk_id, round(hit.raw * (1e9 / bound)), None, hit.raw)
        for hit in found
        if hit.raw is not None
    )
    return best_of_article(vector), best_of_article(keyword)


def fuse_ranks(found: Sequence[Hit], profile: Profile, bound: float) -> dict[int, Hit]:
    """Reciprocal rank fusion of the legs' best chunks."""
    legs = list(zip((profile.vector_weight, profile.keyword_weight), legs_of(found, bound), strict=True))
    ranks = [competition_ranks(best) for _, best in legs]
    fused = {}
    for article in {hit.article_id for hit in found}:
        parts = []
        for (weight, best), rank_of in zip(legs, ranks, strict=True):
            if article in best:
                parts.append((round(1e9 * weight / (profile.rrf_k + rank_of[article])), best[article]))
        greater = max(part for part, _ in parts)
        shown = min(hit.chunk_id for part, hit in parts if part == greater)
        similarities = [hit.similarity for _, hit in parts if hit.similarity is not None]
        raws = [hit.raw for _, hit in parts if hit.raw is not None]
        fused[article] = Hit(
            article, shown, sum(part for part, _ in parts), next(iter(similarities), None), next(iter(raws), None)
        )
    return fused


def known_terms(corpus: Sequence[tuple[Article, Chunk]], search: Search) -> dict[tuple[str, str], int]:
    """Weights of the (language, lexeme) pairs that chunks have, in 10^-12 of all that the question has for a language.

    A language's chunks are a corpus of their own. A word that they lack and chunks of another language have counts in that all, too.
    """
    if search.profile.fusion == "vector":
        return {}
    in_use = {OWN_LANGUAGE, *(language_of(article) for article, _ in corpus)}
    said = [*search.words, *(word for phrase in search.phrases for word in phrase)]
    frequency = {}
    size = {}
    for language in [search.language] if search.language else in_use:
        chunks = [entry for entry in corpus if language_of(entry[0]) == language]
        size[language] = len(chunks)
        for lexeme in search.terms(language):
            frequency[language, lexeme] = sum(lexeme in occurrences(*entry) for entry in chunks)
    known_words = {
        word
        for language in size
        for word in said
        if word not in STOP_WORDS[language] and frequency[language, stem(word, language)]
    }
    weights = {}
    for (language, lexeme), count in frequency.items():
        if count or any(stem(word, language) == lexeme for word in known_words - STOP_WORDS[language]):
            weights[language, lexeme] = (
                1
                if search.profile.scorer == "term_count"
                else search.terms(language)[lexeme] * idf(size[language], count)
            )
    totals = Counter[str]()
    for (language, _), weight in weights.items():
        totals[language] += weight
    return {
        (language, lexeme): 10**12 * weight // totals[language]
        for (language, lexeme), weight in weights.items()
        if frequency[language, lexeme]
    }


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a search finds before the quota.

    Attributes:
        arbitrated: what arbitrate_kb_rankings_v1 was to be given and what it was to answer, if the search arbitrates and a leg found something.
        found: chunks that a leg found.
        best: each article as one hit.
        ordered: those of them that are not below the floor, in the total order.
        bound: the highest raw keyword score.
        units: billionths of score for a millionth of similarity and for 1 of raw keyword score, under the fusions that add them.
    """

    found: list[Hit]
    best: dict[int, Hit]
    ordered: list[Hit]
    kinds: dict[int, str]
    bound: float
    units: tuple[float, float]
    arbitrated: tuple[dict[str, Any], dict[str, Any]] | None = None


def arbitrate(
    articles: Sequence[Article], search: Search, query_class: str = "question", reference_length: int = 100
) -> Candidates:
    """What a search finds whose legs are arbitrated: first as if both counted, then with those that the decision leaves, in its weights."""
    rules = search.profile.policy
    assert rules is not None
    both = find(articles, replace(search, profile=replace(search.profile, fusion="weighted")), reference_length)
    case: dict[str, Any] = {"policy": rules, "query_class": query_class, "exploratory": False, "similarity_peak": None}
    for name, best in zip(("vector", "keyword"), legs_of(both.found, both.bound), strict=True):
        ranks = competition_ranks(best)
        case[f"{name}_ids"] = sorted(ranks, key=lambda article: (ranks[article], article))[: rules["top_k"]]
        case[f"{name}_ranks"] = [ranks[article] for article in case[f"{name}_ids"]]
    cosines = [hit.similarity for hit in both.found if hit.similarity is not None]
    if cosines:
        case["similarity_peak"] = Decimal(max(cosines)) / 10**6
    if not (case["vector_ids"] or case["keyword_ids"]):
        return both
    decided = decision(case)
    vector_weight, keyword_weight = (float(decided[f"{leg}_weight"] or 0) for leg in ("vector", "keyword"))
    vector_unit = (vector_weight if keyword_weight else 1) * 1000
    keyword_unit = (keyword_weight if vector_weight else 1) * 1e9 / both.bound
    found = []
    for hit in both.found:
        cosine, raw = hit.similarity if vector_weight else None, hit.raw if keyword_weight else None
        if cosine is not None or raw is not None:
            score = round(max(0, cosine or 0) * vector_unit) + round((raw or 0) * keyword_unit)
            found.append(Hit(hit.article_id, hit.chunk_id, score, cosine, raw))
    best = best_of_article(found)
    return replace(
        both,
        found=found,
        best=best,
        ordered=in_order(best, search),
        units=(vector_unit, keyword_unit),
        arbitrated=(case, decided),
    )


def in_order(best: Mapping[int, Hit], search: Search) -> list[Hit]:
    """Those that are not below the floor, in the total order."""
    kept = [hit for hit in best.values() if search.min_score is None or hit.score / 1e9 >= search.min_score]
    return sorted(kept, key=lambda hit: (-hit.score, hit.article_id))


def find(
    articles: Iterable[Article], search: Search, reference_length: int = 100, within: Collection[int] | None = None
) -> Candidates:
    """What a search finds; within: the only articles that it ranks, None: all. The statistics are of all."""
    if search.profile.fusion == "arbitrate":
        return arbitrate(tuple(articles), search, reference_length=reference_length)
    corpus = [(article, chunk) for article in articles if article.published for chunk in article.chunks]
    profile = search.profile
    known = known_terms(corpus, search)
    bound = (1 if profile.scorer == "term_count" else 2200) * 1e12
    with_vector = (
        search.vector is not None
        and profile.fusion != "keyword"
        and any(has_direction(chunk.vector) for _, chunk in corpus)
    )
    vector_unit = (profile.vector_weight if known else 1) * 1000
    keyword_unit = (profile.keyword_weight if with_vector else 1) * 1e9 / bound if known else 0.0

    found = []
    for article, chunk in corpus:
        if not passes(article, search) or (within is not None and article.id not in within):
            continue
        cosine = (
            similarity(chunk.vector, search.vector)
            if with_vector and search.vector is not None and chunk.vector is not None and has_direction(chunk.vector)
            else None
        )
        words = [
            word for language, word in known if language == language_of(article) and word in occurrences(article, chunk)
        ]
        raw = sum(
            known[language_of(article), word]
            * (1 if profile.scorer == "term_count" else impact(word, article, chunk, reference_length))
            for word in words
        )
        if cosine is not None or words:
            score = round(max(0, cosine or 0) * vector_unit) + round(raw * keyword_unit)
            found.append(Hit(article.id, chunk.id, score, cosine, raw if words else None))

    best = fuse_ranks(found, profile, bound) if profile.fusion == "rrf" else best_of_article(found)
    return Candidates(
        found,
        best,
        in_order(best, search),
        {article.id: article.kind for article, _ in corpus},
        bound,
        (vector_unit, keyword_unit),
    )


@dataclass(frozen=True, slots=True)
class Windows:
    """What an approximate search ranks of an organisation.

    Attributes:
        sure: articles that must be among its candidates: the keyword leg's window, and those nearer than the last of the vector leg's.
        possible: articles that may be: the sure ones, and those as near as that last one.
    """

    sure: frozenset[int]
    possible: frozenset[int]


def windows(articles: Sequence[Article], search: Search, size: int, reference_length: int = 100) -> Windows | None:
    """The windows of both legs; None where the vector leg finds too few articles to fill its own."""
    found = find(articles, replace(search, min_score=None, quota=None), reference_length).found
    keyword: dict[int, None] = {}
    for hit in sorted((hit for hit in found if hit.raw is not None), key=lambda hit: (-(hit.raw or 0), hit.chunk_id)):
        keyword.setdefault(hit.article_id)
    near: dict[int, int] = {}
    for hit in found:
        if hit.similarity is not None:
            near[hit.article_id] = max(near.get(hit.article_id, hit.similarity), hit.similarity)
    sure = frozenset(list(keyword)[:size])
    directed = any(has_direction(chunk.vector) for one in articles if one.published for chunk in one.chunks)
    if search.vector is None or search.profile.fusion == "keyword" or not directed:
        return Windows(sure, sure)
    if len(near) < size:
        return None
    last = sorted(near.values(), reverse=True)[size - 1]
    nearer = {article for article, cosine in near.items() if cosine > last}
    tied = {article for article, cosine in near.items() if cosine == last}
    return Windows(sure | nearer, sure | nearer | tied)


def quota_of(search: Search, kind: str) -> int | None:
    quota = search.quota or {}
    return quota.get(kind, quota.get("*"))


def cut(candidates: Candidates, search: Search) -> list[tuple[Hit, int, bool]]:
    """Each candidate with its place in its kind and whether the quota keeps it."""
    taken: Counter[str] = Counter()
    placed = []
    for hit in candidates.ordered:
        kind = candidates.kinds[hit.article_id]
        taken[kind] += 1
        quota = quota_of(search, kind)
        placed.append((hit, taken[kind], quota is None or taken[kind] <= quota))
    return placed


def rank(
    articles: Iterable[Article], search: Search, reference_length: int = 100, within: Collection[int] | None = None
) -> list[Row]:
    """The whole ranking of the organisation that consists of these articles."""
    candidates = find(articles, search, reference_length, within)
    rows: list[Row] = []
    for hit, _, kept in cut(candidates, search):
        if kept:
            kind = candidates.kinds[hit.article_id]
            rows.append(
                Row(
                    place=len(rows) + 1,
                    article_id=hit.article_id,
                    score=hit.score,
                    chunk_id=None if kind in NOT_INSPECTABLE else hit.chunk_id,
                    vector_similarity=None if hit.similarity is None else hit.similarity / 1e6,
                    keyword_score=None if hit.raw is None else round(hit.raw * 1e9 / candidates.bound) / 1e9,
                    tied_with=sum(other.score == hit.score for other in candidates.ordered) - 1,
                )
            )
    return rows


def explain(  # noqa: PLR0911 -- a reason, a return
    articles: Sequence[Article], search: Search, article_id: int, reference_length: int = 100
) -> str:
    """Why an article is not in the ranking; "ranked" if it is."""
    article = next((one for one in articles if one.id == article_id), None)
    if article is None:
        return "not_in_organization"
    if not article.published:
        return "unpublished"
    if not passes(article, replace(search, phrases=(), excluded=())):
        return "filtered"
    if quota_of(search, article.kind) == 0:
        return "outside_quota"
    if not passes(article, search):
        return "excluded"
    candidates = find(articles, search, reference_length)
    if article_id not in candidates.best:
        return "not_found"
    kept = {hit.article_id: keeps for hit, _, keeps in cut(candidates, search)}
    if article_id not in kept:
        return "below_floor"
    return "ranked" if kept[article_id] else "outside_quota"
