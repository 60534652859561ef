"""Each stage of the benchmarks at a tiny scale: that it runs, goes on where it was stopped, and tells what is stale."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.data import CLASSES, RANKS
from benchmarks.measure import measure, measure_curve
from benchmarks.peers import available, stop_textsearch
from benchmarks.prepare import StaleError, prepare, refresh
from benchmarks.provenance import record
from benchmarks.questions import ASKED
from benchmarks.store import LARGE, SCALES, SETTINGS, TENANT, Store, scalar, stages
from benchmarks.timing import LITTLE
from kbsearch import embedded

TINY = SCALES["tiny"]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    # a short path: a socket lies in it
    folder = Path(tempfile.mkdtemp(prefix="kbsearch-stages-"))
    folder.chmod(0o755)
    made = Store(folder, settings={**SETTINGS, "shared_buffers": "16MB", "fsync": "off"})
    try:
        prepare(made, TINY)
        yield made
    finally:
        made.stop()
        stop_textsearch(made)
        shutil.rmtree(folder, ignore_errors=True)


def test_what_is_measured_is_reported(store: Store, tmp_path: Path) -> None:
    results = tmp_path / "results"
    measure(store, TINY, LITTLE, results)
    measure_curve(store, LITTLE, results, ("tiny", "tiny_alone"))
    found = report.read(results)
    assert {one["system"] for one in found["tiny"]["latency"]} == {
        "kbsearch ann",
        "kbsearch exact",
        *(peer.key for peer in available()),
    }
    assert {one["words"] for one in found["tiny"]["latency"]} == {*RANKS, ASKED}
    assert {(one["org"], one["asked"], one["words"]) for one in found["tiny"]["recall"]} == {
        *((org_id, "unrelated", "all") for org_id in (LARGE, TENANT)),
        *((org_id, "one document", ASKED) for org_id in (LARGE, TENANT)),
        *((LARGE, "one document", kind) for kind in CLASSES),
    }
    walked = {one["system"]: one for one in found["tiny"]["pages"]}
    assert walked["kbsearch exact"]["shown"] == TINY.organisations[TENANT]
    assert walked["kbsearch exact"]["right"] == walked["kbsearch ann"]["right"] == 1
    assert {one["recall"] for one in found["tiny"]["recall"] if one["system"].startswith("kbsearch")} == {1}
    assert found["tiny"]["locks"]["failures"] == []
    assert {one["chunks"] for one in found["curve"]["by_database"]} == {TINY.chunks, TINY.organisations[TENANT]}
    figures = report.write({"100k": found["tiny"], "curve": found["curve"]}, tmp_path / "page.md", tmp_path / "plots")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| 600 | 680 | of one document, very common words only | 200 | 1.000 |" in page
    assert "| 600 | 680 | of one document | 800 | 1.000 |" in page
    assert (
        "| 40 | 680 | worst case: words and vector unrelated, of every kind of words | 200 | 1.000 | 1.000 | 1.000 |"
        in page
    )
    assert "of one document | kbsearch, `ann`, window 200 | filtered |" in page
    assert {figure.met for figure in figures if figure.name.endswith("100,000 chunks, questions of one document")} == {
        True
    }
    assert "under something else" not in page
    assert page.count("| curve | by_database |") == 1
    assert found["tiny"]["measured"]["recall"]["settings"]["shared_buffers"] == store.settings["shared_buffers"]
    assert found["tiny"]["measured"]["recall"]["sql"] == found["curve"]["measured"]["by_database"]["sql"]
    assert sum(figure.is_unknown for figure in figures) < len(figures)
    assert [path.name for path in sorted((tmp_path / "plots").iterdir())] == [
        "database.svg",
        "latency.svg",
        "organisation.svg",
        "throughput.svg",
    ]
    assert all(f"(plots/{path.name})" in page for path in (tmp_path / "plots").iterdir())
    assert "NaN" not in json.dumps(found)


def test_a_part_is_measured_anew_and_the_others_are_kept(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_text(
        '{"pages": "kept", "recall": "old", "measured": {"pages": {"sql": "then"}, "recall": {"sql": "then"}}}',
        encoding="utf-8",
    )
    measure(store, TINY, LITTLE, tmp_path, only=["recall"])
    found = report.read(tmp_path)["tiny"]
    assert found["pages"] == "kept"
    assert found["measured"]["pages"] == {"sql": "then"}
    assert len(found["measured"]["recall"]["sql"]) == 12
    assert {one["org"] for one in found["recall"]} == {LARGE, TENANT}


def test_without_databases_of_several_sizes_no_curve_is_measured(store: Store, tmp_path: Path) -> None:
    measure_curve(store, LITTLE, tmp_path, ("300k",))
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_preparation_goes_on_where_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = SCALES["tiny_alone"]
    monkeypatch.setattr("benchmarks.prepare.BATCH", 15)
    begun = []

    def stop(what: str, done: int, size: int) -> None:
        begun.append((what, done))
        if done == 15 and len(begun) < 3:
            raise KeyboardInterrupt

    stopping = Store(store.folder, stop, store.settings)
    store.drop(alone.name)
    embedded.ensure_database(store.server(), alone.name, upgrade=False)  # where the very first step was the last
    with pytest.raises(KeyboardInterrupt):
        prepare(stopping, alone)
    with store.connect(alone.name) as connection:
        assert scalar(connection, "SELECT count(*) FROM kbsearch.kb_article_embeddings") == 15
        assert "load" not in stages(connection)
    prepare(stopping, alone)
    with store.connect(alone.name) as connection:
        assert scalar(connection, "SELECT count(*) FROM kbsearch.kb_article_embeddings") == 40
        assert {"load", "compact", "vacuum"} <= set(stages(connection))
    assert [done for what, done in begun if what.endswith("loading")] == [15, 30, 40]


def test_other_functions_are_replaced_and_other_tables_are_stale(store: Store) -> None:
    alone = SCALES["tiny_alone"]
    assert refresh(store, alone) == []
    sql = record(store, [alone.name])["sql"]
    with store.connect(alone.name) as connection:
        connection.execute("DROP FUNCTION kbsearch.kb_idf_v1 CASCADE")
        connection.execute(
            "CREATE OR REPLACE FUNCTION kbsearch.rrf_part_v1(p_weight double precision, p_rrf_k integer, p_rank bigint) RETURNS bigint "
            "LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 1::bigint'"
        )
        connection.execute("CREATE FUNCTION kbsearch.gone_v1() RETURNS integer LANGUAGE sql AS 'SELECT 1'")
        connection.execute("ALTER TYPE kbsearch.kb_search_plan ADD ATTRIBUTE gone integer CASCADE")
        articles = scalar(connection, "SELECT count(*) FROM kbsearch.kb_articles")
    assert record(store, [alone.name])["sql"] != sql
    changed = " ".join(refresh(store, alone))
    assert record(store, [alone.name])["sql"] == sql
    assert all(name in changed for name in ("kb_idf_v1", "rrf_part_v1", "gone_v1", "kb_search_plan"))
    assert refresh(store, alone) == []
    with store.connect(alone.name) as connection:
        assert scalar(connection, "SELECT count(*) FROM kbsearch.kb_articles") == articles
        connection.execute("ALTER TABLE kbsearch.kb_articles ADD COLUMN more integer")
    with pytest.raises(StaleError):
        refresh(store, alone)
    prepare(store, alone)
    with store.connect(alone.name) as connection:
        assert scalar(connection, "SELECT count(*) FROM information_schema.columns WHERE column_name = 'more'") == 0
