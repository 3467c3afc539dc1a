"""SQLite's own structure, and our triggers: an edit in place has to remove them first."""

from __future__ import annotations

from acceptd.record import database, tables
from acceptd.record.auditing.report import Report
from acceptd.record.log import Ledger


def check_structure(ledger: Ledger, report: Report) -> None:
    """Report damage that SQLite sees, and triggers that are missing or not acceptd's."""
    with ledger.reading() as connection:
        for (line,) in connection.exec_driver_sql("PRAGMA quick_check(20)"):
            if line != "ok":
                report.add("database", database.FILE_NAME, line)
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all()
    stored = {str(name): str(sql) for name, sql in rows}
    due = {trigger.split(maxsplit=3)[2]: trigger for trigger in tables.TRIGGERS}
    for name in sorted(stored.keys() | due.keys()):
        if name not in stored:
            report.add("database", f"trigger {name}", "is missing: the table can be edited in place")
        elif stored[name] != due.get(name):
            report.add("database", f"trigger {name}", "is not acceptd's")
