"""Two organisations: what one does, and all that the other is told."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.load import Database, arguments, call
from tests.oracle import BUILT_IN, Search
from tests.strategies import Coverage, Organisation, examples, questions_of

INPUTS = tuple(f"input {number}" for number in range(6))
"""Texts that models were given; A's cache has the first two, and B's is filled with any of them."""
_DIGEST = "pg_catalog.sha256(pg_catalog.convert_to(i.input, 'UTF8'))"

ACTIONS: dict[str, LiteralString] = {
    "edit": "UPDATE kbsearch.kb_article_chunks SET content = content || ' lamp lamp' WHERE org_id = %(org)s",
    "retitle": "UPDATE kbsearch.kb_articles SET title = 'lamp milk' WHERE org_id = %(org)s AND id %% 2 = 0",
    "unpublish": "UPDATE kbsearch.kb_articles SET published = NOT published WHERE org_id = %(org)s",
    "delete": "DELETE FROM kbsearch.kb_articles WHERE org_id = %(org)s AND id %% 3 = 0",
    "delete by function": "SELECT kbsearch.delete_kb_article_v1(%(org)s, (SELECT max(a.id) FROM kbsearch.kb_articles AS a WHERE a.org_id = %(org)s))",
    "delete all": "DELETE FROM kbsearch.kb_articles WHERE org_id = %(org)s",
    "insert": """WITH article AS (INSERT INTO kbsearch.kb_articles (org_id, id, title)
        SELECT %(org)s, coalesce(max(a.id), 0) + 1, 'stone' FROM kbsearch.kb_articles AS a WHERE a.org_id = %(org)s RETURNING id)
    INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
    SELECT %(org)s, last.id + 1, article.id, 'lamp cloud'
    FROM article, (SELECT coalesce(max(c.id), 0) AS id FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org)s) AS last""",
    "upsert": """SELECT kbsearch.upsert_kb_article_v1(%(org)s, 'ref-upserted', 'lamp', p_space_id => %(space)s,
        p_chunks => pg_catalog.jsonb_build_array(
        pg_catalog.jsonb_build_object('content', 'milk stone', 'embedding', pg_catalog.to_jsonb(%(vector)s::text::float4[]))))""",
    "reserve": "SELECT count(*) FROM kbsearch.reserve_kb_articles_v1(%(org)s, '{ref-1,ref-2,ref-7,ref-995}')",
    "write": """SELECT kbsearch.write_kb_articles_v1(%(org)s, pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
        'external_ref', r.external_ref, 'kind', 'policy', 'title', 'cloud', 'body', '', 'language', NULL, 'published', true, 'metadata', '{}'::jsonb,
        'source_uri', NULL, 'content_sha256', NULL,
        'chunks', '[{"content": "lamp cloud", "heading": null, "input_sha256": null}]'::jsonb)), %(space)s)
    FROM kbsearch.reserve_kb_articles_v1(%(org)s, '{written}') AS r""",
    "bulk": """WITH article AS (INSERT INTO kbsearch.kb_articles (org_id, id, title) VALUES (%(org)s, 2 ^ 49, 'lamp')
        ON CONFLICT (org_id, id) DO UPDATE SET title = 'milk' RETURNING id)
    INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
    SELECT %(org)s, 2 ^ 49 + g, article.id, 'lamp stone ' || g FROM article, generate_series(1, 300) AS g ON CONFLICT DO NOTHING""",
    "embed": """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding)
    SELECT c.org_id, %(space)s, c.article_id, c.id, %(vector)s::ext.vector FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org)s
    ON CONFLICT (org_id, article_id, chunk_id, space_id) DO UPDATE SET embedding = excluded.embedding""",
    "embed as asked": """INSERT INTO kbsearch.kb_article_embeddings (org_id, space_id, article_id, chunk_id, embedding)
    SELECT c.org_id, %(searched)s, c.article_id, c.id, %(question)s::ext.vector FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org)s
    ON CONFLICT (org_id, article_id, chunk_id, space_id) DO UPDATE SET embedding = excluded.embedding""",
    "forget vectors": "DELETE FROM kbsearch.kb_article_embeddings WHERE org_id = %(org)s",
    "another space": "UPDATE kbsearch.organizations SET active_space_id = %(space)s WHERE id = %(org)s",
    "no space": "UPDATE kbsearch.organizations SET active_space_id = NULL WHERE id = %(org)s",
    "activate space": "SELECT kbsearch.activate_kb_space_v1(%(org)s, %(space)s)",
    "drop space": "SELECT kbsearch.drop_kb_space_v1(%(org)s, %(space)s)",
    "another language": "UPDATE kbsearch.organizations SET language = 'simple' WHERE id = %(org)s",
    "languages": "UPDATE kbsearch.kb_articles SET language = 'dutch' WHERE org_id = %(org)s",
    "reference length": "UPDATE kbsearch.organizations SET reference_length = 7 WHERE id = %(org)s",
    "profile": "SELECT kbsearch.create_kb_ranking_profile_v1(%(org)s, 'own', 'keyword', 'term_count', 0, 1, 60, '{\"*\": 0}')",
    "profile of another name": "SELECT kbsearch.create_kb_ranking_profile_v1(%(org)s, 'foreign', 'keyword', 'term_count', 0, 1)",
    "policy": "SELECT kbsearch.create_kb_arbitration_policy_v1(%(org)s, 'own', p_top_k => 1)",
    "policy of another name": "SELECT kbsearch.create_kb_arbitration_policy_v1(%(org)s, 'foreign', p_top_k => 1)",
    "pin": "UPDATE kbsearch.organizations SET ranking_profile = 'keyword@1' WHERE id = %(org)s",
    "compact": "SELECT kbsearch.compact_kb_postings_v1(%(org)s)",
    "keyword blocks": "SELECT kbsearch.build_kb_keyword_blocks_v1(%(org)s, kbsearch.begin_kb_keyword_blocks_v1(%(org)s, 1))",
    "rebuild": "SELECT kbsearch.rebuild_kb_index_v1(%(org)s)",
    "calibrate": "SELECT kbsearch.calibrate_kb_corpus_v1(%(org)s)",
    "reanalyse": "SELECT kbsearch.reanalyze_kb_chunks_v1(%(org)s)",
    "search": "SELECT count(*) FROM kbsearch.search_kb_hybrid_v1(p_org_id => %(org)s, p_query_text => 'lamp')",
    "search by its index": """SELECT count(*) FROM kbsearch.search_kb_hybrid_v1(p_org_id => %(org)s, p_query_text => 'lamp stone',
        p_query_embedding => %(vector)s::ext.vector)""",
    "store a ranking": "SELECT count(*) FROM kbsearch.open_kb_search_v1(p_org_id => %(org)s, p_query_text => 'lamp')",
    "store few rankings": "UPDATE kbsearch.organizations SET snapshot_limit = 1 WHERE id = %(org)s",
    "expire": "UPDATE kbsearch.kb_search_snapshots SET expires_at = created_at WHERE org_id = %(org)s",
    "sweep": "SELECT kbsearch.sweep_kb_searches_v1(%(org)s)",
    "close": "SELECT kbsearch.close_kb_search_v1(%(org)s, s.id) FROM kbsearch.kb_search_snapshots AS s WHERE s.org_id = %(org)s",
    "cache": f"""WITH inputs AS (INSERT INTO kbsearch.kb_embedding_inputs (org_id, input_sha256, input)
        SELECT %(org)s, {_DIGEST}, i.input FROM unnest(%(inputs)s::text[]) AS i (input) ON CONFLICT DO NOTHING)
    INSERT INTO kbsearch.kb_embedding_cache (org_id, input_sha256, space_id, role, embedding)
    SELECT %(org)s, {_DIGEST}, %(searched)s, 'passage', %(question)s::ext.vector
    FROM unnest(%(inputs)s::text[]) AS i (input) ON CONFLICT DO NOTHING""",
    "forget cache": "DELETE FROM kbsearch.kb_embedding_inputs WHERE org_id = %(org)s",
    "count cache": """INSERT INTO kbsearch.kb_embedding_counts (org_id, space_id, role, hits) VALUES (%(org)s, %(searched)s, 'passage', 7)
    ON CONFLICT (org_id, space_id, role) DO UPDATE SET hits = 7""",
    "keep a log": "UPDATE kbsearch.organizations SET arbitration_log = 'text' WHERE id = %(org)s",
    "log": """INSERT INTO kbsearch.kb_arbitration_log (org_id, logged_at, manifest)
    SELECT %(org)s, '2001-01-01 00:00:00+00', l.manifest
    FROM kbsearch.kb_arbitration_log AS l WHERE l.org_id <> %(org)s ORDER BY l.org_id, l.id LIMIT 5""",
    "note a source": """INSERT INTO kbsearch.kb_ingest_sources (org_id, name) VALUES (%(org)s, 'the same source')
    ON CONFLICT (org_id, name) DO UPDATE SET state = '{"n": 7}'""",
    "approximate": """WITH made AS (SELECT kbsearch.create_kb_ann_index_v1(o.id) FROM kbsearch.organizations AS o
        WHERE o.id = %(org)s AND o.active_space_id IS NOT NULL)
    UPDATE kbsearch.organizations SET retrieval = 'ann', ann_window = 5 WHERE id = %(org)s AND EXISTS (SELECT FROM made)""",
    "retrieval": "UPDATE kbsearch.organizations SET retrieval = CASE retrieval WHEN 'ann' THEN 'auto' ELSE 'ann' END WHERE id = %(org)s",
    "exact": "SELECT kbsearch.drop_kb_ann_index_v1(%(org)s)",
    "cursor key": "SELECT kbsearch.set_kb_cursor_key_v1(%(org)s, p_keep => 0)",
    "remove": "DELETE FROM kbsearch.organizations WHERE id = %(org)s",
}  # fmt: skip
"""What B does: statements about the organisation %(org)s. Some are refused now and then, for instance as a space is not whole."""

_OTHERS: dict[str, LiteralString] = {
    "source": "SELECT s::text FROM kbsearch.get_kb_source_v1(%(org)s, %(article)s) AS s",
    "source of the other's": "SELECT s::text FROM kbsearch.get_kb_source_v1(%(org)s, %(foreign_article)s) AS s",
    "stored": "SELECT kbsearch.fetch_kb_page_v1(%(org)s, %(snapshot)s, 1000)::text",
    "stored, next page": "SELECT kbsearch.fetch_kb_page_v1(%(org)s, %(snapshot)s, 2, p_cursor => %(stored_cursor)s)::text",
    "stored by the other": "SELECT kbsearch.fetch_kb_page_v1(%(org)s, %(foreign_snapshot)s, 1000)::text",
    "stored rankings": "SELECT s.id FROM kbsearch.kb_search_snapshots AS s WHERE s.org_id = %(org)s ORDER BY s.id",
    "swept": "SELECT kbsearch.sweep_kb_searches_v1(%(org)s)",
    "spaces": "SELECT s::text FROM kbsearch.list_kb_spaces_v1(%(org)s) AS s",
    "escalations": "SELECT s::text FROM kbsearch.list_kb_escalations_v1(%(org)s) AS s",
    "disagreement": "SELECT s::text FROM kbsearch.kb_disagreement_trend_v1(%(org)s) AS s",
    "profiles": "SELECT s::text FROM kbsearch.resolve_kb_profile_v1(%(org)s, 'own@1') AS s",
    "profile of another name": "SELECT s::text FROM kbsearch.resolve_kb_profile_v1(%(org)s, 'foreign@1') AS s",
    "policy of another name": "SELECT kbsearch.resolve_kb_policy_v1(%(org)s, 'foreign@1')::text",
    "approximate indexes": "SELECT s::text FROM kbsearch.list_kb_ann_indexes_v1(%(org)s) AS s",
    "entries": "SELECT s::text FROM kbsearch.list_kb_entries_v1(%(org)s) AS s ORDER BY 1",
    "postings": """SELECT p.lexeme, sum(p.sign * p.entry_count) FROM kbsearch.kb_postings AS p WHERE p.org_id = %(org)s GROUP BY p.lexeme
    HAVING sum(p.sign * p.entry_count) <> 0 ORDER BY p.lexeme""",
    "statistics": "SELECT sum(s.chunk_count), sum(s.occurrence_count) FROM kbsearch.kb_corpus_stats AS s WHERE s.org_id = %(org)s",
    "the organisation": "SELECT o::text FROM kbsearch.organizations AS o WHERE o.id = %(org)s",
    "cache": f"""SELECT i.input, k.embedding::text FROM unnest(%(inputs)s::text[]) AS i (input)
    INNER JOIN kbsearch.kb_embedding_cache AS k ON k.input_sha256 = {_DIGEST} AND k.org_id = %(org)s
        AND k.space_id = %(searched)s ORDER BY i.input""",
    "counts of the cache": "SELECT n.hits, n.misses FROM kbsearch.kb_embedding_counts AS n WHERE n.org_id = %(org)s",
    "sources": "SELECT s.name, s.state FROM kbsearch.kb_ingest_sources AS s WHERE s.org_id = %(org)s",
}  # fmt: skip

# What A would get of its cache if it wrote now; rolled back.
_FROM_CACHE: LiteralString = f"""SELECT kbsearch.write_kb_articles_v1(%(org)s, pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object(
    'external_ref', r.external_ref, 'kind', 'policy', 'title', 'cloud', 'body', '', 'language', NULL, 'published', true, 'metadata', '{{}}'::jsonb,
    'source_uri', NULL, 'content_sha256', NULL, 'chunks', (
        SELECT jsonb_agg(pg_catalog.jsonb_build_object('content', i.input, 'heading', NULL, 'input_sha256', pg_catalog.encode({_DIGEST}, 'hex')))
        FROM unnest(%(inputs)s::text[]) AS i (input)
    ))), %(searched)s)
FROM kbsearch.reserve_kb_articles_v1(%(org)s, '{{from the cache}}') AS r"""

ASKED = frozenset({
    "search_kb_hybrid_v1", "search_kb_hybrid_page_v1", "explain_kb_search_v1", "explain_kb_candidates_v1", "explain_kb_article_v1",
    "arbitrate_kb_search_v1", "get_kb_source_v1", "fetch_kb_page_v1", "list_kb_spaces_v1", "list_kb_escalations_v1", "kb_disagreement_trend_v1",
    "resolve_kb_profile_v1", "resolve_kb_policy_v1", "list_kb_entries_v1", "list_kb_ann_indexes_v1",
})  # fmt: skip
"""Functions whose answers to A are compared."""

Told = dict[str, Any]


@dataclass(slots=True)
class World:
    """A, with what it has asked for before B does anything.

    Attributes:
        db: where.
        org_id: A.
        search: what A asks.
        given: what its other questions are about.
    """

    db: Database
    org_id: int
    search: Search
    given: dict[str, Any]

    def ask(self, statement: LiteralString, parameters: Mapping[str, Any]) -> Any:
        """Rows, or the whole error."""
        try:
            return self.db.connection.execute(statement, parameters).fetchall()
        except psycopg.Error as error:
            diag = error.diag
            return (
                error.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint, diag.schema_name, diag.table_name, diag.constraint_name,
            )  # fmt: skip

    def told(self) -> Told:
        """All that A is told, byte for byte."""
        given = arguments(self.org_id, self.search)
        few = {**given, "p_limit": 3}
        whole = {name: value for name, value in given.items() if name != "p_limit"}
        unlimited = {name: value for name, value in whole.items() if name != "p_kind_quota"}
        asked: dict[str, tuple[LiteralString, Mapping[str, Any]]] = {
            "rows": (f"SELECT s::text FROM {call('search_kb_hybrid_v1', given)} AS s", given),
            "page": (f"SELECT {call('search_kb_hybrid_page_v1', few)}::text", few),
            "explained": (f"SELECT e::text FROM {call('explain_kb_search_v1', given)} AS e", given),
            "candidates": (f"SELECT e::text FROM {call('explain_kb_candidates_v1', whole)} AS e", whole),
            "no such article": (f"SELECT {call('explain_kb_article_v1', given)[:-1]}, p_article_id => -1)::text", given),
            "article": (
                f"SELECT {call('explain_kb_article_v1', given)[:-1]}, p_article_id => %(article)s)::text",
                {**given, **self.given},
            ),
            "the other's article": (
                f"SELECT {call('explain_kb_article_v1', given)[:-1]}, p_article_id => %(foreign_article)s)::text",
                {**given, **self.given},
            ),
            "arbitrated": (f"SELECT s::text FROM {call('arbitrate_kb_search_v1', unlimited)} AS s", unlimited),
        }  # fmt: skip
        if self.given["cursor"] is not None:
            after = {**few, "p_cursor": self.given["cursor"]}
            asked["next page"] = (f"SELECT {call('search_kb_hybrid_page_v1', after)}::text", after)
        for name, changed in (
            ("refused limit", {"p_limit": -1}),
            ("refused profile", {"p_profile": "nothing@1"}),
            ("the other's profile", {"p_profile": "foreign@1"}),
            ("refused cursor", {"p_cursor": "x"}),
            ("the other's cursor", {"p_cursor": self.given["foreign_cursor"] or "x"}),
            ("refused quota", {"p_kind_quota": Jsonb([])}),
            ("refused space", {"p_space_id": -1}),
        ):
            wrong = {**given, **changed}
            asked[name] = (f"SELECT s::text FROM {call('search_kb_hybrid_v1', wrong)} AS s", wrong)
        for name, statement in _OTHERS.items():
            asked[name] = (statement, self.given)
        told = {name: self.ask(*one) for name, one in asked.items()}
        with self.db.connection.transaction(force_rollback=True):
            told["got from the cache"] = self.ask(_FROM_CACHE, self.given)
        return told


@contextmanager
def standing(db: Database, mine: tuple[Organisation, Search], other: Organisation) -> Iterator[tuple[World, int]]:
    """A, with a page read, a ranking stored, a cache and a log; and B, of which A knows an article, a cursor and a stored ranking."""
    organisation, search = mine
    # ids that are handed out are none that are given
    for sequence in ("kb_articles_id_seq", "kb_article_chunks_id_seq"):
        db.connection.execute(
            "SELECT pg_catalog.setval(%s, greatest(pg_catalog.nextval(%s), 2 ^ 40)::bigint)",
            [f"kbsearch.{sequence}"] * 2,
        )
    with db.loaded(organisation, search.profile) as org_id, db.loaded(other) as foreign:
        searched = db.spaces[organisation.dimensions][0]
        ones = "[" + ",".join(["1"] * organisation.dimensions) + "]"
        given: dict[str, Any] = {
            "org": org_id,
            "searched": searched,
            "article": organisation.articles[0].id,
            "foreign_article": max(article.id for article in other.articles),
            "inputs": list(INPUTS),
        }
        cached = {**given, "inputs": list(INPUTS[:2]), "question": ones}
        db.connection.execute(ACTIONS["cache"], cached)
        db.connection.execute(
            "UPDATE kbsearch.organizations SET arbitration_log = 'text', name = 'organisation ' || id WHERE id = %(org)s",
            given,
        )
        whole = {
            name: value for name, value in arguments(org_id, search).items() if name not in ("p_limit", "p_kind_quota")
        }
        if search.profile.fusion == "arbitrate":
            db.connection.execute(
                f"SELECT kbsearch.log_kb_arbitration_v1(%(p_org_id)s, a.manifest) FROM {call('arbitrate_kb_search_v1', whole)} AS a (manifest) "
                "WHERE a.manifest IS NOT NULL",
                whole,
            )
        for key, owner, question in (
            ("", org_id, search),
            ("foreign_", foreign, Search(words=("lamp", "stone", "milk", "cloud"), profile=BUILT_IN[0])),
        ):
            opening = {name: value for name, value in arguments(owner, question).items() if name != "p_limit"}
            given[f"{key}snapshot"] = db.value(
                f"SELECT s.snapshot FROM {call('open_kb_search_v1', opening)} AS s", opening
            )
            given[f"{key}cursor"] = db.page(owner, question, p_limit=1)["next_cursor"]
        first = db.value("SELECT kbsearch.fetch_kb_page_v1(%(org)s, %(snapshot)s, 1)", given)
        given["stored_cursor"] = first["next_cursor"]
        try:
            yield World(db, org_id, search, given), foreign
        finally:
            for space in db.spaces[other.dimensions]:
                db.connection.execute("SELECT kbsearch.drop_kb_ann_index_v1(%s, %s)", [foreign, space])


def act(world: World, foreign: int, dimensions: int, action: str, chance: random.Random) -> None:
    """B does something, or is refused."""
    vector = world.search.vector
    size = world.db.spaces
    own = next(number for number, spaces in size.items() if world.given["searched"] in spaces)
    parameters = {
        "org": foreign,
        "space": chance.choice(size[dimensions]),
        "vector": f"[{','.join(['1'] + ['2'] * (dimensions - 1))}]",
        "searched": world.given["searched"],
        "question": f"[{','.join(str(part) for part in vector or (1, *[0] * (own - 1)))}]",
        "inputs": chance.sample(INPUTS, 3),
    }
    if action == "upsert":
        parameters["vector"] = parameters["vector"].replace("[", "{").replace("]", "}")
    try:
        world.db.connection.execute(ACTIONS[action], parameters)
    except psycopg.DatabaseError as error:
        if not (error.sqlstate or "").startswith("KB"):
            raise


@dataclass(slots=True)
class Hunt:
    """Draws organisations, questions and actions, and compares A's answers after each action with those before.

    Attributes:
        db: where.
        actions: what B may do; all by default.
        checks: answers compared.
        acted: how often B did something.
        more: gives more answers to compare.
        shrink: look for the smallest counterexample.
        coverage: what the worlds had.
    """

    db: Database
    actions: tuple[str, ...] = tuple(ACTIONS)
    checks: int = 0
    acted: int = 0
    more: Callable[[World], Told] | None = None
    shrink: bool = True
    coverage: Coverage = field(default_factory=Coverage)

    def run(self, worlds: int, *, number: int = 0) -> None:
        """Draw so many worlds.

        Args:
            worlds: how many; ten times as many under HYPOTHESIS_PROFILE=long.
            number: which round this is: another one draws others.
        """

        phases = list(Phase) if self.shrink else [Phase.explicit, Phase.generate]

        @seed(number)
        @settings(examples(worlds), phases=phases, report_multiple_bugs=self.shrink)
        @given(
            questions_of(least_articles=4),
            questions_of(),
            st.lists(st.sampled_from(self.actions), min_size=1, max_size=6),
            st.integers(0, 2**16),
        )
        def compare(
            mine: tuple[Organisation, Search], other: tuple[Organisation, Search], actions: list[str], seed: int
        ) -> None:
            self.compare(mine, other[0], actions, random.Random(seed))

        compare()

    def compare(
        self, mine: tuple[Organisation, Search], other: Organisation, actions: list[str], chance: random.Random
    ) -> None:
        """One world: A's answers after each action are those from before."""
        with standing(self.db, mine, other) as (world, foreign):
            before = self._told(world)
            for count, action in enumerate(actions, 1):
                act(world, foreign, other.dimensions, action, chance)
                self.acted += 1
                after = self._told(world)
                assert after.keys() == before.keys()
                for name, told in before.items():
                    self.checks += 1
                    assert after[name] == told, f"{name}, after {actions[:count]}: {told} became {after[name]}"
                if action == "remove":
                    break
        answered = sum(isinstance(told, list) and bool(told) for told in before.values())
        self.coverage.example(
            rows=len(before["rows"]) > 2, cursor="next page" in before, answered=2 * answered > len(before)
        )

    def _told(self, world: World) -> Told:
        told = world.told()
        return told if self.more is None else {**told, **self.more(world)}


def wanted(usual: int) -> int:
    """How many checks are wanted: KBSEARCH_TEST_CHECKS, or the usual number."""
    return int(os.environ.get("KBSEARCH_TEST_CHECKS", usual))
