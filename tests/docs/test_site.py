"""The site builds without a warning, and what was built has no dead link and loads nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import docs
from tools.docs import DocumentationError, build, faults_of


@pytest.fixture(scope="session")
def site(shared_database: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    build(shared_database, folder)
    return folder


def test_the_site_builds_without_a_warning_and_without_dead_links(site: Path) -> None:
    assert (site / "index.html").exists()
    assert list(faults_of(site)) == []


def test_made_pages_are_in_it(site: Path) -> None:
    text = (site / "reference/functions.html").read_text(encoding="utf-8")
    assert 'id="search_kb_hybrid_v1"' in text
    assert "p_query_embedding" in text
    assert 'id="kb_articles"' in (site / "reference/tables.html").read_text(encoding="utf-8")
    assert 'id="kbsearch-search"' in (site / "reference/commands.html").read_text(encoding="utf-8")
    assert "KBSEARCH_DSN" in (site / "reference/environment.html").read_text(encoding="utf-8")
    assert 'id="kbsearch.KBSearch.search"' in (site / "reference/python.html").read_text(encoding="utf-8")


def test_the_search_index_has_the_pages(site: Path) -> None:
    assert "Why RRF ties" in (site / "search/search_index.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(
            {
                "[there](nowhere.md)": "'nowhere.md'",
                "[there](tutorial.md#nowhere)": "'tutorial.md#nowhere'",
                "[there][kbsearch.nowhere]": "'kbsearch.nowhere'",
            },
            id="told-by-mkdocs",
        ),
        pytest.param(
            {
                '<a href="nowhere.html">there</a>': "dead link nowhere.html",
                '<a href="tutorial.html#nowhere">there</a>': "dead anchor tutorial.html#nowhere",
                '<img src="https://example.org/picture.png" alt="there">': "loads https://example.org/picture.png",
                "[there](https://nowhere)": "malformed address https://nowhere",
            },
            id="found-in-what-was-built",
        ),
    ],
)
def test_faults_in_a_page_stop_the_build(
    faults: dict[str, str], shared_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a site of two pages with the configuration of ours."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# Home\n\n" + "\n\n".join(faults), encoding="utf-8")
    (tmp_path / "docs/tutorial.md").write_text("# Tutorial\n", encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n", encoding="utf-8")
    configuration = (docs.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    start, end = configuration.index("\nnav:\n"), configuration.index("\nmarkdown_extensions:")
    nav = "\nnav: [index.md, tutorial.md, changelog.md]\n"
    (tmp_path / "mkdocs.yml").write_text(configuration[:start] + nav + configuration[end:], encoding="utf-8")
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.setattr(docs, "made_pages", lambda _: ())
    with pytest.raises(DocumentationError) as raised:
        build(shared_database, tmp_path / "site")
    assert [said for said in faults.values() if said not in str(raised.value)] == []
