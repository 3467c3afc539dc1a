"""Ed25519 keys by role: private ones in ``keys/`` (0600 in 0700), public ones in ``keyring.json`` (0644).

A key for the ledger, one for releases and one for revocations (which may be kept offline), so that
none can speak for another. A key's id is the SHA-256 of its 32 public bytes (RFC 8032), in hex.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ConfigError, StateError
from acceptd.intake.files import fsync_dir, remove_tree, replace_file, write_exclusive
from acceptd.record.keyring import KEYRING as KEYRING
from acceptd.record.keyring import ROLES as ROLES
from acceptd.record.keyring import Keyring as Keyring
from acceptd.record.keyring import PublicKey as PublicKey
from acceptd.record.keyring import check_owned
from acceptd.record.keyring import key_id as key_id
from acceptd.record.keyring import read_owned as read_owned

NODE: Final = "node"
"""The role of a fleet node's own key: no keyring names it, the policy does, and it speaks for no other role."""
DIRECTORY: Final = "keys"


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key in use, here or behind a command. Its representation shows the id only."""

    role: str
    key_id: str
    public: bytes
    _sign: Callable[[bytes], bytes] = field(repr=False)

    @classmethod
    def of(cls, role: str, private: Ed25519PrivateKey) -> Signer:
        """Return the signer for a private key in memory."""
        raw = private.public_key().public_bytes_raw()
        return cls(role, key_id(raw), raw, private.sign)

    def sign(self, data: bytes) -> bytes:
        """Return the 64-byte Ed25519 signature of ``data``; raise SigningError where a command makes none."""
        return self._sign(data)

    def public_key(self) -> PublicKey:
        """Return the public half."""
        return PublicKey(self.role, self.key_id, self.public)


class Keys(Protocol):
    """Whoever can say which keys count for an entry: a keyring, or a log's history of keys."""

    def at(self, seq: int, /) -> Keyring:
        """Return the keys whose word about the entry ``seq`` counts."""
        ...


class Offices(Keys, Protocol):
    """Whoever can also say which keys signed at a time, wherever their word counts today."""

    def in_office(self, seq: int, /) -> Keyring:
        """Return the keys that signed when the entry ``seq`` was the newest: one compromised later among them."""
        ...


def create_keys(state: Path, elsewhere: Mapping[str, PublicKey] | None = None) -> Keyring:
    """Make one key for each role below ``state`` and return the keyring.

    ``elsewhere`` are roles whose private key is kept behind a command: for those no file is made. Raises
    ConfigError where one key has two roles. ``keys/`` appears whole or not at all. Refuses, with StateError, to
    replace existing keys or an existing keyring; an interrupted creation, which left the keys without their
    keyring, is finished.
    """
    kept = dict(elsewhere or {})
    own = [role for role in ROLES if role not in kept]
    Keyring.of(kept.values())
    directory, keyring_path = state / DIRECTORY, state / KEYRING
    has_keyring = os.path.lexists(keyring_path)
    if os.path.lexists(directory) and not _is_empty_directory(directory):
        if has_keyring:
            raise StateError(f"{directory}: keys exist and are never overwritten")
        made = {role: load_signer(state, role).public_key() for role in own}
    else:
        if has_keyring:
            raise StateError(f"{keyring_path}: a keyring without its keys; it is never overwritten")
        private = {role: Ed25519PrivateKey.generate() for role in own}
        _write_private(state, private)
        made = {role: Signer.of(role, key).public_key() for role, key in private.items()}
    keyring = Keyring.of((made | kept)[role] for role in ROLES)
    replace_file(state, KEYRING, keyring.to_json(), 0o644)
    return keyring


def load_keyring(state: Path) -> Keyring:
    """Return the state directory's keyring; its owner may be the state directory's as well."""
    try:
        owner = os.stat(state).st_uid
    except OSError as error:
        raise StateError(f"{state}: no state directory: {error.strerror}", remedy="run `acceptd init`") from error
    return Keyring.load(state / KEYRING, owners={0, os.geteuid(), owner})


def load_signer(state: Path, role: str, suffix: str = ".pem") -> Signer:
    """Return the private key of ``role`` in ``keys/``.

    Raises ConfigError where the file or its directory can be read or written by group or others, is a
    link, belongs to somebody other than this process's user (or root), or is no Ed25519 key in PKCS8 PEM.
    """
    if role not in (*ROLES, NODE):
        raise ConfigError(f"{role!r:.40} is no role of a key (one of {', '.join(ROLES)}, {NODE})")
    directory = state / DIRECTORY
    try:
        check_owned(directory, directory.lstat(), None, 0o077, stat.S_ISDIR, "directory")
    except OSError as error:
        raise ConfigError(f"{directory}: {error.strerror}", remedy="run `acceptd init`") from error
    path = directory / f"{role}{suffix}"
    try:
        from cryptography.hazmat.primitives import serialization  # not for a loader, which has public keys alone

        private = serialization.load_pem_private_key(read_owned(path, None, forbidden=0o077), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: no private key in PKCS8 PEM without a password") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigError(f"{path}: not an Ed25519 key")
    return Signer.of(role, private)


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not os.listdir(path)


def private_pem(private: Ed25519PrivateKey) -> bytes:
    """Return a private key as our files hold it: PKCS8 in PEM, without a password."""
    from cryptography.hazmat.primitives import serialization

    return private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_private(state: Path, private: Mapping[str, Ed25519PrivateKey]) -> None:
    temporary = f".tmp-{secrets.token_hex(8)}"
    try:
        os.mkdir(state / temporary, 0o700)
        for role, key in private.items():
            write_exclusive(state / temporary, f"{role}.pem", private_pem(key), 0o600)
        # rename(2) replaces an empty directory only, so a creator that came first keeps its keys.
        os.rename(state / temporary, state / DIRECTORY)
        fsync_dir(state)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_tree(state, temporary)
        raise StateError(f"{state / DIRECTORY}: keys cannot be written: {error.strerror}") from error
