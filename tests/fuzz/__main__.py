"""`python -m tests.fuzz`."""

from __future__ import annotations

import sys

from tests.fuzz.campaign import main

if __name__ == "__main__":
    sys.exit(main())
