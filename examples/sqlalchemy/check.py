"""Makes the shop's table on DATABASE_URL, a database with kbsearch in it, and checks what is found: `python check.py`."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import sqlalchemy
from sqlalchemy import create_engine, text, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from kbsearch import VectorLike
from kbsearch.embed import LocalEmbedder
from shop.models import Base, Product
from shop.search import ranked_products

URL = sqlalchemy.make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg")
QUESTION = "warm jacket for the rain"
PRODUCTS = (
    ("J-1", "Storm jacket", "Keeps the rain out and the wind, too.", "Norrland", "219.00", 4),
    ("J-2", "Down jacket", "Warm and light, for dry cold.", "Norrland", "249.00", 0),
    ("J-3", "City raincoat", "A long coat for wet days.", "Kettle", "129.00", 7),
    ("J-4", "Fleece jacket", "A warm layer to wear below.", "Kettle", "69.00", 12),
    # Two that no question can tell apart: their order is by the article's id, and the same on every page.
    ("J-5", "Windbreaker", "A thin jacket for runners.", "Kettle", "59.00", 3),
    ("J-6", "Windbreaker", "A thin jacket for runners.", "Kettle", "49.00", 3),
    ("B-1", "Rubber boots", "Dry feet in the rain.", "Norrland", "45.00", 9),
    ("H-1", "Wool hat", "Warm ears.", "Kettle", "19.00", 30),
    ("T-1", "Dome tent", "For two, three seasons.", "Norrland", "310.00", 2),
)


def product(org_id: int, sku: str, name: str, description: str, brand: str, price: str, stock: int) -> Product:
    """A product of the list above."""
    return Product(
        org_id=org_id, sku=sku, name=name, description=description, brand=brand, price=Decimal(price), stock=stock
    )


def found(
    session: Session, org_id: int, question: str, embedding: VectorLike | None = None, **options: Any
) -> list[str]:
    """SKUs, best first."""
    return [row[0].sku for row in session.execute(ranked_products(org_id, question, embedding, **options))]


def check_filters(session: Session, org_id: int, embedding: VectorLike) -> None:
    """Conditions on the shop's columns leave the order as it is, and pages are a partition of what is left."""
    every = session.execute(ranked_products(org_id, QUESTION, embedding, limit=100)).all()
    assert sorted(row[0].sku for row in every) == sorted(sku for sku, *_ in PRODUCTS)
    assert [row.place for row in every] == list(range(1, len(PRODUCTS) + 1))
    assert [row.score for row in every] == sorted((row.score for row in every), reverse=True)
    assert every[0][0].sku == "J-1", every  # jacket and rain
    order = [row[0].sku for row in every]
    assert order.index("J-6") == order.index("J-5") + 1, order
    conditions: tuple[tuple[dict[str, Any], Callable[[Product], bool]], ...] = (
        ({}, lambda _: True),
        ({"max_price": Decimal("129.00")}, lambda one: one.price <= 129),
        ({"in_stock": True}, lambda one: one.stock > 0),
        ({"max_price": Decimal(100), "in_stock": True}, lambda one: one.price <= 100 and one.stock > 0),
    )
    for options, wanted in conditions:
        expected = [row[0].sku for row in every if wanted(row[0])]
        assert found(session, org_id, QUESTION, embedding, limit=100, **options) == expected, options
        pages: list[str] = []
        after = 0
        while rows := session.execute(
            ranked_products(org_id, QUESTION, embedding, limit=2, after=after, **options)
        ).all():
            assert rows[0].place > after, (options, pages)
            pages += [row[0].sku for row in rows]
            after = rows[-1].place
        assert pages == expected, (options, pages)
    # The brand is the ranking's own condition.
    kettle = session.execute(ranked_products(org_id, QUESTION, embedding, brand="Kettle")).all()
    assert [row.place for row in kettle] == list(range(1, len(kettle) + 1))
    assert [row[0].sku for row in kettle] == [row[0].sku for row in every if row[0].brand == "Kettle"]


def check_following(session: Session, org_id: int) -> None:
    """Searches find what the table has, in the transaction that wrote it and after it, however it was written."""
    session.add(product(org_id, "L-1", "Head lamp", "Light for both hands.", "Kettle", "39.00", 5))
    assert found(session, org_id, "lamp") == ["L-1"], "not yet committed"
    session.rollback()
    assert found(session, org_id, "lamp") == [], "rolled back"

    hat = session.get_one(Product, (org_id, "H-1"))
    hat.name = "Wool beanie"
    session.commit()
    assert (found(session, org_id, "beanie"), found(session, org_id, "hat")) == (["H-1"], [])

    session.execute(update(Product).where(Product.sku == "H-1").values(sku="H-2", name="Wool cap"))
    session.commit()
    assert found(session, org_id, "cap") == ["H-2"], "a new key, by a statement that no session's event would see"

    before = session.scalar(text("SELECT max(c.id) FROM kbsearch.kb_article_chunks AS c"))
    session.execute(update(Product).values(price=Product.price * 2, stock=0))
    session.commit()
    assert session.scalar(text("SELECT max(c.id) FROM kbsearch.kb_article_chunks AS c")) == before, "indexed again"

    session.delete(session.get_one(Product, (org_id, "H-2")))
    session.commit()
    assert found(session, org_id, "cap") == []
    articles = session.scalar(text("SELECT count(*) FROM kbsearch.kb_articles AS a"))
    assert articles == len(PRODUCTS) - 1, articles


async def rows_of_async_session(org_id: int, embedding: VectorLike) -> list[tuple[str, int, float]]:
    """The whole ranking through an AsyncSession: the same statement."""
    engine = create_async_engine(URL)
    async with AsyncSession(engine) as session:
        rows = (await session.execute(ranked_products(org_id, QUESTION, embedding))).all()
    await engine.dispose()
    return [(row[0].sku, row.place, row.score) for row in rows]


def main() -> None:
    """All checks."""
    engine = create_engine(URL)
    with Session(engine) as session:
        org_id = session.scalar(text("INSERT INTO kbsearch.organizations (name) VALUES ('Outdoor shop') RETURNING id"))
        session.commit()
        Base.metadata.create_all(engine)
        session.add_all(product(org_id, *one) for one in PRODUCTS)
        session.commit()
        assert found(session, org_id, "raincoat") == ["J-3"], "by words at once"

        # By meaning after the next run of the job that embeds what is new.
        command = [sys.executable, "-m", "kbsearch", "ingest", "--embed-missing", "--org", "Outdoor shop"]
        subprocess.run(
            command,
            env={**os.environ, "KBSEARCH_DSN": os.environ["DATABASE_URL"]},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (shelter,) = LocalEmbedder().embed_queries(["somewhere to sleep outside"])
        assert found(session, org_id, "somewhere to sleep outside", shelter, limit=1) == ["T-1"]

        (embedding,) = LocalEmbedder().embed_queries([QUESTION])
        check_filters(session, org_id, embedding)
        rows = [
            (row[0].sku, row.place, row.score) for row in session.execute(ranked_products(org_id, QUESTION, embedding))
        ]
        assert asyncio.run(rows_of_async_session(org_id, embedding)) == rows
        check_following(session, org_id)
    engine.dispose()
    print("sqlalchemy: joins, filters, pages, and the table's own changes are right")


if __name__ == "__main__":
    main()
