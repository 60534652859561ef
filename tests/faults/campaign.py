"""`python -m tests.faults`: kills, a deadlock hunt and upgrades beside searches; writes the table of docs/reliability.md.

Every kill is a check of its own, so that Ctrl-C loses the count and nothing else. Nothing is written where a fault was found or the run was stopped.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from kbsearch import embedded
from tests.faults.hunt import CALLERS, GONE, PLAIN, SPACES, TEXT, hunt, upgrade_while_searching
from tests.faults.siege import WAYS, besieged

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- made: faults -->\n", "\n<!-- end: faults -->"


def table(kills: Counter[str], calls: Counter[str], upgrades: Counter[str]) -> str:
    """What was counted, as Markdown."""
    codes = {code: calls[code] for code in ("40P01", "40001")}
    others = {code: count for code, count in calls.items() if code not in (*codes, *GONE, "acts")}
    rows = [
        ("server killed under load", ", ".join(f"{way}: {kills[way]}" for way in WAYS)),
        ("transactions committed before a kill", f"{kills['commits']}"),
        ("transactions that a kill interrupted", f"{kills['interrupted transactions']}"),
        ("committed articles lost, uncommitted ones visible, halves of articles", "0"),
        ("differences between the derived tables and a rebuild", "0"),
        (f"calls by {CALLERS} callers at once", f"{calls['acts']}"),
        (
            "deadlocks (40P01), serialization failures (40001), other errors",
            f"{codes['40P01']}, {codes['40001']}, {sum(others.values())}",
        ),
        ("installations of another version beside searches", f"{upgrades['installs']}"),
        ("searches meanwhile; failed or with another answer", f"{upgrades['searches']}; 0"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {count} |" for name, count in rows)])


def write(page: Path, made: str) -> None:
    """Put the table between its marks."""
    before, found, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"{page} has no place for the table")
    page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Run it all."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60, help="of the deadlock hunt")
    parser.add_argument("--installs", type=int, default=20, help="of another version, beside searches")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.kills < 0 or given.installs < 0:
        parser.error("--kills and --installs are 0 or more")
    console = Console()
    marks = [time.monotonic()]
    try:
        with besieged(given.seed) as siege, Progress(console=console) as progress:
            marks.append(time.monotonic())
            for number in progress.track(range(given.kills), description="kills"):
                siege.strike(WAYS[number % len(WAYS)])
            marks.append(time.monotonic())
            dsn = embedded.start(siege.data).dsn("siege")
            waiting = progress.add_task("deadlock hunt", total=None)
            calls = sum(
                (
                    hunt(dsn, given.seconds / 4, given.seed, acts, shared)
                    for acts, shared in ((TEXT, 0.8), (TEXT, 0.0), (SPACES, 0.8), (PLAIN, 0.8))
                ),
                Counter[str](),
            )
            progress.update(waiting, total=1, completed=1)
            marks.append(time.monotonic())
            waiting = progress.add_task("upgrades", total=None)
            upgrades = upgrade_while_searching(dsn, given.installs)
            marks.append(time.monotonic())
            progress.update(waiting, total=1, completed=1)
    except AssertionError as fault:
        console.print(f"FAULT: {fault}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; nothing was written")
        return 130
    made = table(siege.counted, calls, upgrades)
    console.print(made, markup=False, highlight=False)
    parts = ("preparation", "kills", "deadlock hunt", "upgrades")
    took = ", ".join(
        f"{name} {until - since:.0f} s" for name, since, until in zip(parts, marks, marks[1:], strict=False)
    )
    console.print(f"{took}; errors by SQLSTATE: {dict(calls)}", markup=False, highlight=False)
    if any(code not in (*GONE, "acts") for code in calls):
        return 1
    write(PAGE, made)
    return 0
