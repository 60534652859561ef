"""The events of an HTML tree as Markdown, of which only headings, lists, tables, quotations and preformatted text are left."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    """address article aside blockquote body caption center dd details dir div dl dt fieldset figcaption figure form header hgroup hr legend
li main menu ol p section summary table tbody td tfoot th thead tr ul""".split()  # noqa: SIM905
)
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_BREAK = "\v"
"""A line break within a paragraph, while its words are collected."""
_NOT_IN_TABLES = "table, h1, h2, h3, h4, h5, h6, pre, ul, ol, dl, blockquote"
"""What makes a table a means of layout: its cells are then blocks like others."""
_SPACE = re.compile(r"[ \t\n\f\r\u00a0]+")
_FENCES = re.compile(r"`{3,}")
_SYNTAX = re.compile(r"^(?=(?:(?:>|[-+*][ \t])[ \t]*)*(?:#{1,6}(?:\s|$)|(?:=+|-+)\s*$|```|~~~|<))", re.MULTILINE)
"""Where words of a paragraph would begin a heading, a fence or an HTML block of Markdown."""


def collapse(text: str) -> str:
    """Text with every run of white space as one space."""
    return _SPACE.sub(" ", text)


class MarkdownWriter:
    """Collects the words of a block until it ends, and then writes it down as Markdown."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.blocks: list[str] = []
        self._words: list[str] = []
        self._code: list[int] = []
        self._lists: list[int | None] = []  # number of the last item; None where items have none
        self._marker = ""
        self._quotes = 0
        self._preformatted = 0
        self._heading = False
        self._tables: list[bool] = []  # whether it is one of data
        self._rows: list[list[str]] = []
        self._cells: list[str] | None = None
        self._openers: Mapping[str, Callable[[LexborNode], None]] = {
            "br": self._open_break,
            "img": self._open_image,
            "pre": self._open_preformatted,
            **dict.fromkeys(_LISTS, self._open_list),
            "li": self._open_item,
            "blockquote": self._open_quote,
            "table": self._open_table,
            "tr": self._open_row,
            "td": self._open_cell,
            "th": self._open_cell,
        }
        self._closers: Mapping[str, Callable[[], None]] = {
            **dict.fromkeys(_LISTS, self._close_list),
            "blockquote": self._close_quote,
            "table": self._close_table,
            "tr": self._close_row,
        }

    def open(self, node: LexborNode) -> None:
        """An element begins."""
        tag = node.tag or ""
        if self._heading and tag not in _CODE:
            self._words.append(" " if tag in _BLOCKS or tag == "br" else "")
            return
        if tag in _BLOCKS or tag in _HEADINGS or tag == "pre":
            self._end_block()
        if tag in _HEADINGS:
            self._heading = True
        elif tag in _CODE and not self._preformatted:
            self._code.append(len(self._words))
        elif tag in self._openers:
            self._openers[tag](node)

    def close(self, node: LexborNode) -> None:
        """An element ends."""
        tag = node.tag or ""
        if tag in _HEADINGS:
            self._end_heading(_HEADINGS[tag])
        elif tag in _CODE and self._code and not self._preformatted:
            self._end_code(self._code.pop())
        elif self._heading:
            self._words.append(" " if tag in _BLOCKS else "")
            return
        elif tag == "pre":
            self._end_preformatted()
        elif tag in _BLOCKS:
            self._end_block()
        if tag in self._closers:
            self._closers[tag]()

    def text(self, text: str) -> None:
        """Words."""
        self._words.append(text.replace(_BREAK, " "))

    def end(self) -> str:
        """The Markdown of all."""
        self._end_block()
        return "\n\n".join(self.blocks)

    @property
    def _in_table(self) -> bool:
        return bool(self._tables and self._tables[-1])

    def _take(self) -> str:
        text = "".join(self._words)
        self._words.clear()
        self._code = [0] * len(self._code)
        return text

    def _open_break(self, _node: LexborNode) -> None:
        self._words.append("\n" if self._preformatted else _BREAK)

    def _open_image(self, node: LexborNode) -> None:
        self._words.append(node.attributes.get("alt") or "")

    def _open_preformatted(self, _node: LexborNode) -> None:
        self._preformatted += 1

    def _open_list(self, node: LexborNode) -> None:
        self._lists.append(0 if node.tag == "ol" else None)

    def _close_list(self) -> None:
        if self._lists:
            self._lists.pop()
        self._marker = ""

    def _open_quote(self, _node: LexborNode) -> None:
        self._quotes += 1

    def _close_quote(self) -> None:
        self._quotes -= 1

    def _open_table(self, node: LexborNode) -> None:
        self._tables.append(_is_of_data(node))

    def _close_table(self) -> None:
        if self._tables and self._tables.pop():
            self._end_table()

    def _open_row(self, _node: LexborNode) -> None:
        if self._in_table:
            self._cells = []

    def _open_cell(self, _node: LexborNode) -> None:
        if self._in_table and self._cells is not None:
            self._cells.append("")

    def _close_row(self) -> None:
        if self._in_table and self._cells is not None:
            self._rows.append(self._cells)
            self._cells = None

    def _open_item(self, _node: LexborNode) -> None:
        if self._lists and (number := self._lists[-1]) is not None:
            self._lists[-1] = number + 1
            self._marker = f"{number + 1}. "
        else:
            self._marker = "- "

    def _end_code(self, start: int) -> None:
        inner = "".join(self._words[start:])
        if inner.strip() and not {"`", _BREAK} & set(inner):
            self._words[start:] = [f"`{inner}`"]

    def _end_block(self) -> None:
        if self._preformatted:
            return
        lines = [collapse(line).strip() for line in self._take().split(_BREAK)]
        text = "\n".join(line for line in lines if line)
        if not text:
            return
        if self._cells:
            self._cells[-1] = f"{self._cells[-1]} {' '.join(text.split())}".strip()
            return
        depth = max(len(self._lists) - 1, 0) if self._marker else len(self._lists)
        margin, hanging = "  " * depth, " " * len(self._marker)
        first, *rest = _SYNTAX.sub(r"\\", text).split("\n")
        quote = "> " * self._quotes
        block = "\n".join(
            [f"{quote}{margin}{self._marker}{first}", *(f"{quote}{margin}{hanging}{line}" for line in rest)]
        )
        # The items of a list are one block: nothing parts them.
        if self._marker and self.blocks and self._lists and self._is_item(self.blocks[-1]):
            self.blocks[-1] += f"\n{block}"
        else:
            self._write(block)
        self._marker = ""

    @staticmethod
    def _is_item(block: str) -> bool:
        return re.match(r"[> ]*(?:- |\d+\. )", block) is not None

    def _end_heading(self, level: int) -> None:
        self._heading = False
        title = collapse(self._take()).strip().rstrip("¶").rstrip()
        if title:
            self._write(f"{'#' * level} {title}")

    def _end_preformatted(self) -> None:
        self._preformatted -= 1
        code = self._take().replace(_BREAK, "\n").strip("\n").rstrip()
        if code.strip():
            fence = max((found.group() for found in _FENCES.finditer(code)), key=len, default="``") + "`"
            self._write(f"{fence}\n{code}\n{fence}")

    def _end_table(self) -> None:
        rows = [[cell.replace("|", "\\|") for cell in row] for row in self._rows if any(row)]
        self._rows = []
        if rows:
            width = max(map(len, rows))
            lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
            lines.insert(1, "|" + " --- |" * width)
            self._write("\n".join(lines))

    def _write(self, block: str) -> None:
        self.blocks.append(block)


def _is_of_data(table: LexborNode) -> bool:
    """Whether a table has rows and columns to read, and is no means of layout."""
    if table.attributes.get("role") == "presentation":
        return False
    return all(node.mem_id == table.mem_id for node in table.css(_NOT_IN_TABLES))
