"""Where the log's signed tree heads lie, and what is proved before one is signed (form: ``record/note.py``).

The log never signs a head that does not extend the last one written: a restored backup would fork the log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from acceptd.errors import LedgerError, LedgerStorageError, MalformedError, SignatureError
from acceptd.intake.files import remove_temporaries, replace_file
from acceptd.lockfile import open_lock
from acceptd.record import merkle
from acceptd.record.anchor import Anchor
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import Offices, Signer
from acceptd.record.log import Ledger, TreeHead
from acceptd.record.note import MAX_BYTES
from acceptd.record.note import Checkpoint as Checkpoint
from acceptd.record.note import parse as parse
from acceptd.record.note import sign as sign
from acceptd.record.note import verify as verify

DIRECTORY: Final = "checkpoints"
LOCKS: Final = "locks"
"""Below the state directory, 0700; made when it is first needed."""
KEPT: Final = 64
"""How many checkpoints stay in the state directory; the log is the history, they are its seals."""

_FILE: Final = re.compile(r"(?P<size>\d{16})\.note", re.ASCII)


def write(
    state: Path, ledger: Ledger, signer: Signer, keyring: Offices, anchor: Anchor | None = None
) -> Checkpoint:
    """Sign the log as it stands, write it under ``checkpoints/`` and to ``anchor``, durably; return it.

    First proves that it extends the newest one in both places, which must itself verify. Raises LedgerError
    where it does not: the database is older than its checkpoint, or rewritten; nothing is signed then.
    Raises AnchorError where the anchor cannot be reached: before it is asked nothing is signed either.
    """
    directory = state / DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    last = latest(state, keyring, ledger.origin)
    kept = exported(anchor, keyring, ledger.origin)
    head = ledger.tree()
    for one, place in (
        (last, "its checkpoint"),
        (kept, f"the checkpoint that {anchor.words if anchor else ''} keeps"),
    ):
        if one is not None:
            _prove_extends(ledger, one, head, place)
    checkpoint = Checkpoint(ledger.origin, head.size, head.root)
    if last is None or last.size != head.size:
        if signer.public_key() not in keyring.at(max(0, head.size - 1)).for_role("ledger"):
            raise LedgerError(
                f"the key {signer.key_id} is not the ledger key, or was rotated out; nothing is signed"
            )
        note = sign(checkpoint, signer)
        with _alone(state):
            failpoint("record.checkpoint.before-write")
            replace_file(directory, file_name(head.size), note, 0o644)
            failpoint("record.checkpoint.after-write")
            for old in _sizes(directory)[:-KEPT]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(directory / file_name(old))
    if anchor is not None and (kept is None or kept.size != head.size):
        anchor.put(ledger.origin, head.size, (directory / file_name(head.size)).read_bytes())
        failpoint("record.checkpoint.anchored")
    return checkpoint


def sweep(state: Path) -> None:
    """Remove temporary files of a checkpoint that a kill interrupted; nobody is writing one meanwhile."""
    directory = state / DIRECTORY
    if directory.is_dir():
        with _alone(state):
            remove_temporaries(directory)


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Be the only one, in any process, who writes checkpoints. Auditors can open their directory, and not this."""
    locks = state / LOCKS
    locks.mkdir(mode=0o700, exist_ok=True)
    fd = open_lock(locks / "checkpoints.lock")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def exported(anchor: Anchor | None, keyring: Offices, origin: str) -> Checkpoint | None:
    """Return the newest checkpoint that ``anchor`` keeps of this log, or None.

    Raises LedgerError where it does not verify, or where there is none but one of another log that this
    instance's own key has signed: then the log was exchanged as a whole. Raises AnchorError where the anchor
    cannot be reached.
    """
    if anchor is None:
        return None
    note = anchor.last(origin)
    if note is None:
        for other in anchor.others():
            with contextlib.suppress(MalformedError, SignatureError):
                found = verify(other, keyring)
                raise LedgerError(
                    f"{anchor.words} keeps a checkpoint of {found.size} entries of the log {found.origin}, signed "
                    f"by this instance, and none of {origin}: the ledger was exchanged or begun anew; "
                    "nothing is signed"
                )
        return None
    try:
        return verify(note, keyring, origin)
    except (MalformedError, SignatureError) as error:
        raise LedgerError(f"{anchor.words}: {error}") from error


def latest(state: Path, keyring: Offices, origin: str | None = None) -> Checkpoint | None:
    """Return the newest checkpoint of the state directory, or None where there is none.

    Raises LedgerError where it does not verify: a checkpoint is never passed over for an older one.
    """
    sizes = _sizes(state / DIRECTORY)
    return read(state, sizes[-1], keyring, origin) if sizes else None


def read(state: Path, size: int, keyring: Offices, origin: str | None = None) -> Checkpoint:
    """Return the checkpoint written at ``size``; raise LedgerError where it is missing or does not verify."""
    path = state / DIRECTORY / file_name(size)
    try:
        with path.open("rb") as file:
            checkpoint = verify(file.read(MAX_BYTES + 1), keyring, origin)
    except FileNotFoundError as error:
        raise LedgerError(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise LedgerStorageError(f"{path}: cannot be read: {error.strerror}") from error
    except (MalformedError, SignatureError) as error:
        raise LedgerError(f"{path}: {error}") from error
    if checkpoint.size != size:
        raise LedgerError(f"{path}: holds the checkpoint of {checkpoint.size} entries")
    return checkpoint


def note_of(state: Path, size: int) -> bytes:
    """Return the signed note written at ``size``, as it lies there."""
    return (state / DIRECTORY / file_name(size)).read_bytes()


def sizes(state: Path) -> list[int]:
    """Return the sizes at which the state directory holds checkpoints, rising."""
    return _sizes(state / DIRECTORY)


def _prove_extends(ledger: Ledger, last: Checkpoint, head: TreeHead, place: str) -> None:
    if head.size < last.size:
        raise LedgerError(
            f"the log has {head.size} entries, but {place} says {last.size}: cut, or an older backup; "
            "nothing is signed"
        )
    before, now, proof = ledger.consistency(last.size, head.size)
    extends = merkle.verify_consistency(last.size, last.root, now.size, now.root, proof)
    if before.root != last.root or now != head or not extends:
        raise LedgerError(f"the log does not extend {place} of {last.size} entries: rewritten; nothing is signed")


def file_name(size: int) -> str:
    """Return the name of the checkpoint written at ``size``, below :data:`DIRECTORY`."""
    return f"{size:016d}.note"


def _sizes(directory: Path) -> list[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(match["size"]) for name in names if (match := _FILE.fullmatch(name)))
