"""Hypothesis strategies for arguments: sound ones, and for every type those that are not.

A value is a text that the server casts to the argument's type, a list of such for an array, or None for NULL. Whatever is drawn is written to the
server as it is, so that also texts that are no value of the type arrive there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.fuzz.world import WORDS, World
from tools.docs_sql import Argument, Function

Value: TypeAlias = str | list[str | None] | None

WHOLE = [
    *(str(sign * (2**power + step)) for power in (0, 15, 31, 50, 53, 63) for sign in (1, -1) for step in (-1, 0, 1)),
    "1001",
    "1000",
    "32768",
    "99999999999999999999999999",
    "1.5",
    "",
    " 7 ",
    "0x10",
    "NaN",
]
FRACTIONS = [
    *("NaN", "Infinity", "-Infinity", "0", "-0.0", "-0", "0.5", "1", "-1", "2", "1.0000000001", "0.9999999999999999"),
    *(
        "5e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "1e309",
        "1e-400",
        "1e38",
        "1e-30",
        "",
        "x",
        "1e5000",
    ),
    *WHOLE[:12],
]
NUMBERS_IN_JSON = [
    *(
        "0",
        "-0",
        "-0.0",
        "1",
        "-1",
        "1.5",
        "1e400",
        "-1e400",
        "1e-400",
        "5e-324",
        "9007199254740993",
        "1e30",
        "999999999",
        "1000000000",
        "1e131000",
        "-1e-16000",
    ),
    *(str(2**63), str(-(2**63) - 1), "1" + "0" * 400),
]
INTERVALS = [
    "0",
    "-1 day",
    "1 microsecond",
    "1 day 1 second",
    "178000000 years",
    "infinity",
    "-infinity",
    "-178000000 years",
    "1 day -1 microsecond",
    "9223372036854775807 microseconds",
    "P1Y2M3DT4H5M6S",
    "1 month",
    "x",
    "",
]
UUIDS = ["00000000-0000-0000-0000-000000000000", "ffffffffffffffffffffffffffffffff", "x", "", "{0}"]
BOOLEANS = ["true", "false", "x", "", "1"]
MARKS = [
    *(
        '"',
        "-",
        '-"',
        '"" ',
        "'",
        "\\",
        "\\x00",
        "\r\n",
        "\t",
        "\x01",
        "\x1f",
        "\x7f",
        "\u200b",
        "\u202e",
        "\ufeff",
        "\u00ad",
        "\ufffe",
    ),
    *(
        "%",
        "%s",
        "{}",
        "$$",
        ";--",
        "<b>",
        "&amp;",
        ":*",
        "!",
        "&",
        "|",
        "<->",
        "()",
        "@1",
        "/",
        "//",
        "?",
        "#",
        "👍🏽",
        "e\u0301\u0301",
        "ﬁ",
        "İ",
        "ß",
    ),
]
PIECES = [*WORDS, *MARKS, " ", " ", " "]
PLANES = st.integers(0, 16).flatmap(
    lambda plane: st.characters(
        min_codepoint=max(1, plane * 0x10000), max_codepoint=plane * 0x10000 + 0xFFFF, exclude_categories=["Cs"]
    )
)
REFUSED_BY_DRIVERS = st.sampled_from(["\x00", "a\x00b", "\ud800", "a\udfffb"])
TEXTS: st.SearchStrategy[str] = st.one_of(
    st.text(PLANES, max_size=12),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join),
    st.tuples(st.sampled_from(PIECES) | PLANES, st.sampled_from([2, 33, 40, 1000, 3000])).map(
        lambda drawn: drawn[0] * drawn[1]
    ),
    st.tuples(st.sampled_from(["a", "é", "日", "😀"]), st.sampled_from([32767, 32768, 32769, 40000])).map(
        lambda drawn: (drawn[0] * (drawn[1] // len(drawn[0].encode()) + 1))[: -(-drawn[1] // len(drawn[0].encode()))]
    ),
    st.integers(0, 2**16).map(lambda first: " ".join(f"w{first + n}" for n in range(3000))),
    st.integers(1, 60).map(lambda count: " ".join(f'"alpha w{n}" -w{n}' for n in range(count))),
)


def _deep(drawn: tuple[str, int]) -> str:
    shape, depth = drawn
    opening, closing = {"a": ("[", "]"), "o": ('{"k":', "}"), "m": ('[{"k":', "}]")}[shape]
    return opening * depth + "1" + closing * depth


class Raw(str):
    """JSON that is written as it stands."""

    __slots__ = ()


def write(tree: Any) -> str:
    """JSON text of a tree with raw parts in it."""
    if isinstance(tree, Raw):
        return str(tree)
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {write(member)}" for key, member in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(write(element) for element in tree) + "]"
    return json.dumps(tree)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS_IN_JSON).map(Raw),
    st.text(PLANES, max_size=5),
    st.sampled_from(["", "a", "*", "fuse", "NaN", "1", "\x00", "\ud800"]),
)
KEYS = st.sampled_from(
    ["", "a", "*", "n", "faq", "content", "chunks", "embedding", "k" * 300, "\x00", "ключ"]
) | st.text(PLANES, max_size=3)
TREES = st.one_of(
    LEAVES,
    st.lists(LEAVES, max_size=4),
    st.dictionaries(KEYS, LEAVES, max_size=4),
    st.lists(st.dictionaries(KEYS, LEAVES, max_size=2), max_size=3),
    st.dictionaries(KEYS, st.lists(LEAVES, max_size=2) | st.dictionaries(KEYS, LEAVES, max_size=2), max_size=3),
    st.sampled_from([100, 5000]).map(lambda count: [{"a": number} for number in range(count)]),
    st.tuples(st.sampled_from("aom"), st.sampled_from([2, 20, 65, 200, 1000])).map(_deep).map(Raw),
)
BROKEN_JSON = st.sampled_from(
    ["", "{", "[1,]", "nul", "'a'", '{"a":1,"a":2}', '"\\ud800"', '"\\u0000"', "\ufeff{}", "1e", "NaN"]
)
DEEPEST = st.tuples(st.sampled_from("aom"), st.sampled_from([3000, 20000])).map(_deep)
JSONS = st.one_of(*[TREES.map(write)] * 5, BROKEN_JSON, DEEPEST)


@st.composite
def edited_json(draw: st.DrawFn, text: str) -> str:
    """A sound document with one of its places taken out, doubled or replaced."""
    tree = json.loads(text)
    holder: Any = [tree]
    key: Any = 0
    for _ in range(draw(st.integers(0, 5))):
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner:
            break
        holder, key = inner, draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
    if holder[key] is tree:
        return write(draw(TREES))
    match draw(st.integers(0, 4)):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[draw(KEYS)] = holder[key]
        case 2 if isinstance(holder, list):
            holder.append(holder[key])
        case _:
            holder[key] = draw(TREES)
    return write(tree)


COMPONENTS = st.sampled_from(
    ["0", "1", "-1", "0.5", "-0.0", "1e-45", "1e-30", "3e38", "1e39", "NaN", "Infinity", "", "1e19", "1e-16"]
)
VECTORS = st.one_of(
    st.lists(COMPONENTS, max_size=5).map(lambda components: f"[{','.join(components)}]"),
    st.tuples(st.sampled_from(["1", "0"]), st.sampled_from([2, 4, 999, 1999, 2001, 15999, 16001])).map(
        lambda drawn: f"[{','.join([drawn[0]] * drawn[1])}]"
    ),
    st.sampled_from(["", "[]", "1", "[1", "{1,2,3}", "[1,2,3] ", "[[1]]"]),
)
WHOLE_NUMBERS = st.sampled_from(WHOLE)
WHOLE_LISTS: st.SearchStrategy[Value] = st.one_of(
    st.lists(st.none() | st.sampled_from(["1", "2", "3", "0", "-1", str(2**63 - 1)]), max_size=6),
    st.lists(WHOLE_NUMBERS, max_size=3),
    st.sampled_from([100, 2000]).map(lambda count: [str(number) for number in range(count)]),
    st.sampled_from(
        [
            "{}",
            "{{1,2},{3,4}}",
            "[5:6]={1,2}",
            "[0:0]={1}",
            "[-2147483648:-2147483647]={1,2}",
            "{1,,2}",
            "x",
            "{NULL}",
            "{{{{{{1}}}}}}",
            "{{1},{NULL}}",
        ]
    ),
)
TEXT_LISTS: st.SearchStrategy[Value] = st.one_of(
    st.lists(st.none() | TEXTS, max_size=3),
    st.lists(st.sampled_from(["faq", "ref-1", "", "*"]), max_size=5),
    st.sampled_from([["x"] * 1001, [f"r{number}" for number in range(3000)]]).map(list),
    st.sampled_from(
        [
            "{}",
            "{{a,b},{c,d}}",
            "[5:6]={a,b}",
            "[0:1]={faq,faq}",
            "[2147483646:2147483646]={faq}",
            "{{faq}}",
            "{{NULL}}",
            "{a",
            "{NULL}",
        ]
    ),
)

WILD: Mapping[str, st.SearchStrategy[Value]] = {
    "bigint": WHOLE_NUMBERS,
    "integer": WHOLE_NUMBERS,
    "smallint": WHOLE_NUMBERS,
    "double precision": st.sampled_from(FRACTIONS),
    "numeric": st.sampled_from([*FRACTIONS, "1e-16383", "1e131071", "0.1" + "0" * 200 + "1"]),
    "boolean": st.sampled_from(BOOLEANS),
    "text": st.one_of(*[TEXTS] * 9, REFUSED_BY_DRIVERS),
    "text[]": TEXT_LISTS,
    "bigint[]": WHOLE_LISTS,
    "jsonb": JSONS,
    "vector": VECTORS,
    "uuid": st.sampled_from(UUIDS),
    "bytea": st.sampled_from(
        ["", "\\x", "\\x00", "\\x" + "ab" * 32, "\\x" + "00" * 32, "\\x" + "ff" * 5000, "\\xz", "\\", "text"]
    ),
    "interval": st.sampled_from(INTERVALS),
}
"""Strategies by type; a public function with an argument of another type is an error, so that it is not left out."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The cursor of the page before, of the same request.

    Attributes:
        place: where it is edited, in characters from its beginning, round and round; None: nowhere.
        letter: what is written there instead; empty: that one is cut out, and with place None the second half is.
    """

    place: int | None
    letter: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function: arguments that are left out have their defaults."""

    function: str
    arguments: Mapping[str, Value | Cursor]

    def __repr__(self) -> str:
        """As a test prints it: without what is long."""
        said = ", ".join(f"{name} => {_short(value)}" for name, value in self.arguments.items())
        return f"{self.function}({said})"


def _short(value: Value | Cursor) -> str:
    text = ascii(value)
    return text if len(text) < 600 else f"{text[:500]}… ({len(text)} characters)"


CURSORS: st.SearchStrategy[Cursor | Value] = st.one_of(
    *[st.just(Cursor(None, "whole"))] * 3,
    st.builds(Cursor, st.integers(0, 4000), st.sampled_from([*"AZaz09-_=. \x01é", ""])),
    st.just(Cursor(None, "")),
)


def sound(
    argument: Argument, function: Function, world: World, otherwise: st.SearchStrategy[Value]
) -> st.SearchStrategy[Value]:
    """Values that are to be answered, as far as one can say it of an argument alone; `otherwise` where no samples are known."""
    samples = world.samples.get(f"{function.name}.{argument.name}") or world.samples.get(argument.name)
    if samples is not None:
        return st.sampled_from([list(one) if isinstance(one, list) else one for one in samples])
    return st.sampled_from(["true", "false"]) if argument.type == "boolean" else otherwise


def calls_of(function: Function, world: World) -> st.SearchStrategy[Call]:
    """Calls of a function: of three, one with sound arguments only, one with one or two that are not, one with any."""
    wild = {
        one.name: st.none() | WILD[one.type] if one.type == "boolean" else WILD[one.type] for one in function.arguments
    }
    good = {one.name: sound(one, function, world, wild[one.name]) for one in function.arguments}
    names = [one.name for one in function.arguments]
    optional = {one.name for one in function.arguments if one.default is not None}
    by_name = {one.name: one for one in function.arguments}

    @st.composite
    def draw_call(draw: st.DrawFn) -> Call:
        temper = draw(st.integers(0, 5))
        odd: Sequence[str] = ()
        if temper in (3, 4):
            odd = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
        elif temper == 5:
            odd = [name for name in names if draw(st.booleans())]
        arguments: dict[str, Value | Cursor] = {}
        for name in names:
            if name in odd:
                arguments[name] = draw(_odd(name, by_name[name].type, wild[name], good[name], optional))
            elif name == "p_cursor":
                if draw(st.integers(0, 3)) == 3:
                    arguments[name] = draw(CURSORS | st.sampled_from(world.cursors))
            elif name not in optional or draw(st.integers(0, 3)) == 3:
                arguments[name] = draw(good[name])
        return Call(function.name, arguments)

    return draw_call()


def _odd(
    name: str, kind: str, wild: st.SearchStrategy[Value], good: st.SearchStrategy[Value], optional: set[str]
) -> st.SearchStrategy[Value]:
    if kind == "jsonb":
        edited = good.flatmap(
            lambda text: edited_json(text) if isinstance(text, str) and text[:1] in "[{" else st.just(text)
        )
        return st.one_of(edited, edited, edited, wild, st.none())
    return st.one_of(wild, wild, wild, wild, wild, wild, wild, st.none())


def jsonable(value: Value, kind: str) -> object:
    """A value as a client of an HTTP interface writes it: numbers, truth values and JSON as such where they are, else as text."""
    if isinstance(value, str) and kind in ("jsonb", "boolean", "bigint", "integer", "double precision", "numeric"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
