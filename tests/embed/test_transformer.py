"""SentenceTransformersEmbedder, against a double with the library's interface, and against the library itself where it is installed."""

# ruff: noqa: ARG002  (the double has the arguments that the library has)

from __future__ import annotations

import importlib
import inspect
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kbsearch.embed import Embedder, EmbeddingError, MissingExtraError, SentenceTransformersEmbedder, TextsRefusedError
from tests.embed.service import vector

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Tokenizer:
    def __call__(
        self, text: list[str], *, add_special_tokens: bool, truncation: bool, verbose: bool
    ) -> dict[str, list[list[int]]]:
        assert not truncation
        return {"input_ids": [list(range(len(one.split()) + 2 * add_special_tokens)) for one in text]}


class Model:
    """What a SentenceTransformer offers since 2.x of the library. Its vector of a text is the digest of prompt and text."""

    last: Model

    def __init__(
        self,
        model_name_or_path: str | None = None,
        *,
        device: str | None = None,
        prompts: dict[str, str] | None = None,
        cache_folder: str | None = None,
        trust_remote_code: bool = False,
        revision: str | None = None,
        local_files_only: bool = False,
        token: bool | str | None = None,
        truncate_dim: int | None = None,
    ) -> None:
        if model_name_or_path == "org/missing":
            raise OSError("org/missing is not a local folder and is not a valid model identifier")
        self.made_with = {"model": model_name_or_path, "revision": revision, "device": device}
        self.trusted, self.size = trust_remote_code, truncate_dim or 6
        self.prompts: dict[str, str] = prompts or {}
        self.default_prompt_name: str | None = None
        self.max_seq_length: int | None = 6
        self.tokenizer: Any = Tokenizer()
        self.calls: list[dict[str, Any]] = []
        Model.last = self

    def get_sentence_embedding_dimension(self) -> int | None:
        return self.size

    def encode(
        self,
        sentences: str | list[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        **kwargs: Any,
    ) -> Any:
        self.calls.append({"prompt": prompt, "batch_size": batch_size, "bar": show_progress_bar, **kwargs})
        assert convert_to_numpy
        assert not normalize_embeddings
        prefix = prompt if prompt is not None else self.prompts.get(prompt_name or self.default_prompt_name or "", "")
        return np.array([vector(prefix + text, self.size) for text in sentences], dtype=np.float32)


class NewerModel(Model):
    """Since 5.0 there are methods for the two roles, since 6.0 another name for the number of dimensions."""

    def get_embedding_dimension(self) -> int | None:
        return self.size

    def get_sentence_embedding_dimension(self) -> int | None:
        raise FutureWarning("renamed")

    def encode_query(self, sentences: list[str], prompt: str | None = None, **kwargs: Any) -> Any:
        return self.encode(sentences, prompt=prompt, task="query", **kwargs)

    def encode_document(self, sentences: list[str], prompt: str | None = None, **kwargs: Any) -> Any:
        return self.encode(sentences, prompt=prompt, task="document", **kwargs)


@pytest.fixture(params=[Model, NewerModel])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Model]:
    module = ModuleType("sentence_transformers")
    kind: type[Model] = request.param
    vars(module)["SentenceTransformer"] = kind
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return kind


def expected(*texts: str, dimensions: int = 6) -> Any:
    values = np.array([vector(text, dimensions) for text in texts])
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


def test_vectors_and_identity(library: type[Model]) -> None:
    embedder = SentenceTransformersEmbedder("org/Small-Model", device="cpu", batch_size=7, trust_remote_code=True)
    assert isinstance(embedder, Embedder)
    assert np.array_equal(embedder.embed_passages(["a", "b"]), expected("a", "b"))
    assert (embedder.name, embedder.model, embedder.revision, embedder.dimensions) == (
        "small-model",
        "org/Small-Model",
        "",
        6,
    )
    assert Model.last.made_with == {"model": "org/Small-Model", "revision": None, "device": "cpu"}
    assert Model.last.trusted
    call = Model.last.calls[0]
    assert (call["batch_size"], call["bar"]) == (7, False)
    assert "cpu" not in json.dumps(dict(embedder.recipe))
    assert embedder.recipe["max_tokens"] == 6


def test_methods_for_the_roles_are_used_where_the_library_has_them(library: type[Model]) -> None:
    embedder = SentenceTransformersEmbedder("org/m")
    embedder.embed_queries(["a"])
    embedder.embed_passages(["a"])
    tasks = [call.get("task") for call in Model.last.calls]
    assert tasks == (["query", "document"] if library is NewerModel else [None, None])


@pytest.mark.parametrize("key", ["document", "passage", "corpus"])
def test_a_models_own_prompts_are_taken_unless_others_are_given(library: type[Model], key: str) -> None:
    prompts = {"query": "query: ", key: "passage: "}
    embedder = SentenceTransformersEmbedder("org/m", prompts=prompts)
    assert np.array_equal(embedder.embed_queries(["a"]), expected("query: a"))
    assert np.array_equal(embedder.embed_passages(["a"]), expected("passage: a"))
    assert (embedder.recipe["query_prefix"], embedder.recipe["passage_prefix"]) == ("query: ", "passage: ")
    other = SentenceTransformersEmbedder("org/m", prompts=prompts, query_prefix="ask: ", passage_prefix="")
    assert np.array_equal(other.embed_queries(["a"]), expected("ask: a"))
    assert np.array_equal(other.embed_passages(["a"]), expected("a"))
    assert other.recipe != embedder.recipe


def test_no_default_prompt_slips_in(library: type[Model]) -> None:
    embedder = SentenceTransformersEmbedder("org/m", prompts={"sts": "similar: "})
    Model.last.default_prompt_name = "sts"
    assert np.array_equal(embedder.embed_queries(["a"]), expected("a"))


def test_shortened_vectors_are_another_recipe(library: type[Model]) -> None:
    embedder = SentenceTransformersEmbedder("org/m", dimensions=3)
    assert np.array_equal(embedder.embed_passages(["a"]), expected("a", dimensions=3))
    assert embedder.dimensions == 3
    assert embedder.recipe["truncated_dimensions"] == 3


def test_dimensions_that_the_model_does_not_know_are_learned(
    library: type[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("get_embedding_dimension", "get_sentence_embedding_dimension"):
        monkeypatch.setattr(library, name, lambda _self: None, raising=False)
    embedder = SentenceTransformersEmbedder("org/m")
    assert embedder.dimensions == 6
    assert embedder.embed_passages([]).shape == (0, 6)


def cached(home: Path, repository: str, files: Path | None = None) -> None:
    """Lay a model into the hub's cache as a download does."""
    folder = home / f"models--{repository.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    if files is None:
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
    else:
        shutil.copytree(files, snapshot)
    (folder / "refs").mkdir()
    for reference in ("main", "v1"):
        (folder / "refs" / reference).write_text(COMMIT)


def test_the_revision_is_the_commit_that_was_loaded(
    library: type[Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("huggingface_hub")
    cached(tmp_path, "org/m")
    cached(tmp_path, "sentence-transformers/all-m")
    for model, revision in (("org/m", None), ("org/m", "v1"), ("org/m", COMMIT), ("all-m", None)):
        embedder = SentenceTransformersEmbedder(model, revision=revision, cache_folder=str(tmp_path))
        assert embedder.revision == COMMIT
    assert SentenceTransformersEmbedder("org/n", cache_folder=str(tmp_path)).revision == ""
    assert SentenceTransformersEmbedder("org/m", revision="v2", cache_folder=str(tmp_path)).revision == "v2"
    assert SentenceTransformersEmbedder("a/b/c", revision="v2", cache_folder=str(tmp_path)).revision == "v2"
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path))
    assert SentenceTransformersEmbedder("org/m").revision == COMMIT
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert SentenceTransformersEmbedder("org/m", revision="v1").revision == "v1"


def test_a_model_of_a_folder_is_known_by_its_files_and_not_by_its_path(library: type[Model], tmp_path: Path) -> None:
    revisions = []
    for place, content in (("one", "weights"), ("two", "weights"), ("three", "other weights")):
        folder = tmp_path / place / "m"
        (folder / "1_Pooling").mkdir(parents=True)
        (folder / "1_Pooling/config.json").write_text("{}")
        (folder / "model.bin").write_text(content)
        embedder = SentenceTransformersEmbedder("org/m", path=folder)
        assert Model.last.made_with["model"] == str(folder)
        assert str(tmp_path) not in json.dumps([embedder.model, embedder.name, dict(embedder.recipe)])
        revisions.append(embedder.revision)
    assert revisions[0] == revisions[1] != revisions[2]
    assert revisions[0].startswith("sha256:")
    for path in (str(tmp_path), "./m", "~/m", "../m"):
        with pytest.raises(EmbeddingError, match="is a path") as caught:
            SentenceTransformersEmbedder(path)
        assert "as path" in str(caught.value.hint)


def test_texts_that_are_cut_are_counted(library: type[Model]) -> None:
    embedder = SentenceTransformersEmbedder("org/m", passage_prefix="passage: ")
    embedder.embed_passages(["one two three", "one two three four"])
    assert embedder.truncated == 1
    embedder.embed_queries(["one two three four", "one two three four five"])
    assert embedder.truncated == 2
    assert (embedder.max_tokens, embedder.count_tokens("one two three four five six seven")) == (6, 10)
    Model.last.tokenizer = object()  # static models have one of another kind, and read everything
    assert embedder.max_tokens is None
    embedder.embed_passages(["word " * 100])
    assert embedder.truncated == 2


def test_faults_are_told(library: type[Model], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddingError, match="cannot load 'org/missing': org/missing is not a local folder"):
        SentenceTransformersEmbedder("org/missing")
    embedder = SentenceTransformersEmbedder("org/m")
    monkeypatch.setattr(library, "encode", lambda _self, _texts, **_rest: np.zeros((1, 6)))
    with pytest.raises(TextsRefusedError, match="all components of its vector are zero"):
        embedder.embed_passages(["a"])
    with pytest.raises(ValueError, match="blank"):
        embedder.embed_passages([" "])


def test_the_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match="pip install sentence-transformers"):
        SentenceTransformersEmbedder("org/m")


# The library itself


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights and a vocabulary of a few words, saved as a model of the library is."""
    modules: Any = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    library: Any = importlib.import_module("sentence_transformers")
    folder = tmp_path_factory.mktemp("tiny")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "query", "passage", ":", "a", "cat", "sat", "rates", "rose"]
    (folder / "vocab.txt").write_text("\n".join(words))
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    transformers.BertModel(config).save_pretrained(folder / "bert")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    word = modules.Transformer(str(folder / "bert"), max_seq_length=8)
    model = library.SentenceTransformer(
        modules=[word, modules.Pooling(32)],
        prompts={"query": "query: ", "passage": "passage: ", "sts": "cat "},
        default_prompt_name="sts",
        device="cpu",
    )
    model.save(str(folder / "saved"))
    return folder / "saved"


def test_with_the_library_itself(tiny: Path) -> None:
    library: Any = importlib.import_module("sentence_transformers")
    plain = library.SentenceTransformer(str(tiny), device="cpu")
    embedder = SentenceTransformersEmbedder("org/tiny", path=tiny, device="cpu")
    assert (embedder.dimensions, embedder.recipe["max_tokens"]) == (32, 8)
    assert embedder.revision.startswith("sha256:")
    given = ["a cat sat", "rates rose"]
    for found, prefix in ((embedder.embed_queries(given), "query: "), (embedder.embed_passages(given), "passage: ")):
        reference = plain.encode([prefix + text for text in given], prompt="", normalize_embeddings=True)
        assert np.allclose(found, reference, atol=1e-6)
    bare = SentenceTransformersEmbedder("org/tiny", path=tiny, device="cpu", query_prefix="", dimensions=8)
    reference = plain.encode(given, prompt="", truncate_dim=8, normalize_embeddings=True)
    assert np.allclose(bare.embed_queries(given), reference, atol=1e-6)
    assert bare.dimensions == 8
    assert embedder.truncated == 0
    embedder.embed_passages(["a cat sat a cat sat a cat sat"])
    assert embedder.truncated == 1


def test_the_library_itself_loads_from_the_cache_that_the_revision_is_taken_from(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(tmp_path, "org/tiny", tiny)
    settings: dict[str, Any] = {"cache_folder": str(tmp_path), "local_files_only": True, "device": "cpu"}
    embedder = SentenceTransformersEmbedder("org/tiny", **settings)
    assert embedder.revision == COMMIT
    by_path = SentenceTransformersEmbedder("org/tiny", path=tiny, device="cpu")
    assert np.array_equal(embedder.embed_passages(["a cat sat"]), by_path.embed_passages(["a cat sat"]))
    with pytest.raises(EmbeddingError, match="cannot load 'org/other'"):
        SentenceTransformersEmbedder("org/other", **settings)


def test_the_double_has_the_librarys_interface() -> None:
    library: Any = pytest.importorskip("sentence_transformers")
    for method in ("__init__", "encode"):
        ours = inspect.signature(getattr(Model, method)).parameters
        theirs = inspect.signature(getattr(library.SentenceTransformer, method)).parameters
        assert set(ours) - {"sentences"} <= set(theirs)
