"""YAML front matter of Markdown: what it says of its document."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

_BLOCK = re.compile(r"---[ \t]*\n(?P<yaml>(?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
MAX_CHARACTERS = 65_536
"""Of a front matter: what is longer is text."""
_DEEPEST = 50


class FrontMatterError(ValueError):
    """There is a front matter, and it cannot be used."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a front matter says; metadata are all that is not one of the other fields, as JSON values."""

    title: str | None = None
    language: str | None = None
    kind: str | None = None
    published: bool | None = None
    source_uri: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    """The types of JSON only: a date stays the text it is, `no` is no truth value (it is Norwegian), 12:30 and 007 are no numbers.

    References are refused: they make a few lines expand to gigabytes, or to a value that contains itself.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (as the base class has it)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references (*name) are not taken")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        return {str(key): value for key, value in super().construct_mapping(node, deep=deep).items()}


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"-?(?:0|[1-9][0-9]{0,30})", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", "-0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """What the front matter of a text says, and the text after it; a text without one comes back whole.

    A front matter is a mapping in YAML between a first line `---` and a line `---` or `...`. title, kind, source_uri and published say what
    the fields of that name say in JSON lines; draft is the opposite of published; lang or language is the document's language. All else
    (date, description, author, …) is metadata, tags and categories as lists.

    Raises FrontMatterError when it is no YAML, or a field is of another type.
    """
    match = _BLOCK.match(text)
    if match is None or len(match["yaml"]) > MAX_CHARACTERS:
        return FrontMatter(), text
    try:
        fields = yaml.load(match["yaml"], Loader=_Loader)  # noqa: S506  (a safe loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FrontMatterError(f"the front matter is no YAML: {' '.join(str(error).split())}") from error
    if fields is None and match["yaml"].strip() == "":
        fields = {}
    if not isinstance(fields, dict):
        return FrontMatter(), text  # a rule, some words, another rule
    if fault := _no_json(fields, _DEEPEST):
        raise FrontMatterError(f"the front matter has {fault}")
    return _front_matter(fields), text[match.end() :]


def _front_matter(fields: dict[str, Any]) -> FrontMatter:
    def take(name: str, kind: type, expected: str) -> Any:
        value = fields.pop(name, None)
        if value is not None and not isinstance(value, kind):
            raise FrontMatterError(f"{name} of the front matter must be {expected}, not {value!r}")
        return value

    published, draft = take("published", bool, "true or false"), take("draft", bool, "true or false")
    title = fields.pop("title", None)
    if isinstance(title, bool | int | float):  # `title: 2024`
        title = str(title)
    if not isinstance(title, str | None):
        raise FrontMatterError(f"title of the front matter must be a text, not {title!r}")
    language = take("language", str, "a text") or take("lang", str, "a text")
    fields.pop("lang", None)
    kind, source_uri = take("kind", str, "a text"), take("source_uri", str, "a text")
    for name in ("tags", "categories"):
        if isinstance(value := fields.get(name), str):
            fields[name] = [part.strip() for part in value.split(",") if part.strip()]
    return FrontMatter(
        title=title,
        language=language,
        kind=kind,
        published=not draft if published is None and draft is not None else published and not draft,
        source_uri=source_uri,
        metadata=fields,
    )


def _no_json(value: Any, depth: int) -> str | None:
    """What keeps a value from being JSON, in words."""
    if depth == 0:
        return f"values nested deeper than {_DEEPEST}"
    check: Callable[[Any], str | None] = lambda part: _no_json(part, depth - 1)  # noqa: E731
    if isinstance(value, dict):
        return next(filter(None, map(check, value.values())), None)
    if isinstance(value, list):
        return next(filter(None, map(check, value)), None)
    return None if isinstance(value, str | bool | int | float | None) else f"a value that is no JSON: {value!r}"
