"""Runs the code of a page as a reader would: block after block, comparing what is printed with what the page shows.

How a page says what is to be done with a block is visible in the built page, as its language or its title:

- `sql` (psql on $KBSEARCH_DSN), `python` (one namespace a page) and `sh` (bash; exports, functions and the directory last to the end of the page)
  are executed;
- a title that begins with `Not run` says that it is not executed, and why;
- a title that is the name of a file says that the block is the file's content: it is written there;
- `text` with a title that begins with `Output` is what the block before printed. `…` stands for anything, alone on a line for any lines; `±0.02`
  in the title is by how much decimals may differ (where a model computed them). With a line `ERROR:` in it, the block before is to fail.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbsearch import embedded

EXECUTED = ("sql", "python", "sh")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"[\w./-]+\.\w+")
_DECIMAL = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str
    text: str
    line: int

    @property
    def is_output(self) -> bool:
        return self.language == "text" and self.title.startswith("Output")

    @property
    def file(self) -> str | None:
        return self.title if _FILE.fullmatch(self.title) else None

    @property
    def is_executed(self) -> bool:
        return self.language in EXECUTED and self.file is None and not self.title.startswith("Not run")


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = []
    for match in _FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]*)"', rest)
        body = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        found.append(Block(language, title[1] if title else "", body, text.count("\n", 0, match.start()) + 1))
    return found


def differences(expected: str, printed: str, tolerance: float = 0.0) -> str | None:
    """What is wrong with an output, or None: trailing blanks do not count, `…` stands for anything, decimals may differ by the tolerance."""
    wanted, got = (
        "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip() for text in (expected, printed)
    )
    pattern, numbers = "", []
    for line in wanted.splitlines():
        if line == "…":
            pattern += r"(?:.*\n)*?"
            continue
        for part in re.split(r"(…|-?\d+\.\d+)" if tolerance else r"(…)", line):
            if part == "…":
                pattern += r"[\s\S]*?"
            elif tolerance and _DECIMAL.fullmatch(part):
                pattern += r"(-?\d+\.\d+)"
                numbers.append(float(part))
            else:
                pattern += re.escape(part)
        pattern += r"\n"
    match = re.fullmatch(pattern, f"{got}\n")
    if match is None or any(abs(a - float(b)) > tolerance for a, b in zip(numbers, match.groups(), strict=True)):
        return f"expected\n{wanted}\nbut it printed\n{got}"
    return None


class Reader:
    """Somebody who follows a page in a directory, with a shell, psql and Python.

    Args:
        directory: where files are written and commands run.
        environment: variables beside those of this process.
    """

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        programs = os.pathsep.join(
            (str(Path(sys.executable).parent), str(embedded.binary("psql").parent), os.environ["PATH"])
        )
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("KBSEARCH_", "PG"))},
            "PATH": programs,
            "PAGER": "cat",
            "COLUMNS": "80",
            "NO_COLOR": "1",
            **environment,
        }
        self.functions = ""
        self.namespace: dict[str, Any] = {"__name__": "__main__"}

    def follow(self, text: str, name: str) -> int:
        """Run all blocks of a page, compare their outputs, and return how many were run."""
        ran = 0
        printed: str | None = None
        found = blocks(text)
        for block, following in zip(found, [*found[1:], None], strict=True):
            where = f"{name}:{block.line}"
            if block.is_output:
                if printed is not None:
                    tolerance = re.search(r"±([\d.]+)", block.title)
                    wrong = differences(block.text, printed, float(tolerance[1]) if tolerance else 0.0)
                    assert wrong is None, f"{where}: {wrong}"
                printed = None
            elif block.file is not None:
                file = self.directory / block.file
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text, encoding="utf-8")
            elif block.is_executed:
                fails = following is not None and following.is_output and "ERROR:" in following.text
                printed = self._run(block, where, fails=fails)
                ran += 1
            else:
                printed = None
        return ran

    def _run(self, block: Block, where: str, *, fails: bool) -> str:
        if block.language == "python":
            return self._python(block, where)
        if block.language == "sql":
            dsn = self.environment["KBSEARCH_DSN"]
            command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", dsn]
        else:
            kept = self.directory / ".environment"
            last = f"{{ env -0; printf 'PWD=%s\\0' \"$PWD\"; declare -f; }} >'{kept}'"
            command = ["bash", "-e", "-o", "pipefail", "-c", f"{self.functions}\n{block.text}\n{last}"]
        done = subprocess.run(
            command,
            input=block.text if block.language == "sql" else "",
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=250,
        )
        assert (done.returncode != 0) == fails, f"{where}: exit code {done.returncode}\n{done.stdout}"
        if block.language == "sh" and not fails:
            *pairs, self.functions = kept.read_text(encoding="utf-8").split("\0")
            self.environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            self.directory = Path(self.environment["PWD"])
            kept.unlink()
        return done.stdout

    def _python(self, block: Block, where: str) -> str:
        output = io.StringIO()
        with self._in_place(), contextlib.redirect_stdout(output):
            # The line numbers of a traceback are those of the page.
            exec(compile("\n" * block.line + block.text, where.partition(":")[0], "exec"), self.namespace)  # noqa: S102
        return output.getvalue()

    @contextlib.contextmanager
    def _in_place(self) -> Iterator[None]:
        before, path = dict(os.environ), list(sys.path)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.path.insert(0, str(self.directory))
        try:
            with contextlib.chdir(self.directory):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)
            sys.path[:] = path
