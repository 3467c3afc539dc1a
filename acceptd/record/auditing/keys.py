"""Which key counted for which entry: the log's rotations, followed from the auditor's keyring."""

from __future__ import annotations

from pathlib import Path

from acceptd.errors import LedgerError
from acceptd.record.auditing.report import Report
from acceptd.record.keys import ROLES, Keyring, load_keyring
from acceptd.record.keystore import ROTATIONS, lies_there, pending, published, rotations
from acceptd.record.log import Ledger
from acceptd.record.succession import History


def key_history(ledger: Ledger, keyring: Keyring, report: Report) -> History:
    """Return the history that ``keyring`` vouches for; report each rotation that does not hold."""
    try:
        found = rotations(ledger)
    except LedgerError as error:
        report.add("keys", "rotations", f"cannot be read: {error}")
        found = []
    history = History.of(keyring, found, ledger.origin)
    for seq, problem in history.problems:
        report.add("keys", f"entry {seq}", problem)
    return history


def check_keyring(state: Path, ledger: Ledger, history: History, own: bool, report: Report) -> None:
    """Report a ``rotations.json``, or (``own``) a ``keyring.json``, of the state that is not what the log says."""
    if any(pending(state, role) for role in ROLES):
        return  # an interrupted rotation: the next start finishes it, and `acceptd doctor` says so
    try:
        found = rotations(ledger)
    except LedgerError:
        return  # said already
    due = published(found) if found else None
    there = lies_there(state, due)
    if there != due:
        word = "is missing" if there is None else "is not what the entries say"
        report.add("keys", ROTATIONS, f"{word}: loaders cannot follow")
    for key in load_keyring(state).keys if own else ():
        tenure = history.tenure(key.role, key.key_id)
        if tenure is not None and tenure.until is not None:
            report.add("keys", "keyring.json", f"names the {key.role} key {key.key_id}, which {tenure.words()}")
