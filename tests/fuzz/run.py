"""Batches of fuzzed calls: hypothesis draws and shrinks them, the judge says what is a fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis import strategies as st

from tests.fuzz.judge import Fuzzer
from tests.fuzz.values import JSONS, Call, Cursor, calls_of, edited_json, jsonable
from tools.docs_sql import Function

QUIET = settings(
    database=None,
    deadline=None,
    derandomize=False,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
    print_blob=False,
    report_multiple_bugs=False,
)


def _drive(strategy: st.SearchStrategy[Call], act: Callable[[Call], None], number: int, calls: int) -> None:
    @seed(number)
    @settings(QUIET, max_examples=calls)
    @given(strategy)
    def batch(call: Call) -> None:
        act(call)

    batch()


def over_sql(fuzzer: Fuzzer, functions: Sequence[Function], number: int, calls: int) -> None:
    """At most so many calls of these functions, the same for the same number; raises the smallest fault found."""
    _drive(st.one_of(*(calls_of(one, fuzzer.world) for one in functions)), fuzzer.call, number, calls)


def over_http(fuzzer: Fuzzer, functions: Sequence[Function], number: int, calls: int) -> None:
    """The same as PostgREST calls them: one text of JSON each, now and then one that is no object of arguments."""

    @st.composite
    def posts(draw: st.DrawFn) -> Call:
        function = draw(st.sampled_from(list(functions)))
        call = draw(calls_of(function, fuzzer.world))
        types = {one.name: one.type for one in function.arguments}
        arguments = {
            name: jsonable(value, types[name])
            for name, value in call.arguments.items()
            if not isinstance(value, Cursor)
        }
        try:
            text = json.dumps(arguments)
            match draw(st.integers(0, 7)):
                case 6:
                    text = draw(edited_json(text))
                case 7:
                    text = draw(JSONS)
        except RecursionError:  # deeper than Python writes
            reject()
        return Call(function.name, {"": text})

    def act(call: Call) -> None:
        fuzzer.post(call.function, str(call.arguments[""]))

    _drive(posts(), act, number, calls)


def readers(functions: Sequence[Function]) -> list[Function]:
    """Those that write nothing: what an HTTP interface is given."""
    return [one for one in functions if one.volatility != "VOLATILE"]
