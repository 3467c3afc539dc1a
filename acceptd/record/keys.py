"""Ed25519 keys by role: private ones in ``keys/`` (0600 in 0700), public ones in ``keyring.json`` (0644).

A key for the ledger, one for releases and one for revocations (which may be kept offline), so that
none can speak for another. A key's id is the SHA-256 of its 32 public bytes (RFC 8032), in hex.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from acceptd.errors import ConfigError, SignatureError, StateError
from acceptd.intake.files import fsync_dir, remove_tree, replace_file, write_exclusive
from acceptd.weak_keys import refuse_weak

ROLES: Final = ("ledger", "release", "revocation")
NODE: Final = "node"
"""The role of a fleet node's own key: no keyring names it, the policy does, and it speaks for no other role."""
DIRECTORY: Final = "keys"
KEYRING: Final = "keyring.json"
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key and what it may sign."""

    role: str
    key_id: str
    raw: bytes
    """32 bytes (RFC 8032, 5.1.5)."""


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


@dataclass(frozen=True)
class Keyring:
    """Public keys by role. An empty keyring verifies nothing."""

    keys: tuple[PublicKey, ...]

    @classmethod
    def of(cls, keys: Iterable[PublicKey]) -> Keyring:
        """Return a keyring; raise ConfigError for an unknown role or a key that serves two roles."""
        chosen = tuple(keys)
        roles: dict[str, str] = {}
        for key in chosen:
            if key.role not in ROLES:
                raise ConfigError(f"keyring: {key.role!r:.40} is no role (one of {', '.join(ROLES)})")
            if roles.setdefault(key.key_id, key.role) != key.role:
                raise ConfigError(f"keyring: key {key.key_id} has two roles", remedy="use one key for each role")
        return cls(chosen)

    @classmethod
    def parse(cls, data: bytes, name: str = KEYRING) -> Keyring:
        """Return the keyring that ``data`` (JSON) holds; raise ConfigError where it is malformed."""
        try:
            value = json.loads(data.decode("utf-8"))
            if set(value) != {"schema", "keys"} or value["schema"] != 1 or not isinstance(value["keys"], list):
                raise ValueError('{"schema": 1, "keys": [...]} is needed')
            return cls.of(_public_key(item) for item in value["keys"])
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise ConfigError(f"{name}: not a keyring: {error}") from error

    @classmethod
    def load(cls, path: Path, *, owners: Collection[int] | None = None) -> Keyring:
        """Return the keyring in a file; raise ConfigError where it may have been written by a stranger.

        It must be a regular file, no link, writable by its owner only, and that one of ``owners``
        (default: root and this process's user).
        """
        return cls.parse(read_owned(path, owners, forbidden=0o022), str(path))

    def to_json(self) -> bytes:
        """Return the file's bytes."""
        keys = [
            {"role": key.role, "key_id": key.key_id, "public": base64.b64encode(key.raw).decode()}
            for key in self.keys
        ]
        return json.dumps({"schema": 1, "keys": keys}, indent=2).encode() + b"\n"

    def at(self, _seq: int, /) -> Keyring:
        """Return this keyring: it knows of no rotation (:mod:`acceptd.record.succession` does)."""
        return self

    def in_office(self, _seq: int, /) -> Keyring:
        """Return this keyring, as :meth:`at`."""
        return self

    def for_role(self, role: str) -> tuple[PublicKey, ...]:
        """Return the keys that may sign as ``role``."""
        return tuple(key for key in self.keys if key.role == role)

    def verify(self, role: str, key_id: str, data: bytes, signature: bytes) -> None:
        """Return if ``signature`` of ``data`` is by the key ``key_id`` of ``role``; else raise SignatureError."""
        for key in self.for_role(role):
            if key.key_id == key_id:
                try:
                    Ed25519PublicKey.from_public_bytes(key.raw).verify(signature, data)
                except InvalidSignature as error:
                    raise SignatureError(f"the signature by {role} key {key_id} does not verify") from error
                return
        others = [key.role for key in self.keys if key.key_id == key_id]
        words = f"the {others[0]} key, and that is no {role} key" if others else f"no {role} key of the keyring"
        raise SignatureError(f"signed by {key_id!r:.80}, which is {words}")


def key_id(raw: bytes) -> str:
    """Return the id of a public key: SHA-256 of its raw bytes, 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()


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
        _check_owned(directory, directory.lstat(), None, 0o077, stat.S_ISDIR, "directory")
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


def read_owned(
    path: Path, owners: Collection[int] | None, *, forbidden: int, remedy: str = "keys are made by `acceptd init`"
) -> bytes:
    """Return the bytes of a regular file, no link, of ``owners`` (None: root, us), without ``forbidden`` bits."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy=remedy) from error
    with open(fd, "rb") as file:
        _check_owned(path, os.fstat(fd), owners, forbidden, stat.S_ISREG, "regular file")
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path}: larger than {_MAX_BYTES} bytes")
    return data


def _check_owned(
    path: Path, status: os.stat_result, owners: Collection[int] | None, forbidden: int, is_kind: Any, kind: str
) -> None:
    if not is_kind(status.st_mode):
        raise ConfigError(f"{path}: not a {kind}")
    if status.st_uid not in (owners if owners is not None else {0, os.geteuid()}):
        raise ConfigError(f"{path}: owned by uid {status.st_uid}, a stranger", remedy="chown it to acceptd's user")
    if stat.S_IMODE(status.st_mode) & forbidden:
        words = "readable or writable" if forbidden & 0o044 else "writable"
        raise ConfigError(
            f"{path}: {words} by group or others", remedy=f"chmod go-{'rwx' if forbidden & 0o044 else 'w'} {path}"
        )


def _public_key(item: Any) -> PublicKey:
    if set(item) != {"role", "key_id", "public"} or not all(isinstance(value, str) for value in item.values()):
        raise ValueError("a key has role, key_id and public")
    try:
        raw = base64.b64decode(item["public"], validate=True)
    except binascii.Error as error:
        raise ValueError("`public` is base64") from error
    if len(raw) != 32 or item["key_id"] != key_id(raw):
        raise ValueError(f"key_id {item['key_id']!r:.80} is not the SHA-256 of its 32 public bytes")
    return PublicKey(item["role"], item["key_id"], refuse_weak(raw))
