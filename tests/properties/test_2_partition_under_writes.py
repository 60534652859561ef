"""Law 2, while others write: cursors carry the statistics of page 1, so an article whose own chunks did not change is neither repeated nor lost."""

from __future__ import annotations

import random
from typing import LiteralString

from hypothesis import given
from hypothesis import strategies as st

from tests.load import EVERYTHING, Database
from tests.oracle import Search
from tests.strategies import ABSOLUTE, Coverage, Organisation, examples, questions_of

WRITES: dict[str, LiteralString] = {
    "edit": "UPDATE kbsearch.kb_article_chunks SET content = %(text)s WHERE org_id = %(org)s AND article_id = %(id)s",
    "retitle": "UPDATE kbsearch.kb_articles SET title = %(text)s WHERE org_id = %(org)s AND id = %(id)s",
    "unpublish": "UPDATE kbsearch.kb_articles SET published = false WHERE org_id = %(org)s AND id = %(id)s",
    "publish": "UPDATE kbsearch.kb_articles SET published = true WHERE org_id = %(org)s AND id = %(id)s",
    "delete": "DELETE FROM kbsearch.kb_articles WHERE org_id = %(org)s AND id = %(id)s",
    "another language": "UPDATE kbsearch.kb_articles SET language = 'dutch' WHERE org_id = %(org)s AND id = %(id)s",
    "new words": """WITH article AS (
        INSERT INTO kbsearch.kb_articles (org_id, id, title, language)
        SELECT %(org)s, coalesce(max(a.id), 0) + 1, 'lamp', %(language)s::regconfig
        FROM kbsearch.kb_articles AS a
        WHERE a.org_id = %(org)s
        RETURNING id
    )
    INSERT INTO kbsearch.kb_article_chunks (org_id, id, article_id, content)
    SELECT %(org)s, last.id + 1, article.id, %(text)s
    FROM article, (SELECT coalesce(max(c.id), 0) AS id FROM kbsearch.kb_article_chunks AS c WHERE c.org_id = %(org)s) AS last""",
    "compact": "SELECT kbsearch.compact_kb_postings_v1(%(org)s)",
    "rebuild": "SELECT kbsearch.rebuild_kb_index_v1(%(org)s)",
}


def test_whatever_is_written_between_pages(db: Database) -> None:
    """Under every profile whose scores are absolute: untouched articles come once each, in the order and with the scores of page 1's ranking."""
    coverage = Coverage()

    @examples(150)
    @given(
        questions_of(profiles=ABSOLUTE, least_articles=8, filters=()),
        st.integers(1, 4),
        st.randoms(use_true_random=False),
    )
    def run(drawn: tuple[Organisation, Search], size: int, chance: random.Random) -> None:
        organisation, search = drawn
        with db.loaded(organisation, search.profile) as org_id:
            ranking = db.search(org_id, search, p_limit=EVERYTHING)
            touched: set[int] = set()
            walked = db.search(org_id, search, p_limit=size)
            last = walked
            while len(last) == size:
                for _ in range(chance.randint(0, 3)):
                    action, target = chance.choice(list(WRITES)), chance.choice(organisation.articles).id
                    text = " ".join(chance.choices(["lamp", "stone", "cloud", "the", "zebra"], k=3))
                    language = chance.choice([None, "simple"])
                    db.connection.execute(
                        WRITES[action], {"org": org_id, "id": target, "text": text, "language": language}
                    )
                    if action not in ("compact", "rebuild", "new words"):
                        touched.add(target)
                last = db.search(org_id, search, p_limit=size, p_cursor=last[-1].cursor)
                walked += last
        known = {each.row.article_id for each in ranking} - touched
        assert [(each.row.article_id, each.row.score) for each in walked if each.row.article_id in known] == [
            (each.row.article_id, each.row.score) for each in ranking if each.row.article_id in known
        ]
        coverage.example(pages=len(ranking) > 2 * size, touched=bool(touched), kept=len(known) > size)

    run()
    coverage.require(pages=0.4, touched=0.3, kept=0.3)
