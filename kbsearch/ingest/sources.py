"""Where documents come from: files of Markdown, text, HTML and JSON lines, Python's own documentation."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from kbsearch.embed.errors import MissingExtraError
from kbsearch.ingest.documents import Document, Markup, Rejected, printable
from kbsearch.ingest.front_matter import FrontMatterError, split_front_matter
from kbsearch.ingest.headings import title_of
from kbsearch.ingest.html import CharsetError, decode, read_html
from kbsearch.ingest.jsonl import JSONL_FIELDS, JSONL_SUFFIXES, read_jsonl

__all__ = [
    "FILE_SUFFIXES",
    "HTML_SUFFIXES",
    "JSONL_FIELDS",
    "JSONL_SUFFIXES",
    "MARKUP_BY_SUFFIX",
    "read_jsonl",
    "read_paths",
    "read_pydoc",
]

MARKUP_BY_SUFFIX: dict[str, Markup] = {".md": "markdown", ".markdown": "markdown", ".txt": "text", ".rst": "text"}
HTML_SUFFIXES = (".html", ".htm")
FILE_SUFFIXES = (*MARKUP_BY_SUFFIX, *HTML_SUFFIXES)
"""Of files that are a document each."""


def read_paths(root: Path, *, kind: str) -> Iterator[Document | Rejected]:
    """Documents of a file or of all files below a folder, in the order of their relative paths; a file of JSON lines has many.

    Hidden files and folders and files of other types are passed over, and so are links to folders inside: their files are read where they
    are. A link that leads out of the folder, or nowhere, is given as Rejected.
    """
    if not root.is_dir():
        yield from _read_file(root.name, root, kind)
        return
    for name, path in sorted(_walk(root)):
        if isinstance(path, str):
            yield Rejected(printable(name), path, unicodedata.normalize("NFC", name))
        else:
            yield from _read_file(name, path, kind)


def _walk(root: Path) -> Iterator[tuple[str, Path | str]]:
    """Files by their path relative to the root; for a link that is not followed, why."""
    top = os.path.realpath(root)
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in (*names, *folders):
            path = Path(folder, name)
            if name.startswith(".") or (name in folders and not path.is_symlink()):
                continue
            is_read = path.suffix.lower() in (*FILE_SUFFIXES, *JSONL_SUFFIXES)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink() and (is_read or name in folders):
                # Resolved as far as it leads: a loop of links leads to a link.
                target = os.path.realpath(path)
                if os.path.commonpath((top, target)) != top:
                    yield relative, "a link that leads out of the folder; ingest what it leads to by its own path"
                    continue
                if not path.exists():
                    yield relative, "a link that leads nowhere"
                    continue
            if is_read and path.is_file():
                yield relative, path


def _read_file(relative: str, path: Path, kind: str) -> Iterator[Document | Rejected]:
    name = unicodedata.normalize("NFC", relative)
    suffix = path.suffix.lower()
    if suffix in JSONL_SUFFIXES:
        yield from read_jsonl(path, kind=kind, name=relative)
        return
    try:
        raw = path.read_bytes()
        if not raw.strip():
            yield Rejected(printable(name), "it is empty", name, is_empty=True)
        elif suffix in HTML_SUFFIXES:
            yield _html(name, path.stem, raw, kind)
        else:
            yield _text(name, path.stem, raw, kind, MARKUP_BY_SUFFIX.get(suffix, "text"))
    except UnicodeDecodeError as error:
        yield Rejected(printable(name), f"not UTF-8: byte {error.object[error.start]:#04x} at {error.start}", name)
    except (CharsetError, FrontMatterError, MissingExtraError) as error:
        yield Rejected(printable(name), str(error), name)
    except OSError as error:
        yield Rejected(printable(name), f"cannot be read: {error.strerror}", name)


def _text(name: str, stem: str, raw: bytes, kind: str, markup: Markup) -> Document | Rejected:
    text = raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    if markup == "text":
        return Document(name, title_of(text, markup) or stem, text, kind, path=name)
    front, text = split_front_matter(text)
    if not text.strip() and not front.title:
        return Rejected(printable(name), "it is empty but for its front matter", name, is_empty=True)
    return Document(
        external_ref=name,
        title=front.title or title_of(text, markup) or stem,
        text=text,
        kind=front.kind or kind,
        metadata=front.metadata,
        source_uri=front.source_uri,
        published=front.published is not False,
        markup=markup,
        language=front.language,
        path=name,
    )


def _html(name: str, stem: str, raw: bytes, kind: str) -> Document | Rejected:
    page = read_html(decode(raw))
    if not page.text.strip() and not page.title:
        return Rejected(printable(name), "it has no text for readers", name, is_empty=True)
    title = page.title or title_of(page.text, "markdown") or stem
    return Document(name, title, page.text, kind, markup="markdown", language=page.language, path=name)


def read_pydoc(*, kind: str) -> Iterator[Document]:
    """Python's language reference by topic (`pydoc_data.topics`), as it comes with the running Python."""
    from pydoc_data.topics import topics  # noqa: PLC0415  (half a megabyte, and some distributions leave it out)

    for name, text in sorted(topics.items()):
        yield Document(external_ref=f"pydoc:{name}", title=title_of(text, "text") or name, text=text, kind=kind)
