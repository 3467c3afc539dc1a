"""A prefix of a bucket that holds an export: what lies there, read and verified. Nothing is written here.

A number's files lie below ``<home>/<number>/``, as in a directory. Which number is served says one object of the
home, which is written last: ``current`` (the number and a line end), or Triton's ``config.pbtxt``.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from collections.abc import Iterator
from typing import Final

from acceptd.errors import (
    DigestMismatchError,
    ExportError,
    MalformedError,
    ObjectDamagedError,
    ObjectMissingError,
    ReleaseNotFoundError,
)
from acceptd.export import verify
from acceptd.export.document import (
    CONFIG_FILE,
    CURRENT,
    EXPORT_FILE,
    MAX_BYTES,
    PROOFS,
    RELEASE_FILE,
    REVOCATIONS_FILE,
    ROTATIONS_FILE,
    Signed,
)
from acceptd.export.settings import Kind
from acceptd.objectstore.remote import Found, Remote
from acceptd.record.keys import Keyring
from acceptd.release import trust

MOST_KEYS: Final = 1_000_000
_MOST_POINTER: Final = 1 << 20
_PROBE: Final = "probe/"
"""By these objects acceptd proves that the bucket keeps conditions."""
_DIGITS: Final = frozenset("0123456789")


class Shelf:
    """One export in a bucket, as it was listed. As :class:`acceptd.export.verify.Holding`."""

    def __init__(self, remote: Remote, kind: Kind | None = None) -> None:
        self.remote = remote
        self.keys: dict[str, Found] = {}
        for one in remote.listed(""):
            self.keys[one.key] = one
            if len(self.keys) > MOST_KEYS:
                problem = f"{remote.where} holds more than {MOST_KEYS} objects"
                raise ExportError(problem, remedy="name a prefix of its own")
        triton = any(key.startswith("repository/") for key in self.keys)
        self.kind: Kind = kind or ("triton" if triton else "plain")
        other: Kind = "plain" if self.kind == "triton" else "triton"
        if kind is not None and not self.homes() and _homes(other, self.keys):
            raise ExportError(f"{remote.where} holds an export of another kind", remedy="name another prefix")

    def homes(self) -> list[str]:
        """Return every home, sorted."""
        return sorted(_homes(self.kind, self.keys))

    def versions(self, home: str) -> list[str]:
        """Return the numbers in a home, rising."""
        begin = f"{home}/"
        names = {key.removeprefix(begin).split("/")[0] for key in self.keys if key.startswith(begin)}
        numbers = {one for one in names if one and set(one) <= _DIGITS and len(one) <= 6}
        return sorted((one for one in numbers if self.below(f"{home}/{one}")), key=int)

    def below(self, place: str) -> list[str]:
        """Return the keys below a place."""
        return [key for key in self.keys if key.startswith(f"{place}/")]

    def pointer(self, home: str) -> str:
        """Return the key of the object that says which number is served."""
        return f"{home}/{CURRENT if self.kind == 'plain' else CONFIG_FILE}"

    def told(self, home: str) -> tuple[bytes, str]:
        """Return that object's content and tag, as they are now; nothing and no tag where it is not there."""
        try:
            return self.remote.read(self.pointer(home), _MOST_POINTER)
        except ObjectMissingError:
            return b"", ""

    def served(self, home: str) -> str:
        """Return the number that consumers are led to, empty for none."""
        with contextlib.suppress(UnicodeDecodeError, ObjectDamagedError):
            return leads_to(self.kind, self.told(home)[0])
        return ""

    def note(self, name: str, most: int) -> bytes | None:
        """As :meth:`Holding.note`."""
        if name not in self.keys:
            return None
        return self._read(name, most)

    def signed(self, place: str, keyring: Keyring, *ledger_keys: Keyring) -> Signed:
        """As :meth:`Holding.signed`."""
        export = self._read(f"{place}/{PROOFS}/{EXPORT_FILE}", MAX_BYTES)
        release = self._read(f"{place}/{PROOFS}/{RELEASE_FILE}", trust.MAX_RELEASE_BYTES)
        return verify.checked(export, release, place, keyring, *ledger_keys)

    def whole(self, found: Signed) -> None:
        """As :meth:`Holding.whole`; every byte is read back."""
        place = found.said.place
        wanted = {f"{place}/{one.path}": one for one in found.said.files}
        proofs = {f"{place}/{PROOFS}/{name}" for name in (EXPORT_FILE, RELEASE_FILE)}
        there = set(self.below(place))
        for key in sorted(there - wanted.keys() - proofs):
            raise DigestMismatchError(f"{key[:300]} was never exported")
        for key in sorted(wanted.keys() - there):
            raise DigestMismatchError(f"{key[:300]} is missing")
        for key, one in wanted.items():
            digest = hashlib.sha256()
            try:
                for part in self.remote.chunks(key, one.size):
                    digest.update(part)
            except (ObjectDamagedError, ObjectMissingError) as error:
                raise DigestMismatchError(str(error)) from error
            if not hmac.compare_digest(digest.hexdigest(), one.sha256):
                raise DigestMismatchError(f"{key[:300]} is not the file that was exported")

    def config(self, home: str) -> tuple[str, int]:
        """As :meth:`Holding.config`."""
        data = self._read(f"{home}/{CONFIG_FILE}", _MOST_POINTER)
        return hashlib.sha256(data).hexdigest(), len(data)

    def strangers(self) -> Iterator[str]:
        """As :meth:`Holding.strangers`."""
        for key in sorted(self._others()):
            yield f"{key[:300]}: it was never exported"

    def _others(self) -> Iterator[str]:
        """Yield the keys that are neither a number's, nor a pointer, nor beside the homes."""
        ours = [f"{home}/{version}/" for home in self.homes() for version in self.versions(home)]
        known = {self.pointer(home) for home in self.homes()} | {REVOCATIONS_FILE, ROTATIONS_FILE}
        for key in self.keys:
            if key not in known and not key.startswith((_PROBE, *ours)):
                yield key

    def _read(self, key: str, most: int) -> bytes:
        try:
            return self.remote.read(key, most)[0]
        except ObjectMissingError as error:
            raise ReleaseNotFoundError(str(error)) from error
        except ObjectDamagedError as error:
            raise MalformedError(str(error)) from error


def leads_to(kind: Kind, content: bytes) -> str:
    """Return the number that the content of a pointer leads to, empty for none."""
    text = content.decode("ascii")
    if kind == "triton":
        return text.partition("versions: ")[2].partition(" ")[0]
    return text.removesuffix("\n")


def _homes(kind: Kind, keys: dict[str, Found]) -> set[str]:
    found = set()
    for key in keys:
        parts = key.split("/")
        if kind == "triton" and len(parts) > 2 and parts[0] == "repository" and parts[1].count(".") == 2:
            found.add("/".join(parts[:2]))
        if kind == "plain" and len(parts) > 3 and all(trust.is_name(part) for part in parts[:3]):
            found.add("/".join(parts[:3]))
    return found
