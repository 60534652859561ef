from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.embed.service import Service, running


@pytest.fixture
def service() -> Iterator[Service]:
    with running() as service:
        yield service


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "KBSEARCH_EMBEDDER",
        "KBSEARCH_EMBED_API_KEY",
        "KBSEARCH_EMBED_BASE_URL",
        "KBSEARCH_EMBED_DIMENSIONS",
        "KBSEARCH_EMBED_MODEL",
        "KBSEARCH_EMBED_PASSAGE_PREFIX",
        "KBSEARCH_EMBED_QUERY_PREFIX",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
