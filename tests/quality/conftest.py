from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared() -> Path:
    """Folder of collections that are not part of the repository: KBSEARCH_SHARED, or `../shared` beside the checkout."""
    given = os.environ.get("KBSEARCH_SHARED")
    return Path(given) if given else Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture(scope="session")
def collections() -> Path:
    folder = shared() / "data"
    if not folder.is_dir():
        pytest.skip("no collections with relevance judgements: KBSEARCH_SHARED names no folder with data/")
    return folder
