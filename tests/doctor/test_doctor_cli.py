from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from kbsearch.cli import app
from tests.doctor.patient import Patient


def run(patient: Patient, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(
        app, ["doctor", "--dsn", patient.dsn, *arguments], catch_exceptions=False, env={"COLUMNS": "120"}
    )
    assert result.exit_code == code, result.output
    return result.stdout if code in (0, 1) else result.output


def test_a_healthy_database_is_exit_code_0(patient: Patient) -> None:
    text = run(patient)
    assert "derived.postings" in text
    assert "equal in 1 organisation" in text
    assert text.splitlines()[-1].endswith("0 warning, 0 problem")


def test_a_problem_is_exit_code_1_with_commands_that_can_be_copied(patient: Patient) -> None:
    patient.run("DELETE FROM kbsearch.kb_postings")
    text = run(patient, "--check", "derived", code=1)
    assert "What to do" in text
    assert "derived.postings, organisation shop" in text
    assert "    SELECT kbsearch.rebuild_kb_index_v1(1);" in text.splitlines()


def test_a_warning_is_exit_code_0(patient: Patient) -> None:
    patient.run("ALTER TABLE kbsearch.kb_postings SET (autovacuum_enabled = off)")
    text = run(patient, "--check", "settings.autovacuum")
    assert text.splitlines()[-1] == "0 ok, 0 unchecked, 1 warning, 0 problem"
    assert "    ALTER TABLE kbsearch.kb_postings RESET (autovacuum_enabled);" in text.splitlines()


def test_json_has_everything(patient: Patient) -> None:
    patient.run("DELETE FROM kbsearch.kb_postings")
    report = json.loads(run(patient, "--json", code=1))
    assert report["schema"] == "kbsearch"
    assert report["counts"]["problem"] == sum(one["level"] == "problem" for one in report["findings"]) > 0
    (finding,) = [one for one in report["findings"] if one["check"] == "derived.postings"]
    assert finding["organization"] == "shop"
    assert finding["level"] == "problem"
    assert finding["expected"]
    assert finding["advice"] == "SELECT kbsearch.rebuild_kb_index_v1(1);"
    assert finding["details"]["missing"] > 0


def test_many_findings_of_a_kind_are_folded_for_people_and_not_for_programs(patient: Patient) -> None:
    for number in range(12):
        patient.organization(f"number {number}", 1, vectors=False)
    patient.run("DELETE FROM kbsearch.kb_postings")
    text = run(patient, "--check", "derived.postings", code=1)
    assert "derived.postings: 3 more problem" in text
    assert text.count("rebuild_kb_index_v1") == 10
    assert len(json.loads(run(patient, "--check", "derived.postings", "--json", code=1))["findings"]) == 13


def test_control_characters_of_a_name_are_not_passed_on(patient: Patient) -> None:
    patient.run("UPDATE kbsearch.organizations SET name = E'\\x1b[31mred'", "DELETE FROM kbsearch.kb_postings")
    text = run(patient, "--check", "derived.postings", code=1)
    assert "\x1b[31mred" not in text
    assert "\N{REPLACEMENT CHARACTER}[31mred" in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--check", "nonsense"], 2, "no check or group"),
        (["--role", "nobody_of_that_name"], 2, "no role"),
        (["--schema", "Not A Name"], 2, "Not A Name"),
        (["--org", "nix"], 3, "nix"),
    ],
)
def test_a_wrong_command_line(patient: Patient, arguments: list[str], code: int, said: str) -> None:
    assert said in run(patient, *arguments, code=code)


def test_a_database_that_cannot_be_reached() -> None:
    result = CliRunner().invoke(app, ["doctor", "--dsn", "host=/nonexistent dbname=x"])
    assert result.exit_code == 4
