"""Makes a call and judges what came of it: an answer under the laws, one of our errors as the function's COMMENT has it, or the caller's own cast."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
import psycopg
from psycopg import sql

from kbsearch.errors import ERRORS_BY_SQLSTATE
from tests.fuzz.values import Call, Cursor, Value
from tests.fuzz.world import World
from tests.http.postgrest import PostgREST
from tools.docs_errors import CASTS
from tools.docs_sql import Function

BUDGET = 5.0
"""Seconds of processor time that a call may take of the server, whatever comes of it, and the time budget of searches by the clock."""
HASTE = 10
"""Of so many calls one has a budget of a few milliseconds, which it may be over."""
HURRY = 9
"""Of so many calls one has a statement_timeout of some milliseconds, which may end it anywhere."""
PATIENCE = 60.0
"""Seconds after which statement_timeout ends it, which is a fault, too: other work on the machine does not make it that slow."""

BODIES = {
    "PGRST102": "no JSON, or none of an object",
    "PGRST202": "an argument that there is not, or one left out that there must be",
    "22023": "JSON that is no object",
}
"""What PostgREST, or PostgreSQL for it, says of a body that is no object of a function's arguments."""

PAGED = (
    "search_kb_hybrid_v1",
    "search_kb_hybrid_page_v1",
    "explain_kb_search_v1",
    "explain_kb_article_v1",
    "fetch_kb_page_v1",
)
"""Functions with a cursor."""


FRESH = ("define_kb_ann_index_v1",)
"""Functions that write nothing and yet say something else each time: every build of an index has a name of its own."""


class FaultError(AssertionError):
    """What a call must not do."""


@dataclass(slots=True)
class Tally:
    """What came of all calls.

    Attributes:
        outcomes: how often a call answered, raised a SQLSTATE, or was refused by the driver.
        functions: number of calls by function, and those of them that answered.
        slowest: seconds of the slowest call, and which it was.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")

    @property
    def calls(self) -> int:
        return self.outcomes.total()

    def count(self, function: str, outcome: str, seconds: float) -> None:
        self.outcomes[outcome] += 1
        self.functions[function] += 1
        self.answered[function] += outcome == "answered"
        self.slowest = max(self.slowest, (round(seconds, 3), function))

    def merge(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        self.functions += other.functions
        self.answered += other.answered
        self.slowest = max(self.slowest, other.slowest)

    def as_dict(self) -> dict[str, Any]:
        return {
            "outcomes": self.outcomes,
            "functions": self.functions,
            "answered": self.answered,
            "slowest": self.slowest,
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Tally:
        """What as_dict() gave."""
        if stored is None:
            return cls()
        seconds, function = stored["slowest"]
        return cls(
            Counter(stored["outcomes"]), Counter(stored["functions"]), Counter(stored["answered"]), (seconds, function)
        )

    def __str__(self) -> str:
        share = self.outcomes["answered"] / max(1, self.calls)
        others = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()) if name != "answered")
        return (
            f"{self.calls} fuzzed calls of {len(self.functions)} functions: {self.outcomes['answered']} answered ({share:.0%}); {others}; "
            f"slowest {self.slowest[0]:.2f} s ({self.slowest[1]})"
        )


class Endpoint(PostgREST):
    """PostgREST with an anonymous role that has no settings of its own: here it is the tests' role, which may not set all that it has."""

    def _role_settings(self, role: str) -> list[tuple[str, str]]:  # noqa: ARG002
        return []

    @property
    def backend_pid(self) -> int:
        return self._connection.info.backend_pid


class Fuzzer:
    """Connections to a world, and what is known of its functions."""

    def __init__(self, dsn: str, world: World, functions: Sequence[Function], tally: Tally) -> None:
        self.world = world
        self.functions = {one.name: one for one in functions if one.public and one.arguments}
        self.tally = tally
        self.dsn = dsn
        self._answers = 0
        self._calls = 0
        self.open()

    def open(self) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(self.dsn, autocommit=True)
        # a role's own, so that the calls as PostgREST makes them have it, too
        self.http = Endpoint(
            self.dsn
            + f" options='-c statement_timeout={round(PATIENCE * 1000)} -c kbsearch.search_budget_ms={round(BUDGET * 1000)} -c search_path='",
            ["kbsearch"],
            anonymous=self.connection.info.user,
        )
        self.connection.execute(f"SET statement_timeout = {round(PATIENCE * 1000)}")
        self.connection.execute(f"SET kbsearch.search_budget_ms = {round(BUDGET * 1000)}")

    def reconnect(self) -> None:
        """After a fault that may have left anything."""
        self.close()
        self.open()

    def close(self) -> None:
        self.connection.close()
        self.http.close()

    def call(self, call: Call) -> None:
        """Make a call, in a transaction that is rolled back; raises a FaultError."""
        function = self.functions[call.function]
        started = self._clock(self.connection.info.backend_pid)
        try:
            outcome = self._judged(call, function)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                raise FaultError(f"{call!r} ended the connection: {error}") from error
            raise
        seconds = self._clock(self.connection.info.backend_pid) - started
        if seconds > BUDGET:
            raise FaultError(f"{call!r} took {seconds:.1f} s of processor time: {outcome}")
        self.tally.count(call.function, outcome, seconds)

    def _clock(self, backend_pid: int) -> float:
        """Seconds that the server has worked for a connection; wall clock where its process cannot be seen."""
        try:
            times = psutil.Process(backend_pid).cpu_times()
        except (psutil.Error, psycopg.Error):
            return time.monotonic()
        return times.user + times.system

    def post(self, function: str, body: str) -> None:
        """Make a call as PostgREST makes it, with a body of JSON; raises a FaultError."""
        started = self._clock(self.http.backend_pid)
        try:
            answer = self.http.post(function, body)
        except psycopg.OperationalError as error:
            raise FaultError(f"{body[:500]} to {function} ended the connection: {error}") from error
        except (psycopg.DataError, UnicodeError, RecursionError):
            # what no client of PostgREST could send, a lone surrogate; and what Python's json cannot read, so deep it is
            self.tally.count(function, "driver", self._clock(self.http.backend_pid) - started)
            return
        seconds = self._clock(self.http.backend_pid) - started
        if seconds > BUDGET:
            raise FaultError(f"{body[:1000]} to {function} took {seconds:.1f} s of processor time: {answer.status}")
        outcome = "answered" if answer.status == 200 else str(answer.body["code"])
        allowed = outcome in (*CASTS, *ERRORS_BY_SQLSTATE, *BODIES) and (
            answer.status < 500 or outcome in ("54000", "54001")
        )
        if outcome != "answered" and not allowed:
            raise FaultError(f"{body[:1000]} to {function}: {answer}")
        if outcome == "answered" and function == "search_kb_hybrid_page_v1":
            places = [(-item["score"], item["article_id"]) for item in answer.body["items"]]
            if places != sorted(set(places)):
                raise FaultError(f"{body[:1000]}: not in the total order, or twice: {places}")
        self.tally.count(function, outcome, seconds)

    def _judged(self, call: Call, function: Function) -> str:
        self.connection.execute("BEGIN")
        self._calls += 1
        if self._calls % HASTE == 0:
            self.connection.execute(f"SET LOCAL kbsearch.search_budget_ms = {1 + self._calls // HASTE % 8}")
        hurried = self._calls % HURRY == 0
        if hurried:
            self.connection.execute(f"SET LOCAL statement_timeout = {1 + self._calls // HURRY % 13}")
        try:
            arguments, is_edited = self._resolve(call)
            rows = self._execute(function, arguments)
            if is_edited:
                raise FaultError(f"{call!r}: a cursor that was edited gave rows")
            self._obeys(call, function, arguments, rows)
        except (UnicodeEncodeError, psycopg.DataError) as error:
            if getattr(error, "sqlstate", None) is None:
                return "driver"
            return self._refused(call, function, error)
        except psycopg.errors.QueryCanceled as error:
            # a timeout that fires as a statement ends cancels the next one, which says that a user asked for it
            if not hurried:
                raise FaultError(f"{call!r}: {error}") from error
            return "57014"
        except psycopg.Error as error:
            return self._refused(call, function, error)
        finally:
            if not self.connection.closed:
                self.connection.execute("ROLLBACK")
        return "answered"

    def _refused(self, call: Call, function: Function, error: Exception) -> str:
        if not isinstance(error, psycopg.Error) or error.sqlstate is None:
            raise FaultError(f"{call!r}: {error!r}") from error
        code, diag = error.sqlstate, error.diag
        if code.startswith("KB"):
            if code not in ERRORS_BY_SQLSTATE or code not in function.sections["Errors"].text:
                raise FaultError(f"{call!r}: {code} is not among the errors of its COMMENT: {error}") from error
            if not diag.message_hint or not isinstance(json.loads(diag.message_detail or "null"), dict):
                raise FaultError(f"{call!r}: {code} without DETAIL or HINT: {error}") from error
            return code
        if code in CASTS and "function" not in (diag.context or ""):
            return code
        raise FaultError(f"{call!r}: {code} {error}\n{diag.context}") from error

    def _execute(self, function: Function, arguments: dict[str, Value]) -> list[Any]:
        types = {one.name: one.type for one in function.arguments}
        named = [
            sql.SQL("{} => %s::{}").format(
                sql.Identifier(name), sql.SQL("ext.vector" if types[name] == "vector" else types[name])
            )
            for name in arguments
        ]
        statement = sql.SQL("SELECT to_json(s)::text FROM kbsearch.{}({}) AS s").format(
            sql.Identifier(function.name), sql.SQL(", ").join(named)
        )
        cursor = self.connection.execute(statement, list(arguments.values()), prepare=False)
        return [text for (text,) in cursor.fetchall()]

    def _resolve(self, call: Call) -> tuple[dict[str, Value], bool]:
        """The arguments with a cursor looked up, and whether it was edited."""
        arguments = {name: value for name, value in call.arguments.items() if not isinstance(value, Cursor)}
        wanted = next((value for value in call.arguments.values() if isinstance(value, Cursor)), None)
        if wanted is None:
            return arguments, False
        first = {name: value for name, value in arguments.items() if name not in ("p_offset", "p_article_id")}
        source = "fetch_kb_page_v1" if call.function == "fetch_kb_page_v1" else "search_kb_hybrid_page_v1"
        self.connection.execute("SAVEPOINT first")
        (page,) = self._execute(self.functions[source], {**first, "p_limit": "2"})
        cursor = (json.loads(page) or {}).get("next_cursor") if page else None
        if cursor is None:
            return arguments, False
        arguments.pop("p_offset", None)
        edited = cursor
        if wanted.place is not None:
            at = wanted.place % len(cursor)
            edited = cursor[:at] + wanted.letter + cursor[at + 1 :]
        elif not wanted.letter:
            edited = cursor[: len(cursor) // 2]
        return {**arguments, "p_cursor": edited}, edited != cursor

    def _obeys(self, call: Call, function: Function, arguments: dict[str, Value], rows: list[Any]) -> None:
        """The laws, as far as one answer shows them."""
        self._answers += 1
        if (
            function.volatility != "VOLATILE"
            and call.function not in FRESH
            and self._answers % 4 == 1
            and self._execute(function, arguments) != rows
        ):
            raise FaultError(f"{call!r}: the same call gave another answer")
        is_of_the_first = str(arguments.get("p_org_id")).strip() == str(self.world.org_id)
        if is_of_the_first and (
            arguments.get("p_cursor") in self.world.other_cursors
            or (arguments.get("p_snapshot") == self.world.other_snapshot and rows != ["false"])
        ):
            raise FaultError(f"{call!r}: a cursor or stored ranking of another organisation gave {rows!r}"[:2000])
        if call.function not in PAGED:
            return
        answers = [json.loads(row) for row in rows if row]
        items = answers if function.columns else ((answers or [{}])[0]).get("items", [])
        places = [(-item["score"], item["article_id"]) for item in items if "score" in item]
        if places != sorted(set(places)):
            raise FaultError(f"{call!r}: not in the total order, or twice: {places}")
        if is_of_the_first:
            strangers = {item["article_id"] for item in items} - self.world.published_ids
            if strangers:
                raise FaultError(f"{call!r}: {strangers} are not to be found")
        limit = arguments.get("p_limit", "10")
        if isinstance(limit, str) and len(items) > int(limit, 0):
            raise FaultError(f"{call!r}: {len(items)} items")
