"""What the tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_session_a_model() -> Iterator[None]:
    """Commands that run in this process load a model once: a session keeps nothing of what it is asked, and making it takes longer than a command."""

    runtime: Any = import_module("onnxruntime")
    made = runtime.InferenceSession

    @cache
    def session(model: str, providers: tuple[str, ...]) -> Any:
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        return made(model, options, providers=list(providers))

    def shared(model: str, options: Any = None, *, providers: Any = ()) -> Any:
        plain = options is not None and options.intra_op_num_threads == 0
        return session(model, tuple(providers)) if plain else made(model, options, providers=list(providers))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "InferenceSession", shared)
        yield
