"""The application's own tables; it knows nothing of kbsearch's."""

from datetime import datetime

from sqlalchemy import DateTime, ForeignKey, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The application's tables."""


class Author(Base):
    """Who writes."""

    __tablename__ = "authors"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class Note(Base):
    """What was written."""

    __tablename__ = "notes"

    id: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id", ondelete="CASCADE"), index=True)
    text: Mapped[str]
    written_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
