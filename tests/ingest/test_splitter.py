from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbsearch.ingest import Splitter
from kbsearch.ingest.documents import Markup
from kbsearch.ingest.headings import headings

MARKDOWN = """# Guide

Intro with `code`.

## Set up *now*

```
# not a heading
```

### Deep

Deep text that is here to be long enough to be a chunk of its own.

## Other

Bye, with words enough to stand alone in a chunk of sixty characters.
"""


def test_headings_of_markdown_have_offsets_levels_and_plain_words() -> None:
    found = list(headings(MARKDOWN, "markdown"))
    assert [(heading.level, heading.title) for heading in found] == [
        (1, "Guide"),
        (2, "Set up now"),
        (3, "Deep"),
        (2, "Other"),
    ]
    assert all(MARKDOWN[heading.offset] == "#" for heading in found)


def test_headings_of_text_are_underlined_lines() -> None:
    text = "Title\n*****\n\nwords\n\nPart\n====\n\na | b\n--\n\nDeeper\n------\n\nNext\n====\n"
    assert [(heading.level, heading.title) for heading in headings(text, "text")] == [
        (1, "Title"),
        (2, "Part"),
        (3, "Deeper"),
        (2, "Next"),
    ]


def test_a_chunk_knows_the_headings_above_it_but_not_those_within() -> None:
    chunks = Splitter(70).split(MARKDOWN, "markdown", title="Guide")
    assert {
        chunk.content.split("\n")[0]: chunk.heading
        for chunk in chunks
        if chunk.content.startswith(("#", "Deep", "Bye"))
    } == {
        "# Guide": None,
        "## Set up *now*": None,
        "### Deep": "Set up now",
        "Deep text that is here to be long enough to be a chunk of its own.": "Set up now > Deep",
        "## Other": None,
        "Bye, with words enough to stand alone in a chunk of sixty characters.": "Other",
    }


def test_a_blank_text_has_no_chunk() -> None:
    assert Splitter().split(" \n\n") == []
    assert Splitter().split("", "markdown") == []


def test_a_text_without_spaces_is_split_all_the_same() -> None:
    chunks = Splitter().split("漢" * 4000)
    assert "".join(chunk.content for chunk in chunks) == "漢" * 4000
    assert max(len(chunk.content) for chunk in chunks) <= Splitter().capacity


@given(
    st.text(alphabet="ab .#\n*`-=é漢|>", max_size=400),
    st.sampled_from(("markdown", "text")),
    st.integers(min_value=5, max_value=80),
)
def test_chunks_hold_all_of_the_text_in_order_none_blank_none_too_long(
    text: str, markup: Markup, capacity: int
) -> None:
    chunks = Splitter(capacity).split(text, markup)
    assert "".join("".join(chunk.content.split()) for chunk in chunks) == "".join(text.split())
    assert all(chunk.content.strip() and len(chunk.content) <= capacity for chunk in chunks)
