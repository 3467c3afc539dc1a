"""What a login that only brings submissions in may do with their rows: a trigger, given together with the rights.

A right is to all of a table's rows; the trigger says what of one may change, and which state may follow which.
A version before it goes on as it was: an intake that does its work is refused nothing. Who may remove submissions
(the promoter, the owner of the tables) moves them as the work needs; everybody else is an intake, by any name.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

FUNCTION: Final = "acceptd_moves"
TRIGGER: Final = "submissions_moves"
PAST, AHEAD = "1 hour", "10 minutes"
"""How far from the database's clock a submission may say that it came: an intake's clock need not be exact."""
_STAMP: Final = 'YYYY-MM-DD"T"HH24:MI:SS"Z"'
KEPT: Final = ("id", "team", "name", "path", "kind", "uid", "received_at", "model", "node")
"""Columns of a submission that no intake changes once it is there."""
_ROWS: Final = [f"({', '.join(f'{row}.{name}' for name in KEPT)})" for row in ("NEW", "OLD")]

MOVES: Final = (
    ("claimed", "claimed"),
    ("claimed", "sealed"),
    ("sealed", "sealed"),
    ("promoted", "promoted"),
    ("promoted", "done"),
)
"""Which state an intake has follow which: it works a drop, hands it over or takes it back, and ends it."""

BODY: Final = f"""
DECLARE
    moved pg_catalog.text;
BEGIN
    IF pg_catalog.has_table_privilege('public.submissions', 'DELETE') THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'claimed' OR num_nonnulls(NEW.working, NEW.bundle_digest, NEW.model) > 0 THEN
            RAISE EXCEPTION 'a submission begins claimed, and nothing is known of it'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        IF NEW.received_at NOT BETWEEN
            to_char((clock_timestamp() - interval '{PAST}') AT TIME ZONE 'UTC', '{_STAMP}') AND
            to_char((clock_timestamp() + interval '{AHEAD}') AT TIME ZONE 'UTC', '{_STAMP}') THEN
            RAISE EXCEPTION 'by the clock of the database a submission comes now, not at %: see to this clock',
                left(NEW.received_at, 40) USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN NEW;
    END IF;
    IF {" IS DISTINCT FROM ".join(_ROWS)} THEN
        RAISE EXCEPTION 'what a submission is does not change' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NEW.state = OLD.state AND NEW.working IS NULL
        AND (NEW.data, NEW.bundle_digest) IS NOT DISTINCT FROM (OLD.data, OLD.bundle_digest) THEN
        RETURN NEW;  -- a mark is taken away
    END IF;
    moved := OLD.state || ' ' || NEW.state;
    IF moved NOT IN ({", ".join(f"'{one} {other}'" for one, other in MOVES)}) THEN
        RAISE EXCEPTION 'no intake takes a submission from % to %', OLD.state, NEW.state
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
"""
DEFINITION: Final = f"BEFORE INSERT OR UPDATE ON public.submissions FOR EACH ROW EXECUTE FUNCTION {FUNCTION}()"
"""In the words of ``pg_get_triggerdef``."""


def give(connection: psycopg.Connection[Any]) -> None:
    """Make the trigger, or make it anew where it is another one. As the owner of the tables, in a transaction."""
    if not differences(connection):
        return  # whoever works meanwhile waits for no lock of ours
    connection.execute(
        f"CREATE OR REPLACE FUNCTION public.{FUNCTION}() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = pg_catalog, public AS $acceptd${BODY}$acceptd$"
    )
    connection.execute(f"DROP TRIGGER IF EXISTS {TRIGGER} ON public.submissions")
    connection.execute(f"CREATE TRIGGER {TRIGGER} {DEFINITION}")


def differences(connection: psycopg.Connection[Any]) -> list[str]:
    """Say how the trigger differs from ours, in words; empty where it does not."""
    query = """
        SELECT pg_get_triggerdef(t.oid), t.tgenabled::text, p.prosrc
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = 'public.submissions'::regclass AND t.tgname = %s
    """
    row = connection.execute(query, (TRIGGER,)).fetchone()
    if row is None:
        return [f"submissions: no trigger {TRIGGER} says which state may follow which by whom"]
    if row != (f"CREATE TRIGGER {TRIGGER} {DEFINITION}", "O", BODY):
        return [f"submissions: the trigger {TRIGGER} is not acceptd's"]
    return []
