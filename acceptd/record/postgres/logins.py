"""Whose a node's name is: the login that wrote under it first; triggers, given together with the rights.

A right is to all of a table's rows. What a node writes bears its name (a drop, evidence, a heartbeat), so the
name is bound to the login of the session, and every other login is refused under it. Who may remove a table's rows
(the promoter, the owner of the tables) is not bound there. ``acceptd fleet forget`` makes a name free again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import psycopg
from psycopg import sql

TABLE: Final = "fleet_logins"
FUNCTION: Final = "acceptd_logins"
_MADE: Final = f"""
    CREATE TABLE IF NOT EXISTS public.{TABLE} (
        node varchar COLLATE "C" NOT NULL PRIMARY KEY,
        login varchar COLLATE "C" NOT NULL DEFAULT SESSION_USER,
        CONSTRAINT {TABLE}_small CHECK (length(node) <= 64)
    )
"""
RIGHTS: Final[dict[str, tuple[str, ...]]] = {
    "acceptd_promoter": ("SELECT", "DELETE"),
    # Never the column `login`: what stands there is the session's own.
    "acceptd_intake": ("SELECT", "INSERT (node)"),
    "acceptd_worker": ("SELECT", "INSERT (node)"),
    "acceptd_reviewer": ("SELECT",),
}
"""Privileges on the table, by role."""

_MINE: Final = "(w.acceptd_login = session_user OR w.acceptd_login IS NULL)"
"""A worker of the task queue that this login registered; one from before that was noted is open to every login,
until its node begins anew."""
_HELD: Final = f"""FROM public.procrastinate_jobs j JOIN public.procrastinate_workers w ON w.id = j.worker_id
        WHERE {_MINE} AND j.status = 'doing' AND j.task_name = 'acceptd.examine'"""
_COUNTS: Final = "ARRAY['tries', 'deaths', 'waits', 'avoid', 'passes', 'what', 'why']"
FUNCTIONS: Final[dict[str, tuple[str, str]]] = {
    "acceptd_own(submission text)": (
        "boolean",
        """
BEGIN
    RETURN EXISTS (SELECT 1 FROM public.submissions s JOIN public.fleet_logins l ON l.node = s.node
        WHERE s.id = submission AND l.login = session_user);
END
""",
    ),
    "acceptd_own_queues()": (
        "text[]",
        """
BEGIN
    RETURN ARRAY(SELECT 'intake:' || node FROM public.fleet_logins WHERE login = session_user);
END
""",
    ),
    "acceptd_own_workers()": (
        "bigint[]",
        f"""
BEGIN
    RETURN ARRAY(SELECT w.id FROM public.procrastinate_workers w WHERE {_MINE});
END
""",  # noqa: S608 - words of ours
    ),
    "acceptd_held()": (
        "text[]",
        f"""
BEGIN
    IF to_regclass('public.procrastinate_jobs') IS NULL THEN
        RETURN ARRAY[]::pg_catalog.text[];
    END IF;
    RETURN ARRAY(SELECT j.args->>'submission' {_HELD});
END
""",
    ),
    "acceptd_holds(submission text, round bigint, profile text)": (
        "boolean",
        f"""
BEGIN
    IF to_regclass('public.procrastinate_jobs') IS NULL THEN
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT 1 {_HELD} AND j.args->>'submission' = submission
        AND coalesce((j.args->>'round')::bigint, 0) = round AND coalesce(j.args->>'profile', '') = profile);
END
""",
    ),
    # The next try of an examination that is held, or that it is given up: of which, nothing else changes.
    "acceptd_follows(queue text, lock_of text, task jsonb)": (
        "boolean",
        f"""
BEGIN
    RETURN EXISTS (SELECT 1 {_HELD} AND (queue IS NULL OR j.queue_name = queue AND j.lock = lock_of)
        AND j.args - {_COUNTS} = task - {_COUNTS});
END
""",
    ),
}
"""What the rules of the rows ask, by name with parameters: what is returned, and the body. In the caller's own
rights."""

_POLICIES: Final = """
    SELECT policyname::text, array_to_string(roles, ' ')::text, permissive, cmd, qual, with_check
    FROM pg_policies WHERE schemaname = 'public' AND tablename = 'submissions' ORDER BY 1
"""
SEEN: Final = "submissions"
POLICIES: Final = {
    "acceptd_intake": ("ALL", "true", "true"),
    "acceptd_promoter": ("ALL", "true", "true"),
    "acceptd_reviewer": ("SELECT", "true", None),
    # What it examines just now, and no other team's reports.
    "acceptd_worker": ("SELECT", "((id)::text = ANY (( SELECT acceptd_held() AS acceptd_held)::text[]))", None),
}
"""Which submissions a role sees: command, condition, and that of what is written, in the words of pg_policies."""

BODY: Final = """
DECLARE
    named pg_catalog.text;
    owner pg_catalog.text;
BEGIN
    IF TG_OP = 'DELETE' THEN  -- of a node's row: it is forgotten
        DELETE FROM public.fleet_logins WHERE node = OLD.name;
        RETURN OLD;
    END IF;
    IF pg_catalog.has_table_privilege(TG_RELID, 'DELETE') THEN
        RETURN NEW;
    END IF;
    IF TG_TABLE_NAME = 'fleet_nodes' THEN
        named := NEW.name;
        IF NEW.role NOT IN ('intake', 'worker') OR TG_OP = 'UPDATE' AND OLD.role NOT IN ('intake', 'worker') THEN
            RAISE EXCEPTION 'this login is of no node with the role %', left(NEW.role, 16)
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        IF TG_OP = 'UPDATE' AND OLD.name IS DISTINCT FROM NEW.name THEN
            RAISE EXCEPTION 'a node keeps its name' USING ERRCODE = 'insufficient_privilege';
        END IF;
    ELSIF TG_TABLE_NAME = 'deaths' THEN
        SELECT node INTO named FROM public.submissions WHERE id = NEW.submission;
        IF TG_OP = 'UPDATE' AND OLD.submission IS DISTINCT FROM NEW.submission THEN
            RAISE EXCEPTION 'a death stays with its submission' USING ERRCODE = 'insufficient_privilege';
        END IF;
    ELSE
        IF TG_TABLE_NAME = 'fleet_evidence' THEN
            IF to_regprocedure('public.acceptd_holds(text, bigint, text)') IS NULL THEN
                RAISE EXCEPTION 'there is no task queue, so nothing is examined'
                    USING ERRCODE = 'insufficient_privilege';
            ELSIF NOT public.acceptd_holds(NEW.submission, NEW.round, NEW.profile) THEN
                RAISE EXCEPTION 'evidence comes from the worker that holds the examination'
                    USING ERRCODE = 'insufficient_privilege';
            END IF;
        END IF;
        named := NEW.node;
        IF TG_OP = 'UPDATE' AND OLD.node IS DISTINCT FROM NEW.node THEN
            RAISE EXCEPTION 'a row stays with its node' USING ERRCODE = 'insufficient_privilege';
        END IF;
    END IF;
    IF named IS NULL THEN
        RAISE EXCEPTION 'this login writes only what bears the name of its node'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT login INTO owner FROM public.fleet_logins WHERE node = named;
    IF owner IS NULL THEN
        INSERT INTO public.fleet_logins (node) VALUES (named) ON CONFLICT DO NOTHING;
        SELECT login INTO owner FROM public.fleet_logins WHERE node = named;
    END IF;
    IF owner IS DISTINCT FROM session_user THEN
        RAISE EXCEPTION 'the name of the node % is another login''s (acceptd fleet forget makes it free)',
            left(named, 64) USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
"""
TRIGGERS: Final = {
    f"{table}_logins": f"BEFORE {when} ON public.{table} FOR EACH ROW EXECUTE FUNCTION {FUNCTION}()"
    for table, when in (
        ("deaths", "INSERT OR UPDATE"),
        ("fleet_evidence", "INSERT OR UPDATE"),
        ("fleet_nodes", "INSERT OR DELETE OR UPDATE"),
        ("submissions", "INSERT OR UPDATE"),
    )
}
"""Definitions by name, in the words of ``pg_get_triggerdef``."""


def functions() -> Iterator[str]:
    """Yield what makes the functions, or makes them anew; the tables that they ask need not be there yet."""
    for name, (returns, body) in FUNCTIONS.items():
        yield (
            f"CREATE OR REPLACE FUNCTION public.{name} RETURNS {returns} LANGUAGE plpgsql STABLE "
            f"SET search_path = pg_catalog, public AS $acceptd${body}$acceptd$"
        )


def give(connection: psycopg.Connection[Any]) -> None:
    """Make the table, functions, rules and triggers, or anew where they are others. As the owner of the tables."""
    connection.execute(_MADE)
    if _functions(connection):
        for statement in functions():
            connection.execute(statement)
    if shown(connection.execute):
        named = "SELECT policyname FROM pg_policies WHERE schemaname = 'public' AND tablename = %s"
        for (policy,) in connection.execute(named, (SEEN,)).fetchall():
            connection.execute(sql.SQL("DROP POLICY {} ON public.submissions").format(sql.Identifier(policy)))
        for role, (command, using, check) in POLICIES.items():
            more = f" WITH CHECK ({check})" if check else ""
            connection.execute(
                f"CREATE POLICY {role} ON public.{SEEN} FOR {command} TO {role} USING ({using}){more}"
            )
        connection.execute(f"ALTER TABLE public.{SEEN} ENABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY")
    for role, wanted in RIGHTS.items():
        if set(wanted) != _rights(connection, role):
            connection.execute(f"REVOKE ALL ON public.{TABLE} FROM {role}, PUBLIC")
            connection.execute(f"GRANT {', '.join(wanted)} ON public.{TABLE} TO {role}")
    if not _triggers(connection):
        return  # whoever works meanwhile waits for no lock of ours
    connection.execute(
        f"CREATE OR REPLACE FUNCTION public.{FUNCTION}() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = pg_catalog, public AS $acceptd${BODY}$acceptd$"
    )
    for name, definition in TRIGGERS.items():
        connection.execute(f"DROP TRIGGER IF EXISTS {name} ON public.{name.removesuffix('_logins')}")
        connection.execute(f"CREATE TRIGGER {name} {definition}")


def differences(connection: psycopg.Connection[Any]) -> list[str]:
    """Say how table, rights and triggers differ from ours, in words; empty where they do not."""
    query = """
        SELECT c.relkind::text, c.relrowsecurity OR c.relhasrules OR c.relhastriggers OR c.relhassubclass,
            c.relowner = (SELECT relowner FROM pg_class WHERE oid = 'public.meta'::regclass),
            (SELECT string_agg(concat_ws(' ', a.attname, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)), ', '
                ORDER BY a.attnum) FROM pg_attribute a
                LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
            (SELECT pg_get_constraintdef(o.oid) FROM pg_constraint o WHERE o.conrelid = c.oid AND o.contype = 'p')
        FROM pg_class c WHERE c.oid = to_regclass(%s)
    """
    row = connection.execute(query, (f"public.{TABLE}",)).fetchone()
    if row is None:
        return [f"{TABLE}: there is no such table: nothing says which login a node's name is of"]
    found = []
    if row != ("r", False, True, "node t, login t SESSION_USER", "PRIMARY KEY (node)"):
        found.append(f"{TABLE}: the table is not acceptd's")
    for role, wanted in RIGHTS.items():
        there, due = _rights(connection, role), set(wanted)
        found += [f"{role}: may {one} {TABLE}, which is not its right" for one in sorted(there - due)]
        found += [f"{role}: may not {one} {TABLE}" for one in sorted(due - there)]
    return found + shown(connection.execute) + _functions(connection) + _triggers(connection)


def shown(ask: Callable[[str], Iterable[tuple[Any, ...]]]) -> list[str]:
    """Say how the rules of who sees which submissions differ from ours, in words; empty where they do not.

    ``ask`` runs a query.
    """
    query = "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = 'public.submissions'::regclass"
    on = next(iter(ask(query)), None)
    rules = {row[0]: row[1:] for row in ask(_POLICIES)}
    due = {role: (role, "PERMISSIVE", *rest) for role, rest in POLICIES.items()}
    if on == (True, False) and rules == due:
        return []
    return [f"{SEEN}: the rules of who sees which rows are not acceptd's"]


def _functions(connection: psycopg.Connection[Any]) -> list[str]:
    query = """
        SELECT p.proname::text, p.prosrc, l.lanname::text, array_to_string(p.proconfig, ';'), p.prosecdef
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = 'public'::regnamespace AND p.proname = ANY(%s)
    """
    due = {name.partition("(")[0]: body for name, (_, body) in FUNCTIONS.items()}
    there = {row[0]: row[1:] for row in connection.execute(query, (list(due),))}
    return [
        f"{name}: the function is not acceptd's"
        for name, body in due.items()
        if there.get(name) != (body, "plpgsql", "search_path=pg_catalog, public", False)
    ]


def _rights(connection: psycopg.Connection[Any], role: str) -> set[str]:
    """Return what a role may do with the table, on some of its columns alone in the words of GRANT."""
    query = """
        SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
        WHERE has_table_privilege(%(role)s, %(table)s, p)
        UNION ALL SELECT p || ' (' || attname || ')'
        FROM unnest(ARRAY['INSERT', 'UPDATE', 'REFERENCES']) p, pg_attribute
        WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped
        AND has_column_privilege(%(role)s, attrelid, attnum, p) AND NOT has_table_privilege(%(role)s, %(table)s, p)
    """
    if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
        return set()
    return {str(one) for (one,) in connection.execute(query, {"role": role, "table": f"public.{TABLE}"})}


def _triggers(connection: psycopg.Connection[Any]) -> list[str]:
    query = """
        SELECT t.tgname::text, pg_get_triggerdef(t.oid), t.tgenabled::text, p.prosrc
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgname = ANY(%s)
        AND t.tgrelid = to_regclass('public.' || left(t.tgname, length(t.tgname) - length('_logins')))
    """
    there = {row[0]: row[1:] for row in connection.execute(query, (list(TRIGGERS),))}
    found = []
    for name, definition in TRIGGERS.items():
        table = name.removesuffix("_logins")
        if name not in there:
            found.append(f"{table}: no trigger {name} says which login writes under a node's name")
        elif there[name] != (f"CREATE TRIGGER {name} {definition}", "O", BODY):
            found.append(f"{table}: the trigger {name} is not acceptd's")
    return found
