"""Rotation of an instance's key, in steps that survive a kill at any of them.

staged (``keys/<role>.next.*``) → recorded (the entry: from here on the new key signs) → what is published is
signed by both keys → ``rotations.json`` → ``keyring.json`` → the new key takes the old one's place, which is
removed. Before the entry nothing has happened; after it, :func:`resume` finishes. At every step who knows the
old keyring, with or without ``rotations.json``, and who has the new one verify what is current.

Where the old key is compromised it signs nothing but its own end, and ``keyring.json`` comes first: no loader
follows a key that a thief holds too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import LedgerError, LedgerStorageError, ReleaseError, StateError, UsageError
from acceptd.intake.files import fsync_dir, remove_temporaries, replace_file
from acceptd.record import keystore, succession
from acceptd.record.entry import utc_now
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import DIRECTORY, KEYRING, ROLES, Keyring, PublicKey, Signer, load_keyring, private_pem
from acceptd.record.log import Ledger
from acceptd.record.succession import ENTRY, History, Rotation
from acceptd.release import channel as channels
from acceptd.release.book import read_book
from acceptd.release.layout import REVOCATIONS_FILE, model_lock, revocation_lock
from acceptd.release.promote import rekey_locked
from acceptd.release.reconcile import reconcile
from acceptd.release.revoke import write_list
from acceptd.release.settle import Terms, settle
from acceptd.release.signers import ReleaseKeys, sealer

_DEFAULT: Final = Terms()
_DAMAGE: Final = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EXDEV, errno.ENXIO})
"""What a file that is missing, or is none, answers; any other error is the disk's, or the machine's."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """What a rotation did: its entry, the keys, and what could not be signed anew."""

    rotation: Rotation
    seq: int
    problems: tuple[str, ...]


def rotate(
    state: Path,
    ledger: Ledger,
    role: str,
    *,
    reason: str,
    public: PublicKey | None = None,
    compromised_from: int | None = None,
    terms: Terms = _DEFAULT,
) -> Rotated:
    """Let a new key follow the one in use for ``role``; return when all that is current is signed by it.

    ``public`` names a key behind the role's command; without it a new key file is made. ``compromised_from`` is
    the first entry for which the old key's word does not count. The caller holds the daemon's lock and the keys'
    lock. Raises StateError where a rotation is half done or a command does not sign, LedgerError where the log's
    keys are not as they must be, UsageError for a key that served before; then nothing was changed.
    """
    if role not in ROLES:
        raise UsageError(f"{role!r:.40} is no role of a key", remedy=f"one of {', '.join(ROLES)}")
    if not reason.strip() or len(reason) > succession.MAX_REASON:
        raise UsageError(f"a rotation needs a reason of at most {succession.MAX_REASON} characters")
    size = ledger.tree().size
    if compromised_from is not None and not 0 < compromised_from <= size:
        raise UsageError(
            f"entry {compromised_from} is none of 1 to {size}", remedy="name the first that is not trusted"
        )
    for one in ROLES:  # another role's must be finished first
        if keystore.pending(state, one):
            raise StateError(
                f"the rotation of the {one} key was interrupted", remedy=f"acceptd key rotate {one} --resume"
            )
    history = keystore.own_history(state, ledger)
    if history.problems:
        seq, problem = history.problems[0]
        raise LedgerError(f"entry {seq}: {problem}; no key is rotated over it")
    old = keystore.open_signer(state, role)
    keystore.in_force(history, old)
    problems = _settled(state, ledger, role, terms)
    private, new = _new(state, role, public)
    rotation = _rotation(history, ledger, old, new, reason, compromised_from)
    envelope = succession.seal(rotation, old, new)  # both have signed before anything is changed
    _stage(state, role, private, new)
    failpoint("key.rotate.staged")
    entry = ledger.append(ENTRY, rotation.body(envelope))
    failpoint("key.rotate.recorded")
    problems += _finish(state, ledger, rotation, old, new, terms)
    return Rotated(rotation, entry.seq, tuple(problems))


def resume(state: Path, ledger: Ledger, terms: Terms = _DEFAULT) -> list[str]:
    """Finish every rotation that was interrupted, or take it back where no entry records it; return a line each.

    The caller holds the daemon's lock. Raises as :func:`rotate`.
    """
    done: list[str] = []
    remove_temporaries(state / DIRECTORY)
    for role in ROLES:
        if not keystore.pending(state, role):
            continue
        new = keystore.next_signer(state, role)
        last = next((body for _, body in reversed(keystore.rotations(ledger)) if body.get("role") == role), None)
        if last is None or last.get("new") != new.key_id:
            _unstage(state, role)
            done.append(f"the rotation of the {role} key was never recorded: the old key stays")
            continue
        rotation = succession.opened(last["envelope"])
        problems = _finish(state, ledger, rotation, None, new, terms)
        done += [f"the rotation of the {role} key to {new.key_id} was finished", *problems]
    return done


def _settled(state: Path, ledger: Ledger, role: str, terms: Terms) -> list[str]:
    """Finish with the old key what it began; what does not verify is left as it is, and told."""
    if role == "ledger":
        return []
    return list(reconcile(state, ledger, ReleaseKeys.load(state, ledger), terms=terms).problems)


def _new(state: Path, role: str, public: PublicKey | None) -> tuple[Ed25519PrivateKey | None, Signer]:
    if public is not None:
        return None, keystore.behind_command(state, public)
    private = Ed25519PrivateKey.generate()
    return private, Signer.of(role, private)


def _rotation(
    history: History, ledger: Ledger, old: Signer, new: Signer, reason: str, compromised_from: int | None
) -> Rotation:
    for one in history.tenures:
        if one.key.key_id == new.key_id:
            raise UsageError(
                f"the key {new.key_id} is, or was, the {one.key.role} key",
                remedy="each key serves once, in one role",
            )
    number = 1 + sum(1 for _, body in keystore.rotations(ledger) if body.get("role") == old.role)
    before, after = old.public_key(), new.public_key()
    return Rotation(ledger.origin, old.role, number, before, after, utc_now(), reason, compromised_from)


def _stage(state: Path, role: str, private: Ed25519PrivateKey | None, new: Signer) -> None:
    # Whole or not at all: half of a key would be a rotation under way that nobody could finish or take back.
    directory = state / DIRECTORY
    if private is not None:
        replace_file(directory, f"{role}{keystore.NEXT_FILE}", private_pem(private), 0o600)
    else:
        replace_file(directory, f"{role}{keystore.NEXT_COMMAND}", new.public, 0o600)


def _unstage(state: Path, role: str) -> None:
    for suffix in (keystore.NEXT_FILE, keystore.NEXT_COMMAND):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(state / DIRECTORY / f"{role}{suffix}")
            failpoint("key.rotate.unstaged")
    fsync_dir(state / DIRECTORY)


def _finish(
    state: Path, ledger: Ledger, rotation: Rotation, old: Signer | None, new: Signer, terms: Terms
) -> list[str]:
    """Walk the steps after the entry; each may be done again."""
    compromised = rotation.compromised_from is not None
    problems: list[str] = []
    if not compromised:
        problems += _sign_anew(state, ledger, rotation, old, new, terms)
        failpoint("key.rotate.cosigned")
    keystore.publish(state, ledger)
    failpoint("key.rotate.published")
    _exchange(state, rotation)
    failpoint("key.rotate.keyring")
    if compromised:
        problems += _sign_anew(state, ledger, rotation, None, new, terms)
        failpoint("key.rotate.cosigned")
    _promote(state, rotation.role)
    failpoint("key.rotate.switched")
    return problems


def _sign_anew(
    state: Path, ledger: Ledger, rotation: Rotation, old: Signer | None, new: Signer, terms: Terms
) -> list[str]:
    """Sign what is current by the new key, and by the old one beside it where that is not compromised."""
    role = rotation.role
    if role == "ledger":
        return []
    beside: tuple[Signer, ...] = ()
    if rotation.compromised_from is None and new.key_id not in {key.key_id for key in load_keyring(state).keys}:
        beside = (old or keystore.any_signer(state, role),)
    anchors = load_keyring(state)
    if new.public_key() not in anchors.keys:  # our own staged key, which both have signed for
        anchors = Keyring.of([*anchors.keys, new.public_key()])
    history = keystore.history(ledger, anchors)
    if role == "revocation":
        release = keystore.any_signer(state, "release")
        keys = ReleaseKeys(release, new, history.ever, history, beside)
        with revocation_lock(state, shared=False):
            if rotation.compromised_from is None:
                channels.countersign_revocations(state, keys)
            elif (state / REVOCATIONS_FILE).exists():
                write_list(state, keys, read_book(ledger), terms)
        return []
    keys = ReleaseKeys(new, None, history.ever, history, beside, *sealer(state))
    problems: list[str] = []
    with revocation_lock(state, shared=False):
        for model_id, channel in sorted(read_book(ledger).channels):
            with model_lock(state, model_id):
                try:
                    _rekey(state, ledger, keys, (model_id, channel), rotation, terms)
                except (ReleaseError, LedgerError) as error:
                    if _of_the_storage(error):
                        raise  # the rotation stays half done, and can be finished
                    problems.append(f"{model_id} {channel} stays as it is, and expires: {error}")
    return problems


def _of_the_storage(error: BaseException) -> bool:
    """Say whether the disk or the database refused something now, and nothing was found to be damaged."""
    if isinstance(error, LedgerStorageError):
        return True
    cause: BaseException | None = error
    while cause is not None:
        # SQLite calls a page that the disk does not give malformed.
        if isinstance(cause, sqlite3.Error) or (isinstance(cause, OSError) and cause.errno not in _DAMAGE):
            return True
        cause = cause.__cause__
    return False


def _rekey(
    state: Path, ledger: Ledger, keys: ReleaseKeys, place: tuple[str, str], rotation: Rotation, terms: Terms
) -> None:
    settle(state, ledger, keys, *place, terms)
    book = read_book(ledger)
    row = book.current(*place)
    if row is None or keys.release.public_key() in keys.at(row.intent_seq).keys:
        return  # nothing is current, or it was made for the new key already
    if row.digest in book.revoked:
        return  # no loader opens it, whoever signs
    rekey_locked(state, ledger, keys, row, f"the release key was rotated: {rotation.reason}"[:2000], terms)


def _exchange(state: Path, rotation: Rotation) -> None:
    """Let ``keyring.json`` name the new key in the old one's place."""
    before = load_keyring(state)
    names = [rotation.new if key.key_id == rotation.old.key_id else key for key in before.keys]
    after = Keyring.of(dict.fromkeys(names))
    if after != before:
        replace_file(state, KEYRING, after.to_json(), 0o644)


def _promote(state: Path, role: str) -> None:
    """Let the staged key take the old one's place. The old private key is gone after this."""
    directory = state / DIRECTORY
    staged, place = directory / f"{role}{keystore.NEXT_FILE}", directory / f"{role}.pem"
    if os.path.lexists(staged):
        os.rename(staged, place)
        failpoint("key.rotate.moved")
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
            failpoint("key.rotate.unlinked")
        fsync_dir(directory)
        failpoint("key.rotate.removed")
        _unstage(state, role)
    fsync_dir(directory)
