"""For the tests of projects that use kbsearch: assertions, organisations with articles, and a pytest plugin.

The plugin's fixtures (`kbsearch_database`, `kbsearch_org`, …) need no import: pytest finds them where kbsearch is installed. They are in
`_kbsearch_pytest`, a module outside of this package, so that a test run that uses none of them does not import kbsearch.
"""

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
