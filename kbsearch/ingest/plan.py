"""What is to be done for each document, from what the last ingest noted about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kbsearch.ingest.documents import Document, printable
from kbsearch.ingest.languages import Languages, says_nothing
from kbsearch.ingest.notes import Note, chunker_digest, content_digest
from kbsearch.ingest.report import UsageError
from kbsearch.ingest.spaces import Space
from kbsearch.ingest.splitter import Splitter
from kbsearch.ingest.vectors import StoredChunk
from kbsearch.models import Chunk


@dataclass(slots=True)
class Work:
    """What is to be done for a document: write it with its chunks; or, where stored is given, add vectors to the chunks that it has."""

    document: Document
    language: str | None
    note: Note
    chunks: list[Chunk]
    stored: list[StoredChunk] | None = None

    @property
    def title(self) -> str | None:
        """The article's title."""
        return self.document.title or None

    def parts(self) -> Iterator[tuple[str | None, str | None, str]]:
        """Title, heading and content of each chunk, of which the model's input is made."""
        if self.stored is not None:
            return ((one.title, one.heading, one.content) for one in self.stored)
        return ((self.title, chunk.heading, chunk.content) for chunk in self.chunks)


class LanguagesOfDocuments:
    """The text search configurations of documents, and a count of the languages that have none."""

    def __init__(self, languages: Languages, default: str | None) -> None:
        """default: of documents that name none; None: the organisation's. Raises UsageError when there is no such language."""
        self._languages = languages
        self.default = None if default is None else languages.configuration(default)
        self.unknown: Counter[str] = Counter()
        if default is not None and self.default is None:
            raise UsageError(
                f"{default!r} is neither a text search configuration nor a language that has one; there are "
                + ", ".join(sorted(languages.configurations))
            )

    def of(self, document: Document) -> str | None:
        """The text search configuration of a document; None for the organisation's."""
        if document.language is None or says_nothing(document.language):
            return self.default
        found = self._languages.configuration(document.language)
        if found is None:
            self.unknown[printable(document.language)] += 1
        return found

    def notes(self) -> Iterator[str]:
        """What there is to say of languages without a configuration."""
        for language, count in sorted(self.unknown.items()):
            documents = "1 document" if count == 1 else f"{count:,} documents"
            yield f"language {language!r} ({documents}) has no text search configuration: the organisation's is used"


@dataclass(slots=True)
class Planner:
    """Decides what is to be done.

    Attributes:
        splitter: makes the chunks.
        space: of the vectors; None without an embedder.
        keeps_chunks: how a document was split is no reason to write it anew.
        languages: of the documents.
        stored: gives the chunks that an article has.
        unchanged: documents that need nothing.
        taken_over: documents that another source had, and that changed.
        deferred: documents whose chunks are to become other ones when searches use the space, `idle` those among them that need nothing before.
    """

    splitter: Splitter
    space: Space | None
    keeps_chunks: bool
    languages: LanguagesOfDocuments
    stored: Callable[[str], list[StoredChunk]]
    unchanged: int = 0
    taken_over: int = 0
    deferred: int = 0
    idle: int = 0
    chunker: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute what is the same for all."""
        self.chunker = chunker_digest(self.splitter)

    def plan(
        self, documents: Sequence[tuple[str, Document]], notes: Mapping[str, str | None], active: Space | None
    ) -> Iterator[Work | None]:
        """What is to be done for each document, with its source's name; None for nothing.

        Args:
            documents: in the order in which they are written.
            notes: what the last ingest noted about each.
            active: the space that searches use.
        """
        for source, document in documents:
            language = self.languages.of(document)
            note = Note(content_digest(document, language), self.chunker, self._space_id, source)
            known = Note.parse(notes.get(document.external_ref))
            if known is None or known.content != note.content:
                self.taken_over += known is not None and known.source != source
                yield self.anew(document, language, note)
            elif known.chunker == note.chunker or self.keeps_chunks:
                if self.space is None or known.space == note.space:
                    self.unchanged += 1
                    yield None
                else:
                    yield self._more_vectors(document, language, replace(note, source=known.source))
            elif self.space is None or active in (None, self.space):
                yield self.anew(document, language, note)
            else:
                # Its chunks are other ones now. Until searches use this space the old ones stay, with the vectors that searches compare.
                self.deferred += 1
                self.idle += known.space == note.space
                yield (
                    None
                    if known.space == note.space
                    else self._stored(document, language, replace(known, space=note.space))
                )

    def plan_deferred(
        self, documents: Sequence[tuple[str, Document]], notes: Mapping[str, str | None]
    ) -> Iterator[Work | None]:
        """What was deferred, now that searches use the space."""
        for source, document in documents:
            language = self.languages.of(document)
            note = Note(content_digest(document, language), self.chunker, self._space_id, source)
            known = Note.parse(notes.get(document.external_ref))
            is_deferred = known is not None and known.content == note.content and known.chunker != note.chunker
            yield self.anew(document, language, note) if is_deferred else None

    @property
    def _space_id(self) -> str:
        return "-" if self.space is None else str(self.space.id)

    def anew(self, document: Document, language: str | None, note: Note) -> Work:
        """Write a document, with its chunks."""
        split, title, path = self.splitter.split, document.title, document.path
        chunks = split(document.text, document.markup, title=title, path=path) or split(title, title=title, path=path)
        chunks = chunks or [Chunk(title)]
        return Work(document, language, note, chunks)

    def _more_vectors(self, document: Document, language: str | None, note: Note) -> Work:
        """Vectors for the chunks that the article has, if they are those of the document."""
        work, found = self.anew(document, language, note), self._stored(document, language, note)
        same = found.stored and work.chunks == found.chunks and all(one.title == work.title for one in found.stored)
        return found if same else work

    def _stored(self, document: Document, language: str | None, note: Note) -> Work:
        stored = self.stored(document.external_ref)
        return Work(document, language, note, [one.chunk for one in stored], stored)
