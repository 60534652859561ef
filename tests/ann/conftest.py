from __future__ import annotations

from tests.properties.conftest import db  # noqa: F401 -- the same database and settings as the laws
