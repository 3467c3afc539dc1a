"""What of the releases on disk is not what the ledger and its signatures say. Reads, and never mends.

The other half of ``acceptd ledger verify``: pointers, signed documents, links and the bytes of the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from acceptd.errors import AcceptdError, LoaderError, ReleaseError
from acceptd.record.audit import Difference
from acceptd.record.keystore import pending
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import stated, store
from acceptd.release.book import Book, Row, read_book
from acceptd.release.gone import excused
from acceptd.release.layout import (
    BUNDLE_LINK,
    CURRENT,
    bundle_link_target,
    channel_path,
    numbers_on_disk,
    release_path,
)
from acceptd.release.signers import Verifying
from acceptd.release.trust import number_name

_TRIES: Final = 5


def examine(
    state: Path,
    ledger: Ledger,
    keys: Verifying,
    *,
    objects: bool = True,
    progress: Callable[[str], None] = lambda _digest: None,
) -> list[Difference]:
    """Return every difference of channels, releases, revocations and stored bundles; empty when all is well.

    ``objects`` False looks at names and sizes of stored bundles alone; else each of their bytes is hashed.
    """
    found: list[Difference] = []
    for _ in range(_TRIES):  # a daemon that promotes meanwhile may be caught between two steps
        size = ledger.tree().size
        found = _pointers(state, ledger, keys)
        if not found or ledger.tree().size == size:
            break
    return found + _store(state, ledger, objects=objects, progress=progress)


def _pointers(state: Path, ledger: Ledger, keys: Verifying) -> list[Difference]:
    book = read_book(ledger)
    found: list[Difference] = []
    for model_id, channel in sorted(book.channels):
        try:
            found += _channel(state, ledger, keys, book, model_id, channel)
        except OSError as error:
            found.append(_unread(state, channel_path(model_id, channel), error))
    found += _unknown_places(state, book)
    try:
        return found + _revocations(state, keys, book)
    except OSError as error:
        return [*found, _unread(state, "revocations.json", error)]


def _unread(state: Path, place: str, error: OSError) -> Difference:
    """What the disk does not give: nobody can say what is in it."""
    named = Path(str(error.filename or ""))
    where = str(named.relative_to(state)) if named.is_relative_to(state) else place
    return Difference("release", where, error.strerror or str(error))


def _channel(
    state: Path, ledger: Ledger, keys: Verifying, book: Book, model_id: str, channel: str
) -> list[Difference]:
    place = channel_path(model_id, channel)
    found: list[Difference] = []
    current = book.current(model_id, channel)
    wanted = number_name(current.number) if current is not None else None
    pointed = _link(state / place / CURRENT)
    if pointed != wanted:
        message = f"points at {pointed or 'nothing'}, the ledger says {wanted or 'nothing'}"
        found.append(Difference("release", f"{place}/{CURRENT}", message))
    facts = channels.read(state, keys, model_id, channel)
    if current is not None and facts is None:
        found.append(Difference("release", f"{place}/channel.json", "is missing, or not signed by a release key"))
    elif current is not None and facts is not None:
        if not channels.signed_now(state, keys, current):
            message = "is signed by a release key that did not count any more when this number was made"
            found.append(Difference("release", f"{place}/channel.json", message))
        due = (current.number, current.release_digest)
        if (facts.number, facts.release_digest) != due:
            message = f"announces number {facts.number}, the ledger says {current.number}"
            if facts.number == current.number:
                message = "announces another release.json than the ledger's entry"
            found.append(Difference("release", f"{place}/channel.json", message))
    rows = {row.number: row for row in book.rows(model_id, channel)}
    for row in rows.values():
        if row.release_digest:
            found += _release(state, ledger, keys, row)
    for number in numbers_on_disk(state, model_id, channel):
        if number not in rows:
            where = release_path(model_id, channel, number)
            found.append(Difference("release", where, "the ledger knows no such number"))
    return found


def _release(state: Path, ledger: Ledger, keys: Verifying, row: Row) -> list[Difference]:
    where = release_path(row.model_id, row.channel, row.number)
    found: list[Difference] = []
    try:
        facts, release_digest = channels.read_release(state, keys, row, row.release_digest)
    except LoaderError as error:
        found.append(Difference("release", f"{where}/release.json", str(error)))
    else:
        told = stated.differences(state, ledger, keys, row, release_digest, facts.document)
        found += [Difference("statement", f"{where}/{stated.STATEMENT_FILE}", message) for message in told]
    pointed = _link(state / where / BUNDLE_LINK)
    if pointed != bundle_link_target(row.digest):
        message = f"points at {pointed or 'nothing'}, the ledger says {row.digest}"
        found.append(Difference("release", f"{where}/{BUNDLE_LINK}", message))
    return found


def _unknown_places(state: Path, book: Book) -> list[Difference]:
    """A channel directory with a ``current`` that the ledger has never heard of was made by hand."""
    found: list[Difference] = []
    root = state / "releases"
    for path in sorted(root.glob(f"*/*/*/{CURRENT}")) if root.is_dir() else ():
        team, model, channel, _ = path.relative_to(root).parts
        if (f"{team}/{model}", channel) not in book.channels:
            found.append(Difference("release", str(path.relative_to(state)), "the ledger knows no such channel"))
    return found


def _revocations(state: Path, keys: Verifying, book: Book) -> list[Difference]:
    try:
        listed = set(channels.read_revocations(state, keys, keys.keyring).revoked)
    except ReleaseError as error:
        return [Difference("revocations", "revocations.json", str(error))]
    # While its rotation is half done the old key's signature stands: the next start puts the new one beside it.
    if not pending(state, "revocation") and not channels.list_signed_now(state, keys):
        message = "is signed by a revocation key that does not count any more"
        return [Difference("revocations", "revocations.json", message)]
    missing = [
        f"does not list {digest}, which the ledger has revoked" for digest in sorted(set(book.revoked) - listed)
    ]
    more = [f"lists {digest}, which the ledger has not revoked" for digest in sorted(listed - set(book.revoked))]
    return [Difference("revocations", "revocations.json", message) for message in (*missing, *more)]


def _store(state: Path, ledger: Ledger, *, objects: bool, progress: Callable[[str], None]) -> list[Difference]:
    found: list[Difference] = []
    # Looked at before and after the ledger is read: a bundle comes after its verdict and before its release.
    kept = store.digests(state)
    due, judged = _released(ledger), _judged(ledger)
    there = set(store.digests(state))
    for digest in kept:
        progress(digest)
        where = f"store/sha256/{digest}"
        if digest not in judged | due:
            found.append(Difference("store", where, "no verdict of the ledger accepted or held this bundle"))
        try:
            (store.verify if objects else store.present)(state, digest)
        except AcceptdError as error:
            found.append(Difference("store", where, getattr(error, "message", str(error))))
    for digest in sorted(due - there - excused(ledger, read_book(ledger))):
        found.append(Difference("store", f"store/sha256/{digest}", "is missing, and a release names it"))
    return found


def spoken_of(ledger: Ledger) -> set[str]:
    """Return the digests of what a store may hold: bundles that a verdict lets there, or that a release names."""
    return _released(ledger) | _judged(ledger)


def _released(ledger: Ledger) -> set[str]:
    return {
        row.digest for rows in read_book(ledger).channels.values() for row in rows.values() if row.release_digest
    }


def _judged(ledger: Ledger) -> set[str]:
    # A held one goes to the store when people have decided, before its promotion, which may yet be refused.
    return {
        str(entry.body.get("bundle_digest"))
        for entry in ledger.entries(kind="verdict")
        if entry.body.get("verdict") in {"accepted", "held"}
    }


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
