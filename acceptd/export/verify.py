"""Verifies an exported directory by a keyring alone: no database, no daemon, nothing of the bundle is parsed.

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


def verify(root: Path, anchors: Keyring) -> Report:
    """Verify everything below an export's directory; raise LoaderError where it is no export at all."""
    fd = objects.open_root(root)
    try:
        kind: Kind = "triton" if (root / "repository").is_dir() else "plain"
        place, problems = Place(root, kind), []
        told = objects.read_if_there(fd, ROTATIONS_FILE, rotated.MAX_BYTES)
        keyring, ledger_keys = rotated.todays_keys(told, anchors, {})[0], rotated.ledger_keys(told, anchors)
        listed = _listed(fd, keyring)
        if not place.homes():
            raise ReleaseNotFoundError(f"{root} holds no export")
        found: list[Verified] = []
        for home in place.homes():
            for line in _home(fd, place, home, keyring, ledger_keys, listed, found):
                problems.append(f"{home}: {line}")
        problems += _strangers(place)
    finally:
        os.close(fd)
    return Report(kind, tuple(found), tuple(problems), listed.number)


def signed(root: int, place: str, keyring: Keyring, *ledger_keys: Keyring) -> Signed:
    """Return what a number's proofs say, and that they are of this place; raise LoaderError. No file is hashed.

    ``ledger_keys`` are those of any time, and those given up (:func:`acceptd.release.rotated.ledger_keys`): with
    them the checkpoint that a release carries is verified as well.
    """
    export = objects.read_small(root, f"{place}/{PROOFS}/{EXPORT_FILE}", MAX_BYTES)
    release = objects.read_small(root, f"{place}/{PROOFS}/{RELEASE_FILE}", trust.MAX_RELEASE_BYTES)
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
    fd: int,
    place: Place,
    home: str,
    keyring: Keyring,
    ledger_keys: tuple[Keyring, Keyring],
    listed: trust.RevocationFacts,
    found: list[Verified],
) -> Iterator[str]:
    served = place.served(home)
    versions = place.versions(home)
    if served not in versions:
        yield f"it leads to {served[:40]!r}, which is not there" if served else "it leads to no number"
    for version in versions:
        try:
            one = signed(fd, f"{home}/{version}", keyring, *ledger_keys)
            whole(fd, one)
            trust.not_revoked(one.release, listed)
            if listed.number < one.said.least_revocations:
                least = one.said.least_revocations
                raise MalformedError(f"the revocation list {listed.number} is older than {least}: one is hidden")
            if version == served and one.said.config is not None:
                _config(fd, home, one)
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


def _config(fd: int, home: str, one: Signed) -> None:
    assert one.said.config is not None
    if _hashed(fd, f"{home}/{CONFIG_FILE}") != (one.said.config.sha256, one.said.config.size):
        raise DigestMismatchError(f"{CONFIG_FILE} is not the one that was exported with it")


def _listed(fd: int, keyring: Keyring) -> trust.RevocationFacts:
    data = objects.read_if_there(fd, REVOCATIONS_FILE, trust.MAX_REVOCATIONS_BYTES)
    return trust.revocations(data, keyring, least=0, remembered=0)


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
