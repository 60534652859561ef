"""A/A on a collection: builds it once, then in other ways that must give the same, and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kbsearch.embed.base import Embedder
from kbsearch.evaluate.aa import STAGES, Asked, Difference, compare
from kbsearch.evaluate.build import WAYS, Builder, Scratch, dump_and_restore, in_bulk
from kbsearch.evaluate.collection import Collection, prose
from kbsearch.schema import DEFAULT

DUMP, SERVER = "dump", "server"
VARIATIONS: Mapping[str, str] = {
    "folders": "documents in another folder, in several files",
    "order": "the last document first",
    "batches": "fewer documents at a time",
    "rows": "one article at a time, without a cache",
    DUMP: "before and after dump and restore",
    SERVER: "on another server",
}
"""What is built otherwise, and how."""
PROFILES = ("vector@1", "keyword@1", "rrf@1", "weighted@1")

Progress = Callable[[str, int, int], None]


def vary(
    dsn: str,
    collection: Collection,
    *,
    variations: Sequence[str] = tuple(VARIATIONS),
    profiles: Sequence[str] = PROFILES,
    other_dsn: str | None = None,
    embedder: Embedder | None = None,
    syntax: bool = False,
    progress: Progress = lambda _what, _done, _size: None,
    schema: str = DEFAULT,
) -> Iterator[tuple[str, Difference | str]]:
    """Build a collection in bulk, then in other ways, and compare each with the first; all in throw-away databases.

    Args:
        dsn: of a role that may create databases, for any database of the server.
        collection: what is built and asked.
        variations: of VARIATIONS.
        profiles: ranking profiles, name@version.
        other_dsn: of another server, for the variation `server`.
        embedder: computes vectors anew in each build; by default the collection's own are used.
        syntax: whether quotation marks and leading hyphens of the questions are operators.
        progress: told how far it is.
        schema: that kbsearch is installed in.

    Yields:
        The variation's name, with what differs, or why it was not run.

    Raises:
        BuildError: a build cannot be made.
        KBSearchError: a database refused something.
    """
    questions = [query.text for query in collection.queries]
    texts = questions if syntax else [prose(one) for one in questions]

    with Scratch(dsn, schema) as scratch:
        builder = Builder.of(collection, embedder, progress, schema)
        source = scratch.database()
        connection = scratch.connect(source)
        first = Asked(builder.side(connection, builder.build(connection, in_bulk), questions))

        def compared(scratch: Scratch, build: Callable[[str], int | None]) -> Difference:
            target = scratch.database(install=build is not restored)
            org_id = build(target)
            with scratch.connect(target) as opened:
                org_id = builder.build(opened, WAYS.get(name, in_bulk)) if org_id is None else org_id
                side = builder.side(opened, org_id, questions)
                found = compare(first, side, collection, texts=texts, profiles=profiles, progress=progress)
            scratch.drop(target)
            return found

        def built(_target: str) -> None:
            return None

        def restored(target: str) -> int:
            dump_and_restore(source, target)
            return first.side.org_id

        for name in variations:
            if name == SERVER and other_dsn is None:
                yield name, "no other server was named (--other-dsn)"
            elif name == SERVER:
                with Scratch(str(other_dsn), schema) as elsewhere:
                    yield name, compared(elsewhere, built)
            else:
                yield name, compared(scratch, restored if name == DUMP else built)


def some(collection: Collection, number: int | None) -> Collection:
    """The collection with so many of its questions, spread over all of them; None: all."""
    if number is None or number >= len(collection.queries):
        return collection
    kept = np.linspace(0, len(collection.queries) - 1, number).round().astype(int).tolist()
    queries = tuple(collection.queries[place] for place in kept)
    vectors = collection.query_vectors
    return replace(
        collection,
        queries=queries,
        qrels={query.id: collection.qrels[query.id] for query in queries if query.id in collection.qrels},
        query_vectors=None if vectors is None else vectors[kept],
    )


def summary(found: Mapping[str, Difference | str]) -> dict[str, Any]:
    """The worst of all variations as JSON values, and each by its name."""
    compared = [one for one in found.values() if isinstance(one, Difference)]
    worst = max(compared, key=lambda one: one.largest_displacement, default=None)
    first = [one.first_place for one in compared if one.first_place is not None]
    stages = [one.stage for one in compared if one.stage is not None]
    return {
        "questions": max((one.questions for one in compared), default=0),
        "differing": max((one.differing for one in compared), default=0),
        "first_place": min(first, default=None),
        "largest_displacement": worst.largest_displacement if worst else 0.0,
        "leg": worst.leg if worst else None,
        "stage": min(stages, key=STAGES.index, default=None),
        "ndcg_difference": max((one.ndcg_difference or 0.0 for one in compared), default=0.0),
        "variations": {
            name: one.as_json() if isinstance(one, Difference) else {"not_run": one} for name, one in found.items()
        },
    }


def is_zero(found: Mapping[str, Difference | str]) -> bool:
    """Whether nothing differs, in any variation."""
    return all(isinstance(one, str) or (not one.partings and not one.differing) for one in found.values())
