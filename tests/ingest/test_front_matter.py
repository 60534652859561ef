from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kbsearch.ingest.front_matter import FrontMatterError, split_front_matter

NAMES = st.text(st.characters(categories=["L"]), min_size=1, max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.text(st.characters(exclude_categories=["C", "Z"]), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "\n---\na: 1\n---\n",
        "---\na: 1\n",
        "---\njust words\n---\ntext",
        "--- \n- a\n- b\n---\n",
        "----\na: 1\n---\n",
        "",
    ],
)
def test_what_is_no_front_matter_stays_text(text: str) -> None:
    front, rest = split_front_matter(text)
    assert rest == text
    assert dict(front.metadata) == {}


def test_values_are_json_and_words_stay_words() -> None:
    front, rest = split_front_matter(
        "---\nlang: no\nanswer: yes\ntime: 12:30\nzip: 01234\ndate: 2024-01-02\nversion: 1.10\nn: 7\nf: 1.5\nb: true\nnothing: ~\n7: x\n...\nrest"
    )
    assert rest == "rest"
    assert front.language == "no"
    assert front.metadata == {
        "answer": "yes", "time": "12:30", "zip": "01234", "date": "2024-01-02", "version": 1.1, "n": 7, "f": 1.5, "b": True,
        "nothing": None, "7": "x",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("yaml_text", "published"),
    [
        ("published: false", False),
        ("published: true", True),
        ("draft: true", False),
        ("draft: false", True),
        ("published: true\ndraft: true", False),
        ("x: 1", None),
    ],
)
def test_published_and_draft(yaml_text: str, published: bool | None) -> None:
    assert split_front_matter(f"---\n{yaml_text}\n---\n")[0].published is published


def test_tags_may_be_written_with_commas_and_a_title_may_be_a_number() -> None:
    front, _ = split_front_matter("---\ntitle: 2024\ntags: a, b c\nlanguage: de\nlang: fr\n---\n")
    assert (front.title, front.language, front.metadata) == ("2024", "de", {"tags": ["a", "b c"]})


@pytest.mark.parametrize(
    ("yaml_text", "says"),
    [
        ("a: [", "no YAML"),
        ("a: b: c", "no YAML"),
        ("a: &x [1]\nb: *x", "references"),
        ("a: !!binary aGk=", "no JSON"),
        ("a: !!python/object/apply:os.system [x]", "no YAML"),
        ("published: maybe", "published"),
        ("draft: 1", "draft"),
        ("kind: [a]", "kind"),
        ("title: [a]", "title"),
        ("a: " + "[" * 60 + "]" * 60, "nested"),
        ("a: " + "[" * 20_000 + "]" * 20_000, "no YAML"),
    ],
)
def test_a_front_matter_that_cannot_be_used_is_told(yaml_text: str, says: str) -> None:
    with pytest.raises(FrontMatterError, match=says):
        split_front_matter(f"---\n{yaml_text}\n---\ntext")


@given(
    st.dictionaries(
        NAMES.filter(lambda name: name.lower() not in ("title", "kind", "lang", "language", "draft", "published")),
        VALUES,
        max_size=4,
    )
)
def test_what_yaml_writes_comes_back(values: dict[str, object]) -> None:
    values = {f"x{name}": value for name, value in values.items()}
    written = yaml.safe_dump(values, allow_unicode=True, default_flow_style=False)
    front, rest = split_front_matter(f"---\n{written}---\nbody")
    assert rest == "body"
    assert json.loads(json.dumps(dict(front.metadata))) == values
