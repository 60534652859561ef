"""What law 3 leaves out: stemming dictionaries that are others in another major version of PostgreSQL. docs/languages.md names them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kbsearch import embedded
from tests.docker.engine import BASE, ROOT, Engine, run

WORDS = 5000
REAL = ["added", "adding"]
"""Words that made-up ones are too unlike to: rules of stemmers that only such meet."""
DICTIONARIES = "SELECT d.dictname FROM pg_catalog.pg_ts_dict AS d WHERE d.dictname LIKE '%\\_stem'"
LEXEMES = """SELECT pg_catalog.ts_lexize(%s::regdictionary, w.word) FROM unnest(%s::text[]) WITH ORDINALITY AS w (word, n) ORDER BY w.n"""


def stop_words() -> dict[str, list[str]]:
    """The stop words that PostgreSQL comes with, by language."""
    share = embedded.binary("postgres").parent.parent / "share"
    return {file.stem: file.read_text(encoding="utf-8").split() for file in share.rglob("*.stop")}


def vocabulary(chance: random.Random, known: list[str]) -> list[str]:
    """Words that look like those of a language: of its letters, with the ends of its words."""
    letters = [letter for word in known for letter in word]
    ends = [word[-length:] for word in known for length in (1, 2, 3, 4) if len(word) > length]
    made = {
        "".join(chance.choices(letters, k=chance.randint(1, 7)) + chance.choices(ends, k=chance.randint(0, 3)))
        for _ in range(WORDS)
    }
    return sorted(made.union(known, REAL))


def lexemes(connection: psycopg.Connection[Any], dictionary: str, words: list[str]) -> list[Any]:
    return [lexeme for (lexeme,) in connection.execute(LEXEMES, (dictionary, words))]


@pytest.mark.parametrize(
    ("image", "others"),
    [
        ("pgvector/pgvector:pg15", {"english_stem", "german_stem", "romanian_stem", "estonian_stem"}),
        (BASE, {"english_stem", "german_stem", "romanian_stem", "estonian_stem"}),
        ("pgvector/pgvector:pg18", set()),
    ],
)
def test_dictionaries_that_differ_are_the_documented_ones(
    embedded_dsn: str, bare_engine: Engine, image: str, others: set[str], request: pytest.FixtureRequest
) -> None:
    if run(["docker", "image", "inspect", image]).code:
        pytest.skip(f"no image {image}; make test-servers makes it")
    known = stop_words()
    assert len(known) > 10
    everything = [word for words in known.values() for word in words]
    with psycopg.connect(embedded_dsn) as here, psycopg.connect(bare_engine.database(image=image).dsn()) as there:
        mine, theirs = ({name for (name,) in connection.execute(DICTIONARIES)} for connection in (here, there))
        assert len(theirs) > 20
        found = mine ^ theirs
        for name in sorted(mine & theirs):
            words = vocabulary(random.Random(name), known.get(name.removesuffix("_stem"), everything))
            if lexemes(here, name, words) != lexemes(there, name, words):
                found.add(name)
        version = there.info.parameter_status("server_version")
    listed = ", ".join(sorted(found)) or "none"
    request.node.user_properties.append(
        ("finding", f"stemmers of PostgreSQL {version} that differ from 18's: {listed}")
    )
    assert found == others
    page = Path(ROOT / "docs/languages.md").read_text(encoding="utf-8")
    assert [name for name in others if f"`{name}`" not in page] == []
