"""A/A: two builds of one configuration, compared by the articles' names: data stage by stage, and the full ranking of every question.

Ids are handed out anew in every build, so nothing is compared by id but their order. Ingest reserves ids in the order of the names (law 3 says
"same data, ids included"), whatever the order of writing, so a tie is settled the same in every right build. Two builds whose ids are in another
order of the names are told to be that (`ids_in_order`), and ties that came out otherwise count as differences in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray

from kbsearch.embed.base import Vectors
from kbsearch.errors import KBSearchError, translate
from kbsearch.evaluate import fingerprint
from kbsearch.evaluate.collection import Collection
from kbsearch.evaluate.metrics import measure
from kbsearch.schema import DEFAULT, in_schema

STAGES = ("documents", "model input", "vector", "lexemes", "postings", "fusion", "order")
"""From the articles' texts to their places. Where two builds part, everything behind may differ, too."""
DEPTH = 100
"""Places that nDCG and recall are computed of."""

Connection: TypeAlias = psycopg.Connection[Any]
Progress: TypeAlias = Callable[[str, int, int], None]
Array: TypeAlias = NDArray[Any]

# A chunk's entries add up by their signs, whatever segments they are in; a hash of 64 bits stands for a word with its impact.
_CHUNKS = (
    """SELECT coalesce(a.external_ref, '#' || a.id), c.chunk_no,
    ROW(a.kind, a.published, a.language, a.metadata,
        pg_catalog.encode(kbsearch.digest_kb_chunk_v1(c.title, c.heading, c.content), 'hex'))::pg_catalog.text,
    pg_catalog.encode(e.input_sha256, 'hex'),
    pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(e.embedding::pg_catalog.text, 'UTF8')), 'hex'),
    pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
        ROW(c.language, c.searchable, c.lexemes, c.term_counts, c.occurrence_count, c.phrase_text)::pg_catalog.text, 'UTF8')), 'hex'),
    coalesce(p.entries, 0)::pg_catalog.text || ' ' || coalesce(p.hash, 0)::pg_catalog.text,
    coalesce(p.entries, 0)::pg_catalog.int8
"""
    + fingerprint.CHUNK_ROWS
)
_WHOLE = """SELECT
    ROW(s.model, s.revision, s.dimensions, s.recipe)::pg_catalog.text AS "model input",
    o.language::pg_catalog.text AS lexemes,
    ROW(o.reference_length,
        (SELECT sum(c.chunk_count) FROM kbsearch.kb_corpus_stats AS c WHERE c.org_id = o.id),
        (SELECT sum(c.occurrence_count) FROM kbsearch.kb_corpus_stats AS c WHERE c.org_id = o.id))::pg_catalog.text AS postings,
    (SELECT coalesce(sum(b.sign * b.entry_count), 0)::pg_catalog.int8 FROM kbsearch.kb_postings AS b WHERE b.org_id = o.id) AS entries
FROM kbsearch.organizations AS o
LEFT JOIN kbsearch.kb_embedding_spaces AS s ON s.id = o.active_space_id
WHERE o.id = %(org_id)s"""
_MEANING = {
    "model input": "model, revision, dimensions, recipe",
    "lexemes": "language",
    "postings": "reference length, chunks, occurrences",
}
_INPUT = """SELECT i.input
FROM kbsearch.kb_embedding_inputs AS i
WHERE i.org_id = %(org_id)s AND i.input_sha256 = pg_catalog.decode(%(digest)s, 'hex')"""
_NAMES = """SELECT a.id, coalesce(a.external_ref, '#' || a.id)
FROM kbsearch.kb_articles AS a
WHERE a.org_id = %(org_id)s
ORDER BY a.id"""
_NUMBERS = "SELECT c.id, c.chunk_no FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org_id)s ORDER BY c.id"
_RANKING = """SELECT r.block, r.article_ids, r.chunk_ids, r.scores, r.similarities, r.keyword_scores, r.ties, r.lexemes
FROM kbsearch.list_kb_ranking_v1(
    %(org_id)s, %(text)s, %(vector)s, NULL, NULL, NULL, NULL, %(profile)s, NULL, false, NULL) AS r
ORDER BY r.block"""
_NONE = -(2**31)
"""Stands for a leg's value that there is not."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two builds.

    Attributes:
        connection: in autocommit mode, used by nobody else meanwhile.
        org_id: the organisation.
        vectors: of the questions, a row each; None: words only.
        schema: that kbsearch is installed in.
    """

    connection: Connection
    org_id: int
    vectors: Vectors | None = None
    schema: str = DEFAULT


@dataclass(frozen=True, slots=True)
class Parting:
    """A stage at which the builds differ.

    Attributes:
        stage: one of STAGES.
        count: how many chunks, or how many rankings, differ there.
        where: the first of them.
        what: how they differ, for people.
    """

    stage: str
    count: int
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What an A/A comparison found.

    Attributes:
        questions: asked of both builds.
        rankings: compared: a ranking is whole, one for each question and profile.
        places: compared, in all rankings together.
        differing: questions with a ranking that differs in any name, score (billionths), leg's value, chunk or place.
        first_place: the best place at which a ranking differs; None where none does.
        largest_displacement: of an article's score, 0 … 1 or in the profile's own scale.
        leg: vector, keyword, both or fusion: where the largest displacement came from; None without one.
        ndcg_difference: largest difference of a profile's nDCG@10; None where nothing was judged.
        ties: rankings in which an id settled some place.
        partings: the stages at which the builds differ, in the order of STAGES.
        ids_in_order: whether the ids of both builds are in the same order of the names.
        notes: what else differs: versions, functions, profiles.
    """

    questions: int
    rankings: int
    places: int
    differing: int
    first_place: int | None
    largest_displacement: float
    leg: str | None
    ndcg_difference: float | None
    ties: int
    partings: tuple[Parting, ...]
    ids_in_order: bool
    notes: tuple[str, ...] = ()

    @property
    def stage(self) -> str | None:
        """The first stage at which the builds part; None where they do not."""
        return self.partings[0].stage if self.partings else None

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "questions": self.questions,
            "differing": self.differing,
            "first_place": self.first_place,
            "largest_displacement": self.largest_displacement,
            "leg": self.leg,
            "stage": self.stage,
            "ndcg_difference": self.ndcg_difference,
            "rankings": self.rankings,
            "places": self.places,
            "ties": self.ties,
            "ids_in_order": self.ids_in_order,
            "partings": [
                {"stage": one.stage, "count": one.count, "where": one.where, "what": one.what} for one in self.partings
            ],
            "notes": list(self.notes),
        }


def compare(
    first: Side | Asked,
    second: Side,
    collection: Collection,
    *,
    texts: Sequence[str],
    profiles: Sequence[str],
    progress: Progress = lambda _what, _done, _size: None,
) -> Difference:
    """Compare two builds: their data, and the full rankings of all questions by all profiles.

    Args:
        first: the one build; asked before (`Asked`), it is not asked again, unless something differs.
        second: the other one.
        collection: has the questions, and judgements for nDCG.
        texts: of the questions, as they are to be asked.
        profiles: ranking profiles, name@version.
        progress: told how far it is.

    Raises:
        KBSearchError: a database refused something other than a question.
    """
    one = first if isinstance(first, Asked) else Asked(first)
    return _Comparison(one, Asked(second), collection, texts, profiles, progress).run()


@dataclass(slots=True)
class _Ranking:
    """A whole ranking: what is compared of it, a row a place."""

    rows: Array
    """Columns: code of the article, chunk's number, score, similarity, keyword score, tied with."""
    lexemes: tuple[str, ...]
    refusal: str | None = None

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.rows.tobytes() + repr((self.lexemes, self.refusal)).encode()).digest()


@dataclass(frozen=True, slots=True)
class _Summary:
    """What is kept of a ranking."""

    digest: bytes
    places: int
    has_ties: bool
    best: tuple[str, ...]


@dataclass(slots=True)
class Asked:
    """A build, and what is known of its answers by now."""

    side: Side
    _names: dict[int, str] = field(default_factory=dict)
    _ids: Array = field(default_factory=lambda: np.empty(0, np.int64))
    _codes: Array = field(default_factory=lambda: np.empty(0, np.int64))
    _chunk_ids: Array = field(default_factory=lambda: np.empty(0, np.int64))
    _numbers: Array = field(default_factory=lambda: np.empty(0, np.int64))
    _summaries: dict[tuple[str, int, str], _Summary] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """Names of articles by code."""

    def open(self) -> None:
        """Read the names of articles and the numbers of chunks."""
        if self._names:
            return
        self._names = {int(number): str(name) for number, name in self.rows(_NAMES)}
        self._ids = np.fromiter(self._names, np.int64, len(self._names))
        self._codes = np.array([_code(name) for name in self._names.values()], np.int64)
        self.names = dict(zip(self._codes.tolist(), self._names.values(), strict=True))
        chunks = self.rows(_NUMBERS).fetchall()
        self._chunk_ids = np.array([number for number, _ in chunks], np.int64)
        self._numbers = np.array([number for _, number in chunks], np.int64)

    def rows(self, statement: str, **parameters: object) -> psycopg.Cursor[Any]:
        """Rows of a query about the organisation."""
        side = self.side
        return side.connection.execute(
            in_schema(statement, side.schema).encode(), {"org_id": side.org_id, **parameters}, binary=True
        )

    def name(self, code: int) -> str:
        """The name of an article by its code."""
        return self.names.get(code, "an article that there is not")

    def in_order(self) -> list[str]:
        """Names in the order of the ids."""
        return list(self._names.values())

    def ranking(self, profile: str, place: int, text: str) -> _Ranking:
        """A whole ranking."""
        side = self.side
        vector = None if side.vectors is None else str(side.vectors[place].tolist())
        try:
            with side.connection.transaction():
                found = self.rows(_RANKING, text=text, vector=vector, profile=profile).fetchall()
        except psycopg.DatabaseError as error:
            refusal = translate(error, side.schema)
            if not isinstance(refusal, KBSearchError) or refusal.sqlstate in ("KBPRF", "KBORG", "KBDIM", "KBSPC"):
                raise refusal from error
            return _Ranking(np.empty((0, 6), np.int64), (), refusal.sqlstate)
        lexemes = next((tuple(row[7] or ()) for row in found if row[0] is None), ())
        blocks = [row for row in found if row[0] is not None]
        columns = [[value for row in blocks for value in row[column]] for column in range(1, 7)]
        articles = np.array(columns[0], np.int64)
        rows = np.empty((len(articles), 6), np.int64)
        rows[:, 0] = self._looked_up(self._ids, self._codes, articles)
        rows[:, 1] = self._looked_up(self._chunk_ids, self._numbers, np.array(columns[1], np.int64))
        for column in range(2, 6):
            rows[:, column] = [_NONE if value is None else value for value in columns[column]]
        return _Ranking(rows, lexemes)

    def _looked_up(self, ids: Array, values: Array, wanted: Array) -> Array:
        """Values by id; of an id that is not there, which a spoilt index may bring, a number that is nobody's."""
        if not len(ids):
            return -1 - wanted
        places = np.searchsorted(ids, wanted).clip(max=len(ids) - 1)
        return np.where(ids[places] == wanted, values[places], -1 - wanted)

    def summary(self, profile: str, place: int, text: str) -> _Summary:
        """What is kept of a ranking, asked the first time."""
        key = (profile, place, text)
        if key not in self._summaries:
            ranking = self.ranking(profile, place, text)
            best = tuple(map(self.name, ranking.rows[:DEPTH, 0].tolist()))
            self._summaries[key] = _Summary(
                ranking.digest, len(ranking.rows), bool((ranking.rows[:, 5] > 0).any()), best
            )
        return self._summaries[key]


def _code(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


@dataclass(slots=True)
class _Comparison:
    one: Asked
    other: Asked
    collection: Collection
    texts: Sequence[str]
    profiles: Sequence[str]
    progress: Progress
    partings: dict[str, Parting] = field(default_factory=dict)
    first_place: int | None = None
    displacement: int = 0
    leg: str | None = None

    def run(self) -> Difference:
        self.one.open()
        self.other.open()
        self._compare_data()
        self._compare_question_vectors()
        queries = self.collection.queries
        differing: set[str] = set()
        places = ties = done = 0
        for profile in self.profiles:
            for place, (query, text) in enumerate(zip(queries, self.texts, strict=True)):
                mine, theirs = (side.summary(profile, place, text) for side in (self.one, self.other))
                places += mine.places
                ties += mine.has_ties
                done += 1
                if mine.digest != theirs.digest:
                    differing.add(query.id)
                    self._locate(profile, place, query.id, text)
                self.progress("compare rankings", done, len(queries) * len(self.profiles))
        return Difference(
            questions=len(queries),
            rankings=done,
            places=places,
            differing=len(differing),
            first_place=self.first_place,
            largest_displacement=self.displacement / 1e9,
            leg=self.leg,
            ndcg_difference=self._ndcg_difference(),
            ties=ties,
            partings=tuple(self.partings[stage] for stage in STAGES if stage in self.partings),
            ids_in_order=self.one.in_order() == self.other.in_order(),
            notes=tuple(self._notes()),
        )

    def _part(self, stage: str, where: str, what: Callable[[], str]) -> None:
        known = self.partings.get(stage)
        self.partings[stage] = (
            Parting(stage, 1, where, what())
            if known is None
            else Parting(stage, known.count + 1, known.where, known.what)
        )

    # Data

    def _compare_data(self) -> None:
        whole = [
            dict(zip(_columns(cursor), cursor.fetchone() or (), strict=False)) for cursor in map(_whole, self._both())
        ]
        for stage, meaning in _MEANING.items():
            mine, theirs = (one.get(stage) for one in whole)
            if mine != theirs:
                self._part(stage, f"the organisation's {meaning}", partial("{} and {}".format, mine, theirs))
        seen = [_Seen(), _Seen()]
        size = max(len(side.in_order()) for side in self._both())
        merged = _merged(*(side.rows(_CHUNKS) for side in self._both()))
        for done, (name, (mine, theirs)) in enumerate(merged, 1):
            self.progress("compare data", done, size)
            self._compare_article(name, mine, theirs, seen)
        lost = [one.get("entries", 0) - found.entries for one, found in zip(whole, seen, strict=True)]
        if lost[0] != lost[1]:
            self._part("postings", "entries of chunks that are not there", lambda: f"{lost[0]} and {lost[1]}")

    def _compare_article(
        self, name: str, mine: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]], seen: Sequence[_Seen]
    ) -> None:
        for one, found in zip((mine, theirs), seen, strict=True):
            for row in one:
                found.note(name, row)
        if not mine or not theirs:
            self._part("documents", name, lambda: "is in one of the builds only")
            return
        if len(mine) != len(theirs):
            self._part("documents", name, lambda: f"{len(mine)} chunks and {len(theirs)}")
            return
        for number, (left, right) in enumerate(zip(mine, theirs, strict=True)):
            where = name if len(mine) == 1 else f"{name}, chunk {number + 1}"
            for column, stage in enumerate(STAGES[:5], 2):
                if left[column] != right[column]:
                    self._part(stage, where, partial(self._say, stage, left, right, seen))

    def _say(self, stage: str, left: tuple[Any, ...], right: tuple[Any, ...], seen: Sequence[_Seen]) -> str:
        if stage == "documents":
            return f"{left[2]} and {right[2]}"
        if stage == "model input":
            return _texts_part(
                *(self._input(side, row[3]) for side, row in zip(self._both(), (left, right), strict=True))
            )
        if stage == "vector":
            said = (
                "the model was given the same, and the vectors are not equal"
                if left[3]
                else "the vectors are not equal"
            )
            for label, row, found in zip(("first", "second"), (left, right), seen, strict=True):
                if shared := found.other_owner(row):
                    said += f"; the {label} has the vector of {shared}, of which the model was given something else"
            return said
        if stage == "postings":
            return f"its chunk has {left[7]} and {right[7]} entries, of the same words"
        return "not the same words, counts, length or language"

    def _input(self, side: Asked, digest: str | None) -> str | None:
        row = None if digest is None else side.rows(_INPUT, digest=digest).fetchone()
        return digest if row is None else str(row[0])

    def _compare_question_vectors(self) -> None:
        mine, theirs = self.one.side.vectors, self.other.side.vectors
        if mine is None or theirs is None or mine.shape != theirs.shape:
            if mine is not theirs:
                self._part("vector", "the questions", lambda: "one build has vectors of them that the other has not")
            return
        for place in np.flatnonzero((mine != theirs).any(axis=1)).tolist():
            self._part("vector", f"question {self.collection.queries[place].id}", lambda: "the vectors are not equal")

    # Rankings

    def _locate(self, profile: str, place: int, query: str, text: str) -> None:
        mine, theirs = (side.ranking(profile, place, text) for side in self._both())
        where = f"question {query}, {profile}"
        if mine.lexemes != theirs.lexemes:
            self._part("lexemes", where, lambda: f"the question has the words {mine.lexemes} and {theirs.lexemes}")
        if mine.refusal != theirs.refusal:
            self._part(
                "fusion", where, lambda: f"answered {mine.refusal or 'by rows'} and {theirs.refusal or 'by rows'}"
            )
        shorter = min(len(mine.rows), len(theirs.rows))
        unequal = np.flatnonzero((mine.rows[:shorter] != theirs.rows[:shorter]).any(axis=1))
        at = int(unequal[0]) if len(unequal) else shorter
        self.first_place = min(at + 1, self.first_place or at + 1)
        left, right = (ranking.rows[np.argsort(ranking.rows[:, 0])] for ranking in (mine, theirs))
        if not np.array_equal(left[:, 0], right[:, 0]):
            lone = set(left[:, 0].tolist()) ^ set(right[:, 0].tolist())
            name = min({**self.other.names, **self.one.names}.get(code, "one without a row") for code in lone)
            self._part(
                "fusion", where, lambda: f"{len(lone)} articles are found by one of the builds only, {name} among them"
            )
            common = np.intersect1d(left[:, 0], right[:, 0])
            left, right = (rows[np.isin(rows[:, 0], common)] for rows in (left, right))
        scored = (left[:, 2:5] != right[:, 2:5]).any(axis=1)
        if scored.any():
            moved = np.abs(left[:, 2] - right[:, 2])
            worst = int(np.argmax(np.where(scored, moved, -1)))
            leg = _leg(left[scored], right[scored])
            self._part(
                "fusion", where, lambda: _scores_part(self.one.name(int(left[worst, 0])), left[worst], right[worst])
            )
            if self.leg is None or int(moved[worst]) > self.displacement:
                self.displacement, self.leg = int(moved[worst]), leg
        elif np.array_equal(np.sort(mine.rows[:, 0]), np.sort(theirs.rows[:, 0])) and len(unequal):
            code, other = int(mine.rows[at, 0]), int(theirs.rows[at, 0])
            names = self.one.name(code), self.other.name(other)
            self._part(
                "order",
                where,
                lambda: (
                    f"place {at + 1}: {names[0]} and {names[1]}, with the same scores"
                    if code != other
                    else f"place {at + 1}: {names[0]} with another chunk, or with other ties"
                ),
            )

    def _ndcg_difference(self) -> float | None:
        if not self.collection.qrels:
            return None
        largest = 0.0
        for profile in self.profiles:
            mine, theirs = (
                {
                    query.id: side.summary(profile, place, text).best
                    for place, (query, text) in enumerate(zip(self.collection.queries, self.texts, strict=True))
                }
                for side in self._both()
            )
            if mine != theirs:
                found = [measure(self.collection.qrels, rankings)["nDCG@10"] for rankings in (mine, theirs)]
                largest = max(largest, abs(found[0] - found[1]))
        return largest

    def _notes(self) -> Iterator[str]:
        sides = [(side.side.connection, side.side.schema, side.side.org_id) for side in self._both()]
        mine, theirs = (fingerprint.server_record(connection, schema) for connection, schema, _ in sides)
        yield from (f"{name}: {mine[name]} and {theirs[name]}" for name in mine if mine[name] != theirs[name])
        mine, theirs = (fingerprint.installed_functions(connection, schema) for connection, schema, _ in sides)
        unequal = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
        yield from (f"{name} is not the same" for name in unequal[:5])
        if len(unequal) > 5:  # noqa: PLR2004
            yield f"{len(unequal) - 5} more functions are not the same"
        for profile in self.profiles:
            mine, theirs = (
                fingerprint.system_record(connection, org_id, profile, profile, "", schema)
                for connection, schema, org_id in sides
            )
            if mine != theirs:
                yield f"the profile {profile} is not the same"

    def _both(self) -> tuple[Asked, Asked]:
        return self.one, self.other


@dataclass(slots=True)
class _Seen:
    """What was seen of a build's chunks: the entries that they have together, and vectors that chunks with another input have."""

    entries: int = 0
    _owners: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def note(self, name: str, row: tuple[Any, ...]) -> None:
        self.entries += row[7]
        if row[4] is not None:
            owners = self._owners.setdefault(row[4], [])
            if all(given != (row[3] or "") for _, given in owners):
                owners.append((name, row[3] or ""))

    def other_owner(self, row: tuple[Any, ...]) -> str | None:
        """The name of an article with a chunk's vector whose model was given something else."""
        given = row[3] or ""
        return next((name for name, other in self._owners.get(row[4] or "", ()) if other != given), None)


def _whole(side: Asked) -> psycopg.Cursor[Any]:
    return side.rows(_WHOLE)


def _columns(cursor: psycopg.Cursor[Any]) -> list[str]:
    return [column.name for column in cursor.description or ()]


def _merged(
    first: psycopg.Cursor[Any], second: psycopg.Cursor[Any]
) -> Iterator[tuple[str, tuple[Sequence[tuple[Any, ...]], Sequence[tuple[Any, ...]]]]]:
    """Rows of both by name; names come in the order of their UTF-8 bytes, which is that of their code points."""
    left, right = (groupby(cursor, key=lambda row: str(row[0])) for cursor in (first, second))
    mine, theirs = _next(left), _next(right)
    while mine or theirs:
        name = min(one[0] for one in (mine, theirs) if one is not None)
        rows: list[Sequence[tuple[Any, ...]]] = [
            one[1] if one is not None and one[0] == name else [] for one in (mine, theirs)
        ]
        if mine is not None and mine[0] == name:
            mine = _next(left)
        if theirs is not None and theirs[0] == name:
            theirs = _next(right)
        yield name, (rows[0], rows[1])


def _next(groups: Iterator[tuple[str, Iterator[tuple[Any, ...]]]]) -> tuple[str, list[tuple[Any, ...]]] | None:
    found = next(groups, None)
    return None if found is None else (found[0], list(found[1]))


def _leg(left: Array, right: Array) -> str:
    similarity, keyword = ((left[:, column] != right[:, column]).any() for column in (3, 4))
    return "both" if similarity and keyword else "vector" if similarity else "keyword" if keyword else "fusion"


def _scores_part(name: str, left: Array, right: Array) -> str:
    def shown(row: Array) -> str:
        values = {"score": (2, 1e9), "similarity": (3, 1e6), "keyword": (4, 1e9)}
        return ", ".join(
            f"{label} {'none' if row[column] == _NONE else f'{row[column] / unit:.9g}'}"
            for label, (column, unit) in values.items()
        )

    return f"{name} has {shown(left)}; and {shown(right)}"


def _texts_part(left: str | None, right: str | None) -> str:
    """Both texts around the first character in which they differ."""
    if left is None or right is None:
        return (
            f"{'nothing' if left is None else repr(left[:60])} and {'nothing' if right is None else repr(right[:60])}"
        )
    at = next(
        (place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    begin = max(0, at - 20)
    return f"{left[begin : at + 60]!r} and {right[begin : at + 60]!r}"
