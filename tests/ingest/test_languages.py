from __future__ import annotations

from typing import Any

import psycopg
import pytest

from kbsearch.ingest.languages import CONFIGURATION_BY_CODE, Languages, says_nothing

Connection = psycopg.Connection[Any]


def test_every_stemmed_language_of_postgresql_has_a_code(connection: Connection) -> None:
    languages = Languages.of(connection)
    found = {languages.configuration(code) for code in CONFIGURATION_BY_CODE}
    assert languages.configurations - found == {"simple"}
    assert all(len(code) in (2, 3) and code == code.lower() for code in CONFIGURATION_BY_CODE)


@pytest.mark.parametrize(
    ("given", "configuration"),
    [
        ("german", "german"),
        ("German", "german"),
        (" de ", "german"),
        ("de-AT", "german"),
        ("DE_ch", "german"),
        ("pt-BR", "portuguese"),
        ("deu", "german"),
        ("nb", "norwegian"),
        ("no", "norwegian"),
        ("sr-Latn-RS", "serbian"),
        ("en_US.UTF-8", "english"),
        ("simple", "simple"),
        ("zh-Hans", None),
        ("klingon", None),
        ("d", None),
        ("deutsch", None),
        ("pg_catalog.german", None),
    ],
)
def test_languages_are_named_by_configuration_or_by_tag(
    connection: Connection, given: str, configuration: str | None
) -> None:
    assert Languages.of(connection).configuration(given) == configuration


def test_a_configuration_of_the_host_s_own_is_named_with_its_schema(connection: Connection) -> None:
    connection.execute("CREATE TEXT SEARCH CONFIGURATION kbsearch.mine (COPY = pg_catalog.dutch)")
    languages = Languages.of(connection)
    assert languages.configuration("kbsearch.mine") == "kbsearch.mine"
    assert languages.configuration("mine") is None


def test_a_language_that_the_server_does_not_stem_is_none() -> None:
    assert Languages(frozenset({"simple", "english"})).configuration("et") is None


@pytest.mark.parametrize("tag", [None, "", " ", "und", "zxx", "mul-x", "x-default"])
def test_tags_that_name_no_language(tag: str | None) -> None:
    assert says_nothing(tag)
    assert not says_nothing("de")
