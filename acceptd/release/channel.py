"""``channel.json``: which release is current, signed, short-lived, replaced by rename.

A loader follows this file, not the link ``current``. Its sequence rises with every writing and is never
below the clock (seconds since the epoch), so that a state directory restored from a backup soon passes
what loaders remember, and until then they refuse it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from acceptd.errors import LoaderError, ReleaseError, SigningError, StorageError
from acceptd.intake.files import replace_file
from acceptd.record import attest
from acceptd.record.canonical import MAX_INT, canonical
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import Keyring
from acceptd.record.log import Ledger
from acceptd.release import objects, trust
from acceptd.release.book import Book, Row, read_book
from acceptd.release.layout import (
    CHANNEL_FILE,
    RELEASE_FILE,
    REVOCATIONS_FILE,
    channel_path,
    model_lock,
    release_path,
    revocation_lock,
)
from acceptd.release.model import ChannelDocument, RevocationsDocument
from acceptd.release.settled import Ground, Settled, fingerprint, in_time
from acceptd.release.signers import ReleaseKeys, Verifying, seal_document

VALID_SECONDS: Final = 86_400
_ENVELOPE: Final = b'{"payload":"'
_LINES: Final = b"{\n"
"""How ``keyring.json`` and ``rotations.json`` begin."""
Clock = Callable[[], float]
"""Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What one refresh did: channels that were signed anew, and channels that could not be, with the reason."""

    renewed: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]


def stamp(moment: float) -> str:
    """Return a moment in RFC 3339, UTC, to the second."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read(state: Path, keys: Verifying, model_id: str, channel: str) -> trust.ChannelFacts | None:
    """Return what ``channel.json`` says, whether expired or not; None where it is missing or not ours."""
    try:
        data = _bytes(state, f"{channel_path(model_id, channel)}/{CHANNEL_FILE}", trust.MAX_CHANNEL_BYTES)
        if data is None:
            return None
        facts = trust.channel(
            data, keys.keyring, model_id=model_id, name=channel, now=0.0, remembered=trust.Remembered()
        )
    except LoaderError:
        return None
    return facts


def list_signed_now(state: Path, keys: Verifying) -> bool:
    """Say whether ``revocations.json``, where there is one, is signed by a key that counts now."""
    data = _bytes(state, REVOCATIONS_FILE, trust.MAX_REVOCATIONS_BYTES)
    try:
        trust.revocations(data, keys.at(MAX_INT), least=0, remembered=0)
    except LoaderError:
        return False
    return True


def signed_now(state: Path, keys: Verifying, row: Row) -> bool:
    """Say whether ``channel.json`` is signed by a key that counted when ``row`` took its number, or counts now."""
    data = _bytes(state, f"{channel_path(row.model_id, row.channel)}/{CHANNEL_FILE}", trust.MAX_CHANNEL_BYTES)
    for keyring in (keys.at(row.intent_seq), keys.at(MAX_INT)):
        with contextlib.suppress(LoaderError):
            trust.open_envelope(data or b"", trust.CHANNEL_TYPE, keyring, "release", CHANNEL_FILE)
            return True
    return False


def read_revocations(state: Path, keys: Verifying, ring: Keyring | None = None) -> trust.RevocationFacts:
    """Return the revocation list, signed by a key that counts now (or by one of ``ring``).

    Raises ReleaseError where the file is damaged or not ours: nothing is built on what a key signed after it gave
    way, and loaders refuse what it signed before.
    """
    try:
        data = _bytes(state, REVOCATIONS_FILE, trust.MAX_REVOCATIONS_BYTES)
        return trust.revocations(data, ring or keys.at(MAX_INT), least=0, remembered=0)
    except LoaderError as error:
        raise ReleaseError(
            f"{error}", remedy="restart the daemon: it rebuilds the list from the ledger"
        ) from error


def write(
    state: Path,
    keys: ReleaseKeys,
    row: Row,
    release_digest: str,
    *,
    least_revocations: int,
    valid_seconds: int = VALID_SECONDS,
    clock: Clock = time.time,
) -> trust.ChannelFacts:
    """Sign ``channel.json`` for one release of the ledger, under the model's lock, and return what it says."""
    now = clock()
    before = read(state, keys, row.model_id, row.channel)
    document = ChannelDocument(
        model_id=row.model_id,
        channel=row.channel,
        number=row.number,
        release_digest=release_digest,
        least_revocations=max(least_revocations, before.least_revocations if before else 0),
        sequence=max(int(now), before.sequence + 1 if before else 1),
        issued_at=stamp(now),
        expires_at=stamp(now + valid_seconds),
    )
    data = seal_document(document, trust.CHANNEL_TYPE, keys.release, *keys.beside)
    replace_file(state / channel_path(row.model_id, row.channel), CHANNEL_FILE, data, 0o644)
    return trust.ChannelFacts(
        model_id=row.model_id,
        channel=row.channel,
        number=row.number,
        release_digest=release_digest,
        least_revocations=document.least_revocations,
        sequence=document.sequence,
        expires=trust.epoch(document.expires_at),
        expires_at=document.expires_at,
    )


def refresh(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    *,
    valid_seconds: int = VALID_SECONDS,
    life: Callable[[str], int] | None = None,
    clock: Clock = time.time,
    force: bool = False,
    between: Callable[[], None] = lambda: None,
    settled: Settled | None = None,
) -> Refreshed:
    """Sign anew every channel that has used half of its life, has more than it should, or differs from the ledger.

    For the daemon, every few seconds. What is signed follows from the ledger and the release on disk, never
    from the old ``channel.json``: a replayed one is not given a new date. A channel whose release does
    not verify is reported and left to expire. ``life`` gives a channel's seconds, instead of ``valid_seconds``;
    ``between`` is called before each channel, since a key's command may take its time for each. ``settled``, where
    it is given to one call after another, spares those that need nothing and have not changed.
    """
    renewed: list[tuple[str, str]] = []
    problems: list[str] = []
    settled = settled or Settled()
    settled.begin(_ground(state, keys))
    book = read_book(ledger)  # lives on: who reads it anew below brings this one up to date too
    for model_id, channel in sorted(book.channels):
        between()
        seconds = life(channel) if life is not None else valid_seconds
        row = book.current(model_id, channel)
        if not force and row is not None and settled.still(state, row, seconds, clock()):
            continue
        with revocation_lock(state, shared=True), model_lock(state, model_id):
            try:
                if _renew(
                    state, read_book(ledger), keys, (model_id, channel), seconds, clock, settled, force=force
                ):
                    renewed.append((model_id, channel))
            except (ReleaseError, SigningError, OSError) as error:
                problems.append(f"{model_id} {channel}: {error}")
    return Refreshed(tuple(renewed), tuple(problems))


def _ground(state: Path, keys: ReleaseKeys) -> Ground | None:
    """Return what all channels stand on; None where the revocation list does not verify: each one says so then."""
    try:
        return Ground(keys.keyring, read_revocations(state, keys).number)
    except (ReleaseError, OSError):
        return None


def _renew(
    state: Path,
    book: Book,
    keys: ReleaseKeys,
    place: tuple[str, str],
    valid_seconds: int,
    clock: Clock,
    known: Settled,
    *,
    force: bool,
) -> bool:
    row = book.current(*place)
    if row is None:
        return False
    least = read_revocations(state, keys).number
    seen = fingerprint(state, row)
    facts = read(state, keys, *place)
    if facts is not None and least < facts.least_revocations:
        raise ReleaseError(
            f"the revocation list is at {least}, but number {facts.least_revocations} was announced",
            remedy="restart the daemon: it rebuilds the list from the ledger",
        )
    if line := ahead(facts, row):
        raise ReleaseError(line)
    settled = facts is not None and (facts.number, facts.release_digest, facts.least_revocations) == (
        row.number,
        row.release_digest,
        least,
    )
    if facts is not None and settled and not force and in_time(facts.expires - clock(), valid_seconds):
        known.note(row, seen, facts.expires)
        return False
    verified_release(state, keys, row, row.release_digest)
    write(state, keys, row, row.release_digest, least_revocations=least, valid_seconds=valid_seconds, clock=clock)
    return True


def ahead(facts: trust.ChannelFacts | None, row: Row) -> str:
    """Return a line where ``channel.json``, signed by us, is beyond the ledger; empty where it is not.

    Then the ledger is an older backup. Nothing is signed with a lower number (for loaders they
    only rise), and the next promotion takes a number above both.
    """
    if facts is None or facts.number <= row.number:
        return ""
    return (
        f"{row.model_id} {row.channel}: channel.json announced number {facts.number}, "
        f"the ledger knows {row.number}: was it restored from a backup?"
    )


def verified_release(state: Path, keys: Verifying, row: Row, release_digest: str | None) -> trust.ReleaseFacts:
    """Return the verified ``release.json`` of a ledger row; raise ReleaseError where it is not the one entered.

    With ``release_digest`` None, for a promotion that was interrupted, signature and content must do.
    """
    try:
        return read_release(state, keys, row, release_digest)[0]
    except LoaderError as error:
        raise ReleaseError(f"release {row.number} of {row.model_id} {row.channel}: {error}") from error


def read_release(
    state: Path, keys: Verifying, row: Row, release_digest: str | None
) -> tuple[trust.ReleaseFacts, str]:
    """Return a row's verified ``release.json`` and its digest; raise LoaderError where it does not verify."""
    place = f"{channel_path(row.model_id, row.channel)}/{trust.number_name(row.number)}/release.json"
    data = _bytes(state, place, trust.MAX_RELEASE_BYTES)
    if data is None:
        raise LoaderError("release.json is missing")
    found = trust.sha256(data)
    wanted = trust.ChannelFacts(
        row.model_id, row.channel, row.number, release_digest or found, 0, 1, float("inf"), ""
    )
    facts = trust.release(data, keys.at(row.intent_seq), wanted)
    if facts.bundle_digest != row.digest:
        raise LoaderError("release.json names another bundle than its ledger entry")
    return facts, found


def rewrite_release(state: Path, row: Row) -> None:
    """Write a row's ``release.json`` anew, as it stands, durably.

    The process that wrote it may have died before it was synchronised, or the synchronisation failed: then it can
    be read, and a power cut takes it away (fsync(2), NOTES).
    """
    place = release_path(row.model_id, row.channel, row.number)
    data = _bytes(state, f"{place}/{RELEASE_FILE}", trust.MAX_RELEASE_BYTES)
    if data is not None:
        replace_file(state / place, RELEASE_FILE, data, 0o444)


def write_revocations(state: Path, keys: ReleaseKeys, document: RevocationsDocument) -> None:
    """Sign and replace ``revocations.json``; raise ReleaseError where the revocation key is not here."""
    if keys.revocation is None:
        raise ReleaseError("the revocation key is not here", remedy="run this where keys/revocation.pem is")
    replace_file(state, REVOCATIONS_FILE, seal_document(document, trust.REVOCATIONS_TYPE, keys.revocation), 0o644)


def countersign_revocations(state: Path, keys: ReleaseKeys) -> bool:
    """Sign the revocation list as it stands by ``keys.revocation`` and those beside it; False where there is none.

    The list and its number stay: only the signatures are new. Raises ReleaseError where it does not verify.
    """
    if not (state / REVOCATIONS_FILE).exists():
        return False
    if keys.revocation is None:
        raise ReleaseError("the revocation key is not here")
    now = dict.fromkeys((*keys.at(MAX_INT).keys, *(one.public_key() for one in keys.beside)))
    read_revocations(state, keys, Keyring.of(now))
    payload, _ = attest.unverified(trust.parse_json((state / REVOCATIONS_FILE).read_bytes(), REVOCATIONS_FILE))
    envelope = attest.sign(trust.REVOCATIONS_TYPE, payload, keys.revocation, *keys.beside)
    replace_file(state, REVOCATIONS_FILE, canonical(envelope) + b"\n", 0o644)
    return True


def sweep_revocations(state: Path) -> None:
    """Remove temporary files of an interrupted :func:`write_revocations`, or of a rotation's keyring.

    Under the exclusive revocation lock and the daemon's. They lie in the state directory itself, where other rooms
    have temporary names too: only regular files that are empty or begin as such a document are taken.
    """
    for name in os.listdir(state):
        path = state / name
        if name.startswith(".tmp-") and path.is_file() and not path.is_symlink():
            try:
                with path.open("rb") as file:
                    start = file.read(len(_ENVELOPE))
            except FileNotFoundError:
                continue  # another room's, which has its own name by now
            if _ENVELOPE.startswith(start) or start.startswith(_LINES):
                path.unlink(missing_ok=True)
                failpoint("release.settle.swept")


def _bytes(state: Path, place: str, limit: int) -> bytes | None:
    """Return what :func:`objects.read_if_there` returns.

    Raises OSError where the disk does not give it now. That is no damage: what loaders have seen of it may stand,
    so nothing is burnt, signed or written anew in its place.
    """
    try:
        root = objects.open_root(state)
        try:
            return objects.read_if_there(root, place, limit)
        finally:
            os.close(root)
    except StorageError as error:
        cause = error.__cause__
        number, told = (cause.errno, cause.strerror) if isinstance(cause, OSError) else (errno.EIO, str(error))
        raise OSError(number, f"cannot be read: {told}", str(state / place)) from error
