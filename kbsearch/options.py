"""The keyword arguments that both clients, the statement builders and as_selectable share: what each means is said here, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from kbsearch.models import Chunk


class PageOptions(TypedDict, total=False):
    """Which part of a ranking; all are optional.

    Attributes:
        limit: number of articles on a page, 0 … 1000; 10 by default (results() fetches 100 at a time).
        offset: number of articles to skip; not together with a cursor.
        cursor: `next_cursor` of the page before, or `cursor` of an article, of the same request.
    """

    limit: int
    offset: int
    cursor: str | None


class RankingOptions(TypedDict, total=False):
    """What is ranked, and how; all are optional.

    Attributes:
        kinds: only articles of these kinds.
        kind_quota: at most so many articles of each kind; `"*"` is every kind not named. By default the ranking profile's, if it has one;
            `{}` is none.
        metadata: only articles whose metadata contain this; of a list, any of them.
        min_score: only articles of at least this score.
        profile: ranking profile, name@version; the organisation's by default.
        space_id: embedding space; the organisation's active one by default.
        exploratory: whether a profile that arbitrates fuses the legs however much they disagree; False by default.
        language: the text search configuration (`"german"`) that the question's words are analysed in; by default every language that the
            organisation's articles are in.
    """

    kinds: Sequence[str] | None
    kind_quota: Mapping[str, int] | None
    metadata: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    min_score: float | None
    profile: str | None
    space_id: int | None
    exploratory: bool
    language: str | None


class ExplainOptions(PageOptions, RankingOptions, total=False):
    """How to explain: PageOptions and RankingOptions, those of the search that is explained."""


class SearchOptions(ExplainOptions, total=False):
    """How to search: PageOptions, RankingOptions and one more; all are optional.

    Attributes:
        highlight: fill `excerpt_html` of the results.
    """

    highlight: bool


class FetchOptions(PageOptions, total=False):
    """How to read a stored ranking: PageOptions and one more; all are optional.

    Attributes:
        highlight: fill `excerpt_html` of the results.
    """

    highlight: bool


class ArticleOptions(TypedDict, total=False):
    """What an article is made of; all are optional, and what is not given is as by default, not as it was before.

    Attributes:
        external_ref: the application's own name of it; an article of this name is replaced.
        title: its title.
        body: its text; without chunks the one chunk is the body.
        kind: its kind, "article" by default.
        chunks: its passages.
        published: whether searches find it; True by default.
        metadata: a JSON object.
        source_uri: where it comes from.
        language: text search configuration (`"german"`); the organisation's by default.
        content_sha256: what reserve_articles() gives back of it.
        article_id: the article to replace, by id.
        space_id: embedding space of the chunks' vectors; the organisation's active one by default.
    """

    external_ref: str | None
    title: str | None
    body: str | None
    kind: str
    chunks: Sequence[Chunk] | None
    published: bool
    metadata: Mapping[str, Any] | None
    source_uri: str | None
    language: str | None
    content_sha256: str | None
    article_id: int | None
    space_id: int | None


class ClientOptions(TypedDict, total=False):
    """How a client works; all are optional.

    Attributes:
        schema: the schema that kbsearch is installed in, `"kbsearch"` by default.
        prepare: whether statements are prepared on the server. None, the default: as the connection is set up, and never on a connection
            that the client opened itself, so that it works behind a transaction-mode pooler. False: never, on no connection. True: from the
            first time on, unless the connection is set up for never.
        timeout: seconds that the statements of one call may take together, over 0; `math.inf`, the default, sets no limit. A call's own
            `timeout` goes before it. It replaces the connection's statement_timeout for the call's statements and for nothing else, and counts
            neither the wait for a connection nor the embedding of a question.
        savepoint: whether a call inside an owner's transaction runs in a savepoint, True by default: a refusal then leaves the transaction
            usable. It costs two round trips; False is for many writes in one transaction that a refusal is to roll back anyway.
    """

    schema: str
    prepare: bool | None
    timeout: float
    savepoint: bool
