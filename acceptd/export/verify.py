"""Verifies an export, a directory or a bucket, by a keyring alone: no database, no daemon, no bundle is parsed.

Everything there must be accounted for: each number's files, and no others, by SHA-256 and size as ``export.json``
says, which a release key signed, as ``release.json``, which another signature of the same role covers; the
number that is served; and the revocation list beside it, which no older one may replace.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol

from acceptd.errors import DigestMismatchError, LoaderError, MalformedError, ReleaseNotFoundError
from acceptd.export.document import (
    CONFIG_FILE,
    CURRENT,
    EXPORT_FILE,
    LOCK,
    MAX_BYTES,
    PROOFS,
    RELEASE_FILE,
    REVOCATIONS_FILE,
    ROTATIONS_FILE,
    STAGING,
    Signed,
    opened,
)
from acceptd.export.place import Place
from acceptd.export.settings import Kind
from acceptd.intake.files import open_beneath
from acceptd.record.keys import Keyring
from acceptd.release import objects, proof, rotated, trust

_CHUNK = 1 << 20
_OWN = frozenset({LOCK, STAGING, REVOCATIONS_FILE, ROTATIONS_FILE})


@dataclass(frozen=True, slots=True)
class Verified:
    """One number that verified. ``served``: consumers are led to it."""

    place: str
    model_id: str
    channel: str
    number: int
    model: str
    bundle_digest: str
    files: int
    size: int
    served: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What a directory holds, and a line for each thing that does not verify; none: all of it does."""

    kind: Kind
    verified: tuple[Verified, ...]
    problems: tuple[str, ...]
    revocations: int


class Holding(Protocol):
    """What holds an export: a directory, or a bucket. Methods raise LoaderError or OSError for what is wrong."""

    @property
    def kind(self) -> Kind:
        """Of the export."""

    def homes(self) -> list[str]:
        """Return the homes of numbers."""

    def versions(self, home: str) -> list[str]:
        """Return the numbers in a home, rising."""

    def served(self, home: str) -> str:
        """Return the number that consumers are led to, empty for none."""

    def note(self, name: str, most: int) -> bytes | None:
        """Return a file beside the homes, None where there is none."""

    def signed(self, place: str, keyring: Keyring, *ledger_keys: Keyring) -> Signed:
        """Return what a number's proofs say, and that they are of this place."""

    def whole(self, found: Signed) -> None:
        """Hash every file of a number."""

    def config(self, home: str) -> tuple[str, int]:
        """Return SHA-256 and size of a home's ``config.pbtxt``."""

    def strangers(self) -> Iterator[str]:
        """Yield a line for each thing outside the numbers that no export put there."""


def verify(root: Path, anchors: Keyring) -> Report:
    """Verify everything below an export's directory; raise LoaderError where it is no export at all."""
    fd = objects.open_root(root)
    try:
        kind: Kind = "triton" if (root / "repository").is_dir() else "plain"
        return examine(_Directory(fd, Place(root, kind)), str(root), anchors)
    finally:
        os.close(fd)


def examine(holding: Holding, where: str, anchors: Keyring) -> Report:
    """Verify everything that is held; raise LoaderError where it is no export at all."""
    told = holding.note(ROTATIONS_FILE, rotated.MAX_BYTES)
    keyring, ledger_keys = rotated.todays_keys(told, anchors, {})[0], rotated.ledger_keys(told, anchors)
    data = holding.note(REVOCATIONS_FILE, trust.MAX_REVOCATIONS_BYTES)
    listed = trust.revocations(data, keyring, least=0, remembered=0)
    if not holding.homes():
        raise ReleaseNotFoundError(f"{where} holds no export")
    found: list[Verified] = []
    problems: list[str] = []
    for home in holding.homes():
        for line in _home(holding, home, keyring, ledger_keys, listed, found):
            problems.append(f"{home}: {line}")
    problems += holding.strangers()
    return Report(holding.kind, tuple(found), tuple(problems), listed.number)


@dataclass(frozen=True, slots=True)
class _Directory:
    """A directory, by a descriptor of it and as a place. As :class:`Holding`."""

    fd: int
    place: Place

    @property
    def kind(self) -> Kind:
        return self.place.kind

    def homes(self) -> list[str]:
        return self.place.homes()

    def versions(self, home: str) -> list[str]:
        return self.place.versions(home)

    def served(self, home: str) -> str:
        return self.place.served(home)

    def note(self, name: str, most: int) -> bytes | None:
        return objects.read_if_there(self.fd, name, most)

    def signed(self, place: str, keyring: Keyring, *ledger_keys: Keyring) -> Signed:
        return signed(self.fd, place, keyring, *ledger_keys)

    def whole(self, found: Signed) -> None:
        whole(self.fd, found)

    def config(self, home: str) -> tuple[str, int]:
        return _hashed(self.fd, f"{home}/{CONFIG_FILE}")

    def strangers(self) -> Iterator[str]:
        return _strangers(self.place)


def signed(root: int, place: str, keyring: Keyring, *ledger_keys: Keyring) -> Signed:
    """Return what a number's proofs say, and that they are of this place; raise LoaderError. No file is hashed.

    ``ledger_keys`` are those of any time, and those given up (:func:`acceptd.release.rotated.ledger_keys`): with
    them the checkpoint that a release carries is verified as well.
    """
    export = objects.read_small(root, f"{place}/{PROOFS}/{EXPORT_FILE}", MAX_BYTES)
    release = objects.read_small(root, f"{place}/{PROOFS}/{RELEASE_FILE}", trust.MAX_RELEASE_BYTES)
    return checked(export, release, place, keyring, *ledger_keys)


def checked(export: bytes, release: bytes, place: str, keyring: Keyring, *ledger_keys: Keyring) -> Signed:
    """As :func:`signed`, of two files that were read."""
    found = opened(export, release, keyring)
    if found.said.place != place:
        raise DigestMismatchError(f"it was exported as {found.said.place[:200]!r}, not as {place}")
    if found.said.bundle_digest != found.release.bundle_digest:
        raise MalformedError("export.json and release.json name different bundles")
    rows = {file.path: file for file in found.release.files}
    for copied in found.said.files:
        source = rows.get(copied.source)
        if source is None or (source.sha256, source.size) != (copied.sha256, copied.size):
            raise DigestMismatchError(f"{copied.path[:200]!r} is no file of the release")
    if found.said.kind == "plain" and {one.path for one in found.said.files} != set(rows):
        raise DigestMismatchError("it does not hold all files of the release")
    proof.verify(found.release, *ledger_keys)
    return found


def whole(root: int, found: Signed) -> None:
    """Hash every file of a number and hold it against ``export.json``; raise LoaderError for any difference."""
    place = found.said.place
    wanted = {one.path: one for one in found.said.files}
    proofs = {f"{PROOFS}/{name}" for name in (EXPORT_FILE, RELEASE_FILE)}
    there = set(_walk(root, place))
    for path in sorted(there - wanted.keys() - proofs):
        raise DigestMismatchError(f"{place}/{path[:200]} was never exported")
    for path in sorted(wanted.keys() - there):
        raise DigestMismatchError(f"{place}/{path[:200]} is missing")
    for path, one in wanted.items():
        sha256, size = _hashed(root, f"{place}/{path}")
        if size != one.size or not hmac.compare_digest(sha256, one.sha256):
            raise DigestMismatchError(f"{place}/{path[:200]} is not the file that was exported")
    for path in sorted(proofs):
        _hashed(root, f"{place}/{path}")  # modes and links


def _home(
    holding: Holding,
    home: str,
    keyring: Keyring,
    ledger_keys: tuple[Keyring, Keyring],
    listed: trust.RevocationFacts,
    found: list[Verified],
) -> Iterator[str]:
    served = holding.served(home)
    versions = holding.versions(home)
    if served not in versions:
        yield f"it leads to {served[:40]!r}, which is not there" if served else "it leads to no number"
    for version in versions:
        try:
            one = holding.signed(f"{home}/{version}", keyring, *ledger_keys)
            holding.whole(one)
            trust.not_revoked(one.release, listed)
            if listed.number < one.said.least_revocations:
                least = one.said.least_revocations
                raise MalformedError(f"the revocation list {listed.number} is older than {least}: one is hidden")
            config = one.said.config
            if version == served and config is not None and holding.config(home) != (config.sha256, config.size):
                raise DigestMismatchError(f"{CONFIG_FILE} is not the one that was exported with it")
        except (LoaderError, OSError) as error:
            yield f"{version}: {error}"
            continue
        said = one.said
        size = sum(file.size for file in said.files)
        found.append(
            Verified(
                said.place, said.model_id, said.channel, said.number, said.model, said.bundle_digest,
                len(said.files), size, version == served,
            )
        )  # fmt: skip


def _strangers(place: Place) -> Iterator[str]:
    """Yield a line for each thing outside the numbers that no export put there."""
    known = {"."}
    for home in place.homes():
        parts = home.split("/")
        known |= {"/".join(parts[:cut]) for cut in range(1, len(parts) + 1)}
    homes = set(place.homes())
    switch = CURRENT if place.kind == "plain" else CONFIG_FILE
    for folder in sorted(known):
        if os.stat(place.root / folder).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            yield f"{folder}: it may be written by others"
        inside = {switch, *place.versions(folder)} if folder in homes else set()
        for name in sorted(os.listdir(place.root / folder)):
            path = name if folder == "." else f"{folder}/{name}"
            if not (path in known or name in inside or (folder == "." and name in _OWN)):
                yield f"{path[:300]}: it was never exported"


def _walk(root: int, place: str) -> Iterator[str]:
    """Yield the paths of all that is no directory below a number's own; links and devices are paths too."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        inner = f"{place}/{folder}".rstrip("/")
        fd = open_beneath(root, inner, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if os.fstat(fd).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise MalformedError(f"{inner[:200]} may be written by others")
            with os.scandir(fd) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}".lstrip("/")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    else:
                        yield path
        finally:
            os.close(fd)


def _hashed(root: int, path: str) -> tuple[str, int]:
    """Return SHA-256 and size of a regular file with one name, writable by its owner alone; raise LoaderError."""
    try:
        fd = open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise MalformedError(f"{path[:200]}: {error.strerror}") from error
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise MalformedError(f"{path[:200]} is no regular file with one name")
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise MalformedError(f"{path[:200]} may be written by others")
        with FileIO(fd, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), facts.st_size
    finally:
        os.close(fd)
