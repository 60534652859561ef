"""Products by relevance, with conditions on the shop's own columns: one statement, for a Session and for an AsyncSession."""

from decimal import Decimal

from sqlalchemy import Select, select

from kbsearch import VectorLike, as_selectable
from shop.models import Product

CANDIDATES = 1000
"""Articles of the ranking that are joined, the most that a search gives."""


def ranked_products(
    org_id: int,
    question: str,
    embedding: VectorLike | None = None,
    *,
    brand: str | None = None,
    max_price: Decimal | None = None,
    in_stock: bool = False,
    after: int = 0,
    limit: int = 10,
) -> Select[Product, int, float, str | None]:
    """Rows of product, place, score and excerpt, best first.

    Args:
        org_id: the shop.
        question: what is looked for.
        embedding: the question's vector, of the model that the shop's products were embedded by.
        brand: only this brand. kbsearch knows it: the ranking has nothing else, so that places are without gaps.
        max_price: at most so dear, and
        in_stock: only what can be sent at once. These the ranking does not know: products are left out of its first CANDIDATES.
        after: the place of the last product of the page before.
        limit: products of a page.
    """
    found = as_selectable(
        org_id,
        question,
        embedding,
        limit=CANDIDATES,
        kinds=["product"],
        metadata=None if brand is None else {"brand": brand},
    )
    statement = (
        select(Product, found.c.place, found.c.score, found.c.excerpt)
        .join(found, found.c.external_ref == Product.sku)
        .where(Product.org_id == org_id, found.c.place > after)
        .order_by(found.c.place)
        .limit(limit)
    )
    if max_price is not None:
        statement = statement.where(Product.price <= max_price)
    if in_stock:
        statement = statement.where(Product.stock > 0)
    return statement
