"""The directory that an export goes to: who may write there, its lock, its staging area, and what lies in it.

Nothing is built where a consumer looks: ``.staging`` lies beside, on the same file system, and everything comes
into its place, and leaves it, by one rename(2).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acceptd.errors import ExportError
from acceptd.export.document import CONFIG_FILE, CURRENT, LOCK, PROOFS, STAGING
from acceptd.export.settings import Kind
from acceptd.intake.files import fsync_dir, remove_temporaries, remove_tree, temporary_name, write_exclusive
from acceptd.lockfile import open_lock
from acceptd.release.grammar import NAME

_DIGITS = frozenset("0123456789")


@dataclass(frozen=True, slots=True)
class Place:
    """An export's directory, locked by this process."""

    root: Path
    kind: Kind

    @property
    def staging(self) -> Path:
        """Where things are built, and where they go before they are removed."""
        return self.root / STAGING

    def homes(self) -> list[str]:
        """Return every home below the directory that bears a name of ours, relative to it."""
        if self.kind == "triton":
            return [f"repository/{name}" for name in _folders(self.root / "repository") if name.count(".") == 2]
        return [
            f"{team}/{model}/{channel}"
            for team in _named(self.root)
            for model in _named(self.root / team)
            for channel in _named(self.root / team / model)
        ]

    def astray(self, begin: str) -> Path | None:
        """Return a link on the way to homes that begin so, or in place of one: nothing is done where it leads."""
        path, (*folders, last) = self.root, begin.split("/")
        for part in folders:
            path /= part
            if path.is_symlink():
                return path
        if self.kind == "plain":
            return path / last if (path / last).is_symlink() else None
        return next((one for one in sorted(path.glob(f"{last}*")) if one.is_symlink()), None)

    def versions(self, home: str) -> list[str]:
        """Return the numbers in a home, rising."""
        names = [name for name in _folders(self.root / home) if set(name) <= _DIGITS and len(name) <= 6]
        return sorted(names, key=int)

    def proofs_in(self, home: str) -> bool:
        """Say whether a number in a home has a place for our proofs, whatever they say."""
        return any((self.root / home / version / PROOFS).is_dir() for version in self.versions(home))

    def make(self, home: str) -> Path:
        """Make a home's directories, each durable; raise ExportError where a link stands in the way."""
        path = self.root
        for part in home.split("/"):
            parent, path = path, path / part
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o755)
                path.chmod(0o755)
                fsync_dir(parent)
            if path.is_symlink() or not path.is_dir():
                raise ExportError(f"{path} is no directory", remedy="remove what stands there")
        return path

    def take_away(self, relative: str) -> None:
        """Take a number's directory, or a whole home, out of its place by one rename, durably; then remove it."""
        path, gone = self.root / relative, temporary_name()
        try:
            os.rename(path, self.staging / gone)
        except FileNotFoundError:
            return
        fsync_dir(path.parent)
        if left := remove_tree(self.staging, gone):
            raise ExportError(f"{self.staging}: not removed: {left[0]}", remedy="remove it by hand")

    def put_file(self, path: Path, data: bytes) -> None:
        """Give a file below the directory this content: what is there before and after is whole."""
        name = temporary_name()
        write_exclusive(self.staging, name, data, 0o444)
        self._bring(name, path)

    def put_link(self, path: Path, target: str) -> None:
        """Point a link below the directory at ``target``."""
        name = temporary_name()
        os.symlink(target, self.staging / name)
        self._bring(name, path)

    def _bring(self, name: str, path: Path) -> None:
        os.rename(self.staging / name, path)
        fsync_dir(path.parent)

    def served(self, home: str) -> str:
        """Return the number that consumers are led to, empty for none: where the link, or config.pbtxt, leads."""
        if self.kind == "plain":
            with contextlib.suppress(OSError):
                return os.readlink(self.root / home / CURRENT)
            return ""
        with contextlib.suppress(OSError, ValueError):
            text = (self.root / home / CONFIG_FILE).read_bytes().decode("ascii")
            return text.partition("versions: ")[2].partition(" ")[0]
        return ""


@contextlib.contextmanager
def opened(root: Path, kind: Kind, state: Path) -> Iterator[Place]:
    """Lock an export's directory and give it.

    Raises ExportError where it is not there (a volume that is not mounted would look empty), lies in the state
    directory or around it, or others may write to it.
    """
    try:
        facts = os.lstat(root)
    except OSError as error:
        remedy = "make the directory, or mount its volume"
        raise ExportError(f"{root}: {error.strerror}", remedy=remedy) from error
    if not stat.S_ISDIR(facts.st_mode):
        raise ExportError(f"{root} is no directory", remedy="name the directory itself, not a link")
    if facts.st_uid not in {0, os.geteuid()} or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ExportError(
            f"{root} may be written by others", remedy=f"chown it to uid {os.geteuid()}; chmod go-w {root}"
        )
    real, own = root.resolve(), state.resolve()
    if real.is_relative_to(own) or own.is_relative_to(real):
        raise ExportError(f"{root} and the state directory lie in one another", remedy="name another directory")
    fd = open_lock(root / LOCK)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        place = Place(root, kind)
        other = "repository" if kind == "plain" else ""
        if (other and (root / other).is_dir()) or (kind == "triton" and _plain_here(root)):
            raise ExportError(f"{root} holds an export of another kind", remedy="name another directory")
        with contextlib.suppress(FileExistsError):
            place.staging.mkdir(mode=0o700)
        remove_temporaries(place.staging)  # what a killed export left
        yield place
    finally:
        os.close(fd)


def _plain_here(root: Path) -> bool:
    return bool(Place(root, "plain").homes())


def _named(path: Path) -> list[str]:
    """Return the directories that bear a name of ours: nobody looks into another, such as ``lost+found``."""
    return [name for name in _folders(path) if NAME.fullmatch(name)]


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(
                one.name for one in entries if one.is_dir(follow_symlinks=False) and not one.name.startswith(".")
            )
    except FileNotFoundError:
        return []
    except PermissionError:
        if path.lstat().st_uid == os.geteuid():
            raise
        return []  # somebody else's, closed to us: nothing of ours was ever made there
