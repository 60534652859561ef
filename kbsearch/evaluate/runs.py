"""A run on disk: rankings in the form of TREC, judgements beside them, and a record of everything that decided the rankings.

A run named weighted is `weighted.run` (query id, Q0, document id, place, score, name), `weighted.json` (its record) and `qrels` (query id, 0,
document id, grade), which all runs of a folder share. Evaluators order by the score and break ties by the document's id, so the score is made of the
place, and no two are equal. Columns are separated by spaces: white space and % in an id are written as in a URL (%20), in both files alike.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QRELS = "qrels"
_SYSTEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]*")
_ESCAPED = re.compile("(?:%[0-9A-F]{2})+")
# What str.split() takes for a space, what ends a line anywhere, and what escapes them.
_UNSAFE = re.compile("[\\s\x00-\x20\x7f-\xa0%\u2028\u2029\ufeff]")
_RUN_COLUMNS, _QRELS_COLUMNS = 6, 4


class RunError(ValueError):
    """A run cannot be read or written."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """The rankings of one system, and what decided them.

    Attributes:
        system: its name, `weighted` for instance.
        record: everything that decides the run, as nested objects of JSON values; no times.
        rankings: ids of the documents found for each query id, best first; none for a query that was refused.
        qrels: grades by query id and document id; above 0 is relevant.
    """

    system: str
    record: Mapping[str, Any]
    rankings: Mapping[str, tuple[str, ...]]
    qrels: Mapping[str, Mapping[str, int]]

    @classmethod
    def load(cls, path: Path) -> SavedRun:
        """Read a run by the path of its .run file.

        Raises:
            RunError: a file is missing or cannot be read, or a line is not as it should be.
        """
        if path.suffix != ".run":
            raise RunError(f"{path} is no run: name a file that ends in .run, as kbsearch evaluate --save writes it")
        rows = list(_rows(path, _RUN_COLUMNS, "query id, Q0, document id, place, score and name"))
        qrels: dict[str, dict[str, int]] = {}
        for where, (query, _, document, grade) in _rows(
            path.with_name(QRELS), _QRELS_COLUMNS, "query id, 0, document id and grade"
        ):
            grades = qrels.setdefault(query, {})
            if document in grades:
                raise RunError(f"{where}: {document} is judged twice for query {query}")
            grades[document] = _integer(grade, where, "grade")
        rankings: dict[str, list[str]] = {query: [] for query in qrels}
        for where, (query, _, document, place, _, _) in rows:
            ranking = rankings.setdefault(query, [])
            if _integer(place, where, "place") != len(ranking) + 1:
                raise RunError(f"{where}: place {place}, where {len(ranking) + 1} is the next of query {query}")
            ranking.append(document)
        for query, ranking in rankings.items():
            if len(set(ranking)) < len(ranking):
                raise RunError(f"{path.name}: query {query} has the same document at two places")
        return cls(
            system=path.stem,
            record=_record(path.with_suffix(".json")),
            rankings={query: tuple(ranking) for query, ranking in rankings.items()},
            qrels=qrels,
        )

    def save(self, folder: Path) -> Path:
        """Write the run into a folder, which is made if it is missing, and return the path of its .run file.

        A run of the same name is replaced. Each file is whole at any moment.

        Raises:
            RunError: the folder has runs of other judgements, the name is no file's, or a file cannot be written.
        """
        if not _SYSTEM.fullmatch(self.system):
            raise RunError(f"{self.system!r} cannot be the name of a run: letters, digits and _ . @ + - can")
        judgements = self._judgements()
        try:
            record = json.dumps(self.record, ensure_ascii=False, allow_nan=False, indent=2, sort_keys=True) + "\n"
        except (TypeError, ValueError) as error:
            raise RunError(f"the record of {self.system} is no JSON: {error}") from error
        try:
            folder.mkdir(parents=True, exist_ok=True)
            qrels = folder / QRELS
            if qrels.exists() and qrels.read_bytes() != judgements.encode():
                raise RunError(f"{folder} has runs with other judgements: choose another folder, or empty this one")
            _write(qrels, judgements)
            _write(folder / f"{self.system}.json", record)
            path = folder / f"{self.system}.run"
            _write(path, self._ranked())
        except OSError as error:
            raise RunError(f"cannot write the run {self.system} into {folder}: {error.strerror}") from error
        return path

    def _judgements(self) -> str:
        return "".join(
            f"{_escape(query)} 0 {_escape(document)} {int(grade)}\n"
            for query, grades in sorted(self.qrels.items())
            for document, grade in sorted(grades.items())
        )

    def _ranked(self) -> str:
        return "".join(
            f"{_escape(query)} Q0 {_escape(document)} {place} {len(ranking) + 1 - place} {self.system}\n"
            for query, ranking in sorted(self.rankings.items())
            for place, document in enumerate(ranking, 1)
        )


def _rows(path: Path, columns: int, meaning: str) -> Iterable[tuple[str, list[str]]]:
    """The lines of a file with their places, ids as they are."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise RunError(f"there is no file {path}") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is not UTF-8") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        values = line.split()
        where = f"{path.name}:{number}"
        if len(values) != columns:
            raise RunError(f"{where}: not {meaning}, separated by spaces")
        values[0], values[2] = _unescape(values[0]), _unescape(values[2])
        yield where, values


def _integer(text: str, where: str, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise RunError(f"{where}: the {name} {text!r} is no whole number") from error


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"there is no file {path}, the record of the run") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path.name} is no JSON: {error}") from error
    if not isinstance(record, dict):
        raise RunError(f"{path.name} is no JSON object")
    return record


def _escape(text: str) -> str:
    if not text:
        raise RunError("an id is empty")
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(errors="replace"), text)


def _write(path: Path, text: str) -> None:
    """Write a file; whoever reads the path sees all of it, or what was there before."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
