"""The measures, one function a letter. Every figure is a median, beside the same work done with plain PostgreSQL in the same run.

a  exact `weighted` search of one organisation among others, beside a bare ORDER BY over its vectors
b  keyword leg and `keyword@1` search of one large organisation, beside ts_rank_cd over a stored tsvector with a GIN index
c  search of a small organisation beside that of a large one in the same database
d  ingest through the triggers, beside a table with a GIN index on to_tsvector
e  keyword leg and postings after many edits of single chunks, beside the fresh state
f  memory of a search, disk per 100,000 chunks, the postings beside a GIN index (as loaded by COPYs of 5,000 rows, and compacted)
g  stored rankings of an organisation of the database of a: opening one, and a page of 10 at its 1st and 50th place in turn, beside ranking again
h  `arbitrate` beside `weighted`, of the large and the small organisation of the database of a
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from typing import Any

import psycopg

from benchmarks.data import DIMENSIONS, RANKS, Generator, Question
from benchmarks.database import WARM_UP, Run, load_articles, load_chunks, load_embeddings, scalar, spread
from benchmarks.figures import Figure

LARGE, SMALL, FILLERS = 1, 2, range(3, 21)
"""Organisations of the database of measures a and c."""

MEGABYTE = 1_000_000

SEARCH = "SELECT * FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_query_embedding => %s)"
PROFILED = SEARCH.replace("p_query_embedding => %s", "p_query_embedding => %s, p_profile => %s")
OPEN = (
    "SELECT s.snapshot, s.total FROM kbsearch.open_kb_search_v1(p_org_id => %s, p_query_text => %s, p_query_embedding => %s, "
    "p_expires_in => '1 day') AS s"
)
FETCH = "SELECT kbsearch.fetch_kb_page_v1(p_org_id => %s, p_snapshot => %s, p_offset => %s)"
PAGE = "SELECT kbsearch.search_kb_hybrid_page_v1(p_org_id => %s, p_query_text => %s, p_query_embedding => %s, p_offset => %s)"
KEYWORD_SEARCH = "SELECT * FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s, p_limit => 100, p_profile => 'keyword@1')"
SERVER_TIMER = """
CREATE FUNCTION pg_temp.search_time(p_org_id bigint, p_text text, p_embedding vector, p_calls integer) RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE
    v_begin timestamptz := clock_timestamp();
BEGIN
    FOR n IN 1..p_calls LOOP
        PERFORM count(*) FROM kbsearch.search_kb_hybrid_v1(p_org_id => p_org_id, p_query_text => p_text, p_query_embedding => p_embedding);
    END LOOP;
    RETURN 1000 * extract(epoch FROM clock_timestamp() - v_begin) / p_calls;
END
$$
"""
"""A loop in the server: milliseconds a call, without what the connection, the client and the text of a vector cost any organisation."""
SERVER_TIME = "SELECT pg_temp.search_time(%s, %s, %s, %s)"
RIVAL = """
SELECT t.chunk_id, ts_rank_cd(t.words, q.query) AS rank
FROM stored AS t, to_tsquery('pg_catalog.english', %s) AS q (query)
WHERE t.words @@ q.query
ORDER BY rank DESC LIMIT 100
"""
LEG_FUNCTION = """
CREATE OR REPLACE FUNCTION pg_temp.keyword_leg(p_org_id bigint, p_lexemes text [], p_weights double precision [])
RETURNS TABLE (chunk_id bigint, raw double precision)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET work_mem = '64MB' SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT k.chunk_id, k.raw
    FROM kbsearch.match_kb_keyword_v1(p_org_id, p_lexemes, p_weights, false) AS k
    ORDER BY k.raw DESC, k.chunk_id ASC LIMIT 100;
END
$$
"""
"""The leg with its plan cached and the memory that the ranking gives it."""
KEYWORD_LEG = "SELECT chunk_id, raw FROM pg_temp.keyword_leg(%s, %s::text[], %s::float8[])"
WEIGHTS = """
SELECT
    array_agg(d.lexeme ORDER BY d.lexeme),
    array_agg(kbsearch.kb_idf_v1(n.chunk_total, d.document_frequency)::float8 ORDER BY d.lexeme)
FROM kbsearch.parse_kb_query_v1(%(text)s, 'pg_catalog.english') AS q,
    kbsearch.count_kb_documents_v1(%(org)s, q.lexemes) AS d,
    (SELECT sum(s.chunk_count)::bigint AS chunk_total FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = %(org)s) AS n
WHERE d.document_frequency > 0
"""
POSTINGS_SIZE = "SELECT pg_total_relation_size('kbsearch.kb_postings')"
POSTINGS_BYTES = "SELECT sum(pg_column_size(p.*)) FROM kbsearch.kb_postings AS p"
VACUUMED = ("kb_postings", "kb_corpus_stats", "kb_article_chunks")


def vector_and_keyword(run: Run) -> list[Figure]:
    """Measure a."""
    questions = _questions(2, "mixed", run.sizes.rounds)
    bare = "SELECT t.chunk_id FROM {} AS t WHERE t.org_id = %s ORDER BY t.embedding <=> %s LIMIT 10"
    narrow, embeddings = bare.format("narrow"), bare.format("kbsearch.kb_article_embeddings")
    with _organisations(run) as connection:
        times = run.times(
            {
                "search": lambda n: _search(connection, LARGE, questions[n]),
                "narrow": lambda n: _fetch(connection, narrow, LARGE, questions[n].embedding),
                "embeddings": lambda n: _fetch(connection, embeddings, LARGE, questions[n].embedding),
            },
            "a: searches and bare scans",
        )
    name = f"weighted search, {run.sizes.organisation:,} of {run.sizes.corpus:,} chunks, top 10"
    search = median(times["search"])
    return [
        Figure("a", name, search, "bare ORDER BY, narrow table", median(times["narrow"]), limit=3, goal=2),
        Figure("a", name, search, "bare ORDER BY, kb_article_embeddings", median(times["embeddings"])),
    ]


def keyword(run: Run) -> list[Figure]:
    """Measure b."""
    figures = []
    rounds = max(5, run.sizes.rounds // 3)
    with _corpus(run) as connection:
        for kind in RANKS:
            questions = _questions(3, kind, rounds)
            times = run.times(_keyword_calls(connection, questions), f"b: {kind} words", rounds)
            rival = median(times["rival"])
            figures += [
                Figure(
                    "b", f"{what}, {kind} words, top 100", median(times[call]), "ts_rank_cd, GIN", rival, limit=limit
                )
                for call, what, limit in (("leg", "keyword leg", 1 / 8), ("search", "keyword@1 search", None))
            ]
    return figures


def _keyword_calls(
    connection: psycopg.Connection[Any], questions: Sequence[Question]
) -> dict[str, Callable[[int], object]]:
    legs = [_leg_parameters(connection, LARGE, question) for question in questions]
    return {
        "leg": lambda n: _fetch(connection, KEYWORD_LEG, *legs[n]),
        "search": lambda n: _fetch(connection, KEYWORD_SEARCH, LARGE, questions[n].text),
        "rival": lambda n: _fetch(connection, RIVAL, questions[n].tsquery),
    }


def small_organisation(run: Run) -> list[Figure]:
    """Measure c."""
    questions = _questions(4, "mixed", run.sizes.rounds)
    with _organisations(run) as connection:
        times = run.times(
            {
                "small": lambda n: _search(connection, SMALL, questions[n]),
                "large": lambda n: _search(connection, LARGE, questions[n]),
            },
            "c: searches",
        )
        connection.execute(SERVER_TIMER)
        server: dict[str, list[float]] = {"small": [], "large": []}
        for question in questions:
            for name, org_id, count in (("small", SMALL, 20), ("large", LARGE, 2)):
                parameters = (org_id, question.text, question.embedding, count)
                server[name].append(float(_fetch(connection, SERVER_TIME, *parameters)[0][0]))
    small = f"weighted search, organisation of {run.sizes.small:,} chunks"
    large = f"organisation of {run.sizes.organisation:,}"
    return [
        Figure("c", f"{small}, in the server", median(server["small"]), large, median(server["large"]), limit=1 / 20),
        Figure("c", f"{small}, seen by a client", median(times["small"]), large, median(times["large"])),
    ]


def ingest(run: Run) -> list[Figure]:
    """Measure d. One at a time is a mean: a row in many carries the merging of the segments before it."""
    bulk, singles = run.sizes.ingested, run.sizes.singles
    rounds = 7
    chunks = spread({LARGE: (rounds + WARM_UP) * bulk + singles + WARM_UP}, Generator(6), [LARGE])
    columns = "(org_id, id, article_id, content)"
    types = "(org_id bigint, id bigint, article_id bigint, content text)"
    with run.database("ingest") as connection:
        connection.execute(f"CREATE TABLE plain {types}".encode())
        connection.execute("CREATE INDEX ON plain USING gin (to_tsvector('pg_catalog.english', content))")
        connection.execute(f"CREATE TABLE staged {types}".encode())
        load_articles(connection, chunks)
        with connection.cursor() as cursor, cursor.copy(f"COPY staged {columns} FROM STDIN".encode()) as copy:
            for chunk in chunks:
                copy.write_row((chunk.org_id, chunk.id, chunk.id, chunk.content))
        connection.execute("CREATE INDEX ON staged (id)")
        connection.execute("VACUUM ANALYZE")

        def inserts(table: str, first: int, count: int) -> Callable[[int], object]:
            blocks = itertools.count(first, count)

            def insert(_round: int) -> None:
                begin = next(blocks)
                connection.execute(
                    f"INSERT INTO {table} {columns} SELECT s.org_id, s.id, s.article_id, s.content FROM staged AS s "
                    "WHERE s.id >= %s AND s.id < %s".encode(),
                    [begin, begin + count],
                )

            return insert

        tables = {"ours": "kbsearch.kb_article_chunks", "plain": "plain"}
        calls = {name: inserts(table, 1, bulk) for name, table in tables.items()}
        bulks = run.times(calls, f"d: {bulk:,} rows a statement", rounds)
        calls = {name: inserts(table, 1 + (rounds + WARM_UP) * bulk, 1) for name, table in tables.items()}
        ones = run.times(calls, "d: rows one at a time", singles)
    beside = "table with a GIN index only"
    return [
        Figure(
            "d", f"ingest, {bulk:,} rows a statement", median(bulks["ours"]), beside, median(bulks["plain"]), limit=6
        ),
        Figure("d", "ingest, a row a transaction (mean)", mean(ones["ours"]), beside, mean(ones["plain"]), limit=6),
    ]


def edits(run: Run) -> list[Figure]:
    """Measure e. VACUUM after every tenth of the edits stands for autovacuum, which would come more often."""
    generator = Generator(7)
    rounds = max(5, run.sizes.rounds // 3)
    questions = [question for kind in RANKS for question in _questions(8, kind, rounds)]
    with run.database("fresh") as connection:
        chunks = spread({LARGE: run.sizes.edited}, generator, [LARGE])
        load_chunks(run, connection, chunks, "e: loading")
        connection.execute("VACUUM ANALYZE")
        size, live = int(scalar(connection, POSTINGS_SIZE)), int(scalar(connection, POSTINGS_BYTES))
    run.clone("fresh", "edited")
    figures = []
    with run.database("fresh") as fresh, run.database("edited") as edited:

        def state(name: str, *, target: bool) -> None:
            before = [_leg_parameters(fresh, LARGE, question) for question in questions]
            after = [_leg_parameters(edited, LARGE, question) for question in questions]
            times = run.times(
                {
                    "before": lambda n: _fetch(fresh, KEYWORD_LEG, *before[n]),
                    "after": lambda n: _fetch(edited, KEYWORD_LEG, *after[n]),
                },
                f"e: keyword leg {name}",
                len(questions),
            )
            for number, kind in enumerate(RANKS):
                part = slice(number * rounds, (number + 1) * rounds)
                fast, slow = median(times["before"][part]), median(times["after"][part])
                limit = 1.5 if target else None
                figures.append(Figure("e", f"keyword leg, {kind} words, {name}", slow, "fresh", fast, limit=limit))
            for what, statement, base in (("size", POSTINGS_SIZE, size), ("live bytes", POSTINGS_BYTES, live)):
                now = int(scalar(edited, statement)) / MEGABYTE
                limit = 3 if target and what == "size" else None
                figures.append(
                    Figure("e", f"postings, {what}, {name}", now, "fresh", base / MEGABYTE, unit="MB", limit=limit)
                )

        chosen = generator.random.integers(1, run.sizes.edited + 1, run.sizes.edits).tolist()
        begin = time.perf_counter()
        for number, chunk_id in enumerate(run.track(chosen, "e: edits"), 1):
            edited.execute(
                "UPDATE kbsearch.kb_article_chunks AS c SET content = %s WHERE c.org_id = %s AND c.id = %s",
                [generator.chunk(), LARGE, chunk_id],
            )
            if number % (run.sizes.edits // 10) == 0 and number < run.sizes.edits:
                _vacuum(edited)
        each = 1000 * (time.perf_counter() - begin) / run.sizes.edits
        figures.append(Figure("e", "an edit of a chunk, a transaction each, vacuuming included (mean)", each))
        state("right after the edits", target=True)
        _vacuum(edited)
        state("after VACUUM", target=True)
        edited.execute("SELECT kbsearch.compact_kb_postings_v1(%s)", [LARGE])
        _vacuum(edited)
        state("after compact and VACUUM", target=True)
    return figures


def footprint(run: Run) -> list[Figure]:
    """Measure f."""
    figures = []
    questions = {kind: _questions(9, kind, 20) for kind in ("mixed", "common")}
    with _corpus(run) as connection:
        share = run.sizes.corpus / 100_000

        def size(name: str) -> float:
            return int(scalar(connection, "SELECT pg_total_relation_size(%s::regclass)", [name])) / MEGABYTE / share

        for kind, asked in questions.items():
            idle, peak = _peak_memory(run, asked)
            name = f"memory of a backend at its highest, weighted search, {kind} words, {run.sizes.corpus:,} chunks"
            figures.append(Figure("f", name, peak, "before", idle, unit="MB"))
        per = "per 100,000 chunks"
        gin, stored = size("stored_words_idx"), size("stored")
        figures += [
            Figure("f", f"{table}, with its indexes, {per}", size(f"kbsearch.{table}"), unit="MB")
            for table in ("kb_article_chunks", "kb_articles", "kb_article_embeddings", "kb_corpus_stats")
        ]
        for state in ("as loaded", "compacted, VACUUM FULL"):
            if state != "as loaded":
                connection.execute("SELECT kbsearch.compact_kb_postings_v1(%s)", [LARGE])
                connection.execute("VACUUM FULL kbsearch.kb_postings")
            figures.append(
                Figure("f", f"kb_postings {state}, {per}", size("kbsearch.kb_postings"), "GIN index", gin, unit="MB")
            )
        figures.append(
            Figure(
                "f",
                f"kb_postings compacted, VACUUM FULL, {per}",
                figures[-1].value,
                "tsvectors with their GIN index",
                stored,
                unit="MB",
            )
        )
    return figures


def stored_rankings(run: Run) -> list[Figure]:
    """Measure g."""
    rounds = run.sizes.rounds
    questions = _questions(9, "mixed", rounds)
    with _organisations(run) as connection:
        snapshots = [_fetch(connection, OPEN, LARGE, question.text, question.embedding)[0] for question in questions]
        deep = min(50, int(snapshots[0][1]) // 10)
        times = run.times(
            {
                "first": lambda n: _fetch(connection, FETCH, LARGE, snapshots[n][0], 0),
                "deep": lambda n: _fetch(connection, FETCH, LARGE, snapshots[n][0], 10 * (deep - 1)),
                "again": lambda n: _fetch(
                    connection, PAGE, LARGE, questions[n].text, questions[n].embedding, 10 * (deep - 1)
                ),
                "open": lambda n: _fetch(connection, OPEN, LARGE, questions[n].text, questions[n].embedding),
            },
            "g: stored rankings",
        )
    first, page, again = (median(times[name]) for name in ("first", "deep", "again"))
    name = f"page {deep} of a stored ranking, {run.sizes.organisation:,} chunks"
    return [
        Figure("g", name, page, "its page 1", first, limit=2),
        Figure("g", name, page, "ranking again", again, limit=1 / 5),
        Figure("g", "opening a stored ranking", median(times["open"]), "ranking for one page", again),
    ]


def arbitration(run: Run) -> list[Figure]:
    """Measure h."""
    questions = _questions(10, "mixed", run.sizes.rounds)
    with _organisations(run) as connection:
        large, small = (
            run.times(
                {
                    "arbitrate": lambda n: _profiled(connection, org_id, questions[n], "arbitrate@1"),  # noqa: B023
                    "weighted": lambda n: _profiled(connection, org_id, questions[n], "weighted@1"),  # noqa: B023
                },
                f"h: organisation {org_id}",
            )
            for org_id in (LARGE, SMALL)
        )
    return [
        Figure(
            "h",
            f"arbitrate@1 search, {chunks:,} chunks, top 10",
            median(times["arbitrate"]),
            "weighted@1",
            median(times["weighted"]),
            limit=limit,
        )
        for chunks, times, limit in ((run.sizes.organisation, large, 1.15), (run.sizes.small, small, None))
    ]


MEASURES: dict[str, Callable[[Run], list[Figure]]] = {
    "a": vector_and_keyword,
    "b": keyword,
    "c": small_organisation,
    "d": ingest,
    "e": edits,
    "f": footprint,
    "g": stored_rankings,
    "h": arbitration,
}


@contextmanager
def _organisations(run: Run) -> Iterator[psycopg.Connection[Any]]:
    """The database of a and c: the large and the small organisation among others, vectors interleaved; and its narrow copy."""
    with run.database("organisations") as connection:
        if scalar(connection, "SELECT to_regclass('narrow')") is None:
            rest = run.sizes.corpus - run.sizes.organisation - run.sizes.small
            counts = {LARGE: run.sizes.organisation, SMALL: run.sizes.small}
            counts |= {org_id: rest // len(FILLERS) for org_id in FILLERS}
            generator = Generator(1)
            chunks = spread(counts, generator, [LARGE, SMALL])
            load_chunks(run, connection, chunks, "a, c: loading text")
            load_embeddings(run, connection, chunks, generator, "a, c: loading vectors")
            connection.execute(
                f"CREATE TABLE narrow (org_id bigint, chunk_id bigint, embedding vector({DIMENSIONS}))".encode()
            )
            connection.execute("ALTER TABLE narrow ALTER COLUMN embedding SET STORAGE PLAIN")
            connection.execute(
                "INSERT INTO narrow SELECT e.org_id, e.chunk_id, e.embedding FROM kbsearch.kb_article_embeddings AS e ORDER BY e.ctid"
            )
            connection.execute("CREATE INDEX ON narrow (org_id)")
            connection.execute("VACUUM ANALYZE")
        yield connection


@contextmanager
def _corpus(run: Run) -> Iterator[psycopg.Connection[Any]]:
    """The database of b and f: one organisation; and its text as stored tsvectors with a GIN index."""
    with run.database("corpus") as connection:
        if scalar(connection, "SELECT to_regclass('stored')") is None:
            generator = Generator(5)
            chunks = spread({LARGE: run.sizes.corpus}, generator, [LARGE])
            load_chunks(run, connection, chunks, "b, f: loading text")
            load_embeddings(run, connection, chunks, generator, "b, f: loading vectors")
            connection.execute(
                "CREATE TABLE stored AS SELECT c.id AS chunk_id, to_tsvector('pg_catalog.english', c.title || ' ' || c.content) AS words "
                "FROM kbsearch.kb_article_chunks AS c ORDER BY c.id"
            )
            connection.execute("CREATE INDEX stored_words_idx ON stored USING gin (words)")
            connection.execute("VACUUM ANALYZE")
        yield connection


def _questions(seed: int, kind: str, count: int) -> list[Question]:
    generator = Generator(1000 + seed)
    return [generator.question(RANKS[kind]) for _ in range(count)]


def _fetch(connection: psycopg.Connection[Any], statement: str, *parameters: Any) -> list[Any]:
    return connection.execute(statement.encode(), parameters).fetchall()


def _search(connection: psycopg.Connection[Any], org_id: int, question: Question) -> list[Any]:
    return _fetch(connection, SEARCH, org_id, question.text, question.embedding)


def _profiled(connection: psycopg.Connection[Any], org_id: int, question: Question, profile: str) -> list[Any]:
    return _fetch(connection, PROFILED, org_id, question.text, question.embedding, profile)


def _leg_parameters(connection: psycopg.Connection[Any], org_id: int, question: Question) -> tuple[Any, ...]:
    """What the keyword leg gets: organisation, lexemes and their weights. The search makes them itself."""
    connection.execute(LEG_FUNCTION.encode())
    row = connection.execute(WEIGHTS, {"org": org_id, "text": question.text}).fetchone()
    lexemes, weights = row or (None, None)
    return org_id, lexemes or [], weights or []


def _vacuum(connection: psycopg.Connection[Any]) -> None:
    for table in VACUUMED:
        connection.execute(f"VACUUM ANALYZE kbsearch.{table}".encode())


def _peak_memory(run: Run, questions: Sequence[Question]) -> tuple[float, float]:
    """Private memory (MB) of a new backend before and at its highest during searches; NaN where the system doesn't say."""
    with run.database("corpus") as connection:
        status = Path(f"/proc/{connection.info.backend_pid}/status")
        idle = peak = _private_memory(status)
        done = threading.Event()
        samples: list[float] = []

        def watch() -> None:
            while not done.wait(0.001):
                samples.append(_private_memory(status))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for question in questions:
                _search(connection, LARGE, question)
        finally:
            done.set()
            watcher.join()
        return idle, max([peak, *samples])


def _private_memory(status: Path) -> float:
    """Resident memory of a process without what it shares, MB."""
    try:
        lines = status.read_text(encoding="ascii").splitlines()
    except OSError:
        return math.nan
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024 / MEGABYTE
