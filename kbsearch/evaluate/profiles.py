"""Ranking profiles of tuned settings: read, made as new versions, and never changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg

from kbsearch.evaluate.choice import Setting, TuningError
from kbsearch.schema import DEFAULT, in_schema

NAME = "tuned"
"""What a tuned profile is called unless it is said."""

_PRESENT = """SELECT profile, fusion, scorer, vector_weight, rrf_k, policy, kind_quota, retrieval, ann_window
FROM kbsearch.resolve_kb_profile_v1(
    %(org_id)s, coalesce(%(profile)s, (SELECT ranking_profile FROM kbsearch.organizations WHERE id = %(org_id)s)))"""
_CREATE_PROFILE = """SELECT kbsearch.create_kb_ranking_profile_v1(
    p_org_id => %(org_id)s, p_name => %(name)s, p_fusion => %(fusion)s, p_scorer => %(scorer)s, p_vector_weight => %(vector_weight)s,
    p_keyword_weight => %(keyword_weight)s, p_rrf_k => %(rrf_k)s, p_kind_quota => %(kind_quota)s, p_policy => %(policy)s,
    p_retrieval => %(retrieval)s, p_ann_window => %(ann_window)s)"""
_CREATE_POLICY = """SELECT kbsearch.create_kb_arbitration_policy_v1(
    p_org_id => %(org_id)s, p_name => %(name)s, p_calibrated => true, p_vector_weight => %(vector_weight)s,
    p_keyword_weight => %(keyword_weight)s, p_class_rules => %(class_rules)s)"""
_LATEST_PROFILE, _LATEST_POLICY = (
    f"SELECT name || '@' || version FROM kbsearch.{table} WHERE org_id = %(org_id)s AND name = %(name)s ORDER BY version DESC LIMIT 1"
    for table in ("kb_ranking_profiles", "kb_arbitration_policies")
)
_COPY = """INSERT INTO kbsearch.kb_ranking_profiles (
    org_id, name, version, fusion, scorer, vector_weight, keyword_weight, rrf_k, kind_quota, policy, retrieval)
SELECT %(org_id)s, %(name)s, 1, fusion, scorer, vector_weight, keyword_weight, rrf_k, kind_quota, policy, 'exact'
FROM kbsearch.resolve_kb_profile_v1(%(org_id)s, %(profile)s)"""
_POLICY = "SELECT kbsearch.resolve_kb_policy_v1(%(org_id)s, %(policy)s)"

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a new profile takes over from the present one: quota by kind, and how its searches retrieve. None: as the organisation has it."""

    kind_quota: Mapping[str, int] | None = None
    retrieval: str | None = None
    ann_window: int | None = None


NOTHING = Kept()


@dataclass(frozen=True, slots=True)
class Profile:
    """A ranking profile as it is stored; name and policy have their versions."""

    name: str
    fusion: str
    scorer: str
    vector_weight: float
    rrf_k: int
    policy: str | None
    kept: Kept


def present_profile(connection: Connection, org_id: int, name: str | None = None, schema: str = DEFAULT) -> Profile:
    """A profile by its name, or the one that an organisation's searches use.

    Raises:
        TuningError: there is none of that name.
    """
    row = connection.execute(in_schema(_PRESENT, schema).encode(), {"org_id": org_id, "profile": name}).fetchone()
    if row is None:
        raise TuningError(f"there is no ranking profile {name!r}")
    profile, fusion, scorer, weight, rrf_k, policy, *kept = row
    return Profile(profile, fusion, scorer, weight, rrf_k, policy, Kept(*kept))


def copy_exact(connection: Connection, org_id: int, profile: str, name: str, schema: str = DEFAULT) -> str:
    """Copy a profile as one whose searches compare all chunks, and return name@1. For a transaction that is rolled back."""
    connection.execute(in_schema(_COPY, schema).encode(), {"org_id": org_id, "profile": profile, "name": name})
    return f"{name}@1"


def create_profile(
    connection: Connection,
    org_id: int,
    name: str,
    setting: Setting,
    kept: Kept = NOTHING,
    schema: str = DEFAULT,
) -> str:
    """Make the next version of a profile; weights by class also make a policy of the same name. No search uses it until it is asked for or pinned.

    Where the latest version of the name says the same already, nothing is written.

    Returns:
        name@version.

    Raises:
        psycopg.DatabaseError: the name cannot be a profile's, or the role may not write.
    """
    with connection.transaction():
        policy = None
        if setting.class_weights:
            policy = _latest(connection, _LATEST_POLICY, org_id, name, schema)
            if policy is None or not _is_policy(connection, org_id, policy, setting, schema):
                policy = str(_one(connection, _CREATE_POLICY, _policy_values(org_id, name, setting), schema))
        values = _profile_values(org_id, name, setting, kept, policy)
        latest = _latest(connection, _LATEST_PROFILE, org_id, name, schema)
        if latest is not None:
            same = present_profile(connection, org_id, latest, schema)
            if (same.fusion, same.scorer, same.vector_weight, same.rrf_k, same.policy, same.kept) == (
                *(values[one] for one in ("fusion", "scorer", "vector_weight", "rrf_k")),
                policy,
                kept,
            ):
                return latest
        return str(_one(connection, _CREATE_PROFILE, values, schema))


def sql_of(setting: Setting, name: str = NAME, kept: Kept = NOTHING, schema: str = DEFAULT) -> str:
    """The SQL that makes the profile, to be run with the id of an organisation in place of :org_id."""
    calls = []
    if setting.class_weights:
        calls.append((_CREATE_POLICY, _policy_values(0, name, setting)))
    calls.append(
        (_CREATE_PROFILE, _profile_values(0, name, setting, kept, f"{name}@1" if setting.class_weights else None))
    )
    return "\n".join(
        in_schema(query, schema) % {one: _literal(one, value) for one, value in values.items()} + ";"
        for query, values in calls
    )


def _policy_values(org_id: int, name: str, setting: Setting) -> dict[str, Any]:
    weight = _decimal(setting.vector_weight)
    rules = {
        one: {"vector_weight": own, "keyword_weight": float(1 - _decimal(own))}
        for one, own in sorted(setting.class_weights.items())
    }
    return {
        "org_id": org_id,
        "name": name,
        "vector_weight": weight,
        "keyword_weight": 1 - weight,
        "class_rules": json.dumps(rules),
    }


def _profile_values(org_id: int, name: str, setting: Setting, kept: Kept, policy: str | None) -> dict[str, Any]:
    """The weights of a profile that arbitrates are its policy's: its own stay what they are where they are not named."""
    weight = Decimal("0.5") if policy else _decimal(setting.vector_weight)
    return {
        "org_id": org_id,
        "name": name,
        "fusion": "arbitrate" if policy else "rrf" if setting.family == "rrf" else "weighted",
        "scorer": setting.scorer,
        "vector_weight": float(weight),
        "keyword_weight": float(1 - weight),
        "rrf_k": setting.rrf_k,
        "kind_quota": None if kept.kind_quota is None else json.dumps(dict(kept.kind_quota)),
        "retrieval": kept.retrieval,
        "ann_window": kept.ann_window,
        "policy": policy,
    }


def _decimal(weight: float) -> Decimal:
    return Decimal(str(weight))


def _literal(name: str, value: Any) -> str:
    if name == "org_id":
        return ":org_id"
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, (int, float, Decimal)) else "'" + str(value).replace("'", "''") + "'"


def _is_policy(connection: Connection, org_id: int, policy: str, setting: Setting, schema: str) -> bool:
    """Whether a policy fuses by these weights, and does nothing else."""
    given = _one(connection, _POLICY, {"org_id": org_id, "policy": policy}, schema)
    own = {name: dict(rules) for name, rules in given["class_rules"].items()}
    wanted = json.loads(_policy_values(org_id, "", setting)["class_rules"])
    return bool(given["calibrated"] and float(given["vector_weight"]) == setting.vector_weight and own == wanted)


def _latest(connection: Connection, query: str, org_id: int, name: str, schema: str) -> str | None:
    found = _one(connection, query, {"org_id": org_id, "name": name}, schema)
    return None if found is None else str(found)


def _one(connection: Connection, query: str, values: Mapping[str, Any], schema: str) -> Any:
    row = connection.execute(in_schema(query, schema).encode(), values).fetchone()
    return None if row is None else row[0]
