"""What is wrong with a request ends its command, with a word about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from kbsearch.cli.common import USAGE, clean, messages
from kbsearch.embed.errors import how_to_install


@contextmanager
def complaining(*kinds: type[Exception], code: int = USAGE, work: str = "") -> Iterator[None]:
    """Tell of exceptions of these kinds, and end the command.

    Args:
        kinds: exceptions whose messages are for the user.
        code: the exit code, by default that of a wrong command line.
        work: what a package of the extra evaluate may be missing for, which is told, too.
    """
    try:
        yield
    except kinds as error:
        _tell(str(error))
        raise typer.Exit(code) from error
    except ModuleNotFoundError as error:
        if not work:
            raise
        _tell(f"{work} needs the package {error.name}, which is not installed. {how_to_install('evaluate')}")
        raise typer.Exit(code) from error


def _tell(message: str) -> None:
    messages().print(clean(message), style="red", markup=False, highlight=False, soft_wrap=True)
