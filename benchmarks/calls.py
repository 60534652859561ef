"""Calls that are measured: clients, and the statements and profiles of kbsearch and of the peers that they ask with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchmarks.data import Question
from benchmarks.peers import PAGE, Parameters, Peer
from benchmarks.store import Store
from benchmarks.timing import Client

TOP = 400
"""How many the keyword leg alone gives."""

PROFILES = {
    "bench_exact": ("weighted", "exact", None),
    "bench_ann": ("weighted", "ann", 200),
    "bench_keyword_exact": ("keyword", "exact", None),
    "bench_keyword_window": ("keyword", "ann", TOP),
}
"""Ranking profiles of the measured organisations: fusion, retrieval, window."""

SEARCH = (
    "SELECT s.article_id FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_limit => %s, "
    "p_offset => %s, p_profile => %s) AS s"
)


@contextmanager
def opened(store: Store, database: str, settings: Mapping[str, str] | None = None) -> Iterator[Client]:
    """A client of a database."""
    client = Client(store.server().dsn(database), settings)
    try:
        yield client
    finally:
        client.close()


def page_of(question: Question, org_id: int, limit: int, offset: int, profile: str | None) -> tuple[str, Parameters]:
    """Kbsearch's statement of a page."""
    return SEARCH, [org_id, question.text, question.embedding, limit, offset, profile]


def search_of(
    client: Client, org_id: int, asked: Sequence[Question], profile: str | None = None
) -> Callable[[int], object]:
    """Kbsearch's first page of a question."""
    return lambda n: client.rows(*page_of(asked[n], org_id, PAGE, 0, profile))


def ask_of(client: Client, peer: Peer, asked: Sequence[Question], org_id: int | None) -> Callable[[int], object]:
    """A peer's first page of a question, of an organisation or of all."""

    def call(number: int) -> object:
        built = peer.build(asked[number], org_id, PAGE, 0)
        return client.rows(*built) if built else None

    return call
