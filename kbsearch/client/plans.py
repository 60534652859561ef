"""What is done without I/O: plans and how they are run.

A plan is a generator: it yields steps (a query, a question to embed), is sent what came of each or has its exception thrown in, and returns
the answer. run() and run_async() run one; they and the sources they get their rows from are all that differs between the two clients.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kbsearch import statements
from kbsearch.errors import KBSearchError, LimitError, StatementTimeoutError, sqlstate
from kbsearch.models import VectorLike
from kbsearch.schema import DEFAULT, check_schema
from kbsearch.statements import Statement

T = TypeVar("T")
Step = TypeVar("Step")
Rows: TypeAlias = Sequence[tuple[Any, ...]]
Vectors: TypeAlias = Sequence[VectorLike] | NDArray[np.number[Any]]
Identity: TypeAlias = tuple[str, str, int]
"""An embedder's or a space's model, revision and dimensions."""

MAX_TIMEOUT = (2**31 - 1) // 1000
"""Seconds, 24 days: what PostgreSQL's statement_timeout holds."""
_QUERY_CANCELED = "57014"
_SAVEPOINT = "kbsearch_call"


class _Embedder(Protocol):
    @property
    def model(self) -> str:
        """The model's published name."""
        ...

    @property
    def revision(self) -> str:
        """Which weights; empty when the provider has none."""
        ...

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        ...


class QueryEmbedder(_Embedder, Protocol):
    """What a client needs of an embedder; every kbsearch.embed.Embedder is one."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, shape (len(texts), dimensions)."""
        ...


class AsyncQueryEmbedder(_Embedder, Protocol):
    """What AsyncKBSearch can make use of, too; every kbsearch.embed.AsyncEmbedder is one."""

    async def aembed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, shape (len(texts), dimensions)."""
        ...


def identity(embedder: _Embedder) -> Identity:
    """What an embedder's vectors are vectors of; may ask a service, once, for its dimensions."""
    return embedder.model, embedder.revision, embedder.dimensions


@dataclass(frozen=True, slots=True)
class Settings:
    """ClientOptions with their defaults, checked."""

    schema: str = DEFAULT
    prepare: bool | None = None
    timeout: float = math.inf
    savepoint: bool = True

    def __post_init__(self) -> None:
        """Refuse what is no setting."""
        check_schema(self.schema)
        seconds(self.timeout)
        if self.prepare is not None:
            statements.truth(self.prepare, "prepare", KBSearchError)
        statements.truth(self.savepoint, "savepoint", KBSearchError)


def seconds(value: object) -> float:
    """Return a timeout.

    Raises:
        LimitError: it is neither a number over 0 that statement_timeout can hold nor `math.inf`.
    """
    if isinstance(value, float) and value == math.inf:
        return value
    timeout = statements.number(value, "timeout", LimitError)
    if not 0 < timeout <= MAX_TIMEOUT:
        raise LimitError(
            f"timeout must be over 0 and at most {MAX_TIMEOUT} seconds, not {value}",
            detail={"timeout": timeout},
            hint="math.inf sets no limit.",
        )
    return timeout


class Budget:
    """The time that the statements of one call may take together."""

    def __init__(self, seconds: float) -> None:
        """Begin with all of it, in seconds; may be infinite."""
        self._seconds = self._left = seconds

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._left < math.inf

    def milliseconds(self) -> int:
        """What is left, for statement_timeout.

        Raises:
            StatementTimeoutError: nothing is.
        """
        if self._left <= 0:
            raise self._exhausted()
        return math.ceil(self._left * 1000)

    def spend(self, statement: Statement) -> Plan[Statement, Rows]:
        """Run a statement under a statement_timeout of what is left.

        The server says "canceled" of its timeout and of other people's requests alike, and tells them apart in its own language only. The
        clock tells: before the time is up it was not the timeout.
        """
        started = time.monotonic()
        try:
            return cast("Rows", (yield statement))
        except Exception as error:
            if sqlstate(error) == _QUERY_CANCELED and time.monotonic() - started >= self._left:
                raise self._exhausted() from error
            raise
        finally:
            self._left -= time.monotonic() - started

    def _exhausted(self) -> StatementTimeoutError:
        return StatementTimeoutError(
            f"the database did not answer within {self._seconds:g} seconds",
            detail={"timeout": self._seconds},
            hint="Nothing was written. Allow more time with timeout=, or look for what the database waits for in pg_stat_activity.",
        )


@dataclass(frozen=True, slots=True)
class Query:
    """A step: run a statement in a transaction of its own or its owner's, see guarded(); its answer are the rows."""

    statement: Statement
    budget: Budget


@dataclass(frozen=True, slots=True)
class Identify:
    """A step: say what the embedder's vectors are vectors of; its answer is an Identity."""


@dataclass(frozen=True, slots=True)
class Embed:
    """A step: embed a question; its answer are Vectors, one of them."""

    text: str


Plan: TypeAlias = Generator[Step, Any, T]
CallPlan: TypeAlias = Generator[Query | Identify | Embed, Any, T]
"""A client's call. No connection is held between its steps: while a question is embedded, others may have it."""


def run(plan: Plan[Step, T], do: Callable[[Step], Any]) -> T:
    """Run a plan, doing its steps with `do`."""
    try:
        step = next(plan)
        while True:
            try:
                answer = do(step)
            except BaseException as error:  # noqa: BLE001  (the plan decides, and raises it again)
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as stop:
        return cast("T", stop.value)


async def run_async(plan: Plan[Step, T], do: Callable[[Step], Awaitable[Any]]) -> T:
    """Run a plan, doing its steps with `do`."""
    try:
        step = next(plan)
        while True:
            try:
                answer = await do(step)
            except BaseException as error:  # noqa: BLE001  (the plan decides, and raises it again)
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as stop:
        return cast("T", stop.value)


class Transaction(Enum):
    """What transaction a statement would be in."""

    NONE = auto()
    """None: it commits by itself."""
    CALL = auto()
    """One begun for this statement alone; whoever lends the connection commits it or rolls it back."""
    OWNER = auto()
    """The owner's, with other work in it: it is neither committed nor rolled back."""


def guarded(query: Query, transaction: Transaction, settings: Settings) -> Plan[Statement, Rows]:
    """Run a query's statement such that nothing but its effect is left: in a savepoint of the owner's transaction, under its own timeout.

    A timeout is set for a transaction only, never for a session, which a pooler would hand to somebody else.
    """
    savepoint = transaction is Transaction.OWNER and settings.savepoint
    begin = transaction is Transaction.NONE and query.budget.limited
    if savepoint:
        yield Statement(f"SAVEPOINT {_SAVEPOINT}")
    try:
        if begin:
            yield Statement("BEGIN")
        if query.budget.limited:
            ((setting, _),) = yield statements.set_timeout(query.budget.milliseconds())
            rows: Rows = yield from query.budget.spend(query.statement)
            if transaction is Transaction.OWNER:
                yield statements.restore_timeout(setting)
        else:
            rows = yield query.statement
        if savepoint:
            yield Statement(f"RELEASE SAVEPOINT {_SAVEPOINT}")
        if begin:
            yield Statement("COMMIT")
    except BaseException:
        # A connection that is lost can't go back: what happened first is what is raised.
        with suppress(Exception):
            if savepoint:
                yield Statement(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
                yield Statement(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            if begin:
                yield Statement("ROLLBACK")
        raise
    return rows
