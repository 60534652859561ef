"""Runs the tour on DATABASE_URL and compares what psql prints with tour.out, as PostgreSQL's own regression tests do.

python check.py             exits with 1 and shows the difference if there is one
python check.py --accept    writes tour.out anew
"""

import difflib
import os
import subprocess
import sys
from pathlib import Path

from kbsearch import embedded

HERE = Path(__file__).parent
EXPECTED = HERE / "tour.out"


def run(dsn: str) -> str:
    """What psql prints; the psql is the one that comes with kbsearch's embedded server."""
    command = [str(embedded.binary("psql")), "-X", "-q", "-d", dsn, "-f", str(HERE / "tour.sql")]
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8"}
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"psql ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Compare, or accept."""
    found = run(os.environ["DATABASE_URL"])
    if sys.argv[1:] == ["--accept"]:
        EXPECTED.write_text(found, encoding="utf-8")
        return
    expected = EXPECTED.read_text(encoding="utf-8")
    difference = "".join(
        difflib.unified_diff(expected.splitlines(True), found.splitlines(True), "tour.out", "what psql printed")
    )
    if difference:
        sys.exit(difference)
    print("psql: every page and score is as in tour.out")


if __name__ == "__main__":
    main()
