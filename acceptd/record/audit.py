"""The audit behind ``acceptd ledger verify``: recompute everything, trust nothing, say what differs and where.

It reads and never mends. Memory stays constant in the number of entries: they are gone through in parts, on
every core where there are many; releases are made anew in SQLite's temporary file, and the differences
reported are capped. The parts are in :mod:`acceptd.record.auditing`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from acceptd.errors import AcceptdError, LedgerError, LedgerStorageError, StateError
from acceptd.record.auditing import source
from acceptd.record.auditing.keys import check_keyring, key_history
from acceptd.record.auditing.parts import LEAVES, ROWS, Part, Work
from acceptd.record.auditing.pool import Pool, workers_for
from acceptd.record.auditing.projected import Beside
from acceptd.record.auditing.report import Audit, Difference, Kept, Report
from acceptd.record.auditing.rules import BeforeUse
from acceptd.record.auditing.tree import Tree, outside_claims, own_claims
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import Keyring, load_keyring
from acceptd.record.log import Ledger
from acceptd.record.place import Place, require_driver
from acceptd.record.sqlite import check_file, translated

__all__ = ["Audit", "Difference", "Kept", "examine", "verify"]


def verify(state: Path, keyring: Keyring | None = None) -> list[Difference]:
    """Return every difference between the ledger of ``state`` and what it must be; empty when all is well.

    As :func:`examine`, without the head.
    """
    return list(examine(state, keyring).differences)


def examine(
    state: Path,
    keyring: Keyring | None = None,
    kept: Sequence[Kept] = (),
    *,
    workers: int | None = None,
    told: Callable[[str], None] = lambda _text: None,
) -> Audit:
    """Audit the ledger of ``state``, however damaged it is, against the checkpoints ``kept`` outside it.

    ``keyring`` is the auditor's own copy, of today's keys or of the first: rotations in the log are followed.
    Without it the state directory's is used, which says less.
    ``workers`` processes share the work (default: as many as there are cores, where there is much to do);
    ``told`` hears how far it is. Raises StateError only where there is no ledger to look at, and
    LedgerStorageError where the server that has it does not answer.
    """
    report = Report()
    place = Place.of(state)
    if not place.url:
        check_file(place.path)
        return _examine(place, keyring, kept, report, workers, told)
    require_driver()
    from acceptd.record.postgres.snapshot import audited

    try:
        with audited(place, report, told) as file:
            return _examine(file, keyring, kept, report, workers, told)
    except LedgerStorageError:
        raise  # which says nothing about what is in it
    except LedgerError as error:
        report.add("database", str(place), error)
        return report.audit()


def _examine(
    place: Place,
    keyring: Keyring | None,
    kept: Sequence[Kept],
    report: Report,
    workers: int | None,
    told: Callable[[str], None],
) -> Audit:
    """Audit the file of ``place``: the record itself, or what was read of it in one snapshot."""
    state, path = place.state, place.path
    own = keyring is None
    if keyring is None:
        try:
            keyring = load_keyring(state)
        except AcceptdError as error:
            report.add("keys", "keyring.json", error)
    try:
        with Ledger.open(state, create=False, damaged=True, place=place) as ledger:
            origin = ledger.origin
            keys = key_history(ledger, keyring, report) if keyring is not None else None
            if keys is not None:
                check_keyring(state, ledger, keys, own, report)
        claims = own_claims(state, origin, keys, report) + outside_claims(kept, origin, keys, report)
        with translated(path), contextlib.closing(source.connect(path)) as raw:
            work = Work(raw, path, origin, keys)
            with Pool(work, workers_for(path) if workers is None else workers) as pool:
                _all(work, pool, Tree(claims, report), report, told)
    except (LedgerError, StateError) as error:
        report.add("database", FILE_NAME, error)
    return report.audit()


def _all(work: Work, pool: Pool, tree: Tree, report: Report, told: Callable[[str], None]) -> None:
    beside, rules = Beside(work.raw, report), BeforeUse(report)
    structure = pool.begin(Part("structure"))
    entries = source.count(work.raw, "SELECT count(*) FROM entries")
    full = entries - entries % LEAVES  # the rest is looked at in the last snapshot
    for part, came in pool.each(tree.part(first, first + LEAVES) for first in range(0, full, LEAVES)):
        told(f"entry {part.end:,} of {entries:,}")
        report.merge(came)
        tree.take(work.raw, part, came)
        beside.take(came)
        rules.take(came)
    with source.snapshot(work.raw):
        # What was appended meanwhile: the rest of the log, and what its projections come to.
        entries = source.count(work.raw, "SELECT count(*) FROM entries")
        for first in range(full, entries, LEAVES):
            part = tree.part(first, min(first + LEAVES, entries))
            came = work.within(part, report)
            tree.take(work.raw, part, came)
            beside.take(came)
            rules.take(came)
        report.head = tree.finish(work.raw)
        beside.finish()
    report.merge(structure.result())
    for kind, table in (("queue", "submissions"), ("evidence", "evidence")):
        rows = source.count(work.raw, f"SELECT count(*) FROM {table}")  # noqa: S608
        for number, (_, came) in enumerate(pool.each(_parts(work, kind, table)), 1):
            told(f"{kind}: row {min(number * ROWS, rows):,} of {rows:,}")
            report.merge(came)


def _parts(work: Work, kind: str, table: str) -> Iterator[Part]:
    """Parts of ROWS rows, however far apart their row ids lie."""
    query = f"SELECT rowid FROM {table} WHERE rowid >= ? ORDER BY rowid LIMIT 1 OFFSET ?"  # noqa: S608
    found = work.raw.execute(query, (-_BEYOND, 0)).fetchone()
    while found is not None:
        first, found = int(found[0]), work.raw.execute(query, (int(found[0]), ROWS)).fetchone()
        yield Part(kind, first, int(found[0]) if found is not None else _BEYOND)


_BEYOND: Final = 2**63
"""The least number that is no row id; its negative is the least that is one, and any may be put there."""
