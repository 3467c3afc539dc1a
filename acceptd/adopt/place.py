"""The directory that adoption writes to: what was written there by it is known by digest, all else is a person's.

``adopt.json`` holds the digests. A file that is not what it says was edited, and is never replaced or removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from acceptd.bundling.write import placed
from acceptd.errors import UsageError
from acceptd.intake.files import replace_files
from acceptd.intake.paths import shown
from acceptd.lockfile import open_lock
from acceptd.policy.names import BundlePath, Name, Sha256
from acceptd.policy.table import Table

LOCK: Final = ".adopt.lock"
RECORD: Final = "adopt.json"
BUNDLES: Final = "bundles"
CONTRACTS: Final = "contracts"
_MOST_BYTES: Final = 256 << 20
_CHUNK: Final = 1 << 20


class Kept(Table):
    """What an earlier run made of one model. Digests are SHA-256 in hex."""

    path: Annotated[str, Field(max_length=8192)]
    """Below the directory that was adopted."""
    name: Name
    sources: dict[str, Sha256] = {}
    """What was read there, by path below it; a file that is not there any more counts as changed."""
    files: dict[BundlePath, Sha256] = {}
    """What was written, by path below the bundle's own directory."""
    contract: Sha256 | None = None
    guessed: list[str] = []
    """What was guessed in the proposal, in our own words."""
    row: dict[str, Any] = {}
    """What was said of it (:mod:`acceptd.adopt.rows`)."""


class Record(Table):
    """``adopt.json``."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    acceptd: str = ""
    root: str = ""
    models: list[Kept] = []


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of bringing a new proposal to its place."""

    files: dict[str, str]
    """Everything that is ours now, by digest."""
    edited: tuple[str, ...]
    """What a person changed or added under a name of ours, and was left alone."""


@dataclass(slots=True)
class Place:
    """One such directory."""

    home: Path

    @property
    def bundles(self) -> Path:
        """Where the bundles are, one directory each."""
        return self.home / BUNDLES

    def bundle(self, name: str) -> Path:
        """Return the directory of one bundle."""
        return self.bundles / name

    def contract(self, model_id: str) -> Path:
        """Return the proposed contract of a model, which has passed the grammar of names."""
        return self.home / CONTRACTS / f"{model_id}.toml"

    def read(self) -> Record:
        """Return what the runs before left. Raises UsageError where that is no such record."""
        path = self.home / RECORD
        if not os.path.lexists(self.home):
            return Record()
        if not path.is_file():
            if any(one.name != LOCK for one in self.home.iterdir()):
                raise UsageError(
                    f"{shown(str(self.home))} is not empty, and no adoption has written it",
                    remedy="name a new directory with --into",
                )
            return Record()
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise ValueError("too large")
            return Record.model_validate_json(path.read_bytes())
        except (ValueError, ValidationError) as error:
            raise UsageError(
                f"{shown(str(path))} is no record of an adoption: {str(error).splitlines()[0][:120]}",
                remedy="move it away and name a new directory with --into",
            ) from error

    def write(self, record: Record) -> None:
        """Replace the record, whole."""
        body = json.dumps(
            record.model_dump(mode="json", by_alias=True), ensure_ascii=True, indent=1, sort_keys=True
        )
        with placed(self.home / RECORD):
            replace_files(self.home, {RECORD: body.encode("ascii") + b"\n"}.items(), 0o644)

    @contextlib.contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """Yield a path beside the bundle that does not exist yet, for a proposal; what is left there goes."""
        self.bundles.mkdir(parents=True, exist_ok=True)
        path = self.bundles / f".{name}.new"
        shutil.rmtree(path, ignore_errors=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def merge(self, fresh: Path, name: str, ours: Mapping[str, str]) -> Merged:
        """Bring a proposal to its place. ``ours`` is what the run before wrote there.

        A file there that is not ours stays. What was ours and is not proposed any more goes.
        """
        target = self.bundle(name)
        files, edited = {}, []
        proposed = {path: digest(fresh / path) for path in regular(fresh)}
        for path, made in ours.items():  # first: a file may have become a directory, or the other way round
            if path not in proposed and digest_or_none(target / path) == made:
                (target / path).unlink()
                _without_empty(target, path)
        for path, made in sorted(proposed.items()):
            there = digest_or_none(target / path)
            if there is not None and there != made and there != ours.get(path):
                edited.append(path)
                continue
            if there != made:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                os.rename(fresh / path, target / path)
            files[path] = made
        return Merged(files, tuple(edited))

    def edited(self, name: str, ours: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return which of our files a person changed; None where one is not there any more."""
        changed = []
        for path, made in sorted(ours.items()):
            there = digest_or_none(self.bundle(name) / path)
            if there is None:
                return None
            if there != made:
                changed.append(path)
        return tuple(changed)


@contextlib.contextmanager
def alone(place: Place, root: str = "") -> Iterator[None]:
    """Hold the directory for one run at a time; ``root`` says what is adopted.

    Raises UsageError: another run is at it, it is no such directory, or has what was adopted from elsewhere.
    """
    before = place.read().root
    if root and before not in {"", root}:
        raise UsageError(
            f"{shown(str(place.home))} holds what was adopted from {before}",
            remedy="name another directory with --into",
        )
    place.home.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock(place.home / LOCK)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another adoption is at work in {shown(str(place.home))}", remedy="wait for its end"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _without_empty(root: Path, path: str) -> None:
    """Remove the directories that ``path`` lay in, as far as nothing is in them any more."""
    folder = path.rpartition("/")[0]
    with contextlib.suppress(OSError):
        while folder:
            (root / folder).rmdir()
            folder = folder.rpartition("/")[0]


def put_text(path: Path, text: str, ours: str | None) -> tuple[str | None, bool]:
    """Write a text of ours unless a person changed what is there; return its digest, and whether they did."""
    data = text.encode()
    made = hashlib.sha256(data).hexdigest()
    there = digest_or_none(path)
    if there is not None and there not in {ours, made}:
        return ours, True
    if there != made:
        path.parent.mkdir(parents=True, exist_ok=True)
        with placed(path):
            replace_files(path.parent, {path.name: data}.items(), 0o644)
    return made, False


def regular(root: Path) -> Iterator[str]:
    """Yield every regular file below ``root`` by its path there."""
    for folder, _, entries in os.walk(root):
        for entry in entries:
            path = Path(folder) / entry
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(root).as_posix()


def digest(path: Path) -> str:
    """Return the SHA-256 of a regular file; no link is followed. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_or_none(path: Path) -> str | None:
    """Return the SHA-256 of what lies there; None where nothing does. What cannot be read is nobody's of ours."""
    try:
        return digest(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return ""
