"""The Docker engine and kbsearch's images.

Where they are missing the tests are skipped; with KBSEARCH_DOCKER=required, as `make test-docker` has it, they fail.
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Generator, Iterator

import pytest

from kbsearch import migrate
from tests.docker.engine import CLI, DATABASE, Engine, lacking, problem, run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tests that are skipped for the same reason are one line of the summary, wherever they are."""
    report = yield
    if report.when == "setup" and isinstance(report.longrepr, tuple):
        report.longrepr = (__file__, 1, report.longrepr[2])
    return report


@pytest.fixture(scope="session")
def swept() -> Iterator[None]:
    """There is an engine, without what killed sessions have left."""
    found = problem()
    if found:
        lacking(found)
    Engine().sweep()
    # Ended by a signal, tests remove what they made as they do after Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def images(swept: None) -> None:
    """There are the images of this checkout."""
    ours = hashlib.sha256(migrate.script().encode()).hexdigest()
    for image in (DATABASE, CLI):
        installs = run(
            ["docker", "image", "inspect", "--format", '{{index .Config.Labels "kbsearch.installs"}}', image]
        )
        if installs.code:
            lacking("kbsearch's images are not built; make test-docker builds and tests them")
        if installs.out.strip() != ours:
            lacking("kbsearch's images are of another state of the SQL; make test-docker builds and tests them anew")


@pytest.fixture
def bare_engine(swept: None) -> Iterator[Engine]:
    """The engine, with any images; what the test makes is removed at its end."""
    made = Engine()
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def engine(images: None, bare_engine: Engine) -> Engine:
    """The engine, with the images of this checkout; what the test makes is removed at its end."""
    return bare_engine
