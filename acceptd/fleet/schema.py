"""Procrastinate's tables in the fleet's database: made, upgraded by its own migrations, and who may do what there.

Procrastinate keeps no number of its schema: ``acceptd_tasks_schema`` lists which of its migrations the database
has. What is added to its tables is ours and named so: indexes that keep each call's cost apart from what waits,
bounds of a row's size, and a trigger that wakes workers where Procrastinate lets them poll.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from acceptd.errors import StateError
from acceptd.fleet.connection import plain_url, translated
from acceptd.record.postgres.logins import functions

ROLES: Final = ("acceptd_intake", "acceptd_worker", "acceptd_promoter")
_LOCK: Final = 0x61636365_70746432
"""Of the advisory lock under which the schema is changed."""

_LIVE: Final = "status IN ('todo', 'doing')"
_OURS: Final = (
    (
        f"CREATE INDEX IF NOT EXISTS acceptd_jobs_live ON procrastinate_jobs (queue_name, status, priority, id) "
        f"WHERE {_LIVE}"
    ),
    (
        "CREATE INDEX IF NOT EXISTS acceptd_jobs_team ON procrastinate_jobs "
        f"(queue_name, (args->>'team'), priority) WHERE {_LIVE}"
    ),
    (
        f"CREATE INDEX IF NOT EXISTS acceptd_jobs_submission ON procrastinate_jobs ((args->>'submission')) "
        f"WHERE {_LIVE}"
    ),
    # What fetching asks for each candidate: whether its lock is held, or waited for by an earlier one.
    f"CREATE INDEX IF NOT EXISTS acceptd_jobs_lock ON procrastinate_jobs (lock, priority DESC, id) WHERE {_LIVE}",
    # Rows are many and short-lived: vacuum comes after so many, not after a fifth of a table that was once large.
    (
        "ALTER TABLE procrastinate_jobs SET (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, "
        "autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=2000)"
    ),
    "ALTER TABLE procrastinate_events SET (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000)",
    "ALTER TABLE procrastinate_workers SET (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=200)",
    # A row that a hostile node wrote is small before anybody reads it.
    "ALTER TABLE procrastinate_jobs DROP CONSTRAINT IF EXISTS acceptd_small",
    (
        "ALTER TABLE procrastinate_jobs ADD CONSTRAINT acceptd_small CHECK (octet_length(args::text) <= 4096 "
        "AND octet_length(coalesce(lock, '')) <= 512 AND octet_length(coalesce(queueing_lock, '')) <= 1024)"
    ),
    # Procrastinate notifies of new rows only: who waits for a lock or a retry would find it at the next poll.
    """
    CREATE OR REPLACE FUNCTION acceptd_wake() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public AS $$
    BEGIN
        PERFORM pg_notify('procrastinate_queue_v1#' || OLD.queue_name,
                          json_build_object('type', 'job_inserted', 'job_id', OLD.id)::text);
        RETURN NULL;
    END; $$
    """,
    "DROP TRIGGER IF EXISTS acceptd_wake_update ON procrastinate_jobs",
    (
        "CREATE TRIGGER acceptd_wake_update AFTER UPDATE OF status ON procrastinate_jobs FOR EACH ROW "
        "WHEN (OLD.status = 'doing' AND NEW.status <> 'doing' AND (OLD.lock IS NOT NULL OR NEW.status = 'todo')) "
        "EXECUTE FUNCTION acceptd_wake()"
    ),
    "DROP TRIGGER IF EXISTS acceptd_wake_delete ON procrastinate_jobs",
    (
        "CREATE TRIGGER acceptd_wake_delete AFTER DELETE ON procrastinate_jobs FOR EACH ROW "
        "WHEN (OLD.status = 'doing' AND OLD.lock IS NOT NULL) EXECUTE FUNCTION acceptd_wake()"
    ),
)

_TURNS: Final = (
    "CREATE INDEX IF NOT EXISTS fleet_submissions_turns ON submissions (team, received_at, id) "
    "WHERE state = 'sealed'"
)

_OWNED: Final = (
    # A worker of the task queue is the login's that registered it; one from before this column is nobody's until
    # its node begins anew. Who could end another's would end what that one holds.
    "ALTER TABLE procrastinate_workers ADD COLUMN IF NOT EXISTS acceptd_login text",
    "ALTER TABLE procrastinate_workers ALTER COLUMN acceptd_login SET DEFAULT SESSION_USER",
    "ALTER TABLE procrastinate_workers ENABLE ROW LEVEL SECURITY",
)

_READER: Final = "acceptd_reviewer"
_SEES: Final = {
    _READER: "true",
    "acceptd_intake": "true",
    "acceptd_worker": "task_name IN ('acceptd.examine', 'acceptd.decide', 'acceptd.given-up')",
    "acceptd_promoter": "true",
}
_SOON: Final = "status = 'todo' AND (scheduled_at IS NULL OR scheduled_at < now() + interval '10 minutes')"
"""What is added is to be done: a row that nobody ever takes would keep the true task out."""
_ADDS: Final = {
    # A task is given up by whoever takes it, and by the promoter.
    "acceptd_intake": f"""{_SOON} AND acceptd_own(args->>'submission')
        AND (task_name = 'acceptd.order' AND queue_name = 'promoter'
        OR task_name = 'acceptd.finish' AND queue_name = ANY ((SELECT acceptd_own_queues())::text[])
        OR task_name = 'acceptd.given-up' AND queue_name = 'promoter' AND args->>'what' = 'finish')""",
    "acceptd_worker": f"""{_SOON} AND (task_name = 'acceptd.examine' AND acceptd_follows(queue_name, lock, args)
        OR task_name = 'acceptd.decide' AND queue_name = 'promoter' AND args->>'submission' = ANY (acceptd_held())
        OR task_name = 'acceptd.given-up' AND queue_name = 'promoter' AND args->>'what' = 'examine'
        AND acceptd_follows(NULL, NULL, args))""",
    "acceptd_promoter": "true",
}
_FINISHES: Final = "task_name = 'acceptd.finish' AND queue_name = ANY ((SELECT acceptd_own_queues())::text[])"
_HOLDS: Final = "task_name = 'acceptd.examine' AND worker_id = ANY ((SELECT acceptd_own_workers())::bigint[])"
_TAKES: Final = {
    "acceptd_intake": (_FINISHES, _FINISHES),
    # What waits anybody takes; what somebody holds is his.
    "acceptd_worker": (f"task_name = 'acceptd.examine' AND status = 'todo' OR {_HOLDS}", _HOLDS),
    "acceptd_promoter": ("true", "true"),
}
"""Which rows a role takes, and what it may make of them; it deletes no others than those."""
_CANCELS: Final = "task_name IN ('acceptd.order', 'acceptd.examine') AND acceptd_own(args->>'submission')"
_REGISTERED: Final = {
    "acceptd_intake": "acceptd_login = session_user",
    "acceptd_worker": "acceptd_login = session_user",
    "acceptd_promoter": "true",
}
"""Which workers of the task queue a role registers; it keeps and ends those, and what is nobody's."""


def apply_schema(url: str, *, finish: bool = True) -> list[str]:
    """Make the queue's tables, or bring older ones up to this version of Procrastinate; return what was done.

    Idempotent, and safe when two do it at once. ``finish=False`` leaves out the migrations that its documentation
    calls ``post``: those wait until no node of the earlier version runs any more.

    Raises:
        StateError: the database cannot be reached or refuses it, or it is of a newer version.
    """
    import psycopg

    with translated(), psycopg.connect(plain_url(url)) as connection:
        if _somebody_elses(connection):
            return []
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        done = _migrate(connection, finish=finish)
        _ours(connection)
        connection.commit()
        _turns(connection)
        return done


def _somebody_elses(connection: Any) -> bool:
    """Say whether the tables belong to a role that this one is none of; then they must be whole already."""
    query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('procrastinate_jobs')"
    row = connection.execute(query).fetchone()
    if row is None or row[0]:
        return False
    known = {row[0] for row in connection.execute("SELECT migration FROM acceptd_tasks_schema")}
    if due := [name for name in _migrations() if name not in known and "_post_" not in name]:
        raise StateError(
            f"the queue's tables lack {due[-1]}, and belong to another role of the database",
            remedy="as their owner: acceptd fleet init",
        )
    return True


def waiting(url: str) -> list[str]:
    """Return the migrations that :func:`apply_schema` left for its ``finish``; raise as it does."""
    import psycopg

    with translated(), psycopg.connect(plain_url(url)) as connection:
        known = {row[0] for row in connection.execute("SELECT migration FROM acceptd_tasks_schema")}
    return [name for name in _migrations() if name not in known]


def _migrations() -> list[str]:
    from procrastinate.schema import SchemaManager

    return sorted(path.name for path in Path(SchemaManager.get_migrations_path()).glob("*.sql"))


def _migrate(connection: Any, *, finish: bool) -> list[str]:
    from procrastinate.schema import SchemaManager

    here = _migrations()
    connection.execute("CREATE TABLE IF NOT EXISTS acceptd_tasks_schema (migration text PRIMARY KEY)")
    known = {row[0] for row in connection.execute("SELECT migration FROM acceptd_tasks_schema")}
    present = connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone()[0] is not None
    if present and not known:
        raise StateError(
            "the database has tables of Procrastinate that acceptd did not make",
            remedy="give acceptd a database of its own",
        )
    if newer := sorted(known - set(here)):
        raise StateError(
            f"the queue's tables are newer than this acceptd: {newer[-1]}", remedy="upgrade this node"
        )
    due = [name for name in here if name not in known and (finish or not present or "_post_" not in name)]
    if not present:
        connection.execute(SchemaManager.get_schema())
    else:
        for name in due:
            connection.execute((Path(SchemaManager.get_migrations_path()) / name).read_bytes())
    for name in due:
        connection.execute("INSERT INTO acceptd_tasks_schema VALUES (%s)", (name,))
    return due


def _ours(connection: Any) -> None:
    """Add what is ours and give each role that exists its rights, where that is not so already.

    Not again and again: it locks the queue, and `acceptd fleet init` is run beside nodes at work.
    """
    found = connection.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)", ([*ROLES, _READER],))
    statements = [*_OURS, *functions(), *_OWNED, *_rights(sorted(str(row[0]) for row in found))]
    stamp = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    there = connection.execute("SELECT obj_description('procrastinate_jobs'::regclass, 'pg_class')").fetchone()
    if there[0] == stamp:
        return
    policies = "SELECT policyname, tablename FROM pg_policies WHERE tablename = ANY(%s)"
    for policy, table in connection.execute(
        policies, (["procrastinate_jobs", "procrastinate_workers"],)
    ).fetchall():
        connection.execute(f'DROP POLICY "{policy}" ON {table}')
    for statement in statements:
        connection.execute(statement)
    connection.execute(f"COMMENT ON TABLE procrastinate_jobs IS '{stamp}'")


def _rights(roles: list[str]) -> Iterator[str]:
    """Yield what gives each role what it needs. The owner of the tables stands above the rows' rules."""
    yield "ALTER TABLE procrastinate_jobs ENABLE ROW LEVEL SECURITY"
    for role in roles:
        yield (
            "REVOKE ALL ON procrastinate_jobs, procrastinate_events, procrastinate_workers, "
            f"procrastinate_periodic_defers, acceptd_tasks_schema FROM {role}"
        )
        on = f"CREATE POLICY {role}_%s ON procrastinate_jobs FOR %s TO {role}"
        yield on % ("sees", "SELECT") + f" USING ({_SEES[role]})"
        reads = "procrastinate_jobs, procrastinate_events, procrastinate_workers, acceptd_tasks_schema"
        yield f"GRANT SELECT ON {reads} TO {role}"
        workers = f"CREATE POLICY {role}_%s ON procrastinate_workers FOR %s TO {role}"
        yield workers % ("sees", "SELECT") + " USING (true)"
        if role == _READER:
            continue
        kept = f"{_REGISTERED[role]} OR acceptd_login IS NULL"
        yield workers % ("begins", "INSERT") + f" WITH CHECK ({_REGISTERED[role]})"
        yield workers % ("beats", "UPDATE") + f" USING ({kept}) WITH CHECK ({kept})"
        yield workers % ("ends", "DELETE") + f" USING ({kept})"
        yield on % ("adds", "INSERT") + f" WITH CHECK ({_ADDS[role]})"
        yield on % ("takes", "UPDATE") + f" USING ({_TAKES[role][0]}) WITH CHECK ({_TAKES[role][1]})"
        yield on % ("ends", "DELETE") + f" USING ({_TAKES[role][1]})"
        if role == "acceptd_intake":
            yield on % ("cancels", "UPDATE") + f" USING ({_CANCELS}) WITH CHECK ({_CANCELS} AND abort_requested)"
        for grant in (
            (
                "INSERT (queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at), DELETE, "
                "UPDATE (status, worker_id, abort_requested, attempts) ON procrastinate_jobs"
            ),
            "SELECT, INSERT ON procrastinate_events",
            "INSERT (last_heartbeat), UPDATE (last_heartbeat), DELETE ON procrastinate_workers",
            "USAGE ON SEQUENCE procrastinate_jobs_id_seq, procrastinate_events_id_seq",
            "SELECT, UPDATE (job_id) ON procrastinate_periodic_defers",
        ):
            yield f"GRANT {grant} TO {role}"


def _turns(connection: Any) -> None:
    """Make the index that ``refill`` walks along, on the record's own table; not while the queue is locked."""
    ask = "SELECT to_regclass('submissions') IS NOT NULL AND to_regclass('fleet_submissions_turns') IS NULL"
    if connection.execute(ask).fetchone()[0]:
        connection.execute(_TURNS)
