"""Who may do what in the ledger's database: four roles, given exactly this by the owner of the tables.

They are groups without a login; the operator makes each node or person a role of its own as a member. The queue of
tasks has its tables, and gives its own rights (:mod:`acceptd.fleet.schema`).
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import psycopg

from acceptd.errors import StateError
from acceptd.record.leases import given_up
from acceptd.record.place import Place, require_roles
from acceptd.record.postgres import logins, moves
from acceptd.record.postgres.engine import LOCK, connect
from acceptd.record.postgres.errors import translated
from acceptd.record.postgres.schema import TABLES
from acceptd.record.tables import fleet_nodes

_READ: Final = ("SELECT",)
_LOG: Final = dict.fromkeys(("meta", "alembic_version", "entries", "nodes"), _READ)
_JUDGED: Final = dict.fromkeys(("verdicts", "findings", "releases", "revocations"), _READ)
_WORKED: Final = {given_up.name: ("SELECT", "INSERT", "UPDATE", "DELETE")}
_TOLD: Final = ", ".join(column.name for column in fleet_nodes.c if column.name != "draining")
_NODE: Final = {"fleet_nodes": ("SELECT", f"INSERT ({_TOLD})", f"UPDATE ({_TOLD})")}
"""A node says how it stands; whether it is to drain the operator says."""

RIGHTS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    # Alone appends entries and moves what follows from them; rebuilds nothing, and changes no entry.
    "acceptd_promoter": {
        "meta": _READ,
        "alembic_version": _READ,
        **dict.fromkeys(
            ("entries", "nodes", "evidence", "verdicts", "findings", "revocations"), ("SELECT", "INSERT")
        ),
        "releases": ("SELECT", "INSERT", "UPDATE"),
        **dict.fromkeys(("submissions", "deaths"), ("SELECT", "INSERT", "UPDATE", "DELETE")),
        "fleet_evidence": ("SELECT", "DELETE"),
        "fleet_nodes": ("SELECT", "INSERT", "UPDATE", "DELETE"),
        **_WORKED,
    },
    # Brings submissions in and takes them out; has no word in what becomes of them (and see `moves`).
    "acceptd_intake": {
        **_LOG,
        **_JUDGED,
        "submissions": ("SELECT", "INSERT", "UPDATE"),
        "deaths": ("SELECT", "INSERT", "UPDATE"),
        **_NODE,
        **_WORKED,
    },
    # Adds what it signed; appends no entry and changes no submission. What became of others' held-out vectors
    # stands in evidence: it is compared by what its order brings, and reads none.
    "acceptd_worker": {
        **_LOG,
        **_JUDGED,
        "submissions": _READ,
        "fleet_evidence": ("SELECT", "INSERT"),
        **_NODE,
        **_WORKED,
    },
    # People, their console and their audit: they read, and what they decide they sign.
    "acceptd_reviewer": {
        **_LOG,
        **_JUDGED,
        "evidence": _READ,
        "submissions": _READ,
        "deaths": _READ,
        "fleet_nodes": _READ,
        given_up.name: _READ,
    },
}
"""Privileges of each role on each table, or on some of its columns; on a table that is not named, none."""

_ALL: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
_NUMBERS: Final = f"public.{given_up.name}_number_seq"


def grant(place: Place) -> list[str]:
    """Make the roles that are missing, and give each exactly its rights; return the names of those made.

    As the tables' owner, who may make roles. Raises LedgerError where he may not, StateError for a file, and for
    anybody else.
    """
    made = []
    with _connected(place) as connection, connection.transaction():
        owns = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'public.meta'::regclass"
        if connection.execute(owns).fetchone() != (True,):
            raise StateError(
                f"{place}: its tables are another role's, who alone gives rights on them",
                remedy="run it as their owner: name that login in ACCEPTD_RECORD_URL for this one command",
            )
        connection.execute(f"SELECT pg_advisory_xact_lock({LOCK})")  # of two at once one comes after the other
        known = {str(row[0]) for row in connection.execute("SELECT rolname::text FROM pg_roles")}
        if missing := [role for role in RIGHTS if role not in known]:
            _require_maker(connection, place, missing)
        for role, rights in RIGHTS.items():
            if role not in known:
                connection.execute(f"CREATE ROLE {role} NOLOGIN")
                made.append(role)
            connection.execute(f"GRANT USAGE ON SCHEMA public TO {role}")
            for table in TABLES:
                connection.execute(f"REVOKE ALL ON public.{table.name} FROM {role}, PUBLIC")
                if wanted := rights.get(table.name):
                    connection.execute(f"GRANT {', '.join(wanted)} ON public.{table.name} TO {role}")
            connection.execute(f"REVOKE ALL ON SEQUENCE {_NUMBERS} FROM {role}, PUBLIC")
            if "INSERT" in rights.get(given_up.name, ()):
                connection.execute(f"GRANT USAGE ON SEQUENCE {_NUMBERS} TO {role}")
        moves.give(connection)
        logins.give(connection)
    return made


def _require_maker(connection: psycopg.Connection[Any], place: Place, missing: list[str]) -> None:
    """Raise StateError where this login may not make roles."""
    query = "SELECT rolname::text, rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
    row = connection.execute(query).fetchone()
    if row is None or not row[1]:
        name = "" if row is None else f" {row[0]!r:.80}"
        raise StateError(
            f"{place}: the login{name} may not make the roles {', '.join(missing)}",
            remedy="give it CREATEROLE for this (ALTER ROLE … CREATEROLE, as a superuser), and run this again",
        )


def differences(place: Place) -> list[str]:
    """Say how the roles' rights differ from :data:`RIGHTS`, in words; empty where they are exactly those."""
    found = []
    with _connected(place) as connection:
        for role, rights in RIGHTS.items():
            known = "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = %s"
            row = connection.execute(known, (role,)).fetchone()
            if row is None:
                found.append(f"{role}: there is no such role")
                continue
            if any(row):
                found.append(f"{role}: stands above the rights of tables")
            for table in TABLES:
                there = _rights(connection, role, table.name)
                due = set(rights.get(table.name, ()))
                found += [f"{role}: may {one} {table.name}, which is not its right" for one in sorted(there - due)]
                found += [f"{role}: may not {one} {table.name}" for one in sorted(due - there)]
        found += moves.differences(connection)
        found += logins.differences(connection)
    return found


def _rights(connection: psycopg.Connection[Any], role: str, table: str) -> set[str]:
    query = "SELECT p FROM unnest(%s::text[]) p WHERE has_table_privilege(%s, %s, p)"
    found = {str(row[0]) for row in connection.execute(query, (list(_ALL), role, f"public.{table}"))}
    # On some columns alone, in the words of GRANT.
    query = (
        "SELECT p || ' (' || string_agg(attname, ', ' ORDER BY attnum) || ')' "
        "FROM unnest(%s::text[]) p, pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND NOT p = ANY(%s::text[]) "
        "AND has_column_privilege(%s, attrelid, attnum, p) GROUP BY p"
    )
    asked = (["SELECT", "INSERT", "UPDATE", "REFERENCES"], f"public.{table}", sorted(found), role)
    return found | {str(row[0]) for row in connection.execute(query, asked)}


@contextlib.contextmanager
def _connected(place: Place) -> Any:
    require_roles(place)
    with translated(str(place)), contextlib.closing(connect(place.url)) as connection:
        if connection.execute("SELECT to_regclass('public.meta')").fetchone() == (None,):
            raise StateError(f"{place}: there is no ledger", remedy="run `acceptd init`")
        yield connection
