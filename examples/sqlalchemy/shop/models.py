"""The shop's own table. kbsearch's article of a product follows it by a trigger, so whoever writes, and however, searches find what is there."""

from decimal import Decimal

from sqlalchemy import Connection, Numeric, Table, event
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The shop's tables."""


class Product(Base):
    """A product of an organisation; its article in kbsearch has the SKU as external_ref."""

    __tablename__ = "products"

    org_id: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    description: Mapped[str]
    brand: Mapped[str]
    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    stock: Mapped[int] = mapped_column(default=0)


FOLLOW = (
    """
    CREATE FUNCTION product_follow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND (OLD.org_id, OLD.sku) IS DISTINCT FROM (NEW.org_id, NEW.sku)) THEN
            PERFORM kbsearch.delete_kb_article_v1(p_org_id => OLD.org_id, p_external_ref => OLD.sku);
        END IF;
        IF TG_OP <> 'DELETE' THEN
            PERFORM kbsearch.upsert_kb_article_v1(
                p_org_id => NEW.org_id, p_external_ref => NEW.sku, p_kind => 'product', p_title => NEW.name, p_body => NEW.description,
                p_metadata => jsonb_build_object('brand', NEW.brand)
            );
        END IF;
        RETURN NULL;
    END $$
    """,
    # Price and stock are not searched for: a sale does not touch the index.
    """
    CREATE TRIGGER product_written AFTER INSERT OR DELETE OR UPDATE OF org_id, sku, name, description, brand ON products
    FOR EACH ROW EXECUTE FUNCTION product_follow()
    """,
)
"""Belongs into a migration of an application that has migrations."""


@event.listens_for(Product.__table__, "after_create")
def follow(_: Table, connection: Connection, **__: object) -> None:
    """Make the trigger together with the table."""
    for statement in FOLLOW:
        connection.exec_driver_sql(statement)
