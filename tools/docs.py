"""Build the documentation site: `python -m tools.docs [--dsn DSN] [--site DIR]`.

The pages in docs/ and those that are made (SQL functions, tables, commands, environment variables) are put together in a folder and built
with `mkdocs build --strict`, so that a warning is an error: a dead link, a missing anchor, a page outside the navigation. Then the built
pages are checked as they are: every link and anchor, and that no page loads anything from elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kbsearch import embedded
from tools import docs_cli, docs_sql

ROOT = Path(__file__).resolve().parents[1]
LOADING = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}
"""Attributes by which a page loads something when it is opened."""
NOT_LOADED = {"canonical", "prev", "next", "alternate"}
"""What a <link rel=…> may be that loads nothing."""


class DocumentationError(Exception):
    """The site could not be built, or is not as it should be."""


def made_pages(dsn: str) -> Iterator[tuple[Path, str]]:
    """The pages that are made, each with its place under docs/."""
    yield from docs_sql.pages(dsn)
    yield from docs_cli.pages()


def stage(dsn: str, folder: Path) -> Path:
    """Put all pages together in a folder, docs/ and those that are made, and return the configuration to build them with."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    for place, text in made_pages(dsn):
        page = folder / "docs" / place
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "CHANGELOG.md", folder / "docs/changelog.md")
    errors = folder / "docs/errors.md"
    if errors.exists():  # each has a place that the functions can point to
        text = errors.read_text(encoding="utf-8")
        text = re.sub(r"^\| `(\w{5})` \|", r'| <a id="\1"></a>`\1` |', text, flags=re.MULTILINE)
        errors.write_text(text, encoding="utf-8")
    return Path(shutil.copy(ROOT / "mkdocs.yml", folder))


def build(dsn: str, site: Path) -> None:
    """Build the site from a database with kbsearch installed.

    Raises:
        DocumentationError: a warning or an error of the build, a dead link, or something that would be loaded from elsewhere.
    """
    with tempfile.TemporaryDirectory(prefix="kbsearch-docs-") as directory:
        configuration = stage(dsn, Path(directory))
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(configuration)]
        done = subprocess.run(
            [*command, "--site-dir", str(site.resolve())],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # the theme advertises its successor otherwise
        )
    printed = done.stdout + done.stderr
    if done.returncode or "WARNING" in printed:
        raise DocumentationError(printed)
    if faults := list(faults_of(site)):
        raise DocumentationError("\n".join(faults))


def faults_of(site: Path) -> Iterator[str]:
    """Dead links, dead anchors, malformed addresses and things loaded from elsewhere, in words."""
    pages = {page: _read(page) for page in sorted(site.rglob("*.html"))}
    for page, parsed in pages.items():
        where = page.relative_to(site)
        for address, is_loaded in parsed.links:
            parts = urlsplit(address)
            if parts.scheme in ("mailto", "data"):
                continue
            if parts.scheme or parts.netloc:
                if is_loaded:
                    yield f"{where}: loads {address}"
                elif parts.scheme not in ("http", "https") or "." not in parts.netloc or " " in address:
                    yield f"{where}: malformed address {address}"
                continue
            if parts.path.startswith("/") and page.name == "404.html":
                continue  # it is shown at any depth and so has absolute addresses
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{where}: dead link {address}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: dead anchor {address}"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, bool]] = []
        self.anchors: set[str] = {"__top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := given.get(name)))
        for name in ("href", "src", "data"):
            value = given.get(name)
            if value and not (tag == "base" or value.startswith("javascript:")):
                self.links.append((value, (tag, name) in LOADING and given.get("rel") not in NOT_LOADED))


def _read(page: Path) -> _Page:
    parsed = _Page()
    parsed.feed(page.read_text(encoding="utf-8"))
    return parsed


@contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """The database named, or one on an embedded server that lives as long as the build."""
    if dsn is not None:
        yield dsn
        return
    with tempfile.TemporaryDirectory(prefix="kbsearch-docs-", ignore_cleanup_errors=True) as directory:
        data = Path(directory) / "postgres"
        try:
            yield embedded.ensure_database(embedded.start(data))
        finally:
            embedded.stop(data)


def main() -> None:
    """Build the site and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description="Build the documentation site.")
    parser.add_argument("--dsn", help="a database with kbsearch installed; by default one is made")
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="where the site is written")
    given = parser.parse_args()
    with database(given.dsn) as dsn:
        try:
            build(dsn, given.site)
        except DocumentationError as error:
            sys.exit(str(error))
    print(f"Built {given.site / 'index.html'}\nFor the search box: {sys.executable} -m http.server -d {given.site}")


if __name__ == "__main__":
    main()
