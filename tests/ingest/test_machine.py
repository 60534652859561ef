"""Names of the machine are refused in what a model is given, and the report names the field."""

from __future__ import annotations

import getpass
import socket
import tempfile
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from kbsearch import KBSearch
from kbsearch.ingest import Document, Machine, Splitter, embed_missing
from kbsearch.models import Chunk
from tests.ingest.test_pipeline import Connection, HashEmbedder, rows, run

MACHINE = Machine("jdoe42", ("buildbox7.corp.example", "buildbox7"), ("/srv/handbook",))


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("see /home/jane/notes.md, please", "an absolute path", "/home/jane/notes.md"),
        ("(/Users/jane)", "an absolute path", "/Users/jane"),
        ("dir=/home/jane/x", "an absolute path", "/home/jane/x"),
        (r"C:\Users\jane\a.md", "an absolute path", r"C:\Users\jane\a.md"),
        ("d:/Users/jane", "an absolute path", "d:/Users/jane"),
        ("/root/.config", "an absolute path", "/root/.config"),
        ("/tmp/tmpab12cd9_/x", "an absolute path", "/tmp/tmpab12cd9_/x"),  # noqa: S108
        ("/private/var/folders/ab/xyz/T", "an absolute path", "/private/var/folders/ab/xyz/T"),
        ("file:///etc/motd", "an absolute path", "file:///etc/motd"),
        ("/srv/handbook/a/b.md", "an absolute path", "/srv/handbook/a/b.md"),
        ("in /srv/handbook.", "an absolute path", "/srv/handbook"),
        ("written by jdoe42.", "the user's name", "jdoe42"),
        ("on buildbox7", "the host's name", "buildbox7"),
        ("at buildbox7.corp.example:80", "the host's name", "buildbox7.corp.example"),
        ("from tmpq1w2e3r4 on", "a temporary directory's name", "tmpq1w2e3r4"),
        ("pytest-of-jane", "a temporary directory's name", "pytest-of-jane"),
    ],
)
@pytest.mark.parametrize("field", ["title", "heading", "content"])
def test_what_tells_one_machine_from_another_is_found(field: str, text: str, kind: str, found: str) -> None:
    suspicion = MACHINE.suspect({"title": "T", "heading": "H", "content": "c", field: text})
    assert suspicion is not None
    assert (suspicion.field, suspicion.kind) == (field, kind)
    assert suspicion.text in text
    if field == "content":
        assert suspicion.text == found


@pytest.mark.parametrize(
    "text",
    [
        "/etc/hosts and /usr/bin/env and /var/log/syslog",
        "https://example.org/home/jane/x",
        "https://example.org/Users/jane",
        "/home/user/project",
        "/home/$USER/x",
        r"C:\Users\you\x",
        "echo hi > /tmp/foo",
        "~/notes",
        "./home/jane",
        "at home/jane",
        "/srv/handbooks/x",
        "ajdoe42 jdoe421",
        "the tmpfile, a tmp directory",
        "a/b > c",
    ],
)
def test_what_every_machine_has_is_left_alone(text: str) -> None:
    assert MACHINE.suspect({"content": text}) is None


def test_a_title_or_a_part_of_a_heading_that_is_a_path_as_a_whole_is_refused_wherever_it_leads() -> None:
    for text in ("/opt/kb/a.md", "C:\\kb\\a.md", "\\\\host\\share\\a.md"):
        for field, value in (("title", text), ("heading", f"a.md > {text}"), ("heading", f" {text} > b")):
            found = MACHINE.suspect({field: value})
            assert found is not None
            assert (found.field, found.text) == (field, text)
    assert MACHINE.suspect({"title": "/help"}) is None
    assert MACHINE.suspect({"title": "What is in /opt/kb/a.md"}) is None


def test_short_and_common_names_are_words() -> None:
    machine = Machine("anna", ("server", "db"))
    assert machine.suspect({"content": "anna runs the server, with a db, as root and as ubuntu"}) is None
    assert Machine("ubuntu", ("LOCALHOST",)).suspect({"content": "ubuntu on LOCALHOST"}) is None


def test_pythons_own_documentation_is_taken() -> None:
    here = Machine.here()
    assert [found for text in topics.values() if (found := here.suspect({"content": text}))] == []


def test_this_machine_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody77")
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop77.local")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    here = Machine.here(Path("/srv/elsewhere"))
    for text in ("somebody77", "laptop77", "laptop77.local", "/srv/elsewhere/a.md", f"{Path.cwd()}/x", f"{tmp_path}/x"):
        assert here.suspect({"content": text}), text

    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert Machine.here().user == ""


def test_a_document_with_a_name_of_the_machine_is_skipped_and_the_rest_is_ingested(connection: Connection) -> None:
    entries = [
        Document("a", "A", "fine"),
        Document("b", "/data/kb/b.md", "fine"),
        Document("c", "C", "from /home/jane/c.md"),
    ]
    embedder = HashEmbedder()
    report = run(connection, entries, embedder=embedder, machine=MACHINE)
    assert report.written == 1
    assert [(entry.where, entry.reason) for entry in report.rejected] == [
        (
            "b",
            "a chunk has no vector: its title has an absolute path in it, '/data/kb/b.md', which the model would be given",
        ),
        (
            "c",
            "a chunk has no vector: its content has an absolute path in it, '/home/jane/c.md', which the model would be given",
        ),
    ]
    assert embedder.inputs == ["A\nfine"]
    allowed = run(connection, entries, embedder=embedder, machine=MACHINE, splitter=Splitter(40, guarded=False))
    assert (allowed.rejected, allowed.space != report.space) == ((), True)
    # Words alone are given to no model.
    assert run(connection, entries, org="words", machine=MACHINE).rejected == ()


def test_only_what_the_template_uses_is_looked_at(connection: Connection) -> None:
    entries = [Document("b", "/data/kb/b.md", "fine")]
    report = run(connection, entries, embedder=HashEmbedder(), machine=MACHINE, splitter=Splitter(layout="{content}"))
    assert report.rejected == ()


def test_stored_chunks_are_looked_at_too(connection: Connection) -> None:
    report = run(connection, [Document("a", "A", "fine")])
    KBSearch(connection).upsert_article(
        report.org_id, external_ref="p", title="P", chunks=[Chunk("ok"), Chunk("x", "jdoe42")]
    )
    found = embed_missing(connection, report.org_id, HashEmbedder(), machine=MACHINE)
    assert (found.embedded, [entry.where for entry in found.rejected]) == (2, ["p, chunk 1"])
    assert "heading has the user's name" in found.rejected[0].reason
    assert rows(connection, "SELECT count(*) FROM kbsearch.kb_embedding_inputs AS i WHERE i.input ~ 'jdoe42'") == [(0,)]
