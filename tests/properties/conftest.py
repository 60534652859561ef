"""What the property tests share. HYPOTHESIS_PROFILE: ci (default, the same examples every time), long (ten times as many, new ones every
time; run it with --timeout=0) or quick (as ci, and the first failure is reported as found)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.conftest import CONTAINER, asked_for
from tests.load import Database

settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)
settings.register_profile(
    "quick", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False
)
settings.register_profile("long", settings.get_profile("ci"), derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The laws hold on the embedded server and in a container."""
    if asked_for(metafunc.config) is None and "target_server" in metafunc.fixturenames:
        metafunc.parametrize(
            "target_server", [None, CONTAINER], ids=["embedded", CONTAINER], indirect=True, scope="session"
        )


@pytest.fixture(scope="session")
def db(shared_database: str) -> Iterator[Database]:
    """The shared database with embedding spaces and a neighbour; tests load organisations of their own."""
    with psycopg.connect(shared_database, autocommit=True) as connection:
        database = Database(shared_database, connection)
        database.prepare()
        yield database
