from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kbsearch.embed import CallableEmbedder, Embedder, EmbeddingError, TextsRefusedError
from kbsearch.embed.checks import check_vectors
from tests.embed.service import DIMENSIONS, vector


def embed(texts: list[str]) -> list[list[float]]:
    return [vector(text) for text in texts]


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.array,
        lambda rows: np.array(rows, dtype=np.float16),
        lambda rows: [np.array(row) for row in rows],
        lambda rows: [tuple(row) for row in rows],
        iter,
        lambda rows: (np.array(row) for row in rows),
        lambda rows: dict(enumerate(rows)).values(),
    ],
    ids=["list", "tuple", "array", "half", "arrays", "tuples", "iterator", "generator", "view"],
)
def test_any_sequence_of_vectors_will_do(form: Any) -> None:
    embedder = CallableEmbedder(lambda texts: form(embed(texts)), model="org/M")
    found = embedder.embed_passages(["a", "b"])
    expected = np.array(embed(["a", "b"]))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, atol=1e-3)
    assert (embedder.dimensions, embedder.name, embedder.model, embedder.revision) == (DIMENSIONS, "m", "org/M", "")
    assert isinstance(embedder, Embedder)


def test_integers_are_numbers() -> None:
    assert CallableEmbedder(lambda _texts: [[3, 4]], model="m").embed_passages(["a"]).tolist() == [
        pytest.approx([0.6, 0.8])
    ]


def test_questions_have_a_function_and_a_prefix_of_their_own() -> None:
    asked: list[tuple[str, list[str]]] = []

    def passages(texts: list[str]) -> list[list[float]]:
        asked.append(("passage", texts))
        return embed(texts)

    def queries(texts: list[str]) -> list[list[float]]:
        asked.append(("query", texts))
        return embed(texts)

    embedder = CallableEmbedder(
        passages, query_function=queries, model="m", dimensions=DIMENSIONS, query_prefix="q: ", passage_prefix="p: "
    )
    embedder.embed_queries(["a"])
    embedder.embed_passages(["a", "b"])
    assert asked == [("query", ["q: a"]), ("passage", ["p: a", "p: b"])]


def test_what_decides_the_vectors_is_in_the_recipe() -> None:
    def recipe(**settings: Any) -> str:
        return json.dumps(dict(CallableEmbedder(embed, model="m", dimensions=3, **settings).recipe), sort_keys=True)

    different = [
        recipe(),
        recipe(query_prefix="a"),
        recipe(passage_prefix="a"),
        recipe(normalise=False),
        recipe(query_function=embed),
        recipe(recipe={"pooling": "cls"}),
    ]
    assert len(set(different)) == len(different)


def test_the_function_is_asked_for_the_dimensions_once_and_only_when_they_are_needed() -> None:
    asked: list[list[str]] = []

    def counted(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return embed(texts)

    embedder = CallableEmbedder(counted, model="m")
    assert asked == []
    assert embedder.embed_passages([]).shape == (0, DIMENSIONS)
    assert embedder.dimensions == DIMENSIONS
    assert len(asked) == 1
    assert CallableEmbedder(counted, model="m", dimensions=7).embed_queries([]).shape == (0, 7)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "the answer is a NoneType, not a sequence of vectors"),
        ("abc", "the answer is a str"),
        ({"a": [1.0]}, "the answer is a dict"),
        ([[1.0, 2.0]], "has 1 vectors for 2 texts"),
        ([1.0, 2.0], r"vector 0 is a float of shape \(\)"),
        ([[1.0], [1.0, 2.0]], "vector 1 of 2 has 2 dimensions, the first has 1"),
        ([[], []], "the vectors are empty"),
        (np.ones((2, 2, 2)), r"vector 0 is a ndarray of shape \(2, 2\)"),
        (np.ones((2, 3), dtype=bool), "values of type bool"),
        (np.ones((2, 3), dtype=complex), "values of type complex128"),
        ([["1", "2"], ["1", "2"]], "values of type <U1"),
        (np.ones((2, 2001)), "2001 dimensions"),
        ([[10**400, 1], [1, 1]], "vector 0"),
    ],
)
def test_an_answer_that_is_no_vectors_is_refused(answer: Any, message: str) -> None:
    embedder = CallableEmbedder(lambda _texts: answer, model="m")
    with pytest.raises(EmbeddingError, match=message) as caught:
        embedder.embed_passages(["a", "b"])
    assert not isinstance(caught.value, TextsRefusedError)


def test_other_dimensions_than_before_are_refused() -> None:
    answers = [[[1.0, 2.0]], [[1.0, 2.0, 3.0]]]
    embedder = CallableEmbedder(lambda _texts: answers.pop(0), model="m")
    embedder.embed_passages(["a"])
    with pytest.raises(EmbeddingError, match="has 3 dimensions, expected are 2"):
        embedder.embed_queries(["a"])


def test_vectors_without_direction_are_named_and_the_others_kept() -> None:
    rows = [[1.0, 0.0], [0.0, 0.0], [float("nan"), 1.0], [0.0, 2.0]]
    with pytest.raises(TextsRefusedError, match="m has no vector for 2 of 4 texts; text 1: all components") as caught:
        CallableEmbedder(lambda _texts: rows, model="m").embed_passages(["a", "b", "c", "d"])
    assert list(caught.value.failures) == [1, 2]
    assert caught.value.vectors is not None
    assert caught.value.vectors[[0, 3]].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert np.isnan(caught.value.vectors[[1, 2]]).all()


def test_what_the_function_raises_is_told_with_its_cause() -> None:
    def failing(_texts: list[str]) -> Iterator[list[float]]:
        yield [1.0]
        raise RuntimeError("no GPU")

    with pytest.raises(EmbeddingError, match=r"embedding function of m failed: RuntimeError: no GPU") as caught:
        CallableEmbedder(failing, model="m").embed_passages(["a", "b"])
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert set(caught.value.failures) == {0, 1}


def test_a_coroutine_function_is_refused() -> None:
    async def later(texts: list[str]) -> list[list[float]]:
        return embed(texts)

    with pytest.raises(EmbeddingError, match="is a coroutine function"):
        CallableEmbedder(later, model="m").embed_passages(["a"])
    with pytest.raises(EmbeddingError, match="a str is no function"):
        CallableEmbedder("later", model="m")  # type: ignore[arg-type]


def test_blank_texts_never_reach_the_function() -> None:
    with pytest.raises(ValueError, match="text 0 of 1 is blank"):
        CallableEmbedder(lambda _texts: pytest.fail("asked"), model="m").embed_passages([" "])


@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(width=64)),
    st.booleans(),
)
def test_every_row_is_a_direction_or_is_named(values: Any, normalise: bool) -> None:
    vectors, failures = check_vectors(values.copy(), len(values), None, normalise=normalise)
    assert vectors.shape == values.shape
    for position, row in enumerate(values):
        with np.errstate(over="ignore", invalid="ignore"):
            norm = np.linalg.norm(row)
        if position in failures:
            assert np.isnan(vectors[position]).all()
            assert not 1e-15 <= norm <= 1e15
        elif normalise:
            assert np.linalg.norm(vectors[position]) == pytest.approx(1, abs=1e-6)
            assert np.allclose(vectors[position] * norm, row, rtol=1e-5, atol=norm * 1e-6)
        else:
            assert np.array_equal(vectors[position], row.astype(np.float32))
