"""What a document says of its language, as a text search configuration of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import psycopg

# ISO 639 codes (639-1, then 639-2 in both forms, then members and withdrawn codes) of every language that PostgreSQL 15 to 18 stems.
_CODES = {
    "arabic": "ar ara arb",
    "armenian": "hy arm hye",
    "basque": "eu baq eus",
    "catalan": "ca cat",
    "danish": "da dan",
    "dutch": "nl dut nld",
    "english": "en eng",
    "estonian": "et est ekk",
    "finnish": "fi fin",
    "french": "fr fre fra",
    "german": "de ger deu",
    "greek": "el gre ell",
    "hindi": "hi hin",
    "hungarian": "hu hun",
    "indonesian": "id ind in",
    "irish": "ga gle",
    "italian": "it ita",
    "lithuanian": "lt lit",
    "nepali": "ne nep npi",
    "norwegian": "no nor nb nob nn nno",
    "portuguese": "pt por",
    "romanian": "ro rum ron mo",
    "russian": "ru rus",
    "serbian": "sr srp",
    "spanish": "es spa",
    "swedish": "sv swe",
    "tamil": "ta tam",
    "turkish": "tr tur",
    "yiddish": "yi yid ji",
}
CONFIGURATION_BY_CODE: Mapping[str, str] = MappingProxyType(
    {code: name for name, codes in _CODES.items() for code in codes.split()}
)
"""Text search configuration by the primary subtag of a BCP 47 language tag."""
UNDETERMINED = frozenset({"", "und", "mul", "mis", "zxx", "x"})
"""Primary subtags that say nothing: undetermined, several languages, none, a private agreement."""

# As name_kb_language_v1 names them, which not everybody may call.
_CONFIGURATIONS = """SELECT CASE n.nspname WHEN 'pg_catalog' THEN c.cfgname::pg_catalog.text ELSE n.nspname || '.' || c.cfgname END
FROM pg_catalog.pg_ts_config AS c
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = c.cfgnamespace"""


class Languages:
    """The text search configurations of a database, and which of them a language is.

    A language is the name of a configuration (`german`, `public.mine`), as PostgreSQL has it, or a BCP 47 tag (`de`, `de-AT`, `pt_BR`).
    """

    def __init__(self, configurations: frozenset[str]) -> None:
        """Keep the names, those outside of pg_catalog with their schema."""
        self.configurations = configurations

    @classmethod
    def of(cls, connection: psycopg.Connection[Any]) -> Languages:
        """The configurations that a database has."""
        rows = connection.execute(_CONFIGURATIONS).fetchall()
        return cls(frozenset(str(name) for (name,) in rows))

    def configuration(self, language: str) -> str | None:
        """Name of the configuration of a language; None when the database has none for it."""
        given = language.strip()
        for name in (given, given.lower(), CONFIGURATION_BY_CODE.get(_primary(given), "")):
            if name in self.configurations:
                return name
        return None


def says_nothing(language: str | None) -> bool:
    """Whether no language is given, or one of the tags that name none."""
    return language is None or _primary(language) in UNDETERMINED


def _primary(tag: str) -> str:
    """The first subtag in lower case; `_` and the `.` of a locale's encoding separate, too."""
    return re.split(r"[-_.@]", tag.strip(), maxsplit=1)[0].lower()
