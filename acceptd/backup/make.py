"""A backup of a state directory while a daemon works on it.

The ledger comes first, as a file of SQLite: by its online backup, or out of one snapshot of PostgreSQL's. What
it speaks of comes after it, and of the store nothing else: bundles are there before a release names them,
nothing may be removed meanwhile, and what is accepted meanwhile is of a later moment. Promotions and
revocations wait while ledger, pointers and lists are copied, so that no channel is ahead of the ledger;
submissions go on.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from acceptd import __version__
from acceptd.backup.document import FILES, NAME, Document, Kept
from acceptd.config import FILE, Paths
from acceptd.errors import StateError
from acceptd.intake.files import fsync_dir, remove_tree, write_exclusive
from acceptd.record import checkpoint
from acceptd.record.copies import copy_to_file
from acceptd.record.database import FILE_NAME
from acceptd.record.entry import utc_now
from acceptd.record.keys import KEYRING
from acceptd.record.keystore import ROTATIONS
from acceptd.record.log import Ledger
from acceptd.record.place import Place
from acceptd.release.audit import spoken_of
from acceptd.release.layout import REVOCATIONS_FILE, keys_lock, revocation_lock, store_lock

POINTERS: Final = ("releases", KEYRING, REVOCATIONS_FILE, ROTATIONS, FILE)
"""What changes with a promotion, a revocation or a rotation; acceptd.toml beside it."""
BYTES: Final = ("sealed", "quarantine", "store", "heldout", "outputs", "follow")
"""Copied in this order: a bundle moves from the first to the next two, never back."""
STORE: Final = "store/sha256"
_CHUNK: Final = 1 << 20


def make(
    paths: Paths, target: Path, *, with_keys: bool, told: Callable[[str], None] = lambda _text: None
) -> Document:
    """Make the backup ``target``, a new directory (0700); it has its name only when it is whole and durable.

    Raises StateError where ``target`` is there, lies in the state, or the storage fails, LedgerError where the
    database is damaged.
    """
    if os.path.lexists(target):
        raise StateError(f"{target} is there already", remedy="name a new directory")
    if target.resolve().is_relative_to(paths.state.resolve()):
        raise StateError(f"{target} lies in the state directory", remedy="name a place outside of it")
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        aside.mkdir(mode=0o700)
        document = _Copy(paths.state, aside / FILES, told).all(with_keys=with_keys)
        write_exclusive(aside, NAME, document.text(), 0o600)
        fsync_dir(aside)
        aside.rename(target)
        fsync_dir(target.parent)
    except OSError as error:
        raise StateError(
            f"{error.filename or aside}: {error.strerror}", remedy="make room, or look at it"
        ) from error
    finally:
        if aside.exists():
            remove_tree(aside.parent, aside.name)
    return document


class _Copy:
    def __init__(self, state: Path, target: Path, told: Callable[[str], None]) -> None:
        self._state, self._target, self._told = state, target, told
        self._files: list[Kept] = []
        self._bundles: set[str] = set()
        """Those of the store that the copied ledger speaks of; one accepted since is not of this moment."""

    def all(self, *, with_keys: bool) -> Document:
        self._target.mkdir(mode=0o700)
        with keys_lock(self._state, shared=True), store_lock(self._state, shared=True):
            with revocation_lock(self._state, shared=False):
                self._told("the ledger")
                copy_to_file(Place.of(self._state), self._target, FILE_NAME, self._told)
                for name in POINTERS:
                    self._told(name)
                    self._tree(name)
            with _opened(self._target) as ledger:
                head, origin = ledger.tree(), ledger.origin
                self._bundles = spoken_of(ledger)
            self._note(FILE_NAME, self._target / FILE_NAME)
            for size in checkpoint.sizes(self._state):
                if size <= head.size:  # a later one would say that this ledger was cut
                    self._tree(f"{checkpoint.DIRECTORY}/{checkpoint.file_name(size)}")
            for name in (*BYTES, *(["keys"] if with_keys else [])):
                self._told(name)
                self._tree(name)
        root = head.root.hex()
        return Document(
            made_at=utc_now(), version=__version__, origin=origin, entries=head.size, root=root,
            with_keys=with_keys, files=self._files,
        )  # fmt: skip

    def _tree(self, name: str) -> None:
        """Copy a file, a link, or all of a directory; what goes meanwhile was not to be kept."""
        source = self._state / name
        try:
            status = source.lstat()
        except FileNotFoundError:
            return
        if stat.S_ISLNK(status.st_mode):
            self._link(name, os.readlink(source))
        elif stat.S_ISDIR(status.st_mode):
            place = self._target / name
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                inside = sorted(os.listdir(source))
            except FileNotFoundError:
                return
            for one in inside:
                if not one.startswith(".tmp-") and (name != STORE or one in self._bundles):
                    self._tree(f"{name}/{one}")
            fsync_dir(place)
        elif stat.S_ISREG(status.st_mode):
            self._file(name, source, stat.S_IMODE(status.st_mode))

    def _link(self, name: str, target: str) -> None:
        place = self._target / name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.symlink(target, place)
        self._files.append(Kept(path=name, link=target))

    def _file(self, name: str, source: Path, mode: int) -> None:
        place = self._target / name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            given = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        digest, size = copy(given, place)
        self._files.append(Kept(path=name, sha256=digest, size=size, mode=mode & 0o777))

    def _note(self, name: str, place: Path) -> None:
        with place.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._files.append(Kept(path=name, sha256=digest, size=place.stat().st_size, mode=0o600))


def copy(given: int, place: Path) -> tuple[str, int]:
    """Copy an open file to the new ``place`` (0600), durably; return SHA-256 and size. Closes ``given``."""
    digest, size = hashlib.sha256(), 0
    with os.fdopen(given, "rb") as source, place.open("xb") as target:
        os.fchmod(target.fileno(), 0o600)
        while part := source.read(_CHUNK):
            digest.update(part)
            size += len(part)
            target.write(part)
        target.flush()
        os.fsync(target.fileno())
    return digest.hexdigest(), size


@contextmanager
def _opened(folder: Path) -> Iterator[Ledger]:
    """Open the copy of the ledger to read its head; it is left as one file."""
    try:
        with Ledger.open(folder, create=False, place=Place(folder)) as ledger:
            yield ledger
    finally:
        for suffix in ("-wal", "-shm"):
            (folder / f"{FILE_NAME}{suffix}").unlink(missing_ok=True)
