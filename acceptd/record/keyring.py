"""Public Ed25519 keys by role, as ``keyring.json`` has them: what a loader trusts. No private key comes here.

A key's id is the SHA-256 of its 32 public bytes (RFC 8032), in hex.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from acceptd.errors import ConfigError, SignatureError
from acceptd.weak_keys import refuse_weak

ROLES: Final = ("ledger", "release", "revocation")
KEYRING: Final = "keyring.json"
_MAX_BYTES: Final = 1 << 20


class PublicKey(NamedTuple):
    """A public key and what it may sign."""

    role: str
    key_id: str
    raw: bytes
    """32 bytes (RFC 8032, 5.1.5)."""


class Keyring(NamedTuple):
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
        return _parsed(data, name)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, owners: Collection[int] | None = None) -> Keyring:
        """Return the keyring in a file; raise ConfigError where it may have been written by a stranger.

        It must be a regular file, no link, writable by its owner only, and that one of ``owners``
        (default: root and this process's user).
        """
        return cls.parse(read_owned(path, owners, forbidden=0o022), os.fspath(path))

    def to_json(self) -> bytes:
        """Return the file's bytes."""
        keys = [{"role": key.role, "key_id": key.key_id, "public": _base64(key.raw)} for key in self.keys]
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


@functools.lru_cache(maxsize=16)
def _parsed(data: bytes, name: str) -> Keyring:
    """Read a keyring; the same bytes once in a process (what raises is not kept)."""
    try:
        value = json.loads(data.decode("utf-8"))
        if set(value) != {"schema", "keys"} or value["schema"] != 1 or not isinstance(value["keys"], list):
            raise ValueError('{"schema": 1, "keys": [...]} is needed')
        return Keyring.of(_public_key(item) for item in value["keys"])
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ConfigError(f"{name}: not a keyring: {error}") from error


def key_id(raw: bytes) -> str:
    """Return the id of a public key: SHA-256 of its raw bytes, 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()


def read_owned(
    path: str | os.PathLike[str],
    owners: Collection[int] | None,
    *,
    forbidden: int,
    remedy: str = "keys are made by `acceptd init`",
) -> bytes:
    """Return the bytes of a regular file, no link, of ``owners`` (None: root, us), without ``forbidden`` bits."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy=remedy) from error
    try:
        check_owned(path, os.fstat(fd), owners, forbidden, stat.S_ISREG, "regular file")
        with open(fd, "rb", closefd=False) as file:  # only now: of a directory it is no error of ours
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:  # a disk's error has no path of its own
        raise ConfigError(f"{path}: {error.strerror}", remedy=remedy) from error
    finally:
        os.close(fd)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path}: larger than {_MAX_BYTES} bytes")
    return data


def check_owned(
    path: str | os.PathLike[str],
    status: os.stat_result,
    owners: Collection[int] | None,
    forbidden: int,
    is_kind: Any,
    kind: str,
) -> None:
    """Raise ConfigError unless a file is of a kind, belongs to one of ``owners`` and lacks ``forbidden`` bits."""
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
        raw = binascii.a2b_base64(item["public"], strict_mode=True)
    except binascii.Error as error:
        raise ValueError("`public` is base64") from error
    if len(raw) != 32 or item["key_id"] != key_id(raw):
        raise ValueError(f"key_id {item['key_id']!r:.80} is not the SHA-256 of its 32 public bytes")
    return PublicKey(item["role"], item["key_id"], refuse_weak(raw))


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
