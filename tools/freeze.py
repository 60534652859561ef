"""Keeps released SQL files as they were released: sql/frozen.sha256 lists their hashes.

python -m tools.freeze check   fails if a listed file was changed or removed
python -m tools.freeze add     lists every file that is not listed yet: a step of making a release
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "sql"
LIST = "frozen.sha256"


def sha256(path: Path) -> str:
    """Hash of a file's bytes, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def listed(root: Path = ROOT) -> dict[str, str]:
    """Hash by path relative to sql/, as the list has them."""
    frozen = {}
    for line in (root / LIST).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            digest, path = line.split(maxsplit=1)
            frozen[path] = digest
    return frozen


def problems(root: Path = ROOT) -> list[str]:
    """What is wrong with the listed files; empty if nothing is."""
    found = []
    for path, digest in listed(root).items():
        file = root / path
        if not file.is_file():
            found.append(f"sql/{path} was released and is gone")
        elif sha256(file) != digest:
            found.append(
                f"sql/{path} was released and may not change: make a new version beside it (_v2, or a new file)"
            )
    return found


def add(root: Path = ROOT) -> list[str]:
    """List the files that are not listed yet and return their paths; refuses while listed ones are wrong."""
    if wrong := problems(root):
        raise SystemExit("\n".join(wrong))
    frozen = listed(root)
    new = sorted(
        path
        for directory in ("schema", "functions")
        for file in (root / directory).rglob("*.sql")
        if (path := file.relative_to(root).as_posix()) not in frozen
    )
    with (root / LIST).open("a", encoding="utf-8") as target:
        target.writelines(f"{sha256(root / path)}  {path}\n" for path in new)
    return new


def main(arguments: list[str]) -> int:
    """Run a command; 1 if a released file was changed."""
    if arguments == ["check"]:
        wrong = problems()
        for line in wrong:
            print(line, file=sys.stderr)
        return 1 if wrong else 0
    if arguments == ["add"]:
        for path in add():
            print(f"frozen: sql/{path}")
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
