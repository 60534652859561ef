"""What every function of ours states about itself, read from the catalog and from the files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kbsearch import migrate
from kbsearch.maintenance import BLOCKS_DUE

FUNCTIONS = sorted((migrate.sql_root() / "functions").rglob("*.sql"))
RANKING = ("rank_kb_articles_v1", "rank_kb_general_v1")
"""Where chunks become articles and articles get their places."""
HEADER = re.compile(
    r"^CREATE FUNCTION kbsearch\.(?P<name>\w+)\(.*?^LANGUAGE (?P<language>sql|plpgsql) (?P<volatility>IMMUTABLE|STABLE|VOLATILE) "
    r"PARALLEL (?P<parallel>SAFE|RESTRICTED|UNSAFE)(?: SECURITY (?P<security>INVOKER|DEFINER))?(?: ROWS \d+)?(?: COST \d+)?$",
    re.MULTILINE | re.DOTALL,
)


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        connection.execute("SET LOCAL search_path = ''")
        return connection.execute(query.encode()).fetchall()


def code(text: str) -> str:
    """The text without comments."""
    return re.sub(r"--[^\n]*", "", text)


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.stem)
def test_a_file_creates_the_one_function_it_is_named_after(file: Path) -> None:
    created = re.findall(
        r"^CREATE (?:OR REPLACE )?FUNCTION kbsearch\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert created == [file.stem]
    assert re.fullmatch(r"\w+_v[1-9]\d*", file.stem)


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.stem)
def test_a_file_states_language_volatility_and_parallel_safety(file: Path) -> None:
    header = HEADER.search(file.read_text(encoding="utf-8"))
    assert header is not None, "CREATE FUNCTION … / LANGUAGE … <volatility> PARALLEL … [SECURITY …]"
    assert header["name"] == file.stem


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.stem)
def test_a_file_replaces_nothing_and_selects_no_star(file: Path) -> None:
    text = code(file.read_text(encoding="utf-8"))
    assert "OR REPLACE" not in text
    assert not re.search(r"SELECT\s+(\w+\.)?\*", text)


def test_every_function_has_a_comment(shared_database: str) -> None:
    assert (
        rows(
            shared_database,
            "SELECT p.oid::regprocedure FROM pg_proc AS p WHERE p.pronamespace = 'kbsearch'::regnamespace "
            "AND coalesce(obj_description(p.oid, 'pg_proc'), '') = ''",
        )
        == []
    )


def test_every_table_has_a_comment(shared_database: str) -> None:
    assert (
        rows(
            shared_database,
            "SELECT c.oid::regclass FROM pg_class AS c WHERE c.relnamespace = 'kbsearch'::regnamespace AND c.relkind IN ('r', 'v') "
            "AND coalesce(obj_description(c.oid, 'pg_class'), '') = ''",
        )
        == []
    )


def test_every_installed_function_has_its_file(shared_database: str) -> None:
    installed = {
        row[0]
        for row in rows(shared_database, "SELECT proname FROM pg_proc WHERE pronamespace = 'kbsearch'::regnamespace")
    }
    assert installed == {file.stem for file in FUNCTIONS}


def test_the_catalog_says_what_the_files_say(shared_database: str) -> None:
    installed = {
        name: (volatility, parallel, definer)
        for name, volatility, parallel, definer in rows(
            shared_database,
            "SELECT proname, provolatile::text, proparallel::text, prosecdef FROM pg_proc WHERE pronamespace = 'kbsearch'::regnamespace",
        )
    }
    for file in FUNCTIONS:
        header = HEADER.search(file.read_text(encoding="utf-8"))
        assert header is not None
        stated = (header["volatility"][0].lower(), header["parallel"][0].lower(), header["security"] == "DEFINER")
        assert installed[file.stem] == stated, file.stem


def test_no_two_functions_share_a_name(shared_database: str) -> None:
    assert (
        rows(
            shared_database,
            "SELECT proname FROM pg_proc WHERE pronamespace = 'kbsearch'::regnamespace GROUP BY proname HAVING count(*) > 1",
        )
        == []
    )


def test_security_definer_is_for_pinned_trigger_functions_only(shared_database: str) -> None:
    definers = rows(
        shared_database,
        "SELECT proname, prorettype::regtype::text, coalesce(proconfig::text, '') FROM pg_proc "
        "WHERE pronamespace = 'kbsearch'::regnamespace AND prosecdef",
    )
    assert all(result == "trigger" and "search_path=" in settings for _, result, settings in definers)


def test_security_definer_functions_are_for_one_table_which_they_ask_for_first(shared_database: str) -> None:
    """So that nobody makes a trigger of them on a table of his own (tests/tenancy/test_leaks.py tries)."""
    definers = rows(
        shared_database,
        "SELECT p.proname, p.prosrc, array_agg(DISTINCT t.tgrelid::regclass::text) FROM pg_proc AS p LEFT JOIN pg_trigger AS t ON t.tgfoid = p.oid "
        "WHERE p.pronamespace = 'kbsearch'::regnamespace AND p.prosecdef GROUP BY p.oid",
    )
    assert definers
    for name, source, tables in definers:
        assert len(tables) == 1, (name, tables)
        first = source.split("\nBEGIN\n", 1)[1].split("END IF;", 1)[0].split()
        assert first == (
            f"IF TG_RELID <> '{tables[0]}'::regclass THEN PERFORM kbsearch.refuse_kb_trigger_v1(TG_RELID);".split()
        ), name


def test_plpgsql_functions_pin_their_search_path(shared_database: str) -> None:
    loose = rows(
        shared_database,
        "SELECT p.proname FROM pg_proc AS p INNER JOIN pg_language AS l ON l.oid = p.prolang "
        "WHERE p.pronamespace = 'kbsearch'::regnamespace AND l.lanname = 'plpgsql' AND coalesce(p.proconfig::text, '') !~ 'search_path='",
    )
    assert loose == []


def test_sql_functions_have_bodies_bound_when_they_are_created(shared_database: str) -> None:
    assert (
        rows(
            shared_database,
            "SELECT p.proname FROM pg_proc AS p INNER JOIN pg_language AS l ON l.oid = p.prolang "
            "WHERE p.pronamespace = 'kbsearch'::regnamespace AND l.lanname = 'sql' AND p.prosqlbody IS NULL",
        )
        == []
    )


def test_functions_call_no_function_that_is_not_installed_by_a_file(shared_database: str) -> None:
    called = {
        row[0]
        for row in rows(
            shared_database,
            "SELECT DISTINCT target.proname FROM pg_depend AS d "
            "INNER JOIN pg_proc AS caller ON d.classid = 'pg_catalog.pg_proc'::regclass AND caller.oid = d.objid "
            "INNER JOIN pg_proc AS target ON d.refclassid = 'pg_catalog.pg_proc'::regclass AND target.oid = d.refobjid "
            "WHERE caller.pronamespace = 'kbsearch'::regnamespace AND target.pronamespace = 'kbsearch'::regnamespace",
        )
    }
    assert called <= {file.stem for file in FUNCTIONS}


@pytest.mark.parametrize("name", RANKING)
def test_ranking_collapses_to_articles_and_ends_in_the_total_order(name: str) -> None:
    (file,) = (file for file in FUNCTIONS if file.stem == name)
    body = code(file.read_text(encoding="utf-8")).split("COMMENT ON")[0]
    (candidates,) = (file for file in FUNCTIONS if file.stem == "list_kb_candidates_v1")
    assert "DISTINCT ON (f.article_id)" in code(candidates.read_text(encoding="utf-8"))
    assert "list_kb_candidates_v1(" in body
    assert re.search(r"ORDER BY score DESC, article_id ASC;\s*END\s*\$\$;\s*$", body)


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.stem)
def test_what_decides_membership_is_ordered_by_a_unique_key(file: Path) -> None:
    """A cut (LIMIT, DISTINCT ON, a numbering of articles) has an order whose last key is an id."""
    body = code(file.read_text(encoding="utf-8"))
    for cut in re.finditer(r"ORDER BY ([^()]*?)\s+LIMIT( 1\s+OFFSET p_rank\b)?", body):
        if cut[2]:
            continue  # only the value at that place is taken, which rows that tie share
        assert re.search(r"(_id|\bid|\bblock_no|\bn|\bfield|\bcfgname|\bstart)( ASC| DESC)?$", cut[1].strip()), cut[0]
    for start in re.finditer(r"DISTINCT ON \([^)]*article_id\)", body):
        order = re.search(r"ORDER BY ([^()]*?)(?=\n\s*\)|;)", body[start.start() :])
        assert order is not None
        assert order[1].strip().endswith("chunk_id ASC"), order[0]


def test_search_functions_write_nothing(shared_database: str) -> None:
    found = dict(
        rows(
            shared_database,
            "SELECT proname, provolatile::text FROM pg_proc WHERE pronamespace = 'kbsearch'::regnamespace AND proname ~ '^search_kb_hybrid'",
        )
    )
    assert found == {"search_kb_hybrid_v1": "s", "search_kb_hybrid_page_v1": "s"}


ARGUMENTS = (
    "p_org_id bigint, p_query_text text, p_query_embedding ext.vector DEFAULT NULL::ext.vector, p_limit bigint DEFAULT 10, "
    "p_offset bigint DEFAULT 0, p_cursor text DEFAULT NULL::text, p_kinds text[] DEFAULT NULL::text[], "
    "p_kind_quota jsonb DEFAULT NULL::jsonb, p_metadata jsonb DEFAULT NULL::jsonb, "
    "p_min_score double precision DEFAULT NULL::double precision, p_profile text DEFAULT NULL::text, "
    "p_space_id bigint DEFAULT NULL::bigint, p_exploratory boolean DEFAULT false, "
    "p_language text DEFAULT NULL::text, p_highlight boolean DEFAULT false"
)


def test_the_signatures_of_the_entry_points_stay(shared_database: str) -> None:
    signatures = {
        name: (arguments, result)
        for name, arguments, result in rows(
            shared_database,
            "SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc "
            "WHERE pronamespace = 'kbsearch'::regnamespace AND proname ~ '^search_kb_hybrid'",
        )
    }
    table = (
        "TABLE(place bigint, article_id bigint, score double precision, chunk_id bigint, kind text, title text, excerpt text, "
        "excerpt_html text, inspectable boolean, external_ref text, source_uri text, metadata jsonb, vector_similarity double precision, "
        "keyword_score double precision, tied_with bigint, settled_by_identity boolean, cursor text)"
    )
    assert signatures["search_kb_hybrid_v1"] == (f"{ARGUMENTS}", table)
    assert signatures["search_kb_hybrid_page_v1"] == (ARGUMENTS, "jsonb")


def test_maintenance_and_compacting_agree_when_an_organisation_is_large(shared_database: str) -> None:
    """kbsearch maintain has compacted where blocks are due; compact_kb_postings_v1 makes them where it finds the organisation large."""
    ((source,),) = rows(shared_database, "SELECT prosrc FROM pg_proc WHERE proname = 'compact_kb_postings_v1'")
    made = re.findall(r"begin_kb_keyword_blocks_v1\(p_org_id, (\d+)\)", source)
    due = re.findall(r">= (\d+) FROM kbsearch\.kb_corpus_stats", BLOCKS_DUE)
    assert len(made) == 1
    assert made == due
