"""Plans, run without a database."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import kbsearch
from kbsearch import StatementTimeoutError, VectorError, testing
from kbsearch.client.calls import Calls
from kbsearch.client.plans import (
    Budget,
    CallPlan,
    Embed,
    Identify,
    Query,
    Rows,
    Settings,
    Transaction,
    guarded,
    run,
    run_async,
)
from kbsearch.statements import Statement
from tests.client.worlds import World

ASKED = Statement("ASK")


def ran(
    transaction: Transaction,
    timeout: float = math.inf,
    failing: str | None = None,
    error: BaseException | None = None,
    *,
    savepoint: bool = True,
) -> list[str]:
    """The statements of a guarded query, the beginning of each; those that begin with `failing` fail."""
    done: list[str] = []

    def do(statement: Statement) -> Rows:
        done.append("SET" if "previous" in statement.sql else statement.sql.partition("pg_catalog")[0].strip())
        if failing is not None and done[-1].startswith(failing):
            assert error is not None
            raise error
        return [("7s", "")] if done[-1] == "SET" else []

    plan = guarded(Query(ASKED, Budget(timeout)), transaction, Settings(savepoint=savepoint))
    if error is None:
        run(plan, do)
    else:
        with pytest.raises(type(error)) as caught:
            run(plan, do)
        assert caught.value is error
    return done


SAVEPOINT, ROLLBACK = "SAVEPOINT kbsearch_call", "ROLLBACK TO SAVEPOINT kbsearch_call"
RELEASE, RESTORE = "RELEASE SAVEPOINT kbsearch_call", "SELECT"


@pytest.mark.parametrize("error", [None, ValueError("x"), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_surrounds_a_query(error: BaseException | None) -> None:
    failing = None if error is None else "ASK"
    assert ran(Transaction.NONE, math.inf, failing, error) == ["ASK"]
    assert ran(Transaction.CALL, math.inf, failing, error) == ["ASK"]
    assert ran(Transaction.CALL, 1, failing, error) == ["SET", "ASK"]
    assert ran(Transaction.OWNER, math.inf, failing, error, savepoint=False) == ["ASK"]
    unharmed = error is None
    assert ran(Transaction.NONE, 1, failing, error) == ["BEGIN", "SET", "ASK", "COMMIT" if unharmed else "ROLLBACK"]
    assert ran(Transaction.OWNER, 1, failing, error, savepoint=False) == ["SET", "ASK", *[RESTORE] * unharmed]
    after = [RELEASE] if unharmed else [ROLLBACK, RELEASE]
    assert ran(Transaction.OWNER, math.inf, failing, error) == [SAVEPOINT, "ASK", *after]
    assert ran(Transaction.OWNER, 1, failing, error) == [SAVEPOINT, "SET", "ASK", *[RESTORE] * unharmed, *after]


def test_what_fails_first_is_what_is_raised() -> None:
    error = ValueError("the connection is gone")
    assert ran(Transaction.OWNER, math.inf, "SAVEPOINT", error) == [SAVEPOINT]
    assert ran(Transaction.NONE, 1, "BEGIN", error) == ["BEGIN", "ROLLBACK"]
    assert ran(Transaction.NONE, 1, "COMMIT", error) == ["BEGIN", "SET", "ASK", "COMMIT", "ROLLBACK"]
    # All that follows fails, too.
    first = ValueError("first")

    def do(_statement: Statement) -> Rows:
        if not do_errors:
            return []
        raise do_errors.pop(0)

    do_errors: list[Exception] = []
    plan = guarded(Query(ASKED, Budget(math.inf)), Transaction.OWNER, Settings())
    next(plan)
    plan.send([])
    assert plan.throw(first).sql == ROLLBACK
    with pytest.raises(ValueError, match="first"):
        plan.throw(ValueError("second"))


def test_a_budget_is_spent_by_statements_and_by_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    budget = Budget(3)

    def taking(seconds: float, error: Exception | None = None) -> Rows:
        def do(_statement: Statement) -> Rows:
            clock[0] += seconds
            if error is not None:
                raise error
            return []

        return run(budget.spend(ASKED), do)

    assert budget.milliseconds() == 3000
    taking(1.2)
    clock[0] += 50
    assert budget.milliseconds() == 1800
    with pytest.raises(psycopg.errors.QueryCanceled):
        taking(0.3, psycopg.errors.QueryCanceled())
    with pytest.raises(psycopg.errors.LockNotAvailable):
        taking(0.5, psycopg.errors.LockNotAvailable())
    assert budget.milliseconds() == 1000
    with pytest.raises(StatementTimeoutError, match="3 seconds"):
        taking(1.01, psycopg.errors.QueryCanceled())
    with pytest.raises(StatementTimeoutError):
        budget.milliseconds()
    assert Budget(1e-9).milliseconds() == 1
    assert Budget(0.0011).milliseconds() == 2


def test_a_plan_is_run_the_same_way_by_both() -> None:
    def plan() -> Generator[str, Any, list[Any]]:
        got = [(yield "a")]
        try:
            yield "bad"
        except KeyError as error:
            got.append(error.args[0])
        got.append((yield "b"))
        return got

    def do(step: str) -> str:
        if step == "bad":
            raise KeyError(step)
        return step * 2

    async def do_async(step: str) -> str:
        await asyncio.sleep(0)
        return do(step)

    assert run(plan(), do) == asyncio.run(run_async(plan(), do_async)) == ["aa", "bad", "bb"]


@pytest.mark.parametrize("vectors", [None, [], 5, [[1, 0], [0, 1]], "no", [["a"]], [None], object()])
def test_an_embedder_that_gives_no_vector_is_told(vectors: Any) -> None:
    def do(step: Query | Identify | Embed) -> Any:
        if isinstance(step, Query):
            return [(1, "toy", "", 2)]
        return ("toy", "", 2) if isinstance(step, Identify) else vectors

    plan: CallPlan[Any] = Calls(Settings(), embeds=True).search(
        1, "a", None, None, "cursor", None, log_arbitration=False
    )
    with pytest.raises(VectorError):
        run(plan, do)


@pytest.mark.parametrize(
    ("imports", "without"),
    [
        ("import kbsearch, kbsearch.testing", ("numpy", "psycopg", "pgvector", "asyncio")),
        ("from kbsearch import KBSearchError", ("numpy", "psycopg", "pgvector", "asyncio")),
        ("import kbsearch.migrate, kbsearch.testing.keeper", ("numpy", "pgvector")),
        ("from kbsearch import KBSearch", ()),
    ],
)
def test_the_import_is_light(imports: str, without: tuple[str, ...]) -> None:
    never = {"sqlalchemy", "alembic", "psycopg_pool", "onnxruntime", "tokenizers", "typer", "rich"}
    script = f"import sys; {imports}; print(sorted({never | {*without}!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_command_imports_neither_sqlalchemy_nor_alembic() -> None:
    """They take longer to import than all else that a search from the shell needs."""
    script = "import sys, kbsearch.cli, kbsearch.migrate; print(sorted({'sqlalchemy', 'alembic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert sorted(kbsearch.__all__) == kbsearch.__all__
    for package in (kbsearch, testing):
        assert [name for name in package.__all__ if not hasattr(package, name)] == []
        assert {*package.__all__} <= {*dir(package)}
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            getattr(package, "nonsense")  # noqa: B009  (a type checker knows that it is not there)


def test_modules_that_the_names_are_of_are_there_without_an_import_of_their_own() -> None:
    script = "import kbsearch; print(kbsearch.errors.SpaceError is kbsearch.SpaceError, kbsearch.client.KBSearch is kbsearch.KBSearch)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "True True\n"


def test_sqlalchemy_without_greenlet_is_enough_for_what_is_not_asynchronous(world: World) -> None:
    script = f"""
import sys
sys.modules["greenlet"] = None  # as if it were not installed
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session
from kbsearch import AsyncKBSearch, ConnectionKindError, KBSearch, as_selectable
engine = create_engine("postgresql+psycopg://", connect_args={conninfo_to_dict(world.dsn)!r})
print(KBSearch(engine).search({world.org}, "reset").total > 0)
with Session(engine) as session:
    print(KBSearch(session).search({world.org}, "reset").total > 0)
    print(session.scalar(select(as_selectable({world.org}, "reset").c.place).limit(1)))
try:
    AsyncKBSearch(engine)
except ConnectionKindError:
    print("refused")
engine.dispose()
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True", "1", "refused"]
