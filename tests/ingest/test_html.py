from __future__ import annotations

import html
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("selectolax")

from kbsearch.ingest.headings import headings
from kbsearch.ingest.html import CharsetError, decode, read_html

PAGE = """<!doctype html><html lang="de-AT"><head><title>Reset | Site</title><style>p{}</style></head><body>
<header><nav><ul><li><a href=/>Home</a></ul></nav><p>Banner</p></header><div role=search>Find</div>
<main><header><h1>Reset your password <a class=headerlink href=#x>¶</a></h1></header>
<p>Open <b>Set</b>tings &amp; press <a href="/r">Reset</a>.<h2>Run <code>acme</code></h2>
<pre><code class="language-sh">acme reset
  --force   # two  spaces
</code></pre>
<table><tr><th>Plan<th>Limit</tr><tr><td>Free<td>10 a | day</table>
<ol><li>First<ul><li>inner</ul><li>Second<p>more</ol><aside>Note this</aside><blockquote>Quoted<br>twice</blockquote>
<details><summary>More</summary>Hidden</details><button>Copy</button><noscript>JS</noscript><svg><text>no</text></svg><img alt="A diagram">
</main><aside>Related</aside><footer>© Site</footer><script>evil()</script></body>"""


def test_a_page_gives_its_main_part_as_markdown() -> None:
    page = read_html(PAGE)
    assert (page.title, page.language) == ("Reset your password", "de-AT")
    assert (
        page.text
        == """# Reset your password

Open Settings & press Reset.

## Run `acme`

```
acme reset
  --force   # two  spaces
```

| Plan | Limit |
| --- | --- |
| Free | 10 a \\| day |

1. First
  - inner
2. Second

  more

Note this

> Quoted
> twice

More

Hidden

A diagram"""
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain words", "plain words"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<b>unclosed <i>tags", "unclosed tags"),
        ("</div></p>stray", "stray"),
        ("<table><tr><td>layout<h2>Head</h2></table>", "layout\n\n## Head"),
        ("<h1></h1><h2> </h2>x", "x"),
        ("<h2>a<div>b</div>c</h2>", "## a b c"),
        ("<article>only</article><div>beside</div>", "only"),
        ("<article>one</article><article>two</article>", "one\n\ntwo"),
        ("<main></main><div>all the same</div>", "all the same"),
        ("<template>no</template><p hidden>yes", "yes"),
        ("<pre>a```b\n\n c<br>d</pre>", "````\na```b\n\n c\nd\n````"),
        ("<ul><li><li>x</ul>after", "- x\n\nafter"),
        ("a<br><br>b", "a\nb"),
        ("<p>a&nbsp;b\tc", "a b c"),
        ("<dl><dt>T<dd>D</dl>", "T\n\nD"),
        ("<!-- no --><![CDATA[x]]>y", "y"),
    ],
)
def test_broken_and_odd_markup_gives_its_words(page: str, text: str) -> None:
    assert read_html(page).text == text


def test_the_title_is_the_heading_s_else_the_page_s() -> None:
    assert read_html("<title> A \n b </title><p>x").title == "A b"
    assert read_html("<title>T</title><h1>H</h1>").title == "H"
    assert read_html("<p>x").title is None


def test_language_is_that_of_the_part_that_is_read() -> None:
    assert read_html("<html lang=en><main lang=fr>x</main>").language == "fr"
    assert read_html('<html xml:lang="it"><p>x').language == "it"
    assert read_html("<p lang=de>x").language is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("<p>é".encode(), "<p>é"),
        ("\ufeff<meta charset=latin-1><p>é".encode(), "<meta charset=latin-1><p>é"),
        ("<p>é".encode("utf-16"), "<p>é"),
        ('<meta charset="iso-8859-1"><p>€ é'.encode("cp1252"), '<meta charset="iso-8859-1"><p>€ é'),
        (b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>" + "да".encode("koi8-r"),
         "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>да"),
        (b'<?xml version="1.0" encoding="shift_jis"?><p>' + "日本".encode("shift_jis"),
         '<?xml version="1.0" encoding="shift_jis"?><p>日本'),
        ("<meta charset=utf-16><p>é".encode(), "<meta charset=utf-16><p>é"),
    ],
)  # fmt: skip
def test_the_charset_is_the_mark_s_else_the_declared_else_utf8(raw: bytes, text: str) -> None:
    assert decode(raw) == text


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"<p>\xe9", "not utf-8"),
        (b"<meta charset=klingon>x", "klingon"),
        (b"<meta charset=rot13>x", "rot-13"),
        (b"\xff\xfea", "utf-16"),
        (b"<meta charset=utf-8>\xff", "what it declares"),
    ],
)
def test_bytes_that_are_not_what_they_are_said_to_be_are_told(raw: bytes, says: str) -> None:
    with pytest.raises(CharsetError, match=says):
        decode(raw)


def test_deeply_nested_markup_is_read() -> None:
    started = time.monotonic()
    assert read_html("<div><b>" * 3000 + "deep").text == "deep"
    assert time.monotonic() - started < 20


WORDS = st.text(st.sampled_from("ab #`*_<>&-=~.|\n\té漢"), max_size=12)
BLOCKS = st.lists(
    st.tuples(st.sampled_from(["h1", "h2", "h3", "p", "li", "td", "pre", "div", "blockquote", "code"]), WORDS),
    max_size=8,
)


@given(BLOCKS)
@example([("p", "># <")])
@example([("p", "> > ## x"), ("li", "- # y")])
def test_no_word_is_lost_and_none_becomes_a_heading_that_was_none(blocks: list[tuple[str, str]]) -> None:
    wrap = {"li": "<ul><li>{}</ul>", "td": "<table><tr><td>{}</table>", "code": "<p><code>{}</code>"}
    page = "".join(wrap.get(tag, f"<{tag}>{{}}</{tag}>").format(html.escape(words)) for tag, words in blocks)
    read = read_html(page)
    assert re.sub(r"[\W_]", "", read.text) == "".join(re.sub(r"[\W_]", "", words) for _, words in blocks)
    levels = [int(tag[1]) for tag, words in blocks if tag in ("h1", "h2", "h3") and re.search(r"[^\s#]", words)]
    assert [heading.level for heading in headings(read.text, "markdown")] == levels


@given(st.text(st.sampled_from("<>/abhpretdiv123 =\"'&;!-\0"), max_size=120))
def test_any_text_is_taken(page: str) -> None:
    read_html(page)
