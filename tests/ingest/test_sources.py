from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kbsearch.ingest import Document, Rejected, read_jsonl, read_paths, read_pydoc


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def test_a_folder_gives_markdown_and_text_by_relative_path_in_order(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "b/x.md": "intro\n\n# The *title* of `x`\n",
            "a.markdown": "# A\n",
            "b.txt": "\n\n  First line\nsecond\n",
            "c.rst": "=====\nOver\n=====\n\ntext",
            "empty.md": "",
            "Z.MD": "no heading",
            "skip.py": "# no",
            ".git/y.md": "# hidden",
            ".z.md": "# hidden",
        },
    )
    found = [entry for entry in read_paths(tmp_path, kind="page") if isinstance(entry, Document)]
    assert [(entry.external_ref, entry.title, entry.markup) for entry in found] == [
        ("Z.MD", "no heading", "markdown"),
        ("a.markdown", "A", "markdown"),
        ("b.txt", "First line", "text"),
        ("b/x.md", "The title of x", "markdown"),
        ("c.rst", "Over", "text"),
        ("empty.md", "empty", "markdown"),
    ]
    assert {entry.kind for entry in found} == {"page"}
    assert str(tmp_path) not in repr(found)


def test_a_copy_of_the_folder_gives_the_same_documents(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a/b.md": "# A\n\ntext", "c.txt": "c"}
    one, two = write(tmp_path / "one", files), write(tmp_path / "elsewhere" / "two", files)
    assert list(read_paths(one, kind="article")) == list(read_paths(two, kind="article"))


def test_a_file_alone_is_known_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"a/b.md": "# A"})
    (entry,) = read_paths(tmp_path / "a" / "b.md", kind="article")
    assert isinstance(entry, Document)
    assert entry.external_ref == "b.md"


def test_line_ends_and_byte_order_marks_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": b"\xef\xbb\xbf# A\r\n\r\ntext\r\n", "b.md": "# A\n\ntext\n"})
    first, second = read_paths(tmp_path, kind="article")
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert (first.title, first.text) == (second.title, second.text) == ("A", "# A\n\ntext\n")


def test_a_file_that_is_not_utf8_is_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": b"caf\xe9", "b.md": "# B"})
    first, second = read_paths(tmp_path, kind="article")
    assert first == Rejected("a.md", "not UTF-8: byte 0xe9 at 3", "a.md")
    assert isinstance(second, Document)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_no_text_is_told_in_printable_form(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("# A", encoding="utf-8")
    (entry,) = read_paths(tmp_path, kind="article")
    assert isinstance(entry, Document)
    assert entry.external_ref == "\udcff.md"


def test_json_lines_give_documents_and_rejected_lines(tmp_path: Path) -> None:
    lines = [
        b'{"id": "a", "title": "A", "text": "x", "kind": "faq", "metadata": {"k": [1]}, "source_uri": "u", "published": false}',
        b"",
        b'{"id": 7, "text": "seven"}',
        b"{",
        b"[]",
        b'{"title": "no id"}',
        b'{"id": true}',
        b'{"id": "b", "metadata": []}',
        b'{"id": "b", "text": 3}',
        b'{"id": "b", "published": "yes"}',
        b'{"id": "b", "metadata": {"x": NaN}}',
        b'{"id": "b", "body": "x"}',
        b'{"id": "caf\xe9"}',
        b'{"id": "b", "metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ]
    path = tmp_path / "d.jsonl"
    path.write_bytes(b"\n".join(lines))
    found = list(read_jsonl(path, kind="article"))
    assert found[:2] == [
        Document("a", "A", "x", "faq", {"k": [1]}, "u", published=False),
        Document("7", "", "seven", "article"),
    ]
    rejected = [entry for entry in found if isinstance(entry, Rejected)]
    assert [entry.where for entry in rejected] == [f"d.jsonl:{number}" for number in range(4, 15)]
    reasons = "\n".join(entry.reason for entry in rejected)
    for part in (
        "not JSON",
        "not a JSON object",
        "id must",
        "metadata must",
        "text must",
        "published must",
        "NaN",
        "unknown fields body",
        "not UTF-8",
    ):
        assert part in reasons


def test_pydoc_gives_the_language_reference_by_topic() -> None:
    found = {entry.external_ref: entry for entry in read_pydoc(kind="page")}
    assert len(found) > 50
    assert found["pydoc:lambda"].title == "Lambdas"
    assert found["pydoc:assert"].title == 'The "assert" statement'
    assert list(found) == sorted(found)
