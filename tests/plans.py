"""Plans of all statements of a call, those within functions included, from auto_explain: for connections that began as a superuser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

Plans = list[dict[str, Any]]

SETTINGS = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_level": "notice",
    "client_min_messages": "notice",
}


def load(connection: psycopg.Connection[Any]) -> None:
    """Have the plans of all statements sent as notices."""
    connection.execute("LOAD 'auto_explain'")
    for name, value in SETTINGS.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node of a plan and all below it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def condition(node: dict[str, Any]) -> str:
    """By what a scan finds its rows in an index."""
    if node["Node Type"] == "Bitmap Heap Scan":
        return " ".join(str(child.get("Index Cond", "")) for child in nodes(node))
    return str(node.get("Index Cond", ""))


@contextmanager
def logged(connection: psycopg.Connection[Any]) -> Iterator[list[dict[str, Any]]]:
    """What is said of all statements, those within functions included: Query Text, Plan with what it read, JIT where there was any."""
    found: list[dict[str, Any]] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        _, _, text = (diagnostic.message_primary or "").partition("plan:\n")
        if text:
            found.append(json.loads(text))

    connection.add_notice_handler(note)
    try:
        yield found
    finally:
        connection.remove_notice_handler(note)


@contextmanager
def explained(connection: psycopg.Connection[Any]) -> Iterator[Plans]:
    """The plans of all statements, those within functions included, with what they read; there when the context has ended."""
    plans: Plans = []
    with logged(connection) as found:
        yield plans
    plans += [one["Plan"] for one in found]


def passed(scan: dict[str, Any]) -> int:
    """Rows that a scan looked at, each time that it ran."""
    removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return round(float(scan["Actual Rows"]) + sum(float(scan.get(name, 0)) for name in removed))
