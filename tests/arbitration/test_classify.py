"""classify_kb_query_v1 on a table of examples, in many languages and scripts."""

# ruff: noqa: RUF001  (letters of many scripts are meant)

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arbitration.calls import Connection

EXAMPLES: dict[str, list[str]] = {
    "empty": ["", " ", "\n\t", "...", "?!", "¿?", "-refund", "--", '""', '" "', "\u00a0\u200b", "+ / #", "😀"],
    "quoted": [
        '"exact phrase"',
        'refund "exact phrase"',
        "“smart quotes” refund",
        "„deutsche Zeichen“",
        "«кавычки» слово",
        'how do I find "AB-1234"?',
        '"退货"',
        'a "b" -"c"',
    ],
    "identifier": [
        "XJ-900",
        "XJ-900 filter",
        "error E1234",
        "E1234?",
        "covid-19",
        "978-3-16-148410-0",
        "4006381333931",
        "٠٥٠١٢٣٤٥٦٧",
        "१२३४५",
        "123456",
        "user_name",
        "kb_articles column",
        "search_kb_hybrid_v1",
        "node.js",
        "example.com",
        "me@example.com",
        "std::vector",
        "192.168.0.1",
        "2001:db8::1",
        "ISO 9001:2015",
        "ГОСТ12345",
        "ΑΒ1234",
        "0x80070005",
        "CVE-2024-3094",
        "ＸＪ９００",
        "XJ–900",
        "Brother TN2420",
        "退货 XJ-900",
    ],
    "question": [
        "how do I return shoes",
        "How do I return shoes?",
        "what is AB-1234",
        "which part fits XJ-900",
        "why slow",
        "is it possible to return them",
        "return shoes?",
        "can a refund be paid in cash",
        "the refund was not paid although the goods came back",
        "0-dimensional biomaterials show no inductive properties in mice",
        "wie kann ich zurückgeben",
        "Warum ist das so langsam?",
        "kann man das noch zurückgeben",
        "où est ma commande",
        "combien coûte le retour",
        "¿cómo devolver un pedido?",
        "¿devolución",
        "cuándo llega",
        "perché non arriva",
        "onde está o pedido",
        "hoe retourneer ik",
        "hur lång tid",
        "hvordan returnerer jeg",
        "miten palautan",
        "jak zwrócić towar",
        "kdy přijde zboží",
        "как вернуть заказ",
        "чому так довго",
        "πώς επιστρέφω",
        "επιστροφή;\u037e",
        "siparişim nerede?",
        "bu ürün iade edilir mi",
        "nasıl iade edilir",
        "sản phẩm này là gì",
        "bagaimana cara mengembalikan",
        "هل يمكن الإرجاع",
        "إرجاع؟",
        "چگونه پس بدهم",
        "האם אפשר להחזיר",
        "वापसी कैसे करें",
        "কিভাবে ফেরত দেব",
        "如何退货",
        "可以退货吗",
        "這個怎麼退",
        "我想知道这个商品能不能在三十天之内退货",
        "返品できますか",
        "なぜ遅い",
        "환불은 어떻게 하나요",
        "환불 되나요",
        "คืนสินค้าได้ไหม",
        "ทำไมช้า",
    ],
    "keywords": [
        "refund policy",
        "refund",
        "0",
        "1234",
        "how",
        "Warum",
        "can opener",
        "is open",
        "500mg ibuprofen",
        "10th century art",
        "1990s music",
        "24h delivery",
        "python 3.11",
        "24/7",
        "10:30",
        "3.5 %",
        "v2",
        "B12",
        "5G",
        "C++",
        "c# generics",
        "e.g. this",
        "O'Reilly",
        "well-known brands",
        "client/server",
        "refund -shipping",
        '"unbalanced refund',
        'refund -"not this"',
        "refund – shipping",
        "https refund?id",
        "Rückgabe Schuhe",
        "devolución pedido",
        "возврат заказа",
        "πολιτική επιστροφών",
        "سياسة الإرجاع",
        "מדיניות החזרה",
        "वापसी नीति",
        "退货政策",
        "返品ポリシー",
        "환불 정책",
        "นโยบายคืนสินค้า",
        "đổi trả hàng",
        "red running shoes size nine wide fit",
    ],
}
TABLE = [(text, name) for name, texts in EXAMPLES.items() for text in texts]


def classified(connection: Connection, *texts: str | None) -> list[str]:
    rows = connection.execute(
        "SELECT kbsearch.classify_kb_query_v1(t.text) FROM unnest(%s::text[]) WITH ORDINALITY AS t (text, n) ORDER BY t.n",
        (list(texts),),
    ).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize(("text", "name"), TABLE)
def test_an_example_has_its_class(pure: Connection, text: str, name: str) -> None:
    assert classified(pure, text) == [name]


def test_no_text_is_empty(pure: Connection) -> None:
    assert classified(pure, None) == ["empty"]


def test_the_table_has_many_languages() -> None:
    assert len(TABLE) > 140
    assert len({text for text, _ in TABLE}) == len(TABLE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HOW DO I RETURN", "how do i return"),
        ("Ｈｏｗ do", "how do"),
        ("WARUM NICHT", "warum nicht"),
        ("ПОЧЕМУ НЕТ", "почему нет"),
        ("  xj-900\n", "XJ-900"),
        ("cómo va", "co\u0301mo va"),
        ("İADE nasıl", "iade NASIL"),
    ],
)
def test_case_width_and_blanks_are_the_same(pure: Connection, one: str, other: str) -> None:
    assert len(set(classified(pure, one, other))) == 1


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_any_text_has_one_class_whatever_its_case_in_ascii(pure: Connection, text: str) -> None:
    upper = "".join(one.upper() if one.isascii() else one for one in text)
    found = classified(pure, text, upper, f" {text} ")
    assert found[0] in EXAMPLES
    assert found[0] == found[1]


def test_long_texts_are_classified(pure: Connection) -> None:
    assert classified(pure, "word " * 6000, "x" * 32_000, '"' * 32_000, "1" * 32_000, "-" * 32_000) == [
        "question",
        "keywords",
        "empty",
        "identifier",
        "empty",
    ]


def test_it_depends_on_no_locale(pure: Connection) -> None:
    """The same classes for a text of any collation that the server has."""
    named = pure.execute(
        "SELECT DISTINCT ON (c.collprovider, c.collcollate) quote_ident(c.collname) FROM pg_catalog.pg_collation AS c "
        "WHERE c.collnamespace = 'pg_catalog'::regnamespace AND c.collencoding IN (-1, 6) ORDER BY c.collprovider, c.collcollate, c.oid"
    ).fetchall()
    assert ("ucs_basic",) in named or len(named) > 1
    for (collation,) in named:
        rows = pure.execute(
            f"""SELECT kbsearch.classify_kb_query_v1(t.text COLLATE pg_catalog.{collation})
            FROM unnest(%s::text[]) WITH ORDINALITY AS t (text, n) ORDER BY t.n""".encode(),
            ([text for text, _ in TABLE],),
        ).fetchall()
        assert [row[0] for row in rows] == [name for _, name in TABLE], collation
