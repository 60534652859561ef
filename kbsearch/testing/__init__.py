"""For the tests of projects that use kbsearch: assertions, organisations with articles, and a pytest plugin.

The plugin's fixtures (`kbsearch_database`, `kbsearch_org`, …) need no import: pytest finds them where kbsearch is installed. They are in
`_kbsearch_pytest`, a module outside of this package, so that a test run that uses none of them does not import kbsearch.
"""

from typing import TYPE_CHECKING

from kbsearch.lazy import attach

if TYPE_CHECKING:
    from kbsearch.testing.assertions import (
        assert_deterministic,
        assert_deterministic_async,
        assert_pages_partition,
        assert_pages_partition_async,
    )
    from kbsearch.testing.databases import Database, Server
    from kbsearch.testing.organizations import Organization, load_organization

__all__ = [
    "Database",
    "Organization",
    "Server",
    "assert_deterministic",
    "assert_deterministic_async",
    "assert_pages_partition",
    "assert_pages_partition_async",
    "load_organization",
]

_NAMES = {
    "assertions": (
        "assert_deterministic",
        "assert_deterministic_async",
        "assert_pages_partition",
        "assert_pages_partition_async",
    ),
    "databases": ("Database", "Server"),
    "organizations": ("Organization", "load_organization"),
}
"""The public names, by the module of this package that has them. The process that keeps a run's server needs none."""

if not TYPE_CHECKING:  # a type checker knows the names from above, and no others
    __getattr__, __dir__ = attach(__name__, _NAMES)
