"""The plots of docs/: `python -m tools.docs_figures [--dsn DSN]` draws them anew.

Every number in them comes from a call of the installed SQL functions. A plot carries its numbers in its own metadata, as JSON: so a test can say
whether the functions still give them, without comparing pictures.
"""

from __future__ import annotations

import argparse
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import psycopg
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from tools.docs import ROOT, database

FOLDER = ROOT / "docs/figures"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and copied
    "svg.hashsalt": "kbsearch",
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.edgecolor": "#57606a",
    "axes.labelcolor": "#24292f",
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "axes.grid": True,
    "grid.color": "#eaeef2",
    "axes.axisbelow": True,
    "savefig.facecolor": "#ffffff",
}
# Of the palette of Okabe and Ito, which people who see colours differently can tell apart.
VECTOR, WORDS, BROWN, OTHER, DARK = "#0072b2", "#e69f00", "#9a6a00", "#00795a", "#24292f"

Numbers = Mapping[str, Any]


def rows(connection: psycopg.Connection[Any], query: str, *values: object) -> list[Any]:
    """All rows of a query; of one column its values."""
    found = connection.execute(query.encode(), values).fetchall()
    return [row[0] if len(row) == 1 else list(row) for row in found]


def organization(
    connection: psycopg.Connection[Any], name: str, *articles: Mapping[str, Any], space: int | None = None
) -> int:
    """A new organisation with these articles, written in their order; keys are arguments of upsert_kb_article_v1 without `p_`."""
    (org_id,) = rows(connection, "INSERT INTO kbsearch.organizations (name) VALUES (%s) RETURNING id", name)
    for article in articles:
        given = {"p_org_id": org_id, "p_space_id": space, **{f"p_{key}": value for key, value in article.items()}}
        arguments = ", ".join(f"{name} => %({name})s" for name in given)
        connection.execute(
            f"SELECT kbsearch.upsert_kb_article_v1({arguments})".encode(),
            {name: json.dumps(value) if isinstance(value, list) else value for name, value in given.items()},
        )
    return int(org_id)


# BM25: what moves the score of a word in a chunk.

COUNTS = range(1, 13)
LENGTHS = range(10, 401, 10)
FREQUENCIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
CORPUS = 10_000
THOUSAND = 1000


def bm25_numbers(connection: psycopg.Connection[Any]) -> Numbers:
    """Impacts by occurrences and by length at L = 100, and idf by document frequency of 10,000 chunks; all in thousandths."""

    def values(call: str, given: Sequence[int]) -> list[int]:
        numbered = "pg_catalog.unnest(%s::bigint[]) WITH ORDINALITY AS given (n, place)"
        return rows(connection, f"SELECT kbsearch.{call} FROM {numbered} ORDER BY given.place", list(given))

    return {
        "counts": list(COUNTS),
        "impact_by_count": {
            str(length): values(f"bm25_impact_v1(given.n, {length}, 100)", COUNTS) for length in (25, 100, 400)
        },
        "lengths": list(LENGTHS),
        "impact_by_length": {
            str(count): values(f"bm25_impact_v1({count}, given.n, 100)", LENGTHS) for count in (1, 3, 9)
        },
        "document_frequencies": list(FREQUENCIES),
        "idf": values(f"kb_idf_v1({CORPUS}, given.n)", FREQUENCIES),
    }


def draw_bm25(numbers: Numbers) -> Figure:
    """Three panels: occurrences, length, rarity."""
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=(5, 5, 4))
    for axes, title, label in (
        (left, "Said more often", "occurrences in the chunk (tf)"),
        (middle, "In a longer chunk", "length of the chunk (dl), words"),
        (right, "In fewer chunks", "chunks with the word (df)"),
    ):
        axes.set_title(title)
        axes.set_xlabel(label)
    for axes in (left, middle):
        axes.set_ylim(0, 2500)
        axes.axhline(2200, color=DARK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_ylabel("impact, thousandths")
    left.text(0.5, 2245, "never reached: 2200", fontsize=9, color=DARK)
    left.set_xlim(0, 17)
    left.xaxis.set_major_locator(FixedLocator([1, 4, 8, 12]))
    for (length, values), colour in zip(numbers["impact_by_count"].items(), (OTHER, VECTOR, BROWN), strict=True):
        left.plot(numbers["counts"], values, color=colour, marker="o", markersize=3.5)
        _label(
            left, numbers["counts"][-1], values[-1] + {"25": 20, "100": -50}.get(length, 0), f"{length} words", colour
        )
    middle.set_xlim(0, 540)
    middle.xaxis.set_major_locator(FixedLocator([0, 100, 200, 300, 400]))
    for (count, values), colour in zip(numbers["impact_by_length"].items(), (BROWN, VECTOR, OTHER), strict=True):
        middle.plot(numbers["lengths"], values, color=colour)
        _label(middle, numbers["lengths"][-1], values[-1], "once" if count == "1" else f"{count} times", colour)
    right.plot(numbers["document_frequencies"], numbers["idf"], color=VECTOR, marker="o", markersize=3.5)
    right.set_xscale("log")
    right.xaxis.set_major_locator(FixedLocator([1, 10, 100, 1000, 10000]))
    right.xaxis.set_minor_locator(NullLocator())
    right.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:.0f}" if value < THOUSAND else f"{value / 1000:.0f}k")
    )
    right.set_ylim(0, 10000)
    right.set_ylabel("idf, thousandths")
    return figure


# Two fusions of the same two legs.

EXAMPLE: Mapping[str, tuple[float | None, str]] = {
    "Refund policy": (0.95, "A refund is paid within five days after the goods have come back to us."),
    "Refund forms": (0.62, "Form for a refund, refund letter, refund table."),
    "Returning goods": (0.60, "Send them back, and you have your money."),
    "Old note": (None, "Refund: ask Anna in the shop on the corner."),
    "Gift cards": (
        0.30,
        "There is no refund of gift cards, and none of vouchers or of any other thing that was paid in advance.",
    ),
    "Delivery": (0.20, "Parcels take two days."),
}
"""Cosine with the question (None: an article without a vector) and content; vectors lie on a circle, the question's is (1, 0, 0)."""
QUESTION = "refund"
ROUNDING = 2e-9
"""A score is the sum of two parts that were each rounded to billionths."""


def fusion_numbers(connection: psycopg.Connection[Any]) -> Numbers:
    """What each article gets from each leg, with weighted@1 and with rrf@1; scores are checked to be the sums of the parts."""
    (space,) = rows(
        connection,
        "INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('figures', 'circle', 3) RETURNING id",
    )
    org_id = organization(
        connection,
        "fusion",
        *(
            {
                "title": title,
                "chunks": [
                    {"content": content, "embedding": None if cosine is None else [cosine, (1 - cosine**2) ** 0.5, 0.0]}
                ],
            }
            for title, (cosine, content) in EXAMPLE.items()
        ),
        space=space,
    )
    found = {
        profile: {
            row[0]: row[1:]
            for row in rows(
                connection,
                "SELECT title, score, vector_similarity, keyword_score, settled_by_identity FROM kbsearch.search_kb_hybrid_v1("
                "p_org_id => %s, p_query_text => %s, p_query_embedding => '[1, 0, 0]', p_profile => %s)",
                org_id,
                QUESTION,
                profile,
            )
        }
        for profile in ("weighted@1", "rrf@1", "vector@1", "keyword@1")
    }
    weighted = [
        {"title": title, "vector": max(0.0, cosine or 0) / 2, "words": (words or 0) / 2, "score": score, "tied": tied}
        for title, (score, cosine, words, tied) in found["weighted@1"].items()
    ]
    ranks = {
        leg: {title: 1 + sum(other[0] > mine[0] for other in found[leg].values()) for title, mine in found[leg].items()}
        for leg in ("vector@1", "keyword@1")
    }
    fused = [
        {
            "title": title,
            "vector_rank": ranks["vector@1"].get(title),
            "words_rank": ranks["keyword@1"].get(title),
            "vector": _share(ranks["vector@1"].get(title)),
            "words": _share(ranks["keyword@1"].get(title)),
            "score": score,
            "tied": tied,
        }
        for title, (score, _, _, tied) in found["rrf@1"].items()
    ]
    for one in (*weighted, *fused):
        if abs(one["vector"] + one["words"] - one["score"]) > ROUNDING:
            raise AssertionError(f"the parts do not add up to the score: {one}")
    return {"question": QUESTION, "weighted": weighted, "rrf": fused}


def _share(rank: int | None) -> float:
    return 0.0 if rank is None else round(1 / (60 + rank), 9)


def draw_fusion(numbers: Numbers) -> Figure:
    """Two panels of stacked bars, best article on top."""
    figure = Figure(figsize=(9.6, 3.7), layout="constrained")
    for axes, fusion, title in zip(
        figure.subplots(1, 2),
        ("weighted", "rrf"),
        ("weighted: half of each number", "rrf: 1 / (60 + rank) of each leg"),
        strict=True,
    ):
        bars = numbers[fusion]
        places = list(range(len(bars)))
        vector, words = [one["vector"] for one in bars], [one["words"] for one in bars]
        axes.barh(places, vector, color=VECTOR, height=0.62)
        axes.barh(places, words, left=vector, color=WORDS, height=0.62)
        axes.set_yticks(places, [one["title"] for one in bars], color=DARK)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_title(title)
        axes.set_xlabel("score")
        for place, one in enumerate(bars):
            if fusion == "rrf":
                for leg, start, width in (("vector", 0.0, one["vector"]), ("words", one["vector"], one["words"])):
                    if width:
                        colour = "#ffffff" if leg == "vector" else DARK
                        axes.text(
                            start + width / 2,
                            place,
                            f"rank {one[f'{leg}_rank']}",
                            ha="center",
                            va="center",
                            color=colour,
                            fontsize=9,
                        )
            text = f"{one['score']:.3f}" if fusion == "weighted" else f"{one['score']:.5f}"
            axes.annotate(
                text + (" tie" if one["tied"] else ""),
                (one["score"], place),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
                color=DARK,
                fontweight="bold" if one["tied"] else "normal",
            )
        axes.set_xlim(0, max(one["score"] for one in bars) * 1.32)
        axes.xaxis.set_major_locator(
            FixedLocator([0, 0.25, 0.5, 0.75, 1] if fusion == "weighted" else [0, 0.01, 0.02, 0.03])
        )
    axes = figure.axes[0]
    axes.text(0.99, 0.10, "meaning", color=VECTOR, transform=axes.transAxes, ha="right", fontweight="bold")
    axes.text(0.99, 0.02, "words", color=BROWN, transform=axes.transAxes, ha="right", fontweight="bold")
    return figure


# Languages: three ways to load the same articles.

ENGLISH: Sequence[Mapping[str, Any]] = (
    {"title": "Opening hours", "body": "The shop is open on Monday and the office on Tuesday."},
    {"title": "Gift vouchers", "body": "A gift voucher is valid for three years in the shop."},
    {"title": "Complaints", "body": "Write to the office. The office answers in a week, by letter."},
)
GERMAN: Sequence[Mapping[str, Any]] = (
    {"title": "Öffnungszeiten", "body": "Der Shop ist am Montag geöffnet, das Office am Dienstag."},
    {"title": "Beschwerden", "body": "Schreiben Sie an das Office. Das Office antwortet in einer Woche."},
    {"title": "Lieferung", "body": "Das Office verschickt Pakete am selben Tag."},
)
ASKED = "shop office gift"


def language_numbers(connection: psycopg.Connection[Any]) -> Numbers:
    """Keyword scores of the English articles: alone, beside German ones, and where the German ones are analysed as English, too."""
    organizations = {
        "alone": organization(connection, "alone", *ENGLISH),
        "german": organization(connection, "german", *ENGLISH, *({**one, "language": "german"} for one in GERMAN)),
        "mixed": organization(connection, "mixed", *ENGLISH, *GERMAN),
    }
    scores = {
        name: dict(
            rows(
                connection,
                "SELECT title, keyword_score FROM kbsearch.search_kb_hybrid_v1(p_org_id => %s, p_query_text => %s)",
                org_id,
                ASKED,
            )
        )
        for name, org_id in organizations.items()
    }
    return {
        "question": ASKED,
        "titles": [one["title"] for one in ENGLISH],
        **{name: [found.get(one["title"]) for one in ENGLISH] for name, found in scores.items()},
    }


def draw_languages(numbers: Numbers) -> Figure:
    """One panel: a line an article, from organisation to organisation."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    heads = ("alone", "german", "mixed")
    for number, (title, colour) in enumerate(zip(numbers["titles"], (VECTOR, BROWN, OTHER), strict=True)):
        values = [numbers[head][number] for head in heads]
        axes.plot(range(3), values, color=colour, marker="o")
        _label(axes, 2, values[-1], title, colour)
        for place, value in enumerate(values):
            axes.annotate(
                f"{value:.3f}", (place, value), (0, 6), textcoords="offset points", ha="center", fontsize=9, color=DARK
            )
    axes.set_xticks(
        range(3),
        [
            "three English articles",
            "and three German ones,\neach with its language",
            "and three German ones,\nanalysed as English",
        ],
        color=DARK,
    )
    axes.set_xlim(-0.35, 2.75)
    axes.set_ylim(0, 1)
    axes.set_ylabel("keyword score")
    axes.grid(visible=False, axis="x")
    return figure


def _label(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    """Name a line at its right end."""
    axes.annotate(
        text, (x, y), (9, 0), textcoords="offset points", va="center", color=colour, fontsize=9.5, fontweight="bold"
    )


FIGURES: Mapping[str, tuple[Callable[[psycopg.Connection[Any]], Numbers], Callable[[Numbers], Figure]]] = {
    "bm25": (bm25_numbers, draw_bm25),
    "fusion": (fusion_numbers, draw_fusion),
    "languages": (language_numbers, draw_languages),
}
"""Name of the file without .svg: what computes the numbers, on a database where organisations may be made, and what draws them."""


def svg(name: str, numbers: Numbers) -> bytes:
    """A plot, with its numbers as JSON in its description; the same bytes for the same numbers and matplotlib."""
    file = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure = FIGURES[name][1](numbers)
        text = json.dumps(numbers, ensure_ascii=False)
        figure.savefig(
            file, format="svg", metadata={"Date": None, "Creator": "tools/docs_figures.py", "Description": text}
        )
    drawn = file.getvalue().replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif")
    return b"\n".join(line.rstrip() for line in drawn.splitlines()) + b"\n"


def numbers_in(file: Path) -> Numbers:
    """The numbers that a plot was drawn from."""
    (text,) = ET.parse(file).iter("{http://purl.org/dc/elements/1.1/}description")  # noqa: S314  (our own file)
    found: Numbers = json.loads(text.text or "")
    return found


def main() -> None:
    """Draw all plots anew."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.docs_figures", description="Draw the plots of the documentation."
    )
    parser.add_argument(
        "--dsn", help="a database with kbsearch installed; what is made in it is rolled back. By default one is made"
    )
    with database(parser.parse_args().dsn) as dsn, psycopg.connect(dsn) as connection:
        FOLDER.mkdir(exist_ok=True)
        for name, (compute, _) in FIGURES.items():
            (FOLDER / f"{name}.svg").write_bytes(svg(name, compute(connection)))
            print(f"Drew docs/figures/{name}.svg")
        connection.rollback()


if __name__ == "__main__":
    main()
