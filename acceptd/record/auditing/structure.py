"""SQLite's own structure, and our triggers: an edit in place has to remove them first.

Indexes are compared with their tables, row by row: readers find entries by type and by submission through them,
so that a row taken out of one hides a revocation or a rejection from everybody but the audit.
"""

from __future__ import annotations

import sqlite3

from acceptd.record import database, tables
from acceptd.record.auditing.report import Report


def check_structure(raw: sqlite3.Connection, report: Report) -> None:
    """Report damage that SQLite sees, views, and triggers that are missing or not acceptd's."""
    for (line,) in raw.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            report.add("database", database.FILE_NAME, line)
    for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name LIMIT 20"):
        report.add("database", f"view {name}", "is not acceptd's: what it shows may change with each look")
    for (place,) in raw.execute("SELECT value FROM meta WHERE key = ? LIMIT 1", (database.MOVED,)):
        report.add(
            "database", "meta", f"says that this ledger was moved to {place!r:.200}: it is not what goes on"
        )
    stored = {str(name): str(sql) for name, sql in raw.execute(_TRIGGERS)}
    due = {trigger.split(maxsplit=3)[2]: trigger for trigger in tables.TRIGGERS}
    for name in sorted(stored.keys() | due.keys()):
        if name not in stored:
            report.add("database", f"trigger {name}", "is missing: the table can be edited in place")
        elif stored[name] != due.get(name):
            report.add("database", f"trigger {name}", "is not acceptd's")


_TRIGGERS = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
