"""What PostgREST does with a call of a function, statement by statement: for tests where there is no PostgREST.

As of its versions 12 to 14 (src/PostgREST/Query, Plan, SchemaCache, Error): which function a request means, the settings of the transaction, the one
prepared statement with the whole body as a parameter of type json, and the status that a SQLSTATE becomes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg.types.json import Json, set_json_dumps


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as the schema cache has it."""

    name: str
    type: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Routine:
    """A function as the schema cache has it."""

    schema: str
    name: str
    arguments: Sequence[Argument]
    returns_scalar: bool
    returns_set: bool
    is_volatile: bool
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """What the client gets."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


# Types come out qualified, because the schema cache is read with an empty search path.
_ROUTINES = """SELECT n.nspname, p.proname,
    (
        SELECT coalesce(json_agg(json_build_array(a.name, a.type::regtype::text, a.n <= p.pronargs - p.pronargdefaults) ORDER BY a.n), '[]')
        FROM unnest(p.proargnames, p.proargtypes::oid []) WITH ORDINALITY AS a (name, type, n)
        WHERE a.type IS NOT NULL
    ),
    NOT (t.typtype = 'c' OR coalesce(p.proargmodes::text [] && '{t,b,o}', false)),
    p.proretset,
    p.provolatile = 'v',
    coalesce(p.proconfig, '{}')
FROM pg_catalog.pg_proc AS p
INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
INNER JOIN pg_catalog.pg_type AS t ON t.oid = p.prorettype
WHERE n.nspname = ANY (%s) AND p.prokind = 'f' AND t.typname <> 'trigger'"""

HOISTED = ("statement_timeout", "plan_filter.statement_cost_limit", "default_transaction_isolation")
"""Settings of a function that PostgREST makes the transaction's (db-hoisted-tx-settings)."""

STATUSES = (
    ("08", 503),
    ("09", 500),
    ("0L", 403),
    ("0P", 403),
    ("23503", 409),
    ("23505", 409),
    ("25006", 405),
    ("21000", 500),
    ("25", 500),
    ("28", 403),
    ("2D", 500),
    ("38", 500),
    ("39", 500),
    ("3B", 500),
    ("40", 500),
    ("53400", 500),
    ("53", 503),
    ("54", 500),
    ("55", 500),
    ("57P01", 503),
    ("57", 500),
    ("58", 500),
    ("F0", 500),
    ("HV", 500),
    ("P0001", 400),
    ("P0", 500),
    ("XX", 500),
    ("42883", 404),
    ("42P01", 404),
    ("42P17", 500),
)
"""Beginning of a SQLSTATE and the status it becomes; the first that fits decides, and 400 where none does."""


def status_of(sqlstate: str, *, authenticated: bool) -> int:
    """The status that a SQLSTATE becomes (but for PTnnn and PGRST, which name theirs)."""
    if sqlstate == "42501":
        return 403 if authenticated else 401
    return next((status for beginning, status in STATUSES if sqlstate.startswith(beginning)), 400)


class PostgREST:
    """A server for one database, without the HTTP.

    Args:
        dsn: connection string of the authenticator.
        schemas: the exposed schemas (db-schemas), the first one by default.
        extra_search_path: db-extra-search-path.
        anonymous: db-anon-role.
        prepared: db-prepared-statements.
        max_rows: db-max-rows.
    """

    def __init__(
        self,
        dsn: str,
        schemas: Sequence[str],
        *,
        extra_search_path: Sequence[str] = ("public",),
        anonymous: str,
        prepared: bool = True,
        max_rows: int | None = None,
    ) -> None:
        self._schemas = schemas
        self._extra = extra_search_path
        self._anonymous = anonymous
        self._prepared = prepared
        self._max_rows = max_rows
        self._connection: psycopg.Connection[Any] = psycopg.connect(
            dsn, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor, row_factory=tuple_row
        )
        set_json_dumps(lambda text: text, self._connection)  # the body goes as it came
        self._routines: list[Routine] = []
        self.reload()

    def reload(self) -> None:
        """Read the schema cache again (NOTIFY pgrst, 'reload schema')."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL search_path = ''")
            self._routines = [
                Routine(
                    schema,
                    name,
                    [Argument(*argument) for argument in arguments],
                    scalar,
                    is_set,
                    volatile,
                    dict(setting.split("=", 1) for setting in settings),
                )
                for schema, name, arguments, scalar, is_set, volatile, settings in psycopg.ClientCursor(
                    self._connection
                )
                .execute(_ROUTINES, [list(self._schemas)])
                .fetchall()
            ]

    def close(self) -> None:
        self._connection.close()

    def post(self, function: str, body: object, **more: Any) -> Response:
        """POST /rpc/function; body: an object, or the text of one."""
        text = body if isinstance(body, str) else json.dumps(body)
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            return Response(400, {"code": "PGRST102", "message": str(error)})
        first = given[0] if isinstance(given, list) and given else given
        if not isinstance(first, dict):
            return Response(400, {"code": "PGRST102", "message": "All object keys must match"})
        names = list(first)
        return self._call("POST", function, names, {}, text, **more)

    def get(self, function: str, parameters: Mapping[str, str], **more: Any) -> Response:
        """GET /rpc/function?name=value&…"""
        return self._call("GET", function, list(parameters), parameters, "", **more)

    def _call(
        self,
        method: str,
        function: str,
        names: Sequence[str],
        parameters: Mapping[str, str],
        body: str,
        *,
        schema: str | None = None,
        claims: Mapping[str, Any] | None = None,
    ) -> Response:
        schema = schema or self._schemas[0]
        if schema not in self._schemas:
            return Response(406, {"code": "PGRST106", "message": f"Invalid schema: {schema}"})
        fitting = [one for one in self._routines if (one.schema, one.name) == (schema, function) and _fits(one, names)]
        if not fitting:
            named = ", ".join(sorted(names))
            return Response(
                404, {"code": "PGRST202", "message": f"Could not find the function {schema}.{function}({named})"}
            )
        if len(fitting) > 1:
            return Response(300, {"code": "PGRST203", "message": "Could not choose the best candidate function"})
        (routine,) = fitting
        role = str((claims or {}).get("role", self._anonymous))
        read_only = method == "GET" or not routine.is_volatile
        begin = f"BEGIN ISOLATION LEVEL READ COMMITTED {'READ ONLY' if read_only else 'READ WRITE'}"
        try:
            self._connection.execute(begin.encode())
            self._set(method, routine, schema, role, claims or {})
            response = self._main(routine, names, parameters, body)
        except psycopg.Error as error:
            return _refusal(error, authenticated=claims is not None)
        finally:
            self._connection.execute("COMMIT")  # which rolls back after an error
        return response

    def _set(self, method: str, routine: Routine, schema: str, role: str, claims: Mapping[str, Any]) -> None:
        settings = [
            ("search_path", ", ".join(f'"{name}"' for name in (schema, *self._extra))),
            *self._role_settings(role),
            ("role", role),
            ("request.jwt.claims", json.dumps({**claims, "role": role})),
            ("request.method", method),
            ("request.path", f"/rpc/{routine.name}"),
            ("request.headers", "{}"),
            ("request.cookies", "{}"),
            *((name, value) for name, value in routine.settings.items() if name in HOISTED),
        ]
        pairs = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, true)" for n in range(len(settings)))
        self._execute(f"select {pairs}", [part for setting in settings for part in setting])

    def _role_settings(self, role: str) -> list[tuple[str, str]]:
        rows = self._connection.execute(
            "SELECT unnest(s.setconfig) FROM pg_catalog.pg_db_role_setting AS s INNER JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole"
            " WHERE r.rolname = $1 AND s.setdatabase = 0",
            [role],
        ).fetchall()
        return [(name, value) for name, _, value in (setting.partition("=") for (setting,) in rows)]

    def _main(self, routine: Routine, names: Sequence[str], parameters: Mapping[str, str], body: str) -> Response:
        types = {argument.name: argument.type for argument in routine.arguments}
        given = [argument.name for argument in routine.arguments if argument.name in names]
        values: list[Any] = []
        source = ""
        if parameters or not given:
            values = [parameters[name] for name in given]
            arguments = ", ".join(f'"{name}" := ${n}::{types[name]}' for n, name in enumerate(given, 1))
        else:
            values = [Json(body)]
            columns = ", ".join(f'"{name}"' for name in given)
            typed = ", ".join(f'"{name}" {types[name]}' for name in given)
            arguments = ", ".join(f'"{name}" := pgrst_body."{name}"' for name in given)
            source = (
                f"(SELECT $1 AS json_data) pgrst_payload, LATERAL (SELECT {columns} FROM json_to_record(pgrst_payload.json_data) "
                f"AS _({typed}) LIMIT 1) pgrst_body , LATERAL "
            )
        called = f'"{routine.schema}"."{routine.name}"({arguments})'
        if routine.returns_scalar:
            call = f"SELECT pgrst_call.pgrst_scalar FROM {source}(SELECT {called} pgrst_scalar) pgrst_call"
        else:
            call = f'SELECT "pgrst_call".* FROM {source}{called} pgrst_call'
        if not routine.returns_scalar:
            aggregate = "coalesce(json_agg(_postgrest_t), '[]')"
        elif routine.returns_set:
            aggregate = "coalesce(json_agg(_postgrest_t.pgrst_scalar), '[]')"
        else:
            aggregate = "coalesce(json_agg(_postgrest_t.pgrst_scalar)->0, 'null')"
        limit = ""
        if self._max_rows is not None:
            values += [str(self._max_rows), "0"]
            limit = f" LIMIT ${len(values) - 1} OFFSET ${len(values)}"
        total = "1" if routine.returns_scalar and not routine.returns_set else "pg_catalog.count(_postgrest_t)"
        row = self._execute(
            f"WITH pgrst_source AS ({call}) SELECT null::bigint AS total_result_set, {total} AS page_total, {aggregate} AS body, "
            "nullif(current_setting('response.headers', true), '') AS response_headers, "
            "nullif(current_setting('response.status', true), '') AS response_status, '' AS response_inserted "
            f'FROM (SELECT "{routine.name}".* FROM "pgrst_source" AS "{routine.name}"{limit}) _postgrest_t',
            values,
        )
        _, _, answer, headers, status, _ = row
        return Response(int(status or 200), answer, dict(headers or {}))

    def _execute(self, statement: str, values: Sequence[Any]) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._connection.execute(
            statement.encode(), values, prepare=self._prepared
        ).fetchone()
        assert row is not None
        return row


def _fits(routine: Routine, names: Sequence[str]) -> bool:
    """All arguments given are the function's, and all that it requires are given."""
    known = {argument.name for argument in routine.arguments}
    required = {argument.name for argument in routine.arguments if argument.is_required}
    return required <= set(names) <= known


def _refusal(error: psycopg.Error, *, authenticated: bool) -> Response:
    sqlstate, message = error.sqlstate or "", error.diag.message_primary or str(error)
    if sqlstate == "PGRST":
        answer, control = json.loads(message), json.loads(error.diag.message_detail or "null")
        body = {name: answer.get(name) for name in ("code", "message", "details", "hint")}
        assert isinstance(body["code"], str)
        assert isinstance(body["message"], str)
        assert all(isinstance(body[name], str | None) for name in ("details", "hint"))
        return Response(int(control["status"]), body, control["headers"])
    body = {
        "code": sqlstate,
        "message": message,
        "details": error.diag.message_detail,
        "hint": error.diag.message_hint,
    }
    if sqlstate.startswith("PT"):
        return Response(int(sqlstate[2:]), body)
    return Response(status_of(sqlstate, authenticated=authenticated), body)
