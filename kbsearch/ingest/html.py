"""HTML: the main part of a page as Markdown, its title and its language."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kbsearch.embed.errors import require
from kbsearch.ingest.markdown import MarkdownWriter, collapse

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_NO_TEXT = frozenset(
    """annotation audio button canvas datalist dialog embed footer head iframe input map meter nav noscript object output progress
script search select style svg template textarea title video""".split()  # noqa: SIM905
)
_NO_CONTENT_ROLES = frozenset({"navigation", "contentinfo", "search", "menu", "menubar", "toolbar", "dialog"})
_OUTSIDE_ARTICLES = frozenset({"aside", "header"})
"""Within the main part they are notes and headings, beside it they belong to the site."""
_DECLARED = re.compile(
    rb"""<meta[^>]*?charset\s*=\s*["']?\s*(?P<meta>[\w.:-]+)|\A\s*<\?xml[^>]*?encoding\s*=\s*["'](?P<xml>[\w.:-]+)""",
    re.IGNORECASE,
)
_PRESCAN = 4096
"""Bytes in which a page declares its charset: browsers read 1024, and pages begin with comments."""
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# WHATWG's Encoding standard: these labels mean a superset of what they say, and a page whose <meta> can be read is not in UTF-16.
_MEANT = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030"}


class CharsetError(ValueError):
    """The bytes are not in the charset that they are said to be in."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says: title None where it has none, language as its `lang` attribute has it, text in Markdown."""

    title: str | None
    language: str | None
    text: str


def decode(raw: bytes) -> str:
    """The text of a page: its charset is that of a byte order mark, else the one it declares in <meta> or <?xml?>, else UTF-8.

    Raises CharsetError when the bytes are not of that charset, or nobody knows it.
    """
    for mark, charset in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return _decode(raw[len(mark) :], charset, "its byte order mark")
    if declared := _DECLARED.search(raw[:_PRESCAN]):
        label = (declared["meta"] or declared["xml"]).decode("ascii")
        try:
            charset = codecs.lookup(label).name
        except LookupError:
            raise CharsetError(f"nobody knows the charset {label!r} that it declares") from None
        charset = "utf-8" if charset.startswith("utf-16") else _MEANT.get(charset, charset)
        return _decode(raw, charset, "what it declares")
    return _decode(raw, "utf-8", "the default, as it declares no charset")


def _decode(raw: bytes, charset: str, origin: str) -> str:
    try:
        return raw.decode(charset)
    except (UnicodeError, LookupError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise CharsetError(
                f"not {charset} ({origin}): byte {error.object[error.start]:#04x} at {error.start}"
            ) from error
        raise CharsetError(f"not {charset} ({origin}): {error}") from error


def read_html(text: str) -> Page:
    """The main part of a page: what is in <main>, else in its only <article>, else in the body without what belongs to the site.

    Headings, lists, tables and preformatted text keep their structure; scripts, styles, navigation, footers, forms' controls and what is
    hidden from readers' aids are left out. Any text is taken, as browsers take it. The title is that of the first <h1>, else of <title>.

    Raises MissingExtraError without the extra `html`.
    """
    tree = require_parser().LexborHTMLParser(text)
    if tree.body is None:
        return Page(None, None, "")
    mains = tree.css("main, [role=main]") or tree.css("article")
    main = mains[0] if len(mains) == 1 else tree.body
    rendered = _render(main)
    if not re.search(r"\w", rendered):
        main = tree.body
        rendered = _render(main)
    first = main.css_first("h1")
    title = _words(first) if first is not None else ""
    if not title and tree.head is not None and (named := tree.head.css_first("title")) is not None:
        title = _words(named)
    return Page(title or None, _language(main), rendered)


def require_parser() -> ModuleType:
    """The parser's module. Raises MissingExtraError without the extra `html`."""
    return require("selectolax.lexbor", "HTML pages", extra="html")


def _language(node: LexborNode) -> str | None:
    at: LexborNode | None = node
    while at is not None:
        if language := (at.attributes.get("lang") or at.attributes.get("xml:lang") or "").strip():
            return language
        at = at.parent
    return None


def _words(node: LexborNode) -> str:
    return collapse("".join(text for event, _, text in _walk(node) if event == "text")).strip().rstrip("¶").rstrip()


def _walk(root: LexborNode) -> Iterator[tuple[str, LexborNode, str]]:
    """Events of all that is below a node: open and close of elements, text; what has no text for readers is passed over.

    Without recursion: broken markup nests elements by the thousand.
    """
    in_article = root.tag != "body"
    pending: list[tuple[LexborNode, Iterator[Any], bool]] = [(root, root.iter(include_text=True), in_article)]
    while pending:
        parent, children, within = pending[-1]
        node = next(children, None)
        if node is None:
            pending.pop()
            if pending:
                yield "close", parent, ""
        elif node.tag == "-text":
            yield "text", node, node.text_content or ""
        elif not _is_left_out(node, within):
            yield "open", node, ""
            pending.append((node, node.iter(include_text=True), within or node.tag in ("main", "article")))


def _is_left_out(node: LexborNode, within: bool) -> bool:
    tag, attributes = node.tag or "", node.attributes
    if tag in _NO_TEXT or tag.startswith("-"):
        return True
    if (attributes.get("role") or "") in _NO_CONTENT_ROLES or attributes.get("aria-hidden") == "true":
        return True
    if tag in _OUTSIDE_ARTICLES and not within:
        return tag == "aside" or node.css_first("h1") is None
    return tag == "a" and (node.text() or "").strip() in ("¶", "#", "§", "🔗")


def _render(root: LexborNode) -> str:
    writer = MarkdownWriter()
    for event, node, text in _walk(root):
        if event == "text":
            writer.text(text)
        elif event == "open":
            writer.open(node)
        else:
            writer.close(node)
    return writer.end()
