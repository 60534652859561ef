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
        b'{"id": "a", "title": "A", "text": "x", "kind": "faq", "metadata": {"k": [1]}, "source_uri": "u", "published": false, "language": "de"}',
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
        Document("a", "A", "x", "faq", {"k": [1]}, "u", published=False, language="de"),
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


def test_json_lines_of_a_folder_are_read_as_if_they_were_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sub/faq.jsonl": '{"id": "q1", "title": "Q"}\n{',
            "sub/more.ndjson": '{"id": "q2", "text": "x"}',
            "a.md": "# A",
        },
    )
    assert list(read_paths(tmp_path, kind="page")) == [
        Document("a.md", "A", "# A", "page", markup="markdown", path="a.md"),
        Document("q1", "Q", "", "page"),
        Rejected(
            "sub/faq.jsonl:2", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
        ),
        Document("q2", "", "x", "page"),
    ]
    (named,) = read_jsonl(tmp_path / "sub" / "more.ndjson", kind="page")
    assert named == Document("q2", "", "x", "page")


def test_a_file_with_nothing_in_it_is_no_document(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.md": "",
            "b.txt": " \n\t\n",
            "c.md": "---\ntags: [x]\n---\n\n",
            "d.html": "<nav>Home</nav><script>x</script>",
            "e.md": "---\ntitle: E\n---\n",
        },
    )
    *empty, titled = read_paths(tmp_path, kind="page")
    assert all(isinstance(entry, Rejected) and entry.is_empty for entry in empty)
    assert [entry.external_ref for entry in empty] == ["a.md", "b.txt", "c.md", "d.html"]
    assert titled == Document("e.md", "E", "", "page", markup="markdown", path="e.md")


def test_front_matter_says_what_the_document_is_and_is_no_text(tmp_path: Path) -> None:
    front = """---
title: "Rückgabe: so geht's"
description: How to send things back
lang: de-AT
kind: policy
tags: [returns, shipping]
date: 2024-05-01
weight: 3
draft: true
---
# Anderes

Text
"""
    write(
        tmp_path,
        {
            "a.md": front.replace("\n", "\r\n"),
            "b.md": "---\nnot: [closed\n---\ntext",
            "c.md": "***\n\n---\ntitle: no\n---\n",
        },
    )
    first, second, third = read_paths(tmp_path, kind="page")
    assert first == Document(
        "a.md",
        "Rückgabe: so geht's",
        "# Anderes\n\nText\n",
        "policy",
        {"description": "How to send things back", "tags": ["returns", "shipping"], "date": "2024-05-01", "weight": 3},
        published=False,
        markup="markdown",
        language="de-AT",
        path="a.md",
    )
    assert isinstance(second, Rejected)
    assert "front matter is no YAML" in second.reason
    assert isinstance(third, Document)
    assert third.text.startswith("***")


def test_html_gives_its_main_part_title_and_language(tmp_path: Path) -> None:
    pytest.importorskip("selectolax")
    page = "<html lang=pt-BR><title>T | Site</title><meta charset=iso-8859-1><body><nav>menu</nav><main><h1>Política</h1><p>café</main>"
    write(
        tmp_path,
        {
            "a.html": page.encode("latin-1"),
            "b.HTM": "<p>no title, no heading",
            "c.html": b"<meta charset=utf-8>\xe9",
            "d.html": b"<p>\xe9",
        },
    )
    first, second, third, fourth = read_paths(tmp_path, kind="page")
    assert first == Document(
        "a.html", "Política", "# Política\n\ncafé", "page", markup="markdown", language="pt-BR", path="a.html"
    )
    assert isinstance(second, Document)
    assert second.title == "no title, no heading"
    assert third == Rejected("c.html", "not utf-8 (what it declares): byte 0xe9 at 20", "c.html")
    assert fourth == Rejected("d.html", "not utf-8 (the default, as it declares no charset): byte 0xe9 at 3", "d.html")


def test_without_the_extra_html_files_are_skipped_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    write(tmp_path, {"a.html": "<p>x", "b.md": "# B"})
    first, second = read_paths(tmp_path, kind="page")
    assert isinstance(first, Rejected)
    assert "selectolax" in first.reason
    assert "[html]" in first.reason
    assert isinstance(second, Document)


def test_links_are_not_followed_out_of_the_folder_nor_in_circles(tmp_path: Path) -> None:
    root, outside = tmp_path / "docs", tmp_path / "outside"
    write(root, {"real/a.md": "# A"})
    write(outside, {"secret.md": "# Secret", "deep/b.md": "# B"})
    links = {
        "inside.md": root / "real" / "a.md",
        "folder": root / "real",
        "circle": root,
        "loop.md": root / "loop.md",
        "gone.md": root / "nothing.md",
        "out.md": outside / "secret.md",
        "outfolder": outside / "deep",
        "real/up.md": Path("../../outside/secret.md"),
        "docs2": tmp_path / "docs2",
    }
    (tmp_path / "docs2").mkdir()
    for name, target in links.items():
        (root / name).symlink_to(target)
    found = list(read_paths(root, kind="page"))
    assert [entry.external_ref for entry in found if isinstance(entry, Document)] == ["inside.md", "real/a.md"]
    assert {entry.where: entry.reason.split(";")[0] for entry in found if isinstance(entry, Rejected)} == {
        "gone.md": "a link that leads nowhere",
        "loop.md": "a link that leads nowhere",
        "out.md": "a link that leads out of the folder",
        "outfolder": "a link that leads out of the folder",
        "docs2": "a link that leads out of the folder",
        "real/up.md": "a link that leads out of the folder",
    }
    assert "Secret" not in repr(found)
    # What is named itself is followed: the user means it.
    (tmp_path / "named").symlink_to(outside)
    assert len(list(read_paths(tmp_path / "named", kind="page"))) == 2


def test_pydoc_gives_the_language_reference_by_topic() -> None:
    found = {entry.external_ref: entry for entry in read_pydoc(kind="page")}
    assert len(found) > 50
    assert found["pydoc:lambda"].title == "Lambdas"
    assert found["pydoc:assert"].title == 'The "assert" statement'
    assert list(found) == sorted(found)
