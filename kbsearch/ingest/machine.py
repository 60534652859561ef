"""What must not be in a model's input: names of the machine that it was made on.

The same bytes in another folder, of another user, on another host, are to have the same vectors. What is written by people rarely names a
machine; what programs write into titles and headings does.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

SHORTEST_NAME = 5
"""Letters of a user's or host's name from which on it is looked for: shorter ones are words."""
COMMON_NAMES = frozenset(
    """admin administrator backup builder database debian default docker guest kbsearch local localdomain localhost nobody postgres public python
    runner server service system ubuntu vagrant webmaster worker""".split()  # noqa: SIM905  (a list, a word a line, is no easier to read)
)
"""Names of users and hosts that tell no machine from another, and words."""
PLACEHOLDERS = frozenset(
    (
        "user",
        "username",
        "name",
        "me",
        "you",
        "yourname",
        "your_name",
        "someone",
        "example",
        "alice",
        "bob",
        "foo",
        "$user",
    )
)
"""Homes that manuals have."""

_DEEP = 2
"""Separators in a path from which on it tells one machine from another: /srv does not, /srv/handbook does."""

_START = r"(?<![\w/:.~$-])"
_REST = r"[^\s\"'`<>|;,()\[\]{}]*"
# Paths of people's homes and of temporary directories with names that programs make, on any machine.
_ANYWHERE = (
    rf"{_START}(?:/home|/Users|/export/home)/(?P<posix>[^\s/\"'`<>|;,()\[\]{{}}]+){_REST}",
    rf"(?<!\w)[A-Za-z]:[\\/]+(?:Users|Documents and Settings)[\\/]+(?P<windows>[^\s\\/\"'`<>|;,()\[\]{{}}]+){_REST}",
    rf"{_START}/root/{_REST}",
    rf"{_START}(?:/private)?/var/folders/\w\w/{_REST}",
    rf"{_START}(?:/private)?(?:/var)?/tmp/(?:tmp[a-z0-9_]{{8}}|tmp\.\w{{6,}}|pytest-of-){_REST}",
    rf"(?<!\w)[A-Za-z]:[\\/]+Windows[\\/]+Temp[\\/]+{_REST}",
    rf"(?<!\w)file://+(?:localhost)?/\w{_REST}",
)
_TEMPORARY_NAME = re.compile(r"(?<![\w.])(?:tmp[a-z0-9_]{8}|tmp\.[A-Za-z0-9]{10}|pytest-of-[\w.-]+)(?![\w.])")
_WHOLE_PATH = re.compile(r"(?:/[^/\s]+){2,}/?|[A-Za-z]:[\\/].+|\\\\[^\\\s]+\\.+")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something in a text that seems to be a machine's.

    Attributes:
        field: the field that it is in.
        kind: what it is, for people.
        text: as it stands there.
    """

    field: str
    kind: str
    text: str

    def __str__(self) -> str:
        """A sentence."""
        return f"its {self.field} has {self.kind} in it, {self.text!r}, which the model would be given"


@dataclass(frozen=True, slots=True)
class Machine:
    """The names of a machine and of whom it is used by.

    Attributes:
        user: login name; empty where not known.
        hosts: names of the host.
        folders: absolute paths whose descendants are refused: home, working and temporary directory.
    """

    user: str = ""
    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    _patterns: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = field(
        init=False, repr=False, compare=False, default=()
    )
    """What is looked for: its kind, strings of which a text must have one to have it, and the pattern."""

    def __post_init__(self) -> None:
        """Compile what is looked for."""
        paths = [*_ANYWHERE, *(rf"{_START}{re.escape(one)}(?:[\\/]{_REST})?(?![\w-])" for one in self.folders)]
        signs = ("/home/", "/Users/", "/root/", "/folders/", "/tmp/", ":\\", ":/", *self.folders)  # noqa: S108  (looked for, not used)
        patterns = [("an absolute path", signs, re.compile("|".join(f"(?:{one})" for one in paths)))]
        patterns += [
            (kind, (name,), re.compile(rf"(?<!\w){re.escape(name)}(?!\w)"))
            for kind, names in (("the user's name", (self.user,)), ("the host's name", self.hosts))
            for name in names
            if len(name) >= SHORTEST_NAME and name.lower() not in COMMON_NAMES
        ]
        patterns.append(("a temporary directory's name", ("tmp", "pytest-of-"), _TEMPORARY_NAME))
        object.__setattr__(self, "_patterns", tuple(patterns))

    @classmethod
    def here(cls, *roots: Path) -> Self:
        """This machine; roots: folders that are ingested."""
        try:
            user = getpass.getuser()
        except (OSError, KeyError, ImportError):
            user = ""
        host = socket.gethostname()
        folders = {os.path.realpath(one) for one in (Path.home(), Path.cwd(), *roots)}
        folders |= {os.path.abspath(one) for one in roots}  # noqa: PTH100  (as it is written, links and all)
        # A temporary directory that is everybody's, like /tmp, is in many manuals: there only names that programs make are refused.
        temporary = os.path.realpath(tempfile.gettempdir())
        if temporary.count(os.sep) > _DEEP:
            folders.add(temporary)
        return cls(
            user,
            tuple(dict.fromkeys((host, host.partition(".")[0]))),
            tuple(sorted(one for one in folders if one.count(os.sep) >= _DEEP)),
        )

    @property
    def signs(self) -> Sequence[str]:
        """Strings of which a text has one if it has anything that is suspected, but a title or heading that is a path as a whole."""
        return [sign for _, signs, _ in self._patterns for sign in signs]

    def suspect_lines(self, text: str) -> Suspicion | None:
        """The first suspicion in a text whose fields are not known any more."""
        return self.suspect({"content": text})

    def suspect(self, fields: Mapping[str, str]) -> Suspicion | None:
        """The first thing in a chunk's fields that seems to be of this machine, or of another's people; None where there is nothing.

        System paths that every machine has, like /etc/hosts, are left in texts; a title or a part of a heading that is an absolute path as a
        whole is refused, wherever it leads.
        """
        for name, text in fields.items():
            if name != "content":
                for part in text.split(" > "):
                    if _WHOLE_PATH.fullmatch(part.strip()):
                        return Suspicion(name, "an absolute path", part.strip())
            for kind, signs, pattern in self._patterns:
                for found in pattern.finditer(text) if any(sign in text for sign in signs) else ():
                    groups = found.groupdict()
                    if ((groups.get("posix") or groups.get("windows") or "").lower()) not in PLACEHOLDERS:
                        return Suspicion(name, kind, found[0])
        return None
