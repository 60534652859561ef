"""Publishing, deleting and editing take effect in the same transaction: in what is found, in ranks and in document frequencies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sql.corpus import Corpus


@pytest.fixture
def shelf(corpus: Corpus) -> Corpus:
    """Refunds in three articles, llamas in five others."""
    for content in ("refunds", "refunds of a year", "refunds by post"):
        corpus.article(content, vector=[1, 0])
    for _ in range(5):
        corpus.article("llamas", vector=[0, 1])
    return corpus


def scores(corpus: Corpus) -> dict[int, float]:
    """Raw keyword evidence as it shows in a fusion of two words: the share of "refunds" moves when its document frequency does."""
    return {
        row["article_id"]: row["keyword_score"]
        for row in corpus.search("refunds llamas", profile="keyword@1", limit=100)
    }


CHANGES = {
    "unpublish": "UPDATE kbsearch.kb_articles SET published = false WHERE org_id = %s AND id = %s",
    "delete": "DELETE FROM kbsearch.kb_articles WHERE org_id = %s AND id = %s",
    "edit": "UPDATE kbsearch.kb_article_chunks SET content = 'camels' WHERE org_id = %s AND article_id = %s",
    "delete the chunk": "DELETE FROM kbsearch.kb_article_chunks WHERE org_id = %s AND article_id = %s",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_change_counts_in_its_own_transaction_and_goes_with_its_rollback(
    shelf: Corpus, change: str, isolation: str
) -> None:
    first, *others = shelf.found("refunds")
    before = scores(shelf)
    with shelf.connection.transaction(force_rollback=True):
        shelf.run(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        assert scores(shelf) == before
        shelf.run(change, shelf.org_id, first)
        assert set(shelf.found("refunds")) == set(others)
        after = scores(shelf)
        assert all(after[other] > before[other] for other in others), "the word became rarer"
        assert first not in after
        assert [row["place"] for row in shelf.search("refunds")] == [1, 2]
    assert scores(shelf) == before


def test_an_article_is_found_from_the_statement_on_that_publishes_it(shelf: Corpus) -> None:
    before = scores(shelf)
    draft = shelf.article("refunds for all", vector=[1, 0], published=False)
    assert draft not in shelf.found("refunds", [1, 0])
    assert scores(shelf) == before
    page = shelf.page("refunds", [1, 0])
    assert page["legs"]["vector"]["chunks_without_embedding"] == 0
    with shelf.connection.transaction():
        shelf.run("UPDATE kbsearch.kb_articles SET published = true WHERE org_id = %s AND id = %s", shelf.org_id, draft)
        assert draft in shelf.found("refunds")
        assert draft in shelf.found(None, [1, 0])
        after = scores(shelf)
        assert all(after[article] < before[article] for article in shelf.found("refunds") if article != draft)


def test_what_was_undone_leaves_no_trace(shelf: Corpus) -> None:
    before = shelf.search("refunds llamas", [1, 0], limit=100)
    article = shelf.found("refunds")[0]
    shelf.run("UPDATE kbsearch.kb_articles SET published = false WHERE org_id = %s", shelf.org_id)
    assert shelf.search("refunds llamas", limit=100) == []
    shelf.run("UPDATE kbsearch.kb_articles SET published = true, title = 'x' WHERE org_id = %s", shelf.org_id)
    shelf.run("UPDATE kbsearch.kb_articles SET title = NULL WHERE org_id = %s", shelf.org_id)
    shelf.run(
        "UPDATE kbsearch.kb_article_chunks SET content = 'x ' || content WHERE org_id = %s AND article_id = %s",
        shelf.org_id,
        article,
    )
    shelf.run(
        "UPDATE kbsearch.kb_article_chunks SET content = substr(content, 3) WHERE org_id = %s AND article_id = %s",
        shelf.org_id,
        article,
    )
    assert shelf.search("refunds llamas", [1, 0], limit=100) == before


def test_a_title_counts_as_soon_as_it_changes(shelf: Corpus) -> None:
    article = shelf.found("llamas")[-1]
    shelf.run("UPDATE kbsearch.kb_articles SET title = 'Alpacas' WHERE org_id = %s AND id = %s", shelf.org_id, article)
    assert shelf.found("alpaca") == [article]


def test_another_organisation_changes_nothing(shelf: Corpus) -> None:
    before = shelf.page("refunds llamas", [1, 0])
    other = Corpus(shelf.connection, "another")
    for _ in range(10):
        other.article("refunds", vector=[1, 0])
    assert shelf.page("refunds llamas", [1, 0]) == before
    other.run("DELETE FROM kbsearch.organizations WHERE id = %s", other.org_id)
    assert shelf.page("refunds llamas", [1, 0]) == before


def test_the_first_embedding_activates_its_space_and_no_later_one_does(corpus: Corpus) -> None:
    active = "SELECT active_space_id FROM kbsearch.organizations WHERE id = %s"
    corpus.article("refunds")
    assert corpus.value(active, corpus.org_id) is None
    assert corpus.page("refunds")["space_id"] is None
    corpus.article("refunds", vector=[1, 0])
    assert corpus.value(active, corpus.org_id) == corpus.space(2)
    corpus.article("refunds", vector=[1, 0, 0])
    assert corpus.value(active, corpus.org_id) == corpus.space(2)
    assert corpus.page("refunds", [1, 0])["space_id"] == corpus.space(2)
    assert len(corpus.found(None, [1, 0, 0], space_id=corpus.space(3))) == 1


def test_an_organisation_without_embeddings_answers_by_words_and_says_why(corpus: Corpus) -> None:
    article = corpus.article("refunds")
    page = corpus.page("refunds", [1, 0])
    assert [item["article_id"] for item in page["items"]] == [article]
    assert page["legs"]["vector"]["reason"] == "no_embedded_chunks"


@pytest.fixture
def kinds(corpus: Corpus) -> Iterator[Corpus]:
    corpus.run(
        "INSERT INTO kbsearch.kb_source_kinds (kind, inspectable) VALUES ('snippet', false) ON CONFLICT DO NOTHING"
    )
    yield corpus
    corpus.run("DELETE FROM kbsearch.kb_source_kinds WHERE kind = 'snippet'")


def test_a_kind_with_nothing_to_open_ranks_like_others_and_shows_no_chunk(kinds: Corpus) -> None:
    expected = {
        kind: kinds.article("refunds", vector=[1, 0], kind=kind) for kind in ("article", "faq", "snippet", "unlisted")
    }
    rows = {row["kind"]: row for row in kinds.search("refunds", [1, 0])}
    assert {kind: row["article_id"] for kind, row in rows.items()} == expected
    assert len({row["score"] for row in rows.values()}) == 1
    assert {row["tied_with"] for row in rows.values()} == {3}
    for kind, inspectable in {"article": True, "faq": False, "snippet": False, "unlisted": True}.items():
        assert rows[kind]["inspectable"] is inspectable
        assert (rows[kind]["chunk_id"] is not None) is inspectable
        assert rows[kind]["excerpt"] == "refunds"
    items = kinds.page("refunds", [1, 0])["items"]
    assert [item["chunk_id"] for item in items if not item["inspectable"]] == [None, None]
