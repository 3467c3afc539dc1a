"""The audit behind ``acceptd ledger verify``: recompute everything, trust nothing, say what differs and where.

It reads and never mends. Memory stays constant in the number of entries: they are read by pages,
the projections are rebuilt in SQLite's temporary file, and the differences reported are capped. The parts
are in :mod:`acceptd.record.auditing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from acceptd.errors import AcceptdError, LedgerError, StateError
from acceptd.record import database
from acceptd.record.auditing.kept import check_evidence, check_queue
from acceptd.record.auditing.projected import check_projections
from acceptd.record.auditing.report import Audit, Difference, Kept, Report
from acceptd.record.auditing.structure import check_structure
from acceptd.record.auditing.tree import check_entries, outside_claims, own_claims
from acceptd.record.keys import Keyring, load_keyring
from acceptd.record.log import Ledger

__all__ = ["Audit", "Difference", "Kept", "examine", "verify"]


def verify(state: Path, keyring: Keyring | None = None) -> list[Difference]:
    """Return every difference between the ledger of ``state`` and what it must be; empty when all is well.

    As :func:`examine`, without the head.
    """
    return list(examine(state, keyring).differences)


def examine(state: Path, keyring: Keyring | None = None, kept: Sequence[Kept] = ()) -> Audit:
    """Audit the ledger of ``state``, however damaged it is, against the checkpoints ``kept`` outside it.

    ``keyring`` is the auditor's own copy; without it the state directory's is used, which says less.
    Raises StateError only where there is no ledger to look at.
    """
    report = Report()
    database.check_file(state / database.FILE_NAME)
    if keyring is None:
        try:
            keyring = load_keyring(state)
        except AcceptdError as error:
            report.add("keys", "keyring.json", error)
    try:
        ledger = Ledger.open(state, create=False, damaged=True)
    except (LedgerError, StateError) as error:
        report.add("database", database.FILE_NAME, error)
        return report.audit()
    with ledger:
        claims = own_claims(state, ledger, keyring, report) + outside_claims(kept, ledger, keyring, report)
        for check in (
            partial(check_structure, ledger, report),
            partial(check_entries, claims, ledger, keyring, report),
            partial(check_projections, ledger, report),
            partial(check_queue, ledger, report),
            partial(check_evidence, ledger, report),
        ):
            try:
                check()
            except LedgerError as error:
                report.add("database", database.FILE_NAME, error)
    return report.audit()
