"""For the tests of projects that use kbsearch: assertions, organisations with articles, and a pytest plugin.

The plugin's fixtures (`kbsearch_database`, `kbsearch_org`, …) need no import: pytest finds them where kbsearch is installed. They are in
`_kbsearch_pytest`, a module outside of this package, so that a test run that uses none of them does not import kbsearch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
"""The public names, by the module of this package that has them."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker knows the names from above, and no others

    def __getattr__(name: str) -> Any:
        """Import what is asked for when it is asked for: the process that keeps a run's server needs none of it."""
        if name in _MODULES:
            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        elif name in _NAMES:
            value = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
