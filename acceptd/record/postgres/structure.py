"""PostgreSQL's own structure: what the tables, triggers and functions of a ledger are, against what they must be.

An edit in place has to take a trigger away first; a rule, a policy, a view or a child table shows readers other
rows than there are. The server answers these questions itself: against who owns the server only checkpoints help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from sqlalchemy import Column, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql

from acceptd.record.postgres import logins, moves
from acceptd.record.postgres.schema import FUNCTIONS, TABLES, TRIGGERS

Ask = Callable[[str], Iterable[tuple[Any, ...]]]
Tell = Callable[[str, str], None]

GIVEN: Final = {moves.TRIGGER: moves.DEFINITION, **logins.TRIGGERS}
"""Triggers that come with the roles' rights, and may be missing where there are none."""
_BODIES: Final = {
    **FUNCTIONS,
    moves.FUNCTION: moves.BODY,
    logins.FUNCTION: logins.BODY,
    **{name.partition("(")[0]: body for name, (_, body) in logins.FUNCTIONS.items()},
}
_TRUE_TABLES: Final = "('entries', 'nodes', 'evidence')"
_OURS: Final = ", ".join(f"'{table.name}'" for table in TABLES)
_NAMED: Final = ", ".join(f"'{name}'" for name in _BODIES)
_TRIGGERS: Final = f"""
    SELECT t.tgname::text, pg_get_triggerdef(t.oid), t.tgenabled::text FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE NOT t.tgisinternal AND n.nspname = 'public' AND c.relname IN ({_OURS}) ORDER BY 1
"""  # noqa: S608 - names of ours
_FUNCTIONS: Final = f"""
    SELECT p.proname::text, p.prosrc, l.lanname::text, array_to_string(p.proconfig, ';'), p.prosecdef,
        pg_get_userbyid(p.proowner)::text
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'public' AND p.proname IN ({_NAMED}) ORDER BY 1
"""  # noqa: S608 - names of ours
_CONFIG: Final = "search_path=pg_catalog, public"
_COLUMNS: Final = """
    SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
        coalesce(l.collname, '')::text
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE a.attnum > 0 AND NOT a.attisdropped AND n.nspname = 'public' AND c.relname IN ({names}) ORDER BY 1, 2
"""
_CONSTRAINTS: Final = """
    SELECT c.relname::text, o.conname::text, pg_get_constraintdef(o.oid), o.convalidated
    FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relname IN ({names}) AND o.contype <> 'n' ORDER BY 1, 2
"""
_KINDS: Final = f"""
    SELECT c.relname::text, c.relkind::text, c.relpersistence::text, c.relrowsecurity OR c.relforcerowsecurity,
        c.relhasrules, pg_get_userbyid(c.relowner)::text,
        EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid OR i.inhrelid = c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relname IN ({_OURS}) ORDER BY 1
"""  # noqa: S608 - names of ours
_VIEWS: Final = """
    SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind IN ('v', 'm') ORDER BY 1 LIMIT 20
"""
_INDEXES: Final = f"""
    SELECT x.relname::text, i.indisvalid AND i.indisready AND i.indislive, pg_get_indexdef(i.indexrelid)
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relname IN ({_OURS}) ORDER BY 1
"""  # noqa: S608 - names of ours
DEFINED: Final = (
    _TRIGGERS,
    _FUNCTIONS,
    _COLUMNS.format(names=_TRUE_TABLES[1:-1]),
    _CONSTRAINTS.format(names=_TRUE_TABLES[1:-1]),
)
"""What no revision may change: the answers to these."""

CHECKS: Final = {
    "entries_seq": "CHECK ((seq >= 0))",
    "entries_leaf_hash": "CHECK ((length(leaf_hash) = 32))",
    "nodes_form": "CHECK (((level > 0) AND (length(hash) = 32)))",
}
"""The conditions of the truth's tables, as PostgreSQL words them."""
_TYPES: Final = {
    "BIGINT": "bigint",
    "BYTEA": "bytea",
    "BOOLEAN": "boolean",
    "FLOAT": "double precision",
    'VARCHAR COLLATE "C"': "character varying",
    "VARCHAR(32)": "character varying(32)",
}
_DIALECT: Final = postgresql.dialect()  # type: ignore[no-untyped-call]


def check_structure(ask: Ask, tell: Tell, *, newer: bool = False) -> None:
    """Tell ``tell`` (place, words) whatever is not as acceptd makes it.

    ``ask`` runs a query. ``newer``: the schema is a later version's, which may have added columns.
    """
    _check_kinds(ask, tell)
    _check_triggers(ask, tell)
    _check_functions(ask, tell)
    _check_columns(ask, tell, newer=newer)
    _check_constraints(ask, tell)
    _check_indexes(ask, tell)
    for (name,) in ask(_VIEWS):
        tell(f"view {name}", "is not acceptd's: what it shows may change with each look")


def _check_kinds(ask: Ask, tell: Tell) -> None:
    there = {row[0]: row[1:] for row in ask(_KINDS)}
    owners = {row[4] for row in there.values()}
    for table in TABLES:
        if table.name not in there:
            tell(f"table {table.name}", "is missing")
            continue
        kind, persistence, policies, rules, owner, inherits = there[table.name]
        if kind != "r" or persistence != "p":
            tell(f"table {table.name}", "is no ordinary table")
        if policies and not (table.name == logins.SEEN and not logins.shown(ask)):
            tell(f"table {table.name}", "has row security: readers may be shown a part of it")
        if rules:
            tell(f"table {table.name}", "has a rule: statements may do something else")
        if inherits:
            tell(f"table {table.name}", "has a parent or a child, whose rows count as its own")
        if owner != there.get("entries", (None,) * 5)[4] and len(owners) > 1:
            tell(f"table {table.name}", "has another owner than `entries`: who owns it may change it")


def _check_triggers(ask: Ask, tell: Tell) -> None:
    stored = {row[0]: row[1:] for row in ask(_TRIGGERS)}
    for name in sorted(stored.keys() | TRIGGERS.keys()):
        if name not in stored:
            tell(f"trigger {name}", "is missing: the table can be edited in place")
            continue
        definition, enabled = stored[name]
        if definition != f"CREATE TRIGGER {name} {(TRIGGERS | GIVEN).get(name)}":
            tell(f"trigger {name}", "is not acceptd's")
        elif enabled not in {"O", "A"}:
            tell(f"trigger {name}", "is disabled: the table can be edited in place")


def _check_functions(ask: Ask, tell: Tell) -> None:
    stored = {row[0]: row[1:] for row in ask(_FUNCTIONS)}
    for name in sorted(stored.keys() | FUNCTIONS.keys()):
        if name not in stored:
            tell(f"function {name}", "is missing: triggers call it")
            continue
        body, language, config, definer, _ = stored[name]
        due = _BODIES[name]
        if (body, language, config, definer) != (due, "plpgsql", _CONFIG, False):
            tell(f"function {name}", "is not acceptd's")


def _check_columns(ask: Ask, tell: Tell, *, newer: bool) -> None:
    stored = {(row[0], row[1]): row[2:] for row in ask(_COLUMNS.format(names=_OURS))}
    due = {(table.name, column.name): _due(column) for table in TABLES for column in table.columns}
    for table, column in sorted(stored.keys() | due.keys()):
        found = stored.get((table, column))
        if found is None:
            tell(f"table {table}", f"its column {column} is missing")
        elif (table, column) not in due:
            if not newer:
                tell(f"table {table}", f"its column {column!r:.80} is not acceptd's")
        elif found != due[table, column]:
            tell(f"table {table}", f"its column {column} is {found[0]!r:.60}, and not as acceptd makes it")


def _due(column: Column[Any]) -> tuple[str, bool, str]:
    kind = _TYPES[column.type.compile(dialect=_DIALECT)]
    text = kind.startswith("character")
    collation = ("default" if column.type.compile() == "VARCHAR(32)" else "C") if text else ""
    return kind, not column.nullable, collation


def _check_constraints(ask: Ask, tell: Tell) -> None:
    stored = {row[1]: (row[2], row[3]) for row in ask(_CONSTRAINTS.format(names=_OURS))}
    due = dict(CHECKS)
    for table in TABLES:
        due |= dict(_keys(table))
    for name, definition in sorted(due.items()):
        if name not in stored:
            tell(f"constraint {name}", "is missing")
        elif (stored[name][0].replace('"', ""), stored[name][1]) != (definition, True):
            tell(f"constraint {name}", "is not acceptd's")


def _keys(table: Table) -> Iterable[tuple[str, str]]:
    named = str(table.primary_key.name or f"{table.name}_pkey")
    yield named, f"PRIMARY KEY ({', '.join(column.name for column in table.primary_key)})"
    for one in table.constraints:
        if isinstance(one, UniqueConstraint):
            yield str(one.name), f"UNIQUE ({', '.join(column.name for column in one.columns)})"


def _check_indexes(ask: Ask, tell: Tell) -> None:
    stored = {row[0]: row[1:] for row in ask(_INDEXES)}
    due = {str(index.name): (table, index) for table in TABLES for index in table.indexes}
    for name, (table, index) in sorted(due.items()):
        columns = ", ".join(column.name for column in index.columns)
        words = f"CREATE INDEX {name} ON public.{table.name} USING btree ({columns})"
        if name not in stored:
            tell(f"index {name}", "is missing: readers find entries through it")
        elif stored[name][1] != words:
            tell(f"index {name}", "is not acceptd's: readers find entries through it")
    for name, (valid, _) in stored.items():
        if not valid:
            tell(f"index {name}", "is not valid: it may lack rows")
