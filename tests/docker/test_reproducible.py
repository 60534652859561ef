"""Law 3 from one server to another: same data, same question, same rows, on the embedded server and in containers of other versions.

The data come there as a dump, or are written there by the same calls. What the law leaves out is counted and told at the end of the run: similarities
that another build of pgvector rounds to another sixth decimal.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from kbsearch import embedded, migrate
from tests.docker.engine import BASE, Container, Engine, required, run

IMAGES = ["pgvector/pgvector:pg15", BASE, "pgvector/pgvector:pg18"] if required() else [BASE]
DIMENSIONS = 384
ARTICLES = 300
QUESTIONS = 1000 if required() else 100
"""Of each sort; all of them where the tests of images are what is asked for."""
TOLERANCE = 1.5e-6
"""One in the sixth decimal, and what floating-point numbers make of it; a score, in which a similarity has a weight of at most 1, differs no more."""

STEMS = (
    "refund",
    "parcel",
    "invoice",
    "deliver",
    "voucher",
    "return",
    "address",
    "courier",
    "stock",
    "colour",
    "repair",
)
ENDINGS = ("", "s", "ed", "ing", "er", "able", "ment", "ation")
LANGUAGES = ("english", "german", "simple")
PROFILES = ("weighted@1", "rrf@1", "keyword@1", "term_count@1", "weighted_term_count@1")
KINDS = ("faq", "policy", "product")

PREPARE = f"""INSERT INTO kbsearch.organizations (name) VALUES ('store');
INSERT INTO kbsearch.kb_embedding_spaces (name, model, dimensions) VALUES ('seeded', 'seeded', {DIMENSIONS})"""
WRITE = """SELECT kbsearch.upsert_kb_article_v1(
    p_org_id => 1, p_external_ref => %(name)s, p_title => %(title)s, p_kind => %(kind)s, p_language => %(language)s,
    p_space_id => 1, p_chunks => %(chunks)s
)"""
PAGE = """SELECT kbsearch.search_kb_hybrid_page_v1(
    p_org_id => 1, p_query_text => %(text)s, p_query_embedding => %(embedding)s, p_limit => 20, p_cursor => %(cursor)s,
    p_profile => %(profile)s, p_kinds => %(kinds)s, p_kind_quota => %(quota)s, p_highlight => true
)::text"""


@dataclass(frozen=True, slots=True)
class Question:
    """A request, without the cursor."""

    text: str | None
    embedding: str | None
    profile: str
    kinds: list[str] | None
    quota: dict[str, int] | None

    def page(self, connection: psycopg.Connection[Any], cursor: str | None = None) -> str:
        """The text of a page."""
        given = {
            "text": self.text,
            "embedding": self.embedding,
            "profile": self.profile,
            "kinds": self.kinds,
            "quota": self.quota and Jsonb(self.quota),
            "cursor": cursor,
        }
        (text,) = connection.execute(PAGE, given).fetchone() or ("",)
        return str(text)


def vector(chance: random.Random) -> list[float]:
    return [round(chance.gauss(0, 1), 4) for _ in range(DIMENSIONS)]


def words(chance: random.Random, most: int) -> str:
    return " ".join(chance.choice(STEMS) + chance.choice(ENDINGS) for _ in range(chance.randint(1, most)))


VECTORS = [vector(random.Random(number)) for number in range(100)]


def load(dsn: str) -> None:
    """Write the same articles on every server; few words and repeated vectors, so that scores tie."""
    chance = random.Random(3)
    with psycopg.connect(dsn) as connection:
        connection.execute(PREPARE)
        for number in range(ARTICLES):
            chunks = [
                {"content": words(chance, 9), "embedding": chance.choice(VECTORS)} for _ in range(chance.randint(1, 3))
            ]
            given = {
                "name": f"article {number}",
                "title": words(chance, 2),
                "kind": chance.choice(KINDS),
                "language": chance.choice(LANGUAGES),
                "chunks": Jsonb(chunks),
            }
            connection.execute(WRITE, given)


def questions(chance: random.Random, hybrid: bool) -> Iterator[Question]:
    for _ in range(QUESTIONS):
        text = words(chance, 4)
        yield Question(
            text=chance.choice((text, f'"{text}"', f"{text} -{chance.choice(STEMS)}")),
            # Between two of the articles' vectors, so that similarities are anything.
            embedding=str([round(sum(pair), 4) for pair in zip(*chance.sample(VECTORS, 2), strict=True)])
            if hybrid
            else None,
            profile=chance.choice(PROFILES),
            kinds=chance.choice((None, list(KINDS[:2]))),
            quota=chance.choice((None, {"faq": 3, "*": 5})),
        )


@dataclass
class Compared:
    """What came of comparing two servers.

    Attributes:
        pages: how many were compared.
        tied: rows that share their score with others.
        other_pages: of the pages, those that are not the same byte for byte.
        similarities: in how many rows a similarity differs by one in the sixth decimal.
    """

    pages: int = 0
    tied: int = 0
    other_pages: int = 0
    similarities: int = 0

    def add(self, mine: str, theirs: str) -> None:
        """Compare two pages."""
        self.pages += 1
        ours, others = (json.loads(page)["items"] for page in (mine, theirs))
        self.tied += sum(row["tied_with"] > 0 for row in ours)
        if mine == theirs:
            return
        self.other_pages += 1
        found = {row["article_id"]: row for row in others}
        for row in ours:
            # At the page's end an article's place may be another's whose score differs in the last decimal.
            other = found.get(row["article_id"])
            if other is None:
                assert row["score"] == pytest.approx(others[-1]["score"], abs=2 * TOLERANCE)
                continue
            assert other["keyword_score"] == row["keyword_score"]
            assert other["vector_similarity"] == pytest.approx(row["vector_similarity"], abs=TOLERANCE)
            self.similarities += other["vector_similarity"] != row["vector_similarity"]


def compare(here: str, there: str, told: Callable[[str], None]) -> None:
    """Ask two servers, and hold their answers to the law."""
    with psycopg.connect(here) as mine, psycopg.connect(there) as theirs:
        keyword = Compared()
        for question in questions(random.Random(4), hybrid=False):
            page = question.page(mine)
            assert page == question.page(theirs)
            keyword.add(page, page)
            if cursor := json.loads(page)["next_cursor"]:
                # A cursor of one server is taken by the other.
                assert question.page(mine, cursor) == question.page(theirs, cursor)
        assert keyword.tied > QUESTIONS
        hybrid = Compared()
        for question in questions(random.Random(5), hybrid=True):
            hybrid.add(question.page(mine), question.page(theirs))
        assert hybrid.tied > QUESTIONS
    told(
        f"{keyword.pages} keyword searches alike byte for byte; of {hybrid.pages} hybrid ones {hybrid.other_pages} "
        f"differ, by {hybrid.similarities} similarities in the sixth decimal"
    )


@pytest.fixture(params=IMAGES)
def container(request: pytest.FixtureRequest, bare_engine: Engine) -> Container:
    """A server in a container."""
    if run(["docker", "image", "inspect", request.param]).code:
        pytest.skip(f"no image {request.param}; make test-servers makes it")
    return bare_engine.database(image=request.param)


@pytest.fixture
def other(container: Container) -> str:
    """Connection string of its database, which is empty."""
    return container.dsn()


@pytest.fixture
def told(request: pytest.FixtureRequest, other: str) -> Callable[[str], None]:
    """Says something at the end of the run."""
    with psycopg.connect(other) as connection:
        version = connection.info.parameter_status("server_version")

    def tell(what: str) -> None:
        request.node.user_properties.append(("finding", f"embedded server and PostgreSQL {version}: {what}"))

    return tell


def program(name: str, *arguments: str) -> None:
    """Run one of PostgreSQL's own."""
    done = run([str(embedded.binary(name)), *arguments])
    assert done.code == 0, done.errors


def test_what_is_written_on_two_servers(database: str, other: str, told: Callable[[str], None]) -> None:
    migrate.upgrade(other)
    load(database)
    load(other)
    compare(database, other, lambda what: told(f"written on both: {what}"))


def test_what_is_dumped_here_and_restored_there(
    database: str, other: str, tmp_path: Path, told: Callable[[str], None]
) -> None:
    load(database)
    dump = str(tmp_path / "dump")
    program("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={dump}", database)
    # As SQL, without the settings that servers before version 17 do not know.
    program("pg_restore", "--no-owner", f"--file={dump}.sql", dump)
    text = Path(f"{dump}.sql").read_text(encoding="utf-8")
    Path(f"{dump}.sql").write_text(text.replace("SET transaction_timeout = 0;\n", ""), encoding="utf-8")
    program("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}.sql", f"--dbname={other}")
    assert migrate.check(other) == []
    compare(database, other, lambda what: told(f"dumped here, restored there: {what}"))


def test_what_is_dumped_there_and_restored_here(
    bare_database: str, container: Container, other: str, tmp_path: Path, told: Callable[[str], None]
) -> None:
    migrate.upgrade(other)
    load(other)
    dump = tmp_path / "dump.sql"
    # By the program of that server: some of its releases have column options that only it knows to leave out.
    done = container.execute("pg_dump", "--username=postgres", "--no-owner", "kbsearch")
    assert done.code == 0, done.errors
    dump.write_text(done.out, encoding="utf-8")
    program("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}", f"--dbname={bare_database}")
    assert migrate.check(bare_database) == []
    compare(bare_database, other, lambda what: told(f"dumped there, restored here: {what}"))
