"""The Docker engine and kbsearch's images.

Where they are missing the tests are skipped; with KBSEARCH_DOCKER=required, as `make test-docker` has it, they fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from kbsearch import migrate
from tests.docker.engine import CLI, DATABASE, Engine, lacking, problem, run


@pytest.fixture(scope="session")
def bare_engine() -> Iterator[Engine]:
    """The engine, with any images."""
    found = problem()
    if found:
        lacking(found)
    made = Engine()
    made.sweep()
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def engine(bare_engine: Engine) -> Engine:
    """The engine, with the images of this checkout."""
    ours = hashlib.sha256(migrate.script().encode()).hexdigest()
    for image in (DATABASE, CLI):
        installs = run(
            ["docker", "image", "inspect", "--format", '{{index .Config.Labels "kbsearch.installs"}}', image]
        )
        if installs.code:
            lacking("kbsearch's images are not built; make test-docker builds and tests them")
        if installs.out.strip() != ours:
            lacking("kbsearch's images are of another state of the SQL; make test-docker builds and tests them anew")
    return bare_engine
