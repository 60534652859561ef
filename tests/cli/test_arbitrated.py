"""What the commands say of a search that arbitrates: its verdict in a line, and a refusal where there is no answer."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from kbsearch import Chunk, KBSearch, arbitration
from kbsearch.cli import app
from kbsearch.embed import LocalEmbedder
from kbsearch.ingest import Document, Source, ingest

ORG = "disputed store"
QUESTION = "money back"
DIRECTIVE = "The legs disagree and the best similarity reaches the threshold: the vector leg is trusted."
ESCALATION = "there is no answer until somebody decides"


@pytest.fixture(scope="module")
def dsn(shared_database: str) -> str:
    """A question whose words are in articles on other topics; the profiles trusts@1 and escalates@1, and a log."""
    documents = [
        Document("refunds", "Refunds", "We reimburse the full purchase price of goods that are returned to us."),
        Document("chair", "A chair", "Lean back. It is worth the money, and the back is adjustable."),
        Document("hose", "A hose", "It rolls itself back, and costs little money."),
    ]
    with psycopg.connect(shared_database, autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO kbsearch.organizations (name, arbitration_log) VALUES (%s, 'text') RETURNING id", [ORG]
        ).fetchone()
        assert row is not None
        ingest(connection, row[0], [Source("store", documents)], embedder=LocalEmbedder())
        for name, rule in (("trusts", "apply_rule"), ("escalates", "escalate")):
            connection.execute(
                "SELECT kbsearch.create_kb_arbitration_policy_v1(p_org_id => %s, p_name => %s, p_similarity_threshold => 0.2, p_severe_rule => %s)",
                [row[0], name, rule],
            )
            connection.execute(
                "SELECT kbsearch.create_kb_ranking_profile_v1(%s, %s, 'arbitrate', p_policy => %s)",
                [row[0], name, name],
            )
    return shared_database


def run(dsn: str, command: str, profile: str, *arguments: str, code: int = 0) -> Result:
    words = [command, QUESTION, "--dsn", dsn, "--org", ORG, "--profile", profile, *arguments]
    result = CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def logged(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            """SELECT l.manifest ->> 'verdict', l.query_text FROM kbsearch.kb_arbitration_log AS l
            INNER JOIN kbsearch.organizations AS o ON o.id = l.org_id
            WHERE o.name = %s ORDER BY l.id""",
            [ORG],
        ).fetchall()


@pytest.mark.parametrize(
    "command", [("search",), ("pages", "--size", "1"), ("explain",), ("explain", "--why", "refunds")]
)
def test_the_verdict_is_a_line(dsn: str, command: tuple[str, ...]) -> None:
    lines = run(dsn, command[0], "trusts@1", *command[1:]).stdout.splitlines()
    assert f"Arbitration: vector_privileged (severe.apply_rule.vector of trusts@1). {DIRECTIVE}" in lines
    plain = run(dsn, command[0], "weighted@1", *command[1:]).stdout
    assert "Arbitration" not in plain


def test_a_leg_that_was_not_chosen_is_said(dsn: str) -> None:
    assert "No keyword leg: the arbitration trusts the other leg." in run(dsn, "search", "trusts@1").stdout


def test_json_has_verdict_and_manifest(dsn: str) -> None:
    page = json.loads(run(dsn, "search", "trusts@1", "--json", "--limit", "1").stdout)
    assert (page["verdict"], page["manifest"]["directive"]) == ("vector_privileged", DIRECTIVE)
    assert arbitration.verify(page["manifest"], QUESTION) == ()
    explained = json.loads(run(dsn, "explain", "trusts@1", "--json").stdout)
    assert (explained["verdict"], explained["manifest"]) == (page["verdict"], page["manifest"])
    walked = json.loads(run(dsn, "pages", "trusts@1", "--json").stdout)
    assert (walked["verdict"], walked["directive"], walked["holds"]) == (page["verdict"], DIRECTIVE, True)
    later = run(dsn, "search", "trusts@1", "--limit", "1", "--cursor", page["next_cursor"]).stdout
    assert "Arbitration: vector_privileged, as on the first page" in later.splitlines()


@pytest.mark.parametrize(
    "command",
    [
        ("search",),
        ("pages",),
        ("explain",),
        ("explain", "--why", "chair"),
        ("explain", "--candidates"),
        ("search", "--json"),
    ],
)
def test_an_escalated_search_is_refused_with_advice_and_can_be_fused(dsn: str, command: tuple[str, ...]) -> None:
    result = run(dsn, command[0], "escalates@1", *command[1:], code=3)
    assert "kbsearch: the legs disagree by 0." in result.stderr
    assert "over the limit of arbitration policy escalates@1 (KBESC)" in result.stderr
    assert ESCALATION in result.stderr
    assert "--exploratory" in result.stderr
    if "--json" in command:
        assert json.loads(result.stdout)["verdict"] == "escalated"
    else:
        assert "Nothing found" not in result.output
    fused = run(dsn, command[0], "escalates@1", *command[1:], "--exploratory").stdout
    if command != ("explain", "--candidates"):
        assert "exploratory_fused" in fused


def test_a_search_is_logged_when_told(dsn: str) -> None:
    before = logged(dsn)
    run(dsn, "search", "trusts@1")
    assert logged(dsn) == before
    page = json.loads(run(dsn, "search", "trusts@1", "--log-arbitration", "--json", "--limit", "1").stdout)
    run(dsn, "search", "trusts@1", "--log-arbitration", "--limit", "1", "--cursor", page["next_cursor"])
    run(dsn, "search", "escalates@1", "--log-arbitration", code=3)
    assert logged(dsn) == [*before, ("vector_privileged", QUESTION), ("escalated", QUESTION)]


def test_without_a_log_that_is_refused(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute("INSERT INTO kbsearch.organizations (name) VALUES ('quiet') RETURNING id").fetchone()
    assert row is not None
    KBSearch(connection).upsert_article(row[0], external_ref="a", chunks=[Chunk("reset")])
    words = ["search", "reset", "--dsn", str(connection.info.dsn), "--log-arbitration", "--profile"]
    refused = CliRunner().invoke(app, [*words, "arbitrate@1"])
    assert refused.exit_code == 3
    assert "keeps no log of arbitrations (KBARB)" in refused.stderr
    assert CliRunner().invoke(app, [*words, "keyword@1"]).exit_code == 0
