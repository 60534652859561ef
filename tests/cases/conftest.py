from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Session
from tests.sql.corpus import Corpus


@pytest.fixture
def corpus(shared_session: Session) -> Iterator[Corpus]:
    """A fresh organisation in a database that tests share."""
    with shared_session.lent() as connection:
        yield Corpus(connection)
