from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutants


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: str(mutant.name))
def test_every_mutant_fits_the_sql(mutant: mutants.Mutant) -> None:
    changed = mutants.apply(mutant)
    assert changed
    assert all((mutants.ROOT / test).exists() for test in mutant.tests)


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in mutants.MUTANTS]
    assert len(names) == len(set(names))


def test_a_mutant_that_no_longer_fits_is_an_error() -> None:
    stale = mutants.Mutant("stale", (mutants.Edit(mutants.RANK, "text that is not there", ""),))
    with pytest.raises(mutants.MutantError, match="0 times"):
        mutants.apply(stale)


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("assert True", "survived"),
        ("assert False", "killed"),
        ("raise RuntimeError", "error"),
        ("assert False, 'too few examples of something'", "error"),
    ],
)
def test_only_a_failed_claim_kills(tmp_path: Path, body: str, verdict: str) -> None:
    file = tmp_path / "test_something.py"
    file.write_text(f"def test_something():\n    {body}\n", encoding="utf-8")
    assert mutants.run_tests("", tmp_path, [str(file)], tmp_path).verdict == verdict
