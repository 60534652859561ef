"""What surrounds the SQL files of a revision: blocks of PL/pgSQL that run one by one on a connection, or all in one script.

As in the files, the schema is called `kbsearch` here (see kbsearch.schema); KBSEARCH is the product's name in messages, which stays. Until BEGIN has
set the search path, every name is qualified: a caller's temporary tables, types and functions mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kbsearch.errors import MigrationError
from kbsearch.schema import replaced
from kbsearch.session import literal, literals

_TAG = "$kb_file$"
_PRODUCT = re.compile(r"\bKBSEARCH\b")

VERSION_TABLE = "kb_alembic_version"
"""Holds the installed revision. Not alembic's default name: that is the host's, in whatever schema."""

SETTINGS: Mapping[str, str] = {
    "array_nulls": "on",
    "bytea_output": "hex",
    "check_function_bodies": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "warning",
    "DateStyle": "ISO, MDY",
    "default_table_access_method": "heap",
    "default_tablespace": "",
    "default_text_search_config": "pg_catalog.simple",
    "escape_string_warning": "off",
    "extra_float_digits": "1",
    "IntervalStyle": "postgres",
    "plpgsql.extra_errors": "none",
    "plpgsql.extra_warnings": "none",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "session_replication_role": "origin",
    "standard_conforming_strings": "on",
    "temp_tablespaces": "",
    "TimeZone": "UTC",
    "transform_null_equals": "off",
    "xmloption": "content",
}
"""What decides how SQL is read and objects are made, as it is while a migration runs; the caller's values come back at its end."""

OLDEST_SERVER = 15
OLDEST_VECTOR = "0.8"

_COMMENT = "Hybrid search. Made and changed by its migrations only."

_PINS = ",\n        ".join(f"({literal(name)}, {literal(value)})" for name, value in SETTINGS.items())

BEGIN = f"""BEGIN
    PERFORM pg_catalog.set_config('kbsearch.caller_search_path', pg_catalog.current_setting('search_path'), true);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM set_config('kbsearch.caller_settings', (
        SELECT json_object_agg(s.name, current_setting(s.name))::text
        FROM unnest(ARRAY[{literals(list(SETTINGS))}]) AS s (name)
    ), true);
    PERFORM set_config(s.name, s.value, true)
    FROM (VALUES
        {_PINS}
    ) AS s (name, value)
    WHERE current_setting(s.name) <> s.value;
    -- one migration at a time in a database, of whatever schema: the extension is everybody's; the number means nothing
    PERFORM pg_advisory_xact_lock(7235420871);
END;"""
"""Settles the settings for the transaction and waits for other migrations."""

RESTORE = """BEGIN
    PERFORM set_config(s.key, s.value, true)
    FROM json_each_text(current_setting('kbsearch.caller_settings')::json) AS s
    WHERE current_setting(s.key) <> s.value;
    PERFORM set_config('kbsearch.caller_settings', '', true);
    PERFORM pg_catalog.set_config('search_path', pg_catalog.current_setting('kbsearch.caller_search_path'), true);
END;"""
"""Gives the caller's settings back, for the rest of a transaction that goes on."""

_FOREIGN = f"""SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0) AS name
        FROM pg_depend AS d
        WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = v_schema AND d.deptype = 'n' AND d.classid <> 'pg_extension'::regclass
            AND NOT EXISTS (
                SELECT FROM pg_depend AS e WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e'
            )
            AND NOT EXISTS (
                SELECT FROM pg_class AS c
                WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relname IN ('alembic_version', '{VERSION_TABLE}')
            )"""
"""What lies in the schema and is no extension's; a host may keep its alembic_version anywhere."""

_BINDINGS = """WITH ours (classid, objid) AS (
            SELECT 'pg_proc'::regclass, p.oid FROM pg_proc AS p WHERE p.pronamespace = v_schema
            UNION ALL
            SELECT 'pg_class'::regclass, c.oid FROM pg_class AS c WHERE c.relnamespace = v_schema
            UNION ALL
            SELECT 'pg_type'::regclass, t.oid FROM pg_type AS t WHERE t.typnamespace = v_schema
            UNION ALL
            SELECT 'pg_constraint'::regclass, n.oid FROM pg_constraint AS n WHERE n.connamespace = v_schema
            UNION ALL
            SELECT 'pg_attrdef'::regclass, a.oid
            FROM pg_attrdef AS a
            INNER JOIN pg_class AS c ON c.oid = a.adrelid
            WHERE c.relnamespace = v_schema
            UNION ALL
            SELECT 'pg_rewrite'::regclass, r.oid
            FROM pg_rewrite AS r
            INNER JOIN pg_class AS c ON c.oid = r.ev_class
            WHERE c.relnamespace = v_schema
        )
        SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0) || ' uses ' || pg_describe_object(d.refclassid, d.refobjid, 0) AS name
        FROM ours AS o
        INNER JOIN pg_depend AS d ON d.classid = o.classid AND d.objid = o.objid AND d.deptype = 'n'
        CROSS JOIN LATERAL pg_identify_object(d.refclassid, d.refobjid, 0) AS r
        WHERE r.schema NOT IN (quote_ident('kbsearch'), 'pg_catalog')
            AND NOT EXISTS (
                SELECT FROM pg_depend AS e
                INNER JOIN pg_extension AS x ON x.oid = e.refobjid
                WHERE e.classid = d.refclassid AND e.objid = d.refobjid AND e.deptype = 'e' AND x.extname = 'vector'
            )"""
"""What objects of ours are bound to that is neither ours, nor PostgreSQL's, nor pgvector's."""

PREPARE = f"""DECLARE
    v_role CONSTANT pg_catalog.text := pg_catalog.quote_ident(current_user);
    v_schema pg_catalog.oid;
    v_vector pg_catalog.regnamespace;
    v_version pg_catalog.text;
    v_problems pg_catalog.text [] := '{{}}';
    v_remedies pg_catalog.text [] := '{{}}';
    v_names pg_catalog.text [];
BEGIN
    IF current_setting('server_version_num')::integer < {OLDEST_SERVER}0000 THEN
        RAISE EXCEPTION 'the server is PostgreSQL %; KBSEARCH needs {OLDEST_SERVER} or newer', current_setting('server_version')
            USING ERRCODE = 'KB002', HINT = 'Upgrade the server.';
    ELSIF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the encoding of the database is %; KBSEARCH needs UTF8', current_setting('server_encoding')
            USING ERRCODE = 'KB002', HINT = 'CREATE DATABASE ... TEMPLATE template0 ENCODING ''UTF8''';
    ELSIF current_setting('transaction_read_only')::boolean THEN
        RAISE EXCEPTION 'the transaction is read-only'
            USING ERRCODE = 'KB002', HINT = CASE WHEN pg_is_in_recovery() THEN 'This server is a standby: connect to the primary server.'
                ELSE 'Set default_transaction_read_only = off for this connection.' END;
    END IF;
    SELECT n.oid INTO v_schema FROM pg_namespace AS n WHERE n.nspname = 'kbsearch';
    IF v_schema IS NULL AND has_database_privilege(current_database(), 'CREATE') THEN
        CREATE SCHEMA kbsearch;
        SELECT n.oid INTO v_schema FROM pg_namespace AS n WHERE n.nspname = 'kbsearch';
    ELSIF v_schema IS NULL THEN
        v_problems := v_problems || format('there is no schema kbsearch, and the role %s may not create it', v_role);
        v_remedies := v_remedies || format('CREATE SCHEMA kbsearch AUTHORIZATION %s;', v_role);
    ELSIF NOT (has_schema_privilege(v_schema, 'CREATE') AND has_schema_privilege(v_schema, 'USAGE')) THEN
        v_problems := v_problems || format('the role %s may not create objects in the schema kbsearch', v_role);
        v_remedies := v_remedies || format('GRANT USAGE, CREATE ON SCHEMA kbsearch TO %s;', v_role);
    END IF;
    SELECT e.extnamespace, e.extversion INTO v_vector, v_version FROM pg_extension AS e WHERE e.extname = 'vector';
    IF v_vector IS NULL AND NOT EXISTS (SELECT FROM pg_available_extensions AS a WHERE a.name = 'vector') THEN
        RAISE EXCEPTION 'the server does not have pgvector'
            USING ERRCODE = 'KB002', HINT = 'Install pgvector {OLDEST_VECTOR} or newer on the server '
                '(packages are called postgresql-NN-pgvector or pgvector_NN; https://github.com/pgvector/pgvector).';
    ELSIF v_vector IS NULL THEN
        BEGIN
            EXECUTE 'CREATE EXTENSION vector' || coalesce(' WITH SCHEMA ' || coalesce(to_regnamespace('public'), v_schema::regnamespace)::text, '');
        EXCEPTION WHEN insufficient_privilege THEN
            v_problems := v_problems || format('the extension vector is not installed in this database, and the role %s may not install it', v_role);
            v_remedies := v_remedies || format('CREATE SCHEMA ext; CREATE EXTENSION vector SCHEMA ext; GRANT USAGE ON SCHEMA ext TO %s;', v_role);
        END;
        SELECT e.extnamespace, e.extversion INTO v_vector, v_version FROM pg_extension AS e WHERE e.extname = 'vector';
    END IF;
    IF v_vector IS NOT NULL AND NOT has_schema_privilege(v_vector, 'USAGE') THEN
        v_problems := v_problems || format('the role %s may not use the schema %s, in which the extension vector is', v_role, v_vector);
        v_remedies := v_remedies || format('GRANT USAGE ON SCHEMA %s TO %s;', v_vector, v_role);
    END IF;
    IF coalesce(
        string_to_array(substring(v_version FROM '^[0-9]+[.][0-9]+'), '.')::integer [] < string_to_array('{OLDEST_VECTOR}', '.')::integer [],
        v_version IS NOT NULL
    ) THEN
        v_problems := v_problems || format('the extension vector has version %s; KBSEARCH needs {OLDEST_VECTOR} or newer', v_version);
        v_remedies := v_remedies || 'ALTER EXTENSION vector UPDATE; /* once the server has pgvector {OLDEST_VECTOR} or newer */'::text;
    END IF;
    IF v_problems <> '{{}}' THEN
        RAISE EXCEPTION '%', array_to_string(v_problems, '; ')
            USING ERRCODE = 'KB002', HINT = format(
                'A DBA (a superuser, or the provider''s administrator) runs in the database %I: %s',
                current_database(), array_to_string(v_remedies, ' ')
            );
    END IF;
    IF v_schema <> pg_my_temp_schema() AND NOT EXISTS (
        SELECT FROM pg_class AS c WHERE c.relnamespace = v_schema AND c.relname = '{VERSION_TABLE}'
    ) THEN
        SELECT array_agg(f.name ORDER BY f.name) INTO v_names FROM (
        {_FOREIGN}
        ) AS f;
        IF cardinality(v_names) > 0 THEN
            RAISE EXCEPTION 'the schema kbsearch holds what is not of KBSEARCH: %',
                array_to_string(v_names[:5], ', ')
                || CASE WHEN cardinality(v_names) > 5 THEN format(' and %s more', cardinality(v_names) - 5) ELSE '' END
                USING ERRCODE = 'KB002', HINT = 'KBSEARCH needs a schema of its own, so that nothing gets lost when it is removed: '
                    'choose another name (--schema, KBSEARCH_SCHEMA), or move these objects elsewhere.';
        END IF;
    END IF;
    SELECT coalesce(array_agg(b.name), '{{}}') INTO v_names FROM (
        {_BINDINGS}
    ) AS b;
    PERFORM set_config('kbsearch.bindings', to_json(v_names)::text, true);
    IF obj_description(v_schema, 'pg_namespace') IS NULL
        AND (SELECT pg_has_role(n.nspowner, 'USAGE') FROM pg_namespace AS n WHERE n.oid = v_schema) THEN
        COMMENT ON SCHEMA kbsearch IS {literal(_COMMENT)};
    END IF;
    PERFORM set_config('search_path', format('pg_catalog, kbsearch, %s, pg_temp', v_vector), true);
    -- loads the library: before that, a role that is no superuser may not name its settings in CREATE FUNCTION ... SET
    EXECUTE format('SELECT ''[1]''::%s.vector', v_vector);
END;"""
"""Checks that the server, the database and the role will do, makes schema and extension if they are missing and the role may, sets the search path.

Everything that a DBA has to run is in the hint of one error.
"""

CREATE_VERSION_TABLE = f"""BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_class AS c
        INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'kbsearch' AND c.relname = '{VERSION_TABLE}'
    ) THEN
        CREATE TABLE kbsearch.{VERSION_TABLE} (
            version_num character varying(32) NOT NULL,
            CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num)
        );
        COMMENT ON TABLE kbsearch.{VERSION_TABLE} IS 'The installed revision of kbsearch.';
    END IF;
END;"""

VERIFY = f"""DECLARE
    v_schema pg_catalog.oid;
    v_names pg_catalog.text [];
BEGIN
    PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
    SELECT n.oid INTO v_schema FROM pg_namespace AS n WHERE n.nspname = 'kbsearch';
    SELECT array_agg(b.name ORDER BY b.name) INTO v_names FROM (
        {_BINDINGS}
        EXCEPT
        SELECT before.name FROM json_array_elements_text(current_setting('kbsearch.bindings')::json) AS before (name)
    ) AS b;
    IF cardinality(v_names) > 0 THEN
        RAISE EXCEPTION 'what lies in the schema of the extension vector would take the place of what belongs to PostgreSQL or pgvector: %',
            array_to_string(v_names[:5], ', ')
            USING ERRCODE = 'KB002', HINT = 'Drop that object or move it to another schema, or move the extension to a schema of its own: '
                'ALTER EXTENSION vector SET SCHEMA ext.';
    END IF;
END;"""
"""Refuses an installation that is bound to functions or operators of somebody who may create objects in the extension's schema."""

_OURS = """SELECT 'pg_class'::regclass::oid AS classid, c.oid AS objid
            FROM pg_class AS c WHERE c.relnamespace = v_schema AND c.relname = ANY (v_created) AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
            UNION ALL
            SELECT 'pg_proc'::regclass::oid, p.oid
            FROM pg_proc AS p WHERE p.pronamespace = v_schema AND p.proname = ANY (v_created)
            UNION ALL
            SELECT 'pg_type'::regclass::oid, t.oid
            FROM pg_type AS t
            LEFT JOIN pg_class AS r ON r.oid = t.typrelid
            WHERE t.typnamespace = v_schema AND t.typname = ANY (v_created) AND coalesce(r.relkind, 'c') = 'c'"""

_DROP = f"""DECLARE
    v_created CONSTANT pg_catalog.text [] := ARRAY[CREATED]::pg_catalog.text [];
    v_schema pg_catalog.oid;
    v_names pg_catalog.text [];
    v_statement pg_catalog.text;
BEGIN
    SELECT n.oid INTO v_schema FROM pg_namespace AS n WHERE n.nspname = 'kbsearch';
    -- with an object goes what is part of it (indexes, constraints, triggers); what only uses it is somebody else's
    WITH RECURSIVE parts (classid, objid) AS (
        SELECT o.classid, o.objid FROM (
            {_OURS}
        ) AS o
        UNION
        SELECT d.classid, d.objid
        FROM parts AS p
        INNER JOIN pg_depend AS d ON d.refclassid = p.classid AND d.refobjid = p.objid
        WHERE d.deptype IN ('a', 'i', 'P', 'S')
    )
    SELECT array_agg(DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid)) INTO v_names
    FROM parts AS p
    INNER JOIN pg_depend AS d ON d.refclassid = p.classid AND d.refobjid = p.objid
    WHERE d.deptype = 'n' AND (d.classid, d.objid) NOT IN (SELECT q.classid, q.objid FROM parts AS q);
    IF cardinality(v_names) > 0 THEN
        RAISE EXCEPTION 'what is not of KBSEARCH depends on it: %', array_to_string(v_names, ', ')
            USING ERRCODE = 'KB002', HINT = 'Drop that first; KBSEARCH drops nothing that is not its own.';
    END IF;
    FOR v_statement IN
        SELECT format('DROP %s IF EXISTS %s CASCADE', i.type, i.identity)
        FROM (
            {_OURS}
        ) AS o
        CROSS JOIN LATERAL pg_identify_object(o.classid, o.objid, 0) AS i
        ORDER BY o.classid = 'pg_class'::regclass DESC, o.objid ASC
    LOOP
        EXECUTE v_statement;
    END LOOP;
END;"""

DROP_SCHEMA = f"""DECLARE
    v_schema pg_catalog.oid;
    v_owned pg_catalog.bool;
BEGIN
    DROP TABLE kbsearch.{VERSION_TABLE};
    SELECT n.oid, pg_has_role(n.nspowner, 'USAGE') INTO v_schema, v_owned FROM pg_namespace AS n WHERE n.nspname = 'kbsearch';
    IF v_owned AND 'kbsearch' <> 'public' AND has_database_privilege(current_database(), 'CREATE') AND NOT EXISTS (
        SELECT FROM pg_depend AS d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = v_schema AND d.deptype = 'n'
    ) THEN
        DROP SCHEMA kbsearch;
    ELSIF v_owned AND obj_description(v_schema, 'pg_namespace') = {literal(_COMMENT)} THEN
        COMMENT ON SCHEMA kbsearch IS NULL;
    END IF;
END;"""
"""After the last revision. A schema that the role could not make again, or that holds anything else, stays."""


def stamp(revision: str | None) -> str:
    """The block that notes the installed revision."""
    insert = (
        f"\n    INSERT INTO kbsearch.{VERSION_TABLE} (version_num) VALUES ({literal(revision)});" if revision else ""
    )
    return f"BEGIN\n    DELETE FROM kbsearch.{VERSION_TABLE};{insert}\nEND;"


def drop(created: Sequence[str]) -> str:
    """The block that drops the objects of these names, unless somebody else's depend on them."""
    return _DROP.replace("CREATED", literals(created))


def execute(file: str, text: str) -> str:
    """The block that runs a file's statements."""
    for taken in (_TAG, "KBSEARCH"):
        if taken in text:
            raise MigrationError(
                f"sql/{file} contains {taken}", hint="That is kept for kbsearch.blocks: write something else."
            )
    return f"-- {file}\nBEGIN\nEXECUTE {_TAG}\n{text.rstrip()}\n{_TAG};\nEND;"


def statement(blocks: Sequence[str], schema: str) -> str:
    """One statement that runs blocks, for the schema of this name."""
    body = "\n\n".join(blocks)
    return _PRODUCT.sub("kbsearch", replaced(f"DO $kb_blocks$\nBEGIN\n{body}\nEND\n$kb_blocks$", schema))
