"""What the model is given is decided by the recipe, and by nothing else."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kbsearch import KBSearch
from kbsearch.ingest import Document, Source, Splitter, embed_missing, ingest, read_paths
from kbsearch.ingest.organizations import organization_id
from kbsearch.ingest.spaces import ensure_space, space_recipe
from kbsearch.ingest.template import TEMPLATE, Template, Tokens
from kbsearch.models import Chunk
from tests.ingest.test_pipeline import Connection, HashEmbedder, rows, run
from tests.ingest.test_sources import write

SPACES = "SELECT s.id, s.name, s.recipe, s.recipe_sha256 FROM kbsearch.kb_embedding_spaces AS s ORDER BY s.id"


class Prefixed(HashEmbedder):
    """Puts words before texts, as its recipe says; what the model reads is in `read`."""

    def __init__(self, query: str = "query: ", passage: str = "passage: ", revision: str = "1") -> None:
        super().__init__(revision)
        self.prefixes = {"query": query, "passage": passage}
        self.read: list[str] = []

    @property
    def recipe(self) -> Mapping[str, Any]:
        return {"digest": "sha256", **{f"{role}_prefix": prefix for role, prefix in self.prefixes.items()}}

    def embed_passages(self, texts: Any) -> Any:
        prefixed = [self.prefixes["passage"] + text for text in texts]
        self.read += prefixed
        return super().embed_passages(prefixed)

    def embed_queries(self, texts: Any) -> Any:
        prefixed = [self.prefixes["query"] + text for text in texts]
        self.read += prefixed
        return super().embed_queries(prefixed)


def test_a_template_says_what_the_model_is_given() -> None:
    assert Template().render("T", "a/b.md > H", "c") == "T\na/b.md > H\nc"
    labelled = Template(text="Title: {title}\nIn {heading}\n\n{content}{{}}")
    assert labelled.render("T", "H", "c") == "Title: T\nIn H\n\nc{}"
    assert labelled.render(None, " ", "c") == "\nc{}"
    assert labelled.render("", None, " \n") == ""
    assert Template(text="{content}").render("T", "H", "{title}") == "{title}"


@pytest.mark.parametrize(
    "text",
    ["", "{title}", "{content", "{contents}", "{content!r}", "{content:>10}", "{}", "{0} {content}", "}{content}"],
)
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no template"):
        Splitter(layout=text)


def test_the_recipe_holds_all_that_decides_the_input_and_another_one_is_another_space(connection: Connection) -> None:
    def count(text: str) -> int:
        return len(text)

    variants = [
        (HashEmbedder(), Splitter()),
        (HashEmbedder("2"), Splitter()),
        (HashEmbedder(), Splitter(500)),
        (HashEmbedder(), Splitter(layout="{content}")),
        (HashEmbedder(), Splitter(path=False)),
        (HashEmbedder(), Splitter(guarded=False)),
        (HashEmbedder(), Splitter(tokens=Tokens(count, 512, "m"))),
        (HashEmbedder(), Splitter(256, "tokens", Tokens(count, 512, "m"))),
        (HashEmbedder(), Splitter(256, "tokens", Tokens(count, 511, "m"))),
        (Prefixed(), Splitter()),
        (Prefixed(query="ask: "), Splitter()),
        (Prefixed(passage="text: "), Splitter()),
    ]
    identities = {(one.revision, json.dumps(space_recipe(one, splitter), sort_keys=True)) for one, splitter in variants}
    assert len(identities) == len(variants)
    made = [ensure_space(connection, *variant) for variant in variants]
    assert len({space.id for space in made}) == len(variants)
    assert [ensure_space(connection, *variant) for variant in variants] == made
    found = rows(connection, SPACES)
    assert len({digest for _, _, _, digest in found}) == len(variants) - 1  # the revision is no part of the recipe
    assert found[0][2]["template"] == TEMPLATE
    (digest,) = rows(connection, "SELECT s.recipe::text FROM kbsearch.kb_embedding_spaces AS s ORDER BY s.id LIMIT 1")
    assert found[0][3] == hashlib.sha256(digest[0].encode()).hexdigest()


def test_a_space_may_bear_any_name(connection: Connection) -> None:
    named = ensure_space(connection, HashEmbedder(), Splitter(), name="ours")
    assert named.name == "ours"
    assert ensure_space(connection, HashEmbedder(), Splitter()) == named
    with pytest.raises(ValueError, match="'ours' exists with another model or recipe"):
        ensure_space(connection, HashEmbedder("2"), Splitter(), name="ours")


def test_a_file_is_found_by_its_folders_name_in_both_legs(connection: Connection, tmp_path: Path) -> None:
    class Words(HashEmbedder):
        """Two texts are near if they have a word of ten letters or more in common."""

        def vector(self, text: str) -> list[float]:
            found = [hashlib.sha256(word.encode()).digest()[0] % 8 for word in _words(text) if len(word) > 9]
            return [float(place in found) + 0.01 for place in range(8)]

    texts = {"quarterly/a.md": "# One\n\nalpha", "procurement/sub/b.md": "# Two\n\nbeta", "c.md": "# Three\n\ngamma"}
    write(tmp_path, dict(texts))
    embedder = Words()
    report = run(connection, list(read_paths(tmp_path, kind="article")), embedder=embedder, splitter=None)
    client = KBSearch(connection, embedder=embedder)
    for profile in ("keyword@1", "vector@1"):
        page = client.search(report.org_id, "procurement", profile=profile)
        assert page.items[0].external_ref == "procurement/sub/b.md", profile
    without = run(
        connection,
        list(read_paths(tmp_path, kind="article")),
        org="without",
        embedder=embedder,
        splitter=Splitter(path=False),
    )
    assert client.search(without.org_id, "procurement", profile="keyword@1").items == ()
    assert "procurement" in "".join(embedder.inputs)


def _words(text: str) -> list[str]:
    return "".join(character if character.isalnum() else " " for character in text.lower()).split()


def test_every_chunk_of_a_file_stands_below_its_path_and_below_its_headings() -> None:
    text = "intro " * 20 + "\n\n# S\n\n" + "x " * 60 + "\n\n## H\n\n" + "y " * 60
    chunks = Splitter(80).split(text, "markdown", title="T", path="a/b.md")
    assert {chunk.heading for chunk in chunks} == {"a/b.md", "a/b.md > S", "a/b.md > S > H"}
    assert all(str(chunk.heading).startswith("a/b.md") for chunk in chunks)
    assert [chunk.content for chunk in chunks] == [
        chunk.content for chunk in Splitter(80).split(text, "markdown", title="T")
    ]


@pytest.mark.parametrize("path", ["/srv/a.md", "C:\\a.md", "c:/a.md", "\\\\host\\a.md", "../a.md", ".."])
def test_an_absolute_path_of_a_document_is_refused(connection: Connection, path: str) -> None:
    report = run(connection, [Document("a", "A", "x", path=path)])
    assert [entry.reason for entry in report.rejected] == ["path is absolute"]


@pytest.mark.parametrize("path", ["a.md", "~a.md", "..a/b.md", "a:b.md", "a\\b.md"])
def test_a_relative_path_is_none(connection: Connection, path: str) -> None:
    assert run(connection, [Document("a", "A", "x", path=path)]).written == 1


def test_missing_vectors_are_made_by_the_recipe_of_the_space_that_searches_use(connection: Connection) -> None:
    embedder = HashEmbedder()
    report = run(
        connection, [Document("a", "A", "x")], embedder=embedder, splitter=Splitter(layout="{content} by {title}")
    )
    KBSearch(connection).upsert_article(report.org_id, external_ref="plain", title="P", chunks=[Chunk("y", "H")])
    assert embed_missing(connection, report.org_id, embedder).space == report.space
    assert embedder.inputs == ["x by A", "y by P"]


def test_the_digest_beside_a_vector_is_that_of_the_exact_input_prefix_and_all(connection: Connection) -> None:
    embedder = Prefixed()
    org_id = organization_id(connection, "o", create=True)
    ingest(connection, org_id, [Source("s", [Document("a", "A", "alpha")])], embedder=embedder)
    assert embedder.read == ["passage: A\nalpha"]
    found = rows(
        connection,
        """SELECT e.input_sha256, i.input FROM kbsearch.kb_article_embeddings AS e
        JOIN kbsearch.kb_embedding_inputs AS i ON i.org_id = e.org_id AND i.input_sha256 = e.input_sha256""",
    )
    assert found == [(hashlib.sha256(b"passage: A\nalpha").digest(), "passage: A\nalpha")]


def test_a_recipe_has_nothing_of_the_machine_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = []
    for home in ("one", "two"):
        monkeypatch.setenv("HOME", str(tmp_path / home))
        monkeypatch.setenv("LOGNAME", f"user{home}")
        recipes.append(space_recipe(HashEmbedder(), Splitter.of(HashEmbedder())))
    assert all(one == other for one, other in itertools.pairwise(recipes))
    assert str(tmp_path) not in json.dumps(recipes)
