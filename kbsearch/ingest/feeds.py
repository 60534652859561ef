"""What a run is fed with: documents in the order of their names, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kbsearch.ingest.documents import Document, Rejected, printable, validate
from kbsearch.ingest.report import Connection, Progress, UsageError, quiet


@dataclass(frozen=True, slots=True)
class Source:
    """Documents that belong together: what `prune` compares with. The name is kept with every article, and is no path."""

    name: str
    documents: Iterable[Document | Rejected]
    complete: bool = True
    """Whether the documents are all of the source; if not, its missing documents cannot be told from removed ones."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What prune needs to know: names of the sources, and of the documents that they have; or why nobody can tell."""

    sources: frozenset[str] = frozenset()
    references: frozenset[str] = frozenset()
    unknown: str | None = None


class Feed(Protocol):
    """Documents that a run reads twice: their names, to give them ids, then all of them; both in the order of the names, by code point."""

    @property
    def size(self) -> int:
        """Number of documents, with what is no document; 0 until all names were read."""
        ...

    def open(self, connection: Connection, org_id: int, settings: str, progress: Progress) -> None:
        """Get ready; settings: a digest of all beside the documents that decides what is written."""
        ...

    def references(self) -> Iterator[str]:
        """Names of the documents, each once."""
        ...

    def documents(self) -> Iterator[tuple[str, Document | Rejected]]:
        """Documents with the names of their sources, and what is no document."""
        ...

    def refuse_prune(self) -> str | None:
        """Why nothing can be pruned; None when it can. Asked before anything is written."""
        ...

    def presence(self) -> Presence:
        """What is there, for prune; called after documents()."""
        ...

    def finish(self, rejected: Sequence[Rejected]) -> str | None:
        """All was written but what was rejected; a note about what the next run will read, if there is something to say."""
        ...


def fault_of(source: str) -> str | None:
    """What is wrong with the name of a source; None when nothing is."""
    if ":" in source or not source.strip():
        return f"{source!r} is no name for a source: it must not be blank nor contain a colon"
    return None


@dataclass(slots=True)
class Collected:
    """Documents of sources that are read into memory, and sorted."""

    sources: Sequence[Source]
    _documents: dict[str, tuple[str, Document]] = field(default_factory=dict)
    _rejected: list[tuple[str, Rejected]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of documents, with what is no document."""
        return len(self._documents) + len(self._rejected)

    def open(self, connection: Connection, org_id: int, settings: str, progress: Progress) -> None:
        """Read all; raises UsageError for an unusable name of a source."""
        del connection, org_id, settings
        self.read(progress)

    def read(self, progress: Progress = quiet) -> None:
        """Read all; raises UsageError for an unusable name of a source."""
        read = 0
        for source in self.sources:
            if fault := fault_of(source.name):
                raise UsageError(fault)
            for entry in source.documents:
                read += 1
                progress("read", read, 0)
                checked = checked_document(entry)
                if isinstance(checked, Document) and checked.external_ref in self._documents:
                    checked = Rejected(
                        printable(checked.external_ref),
                        "another document of this ingest has the same id",
                        checked.external_ref,
                    )
                if isinstance(checked, Rejected):
                    self._rejected.append((source.name, checked))
                else:
                    self._documents[checked.external_ref] = (source.name, checked)

    def references(self) -> Iterator[str]:
        """Names of the documents, in the order of their UTF-8 bytes: the same as COLLATE "C"."""
        yield from sorted(self._documents)

    def documents(self) -> Iterator[tuple[str, Document | Rejected]]:
        """What was rejected, as it was read; then the documents."""
        yield from self._rejected
        for reference in sorted(self._documents):
            yield self._documents[reference]

    def refuse_prune(self) -> str | None:
        """A source that is incomplete or empty."""
        for source in self.sources:
            if not source.complete:
                return f"--prune needs whole sources, and {source.name} is a single file: its removed neighbours cannot be told"
            if not any(name == source.name for name, _ in self._documents.values()):
                return f"--prune would delete everything of {source.name}, which has no document: is the path right?"
        return None

    def presence(self) -> Presence:
        """All documents, and all that could not be read, which may have been one."""
        kept = [rejected for _, rejected in self._rejected if not rejected.is_empty]
        if any(rejected.external_ref is None for rejected in kept):
            return Presence(unknown="a document that could not be read may be one of those that seem to be missing")
        return Presence(
            frozenset(source.name for source in self.sources),
            frozenset(self._documents) | {str(rejected.external_ref) for rejected in kept},
        )

    def finish(self, rejected: Sequence[Rejected]) -> str | None:
        """Nothing is remembered: the next run reads everything again."""
        del rejected
        return None


def checked_document(entry: Document | Rejected) -> Document | Rejected:
    """A document that can be stored, or why it cannot."""
    if isinstance(entry, Rejected) or (fault := validate(entry)) is None:
        return entry
    is_empty = not entry.title.strip() and not entry.text.strip()
    return Rejected(printable(entry.external_ref.replace("\0", "\\x00")), fault, entry.external_ref, is_empty)
