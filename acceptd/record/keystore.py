"""Where each role's private key is: a file in ``keys/``, or behind a command; and which rotation is under way.

``keys/<role>.pem`` is the key in use. ``keys/<role>.next.pem`` (or ``.next.pub``, where the next one is behind
the command) stands there while a rotation is under way, and only then.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from acceptd.config import KeyTable, load_settings
from acceptd.errors import ConfigError, LedgerError, StateError
from acceptd.intake.files import replace_file
from acceptd.record.key_command import KeyCommand
from acceptd.record.keys import (
    DIRECTORY,
    NODE,
    Keyring,
    PublicKey,
    Signer,
    key_id,
    load_keyring,
    load_signer,
    read_owned,
)
from acceptd.record.succession import ENTRY, History
from acceptd.weak_keys import refuse_weak

if TYPE_CHECKING:
    from acceptd.record.log import Ledger

ROTATIONS: Final = "rotations.json"
NEXT_FILE: Final = ".next.pem"
NEXT_COMMAND: Final = ".next.pub"
_RAW: Final = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def open_signer(state: Path, role: str) -> Signer:
    """Return the key in use for ``role``, here or behind its command.

    Raises ConfigError where there is none, it may be read by others, or the keyring does not know it, and
    StateError while a rotation of it is half done.
    """
    if pending(state, role):
        raise StateError(
            f"the rotation of the {role} key was interrupted",
            remedy=f"start the daemon, or run `acceptd key rotate {role} --resume`",
        )
    return any_signer(state, role)


def any_signer(state: Path, role: str) -> Signer:
    """Return the key in use as :func:`open_signer` does, also while a rotation is half done."""
    keyring = load_keyring(state)
    if has_file(state, role):
        signer = load_signer(state, role)
        if signer.public_key() not in keyring.keys:
            raise ConfigError(f"the {role} key {signer.key_id} is not in the keyring; nobody would trust it")
        return signer
    table = _table(state, role)
    known = keyring.for_role(role)
    if not table.command:
        return load_signer(state, role)  # which says what is missing
    if len(known) != 1:
        raise ConfigError(
            f"keyring.json names {len(known)} {role} keys; the one behind keys.{role}.command must stand alone"
        )
    return KeyCommand.of(table.command, table.seconds, known[0]).signer()


def behind_command(state: Path, key: PublicKey) -> Signer:
    """Return the signer that asks the role's command for ``key``; raise ConfigError where none is configured."""
    table = _table(state, key.role)
    if not table.command:
        raise ConfigError(
            f"keys.{key.role}.command is not set in {state / 'acceptd.toml'}",
            remedy=f"name the command that holds the private key: [keys.{key.role}] command = [...]",
        )
    return KeyCommand.of(table.command, table.seconds, key).signer()


def has_file(state: Path, role: str) -> bool:
    """Whether ``keys/<role>.pem`` is there, in whatever form."""
    return os.path.lexists(state / DIRECTORY / f"{role}.pem")


def is_here(state: Path, role: str) -> bool:
    """Whether this state can sign as ``role``: it has the file, or names a command."""
    return has_file(state, role) or bool(command_of(state, role))


def command_of(state: Path, role: str) -> list[str]:
    """Return the command that ``acceptd.toml`` names for ``role``, or nothing."""
    return _table(state, role).command


def seconds_of(state: Path, role: str) -> float:
    """Return how long that command may take for one signature."""
    return _table(state, role).seconds


def pending(state: Path, role: str) -> bool:
    """Whether a rotation of ``role`` has begun and is not finished."""
    return any(os.path.lexists(state / DIRECTORY / f"{role}{suffix}") for suffix in (NEXT_FILE, NEXT_COMMAND))


def next_signer(state: Path, role: str) -> Signer:
    """Return the key that a rotation under way brings in."""
    if os.path.lexists(state / DIRECTORY / f"{role}{NEXT_FILE}"):
        return load_signer(state, role, NEXT_FILE)
    return behind_command(state, read_public(state / DIRECTORY / f"{role}{NEXT_COMMAND}", role))


def read_public(path: Path, role: str) -> PublicKey:
    """Return the public key in a file: PEM (SubjectPublicKeyInfo), base64 of the 32 bytes, or the 32 bytes."""
    data = read_owned(path, None, forbidden=0o022, remedy="name the file of the public key")
    try:
        if data.startswith(b"-----BEGIN"):
            found = serialization.load_pem_public_key(data)
            if not isinstance(found, Ed25519PublicKey):
                raise ValueError("not an Ed25519 key")
            raw = found.public_bytes(*_RAW)
        else:
            raw = data if len(data) == 32 else base64.b64decode(data.strip(), validate=True)
        if len(raw) != 32:
            raise ValueError(f"{len(raw)} bytes")
        refuse_weak(raw)
    except (ValueError, binascii.Error, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path}: no Ed25519 public key: {error}", remedy="give PEM, or base64 of its 32 bytes"
        ) from error
    return PublicKey(role, key_id(raw), raw)


def rotations(ledger: Ledger) -> list[tuple[int, dict[str, Any]]]:
    """Return the log's rotations: (entry, body), in order."""
    return [(entry.seq, entry.body) for entry in ledger.entries(kind=ENTRY)]


def history(ledger: Ledger, keyring: Keyring) -> History:
    """Return the history of keys that ``keyring`` vouches for in a log."""
    return History.of(keyring, rotations(ledger), ledger.origin)


def own_history(state: Path, ledger: Ledger) -> History:
    """Return the history that the state directory's own keyring vouches for."""
    return history(ledger, load_keyring(state))


def in_force(found: History, signer: Signer) -> None:
    """Return where ``signer`` signs now; raise LedgerError where the log has rotated it out, or knows it not."""
    if signer.public_key() in found.current.keys:
        return
    tenure = found.tenure(signer.role, signer.key_id)
    words = f"it {tenure.words()}" if tenure else "the log's keyring does not know it"
    raise LedgerError(f"the {signer.role} key {signer.key_id} in {DIRECTORY}/ signs no more: {words}")


def published(bodies: Iterable[tuple[int, dict[str, Any]]]) -> bytes:
    """Return the bytes of ``rotations.json``: the envelopes of the log's rotations, in order."""
    return (
        json.dumps({"schema": 1, "rotations": [body.get("envelope") for _, body in bodies]}, indent=1).encode()
        + b"\n"
    )


def lies_there(state: Path, due: bytes | None) -> bytes | None:
    """Return ``rotations.json`` as far as it can be ``due``; None: there is none; no bytes: it is no file.

    An auditor looks at a state that somebody else made: it may be a pipe, a link to a device, or without end.
    """
    try:
        fd = os.open(state / ROTATIONS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return b""
    try:
        return _read(fd, len(due or b"") + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    finally:
        os.close(fd)


def _read(fd: int, most: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        return file.read(most)


def publish(state: Path, ledger: Ledger) -> bool:
    """Write ``rotations.json`` where it is not what the log says; return whether it was written."""
    bodies = rotations(ledger)
    due = published(bodies) if bodies else b""
    if not due or lies_there(state, due) == due:
        return False
    replace_file(state, ROTATIONS, due, 0o644)
    return True


def _table(state: Path, role: str) -> KeyTable:
    tables = load_settings(state).keys
    by_role = {
        "ledger": tables.ledger,
        "release": tables.release,
        "revocation": tables.revocation,
        NODE: tables.node,
    }
    return by_role[role]
