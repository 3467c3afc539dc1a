"""An export in a directory: how the follower's steps are done there, each by one rename(2).

A first number comes into its place with its whole home, a further one beside those that are there; then the switch
(the link ``current``, or ``config.pbtxt``) leads to it. Whatever goes, goes by one rename first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from acceptd.export import build, place, plan, verify
from acceptd.export.document import CONFIG_FILE, CURRENT, ExportDocument, Signed
from acceptd.export.settings import Kind
from acceptd.intake.files import fsync_dir, temporary_name
from acceptd.record.failpoint import failpoint
from acceptd.record.keys import Keyring
from acceptd.release import objects


@dataclass(frozen=True, slots=True)
class Target:
    """As :class:`acceptd.export.follow.Target`: a directory."""

    directory: Path
    kind: Kind
    selects: Callable[[str, str], bool]
    keep: int = 2

    @contextlib.contextmanager
    def opened(self, state: Path) -> Iterator[Directory]:
        """Lock the directory for one run; raise ExportError where it cannot be used."""
        with place.opened(self.directory, self.kind, state) as found:
            yield Directory(found)


@dataclass(frozen=True, slots=True)
class Directory:
    """As :class:`acceptd.export.follow.Place`."""

    place: place.Place

    @property
    def where(self) -> str:
        """The directory."""
        return str(self.place.root)

    def homes(self) -> list[str]:
        """As :meth:`Place.homes`."""
        return self.place.homes()

    def versions(self, home: str) -> list[str]:
        """As :meth:`Place.versions`."""
        return self.place.versions(home)

    def served(self, home: str) -> str:
        """As :meth:`Place.served`."""
        return self.place.served(home)

    def proofs_in(self, home: str) -> bool:
        """As :meth:`Place.proofs_in`."""
        return self.place.proofs_in(home)

    def astray(self, begin: str) -> Path | None:
        """As :meth:`Place.astray`."""
        return self.place.astray(begin)

    def signed(self, place: str, keyring: Keyring) -> Signed:
        """As :meth:`Place.signed`; OSError where it cannot be read."""
        with self._root() as fd:
            return verify.signed(fd, place, keyring)

    def whole(self, found: Signed) -> None:
        """As :meth:`Place.whole`; OSError where it cannot be read."""
        with self._root() as fd:
            verify.whole(fd, found)

    def stage(self, unit: plan.Unit, said: ExportDocument, source: build.Source) -> str:
        """Copy a number into the staging area; return its temporary name."""
        return build.build(self.place.staging, said, unit, source)

    def put(self, unit: plan.Unit, staged: str) -> None:
        """Rename what was staged into its home and switch to it."""
        if staged and not (self.place.root / unit.home).exists():
            self._whole_home(unit, staged)
        else:
            self._into(unit, staged)

    def _whole_home(self, unit: plan.Unit, staged: str) -> None:
        """Bring a first number into its place with its switch, by one rename: no consumer sees an empty home."""
        staging, name = self.place.staging, temporary_name()
        os.mkdir(staging / name, 0o755)
        (staging / name).chmod(0o755)
        os.rename(staging / staged, staging / name / unit.version)
        self._switch(unit, staging / name)
        parent, _, last = unit.home.rpartition("/")
        folder = self.place.make(parent)
        failpoint("export.put.home-built")
        os.rename(staging / name, folder / last)
        fsync_dir(folder)
        failpoint("export.put.switched")

    def _into(self, unit: plan.Unit, staged: str) -> None:
        """Bring a further number into a home, and then switch to it."""
        home = self.place.make(unit.home)
        if staged:
            self.place.take_away(unit.place)  # one that does not verify, if any
            os.rename(self.place.staging / staged, home / unit.version)
            fsync_dir(home)
            failpoint("export.put.renamed")
        self._switch(unit, home)
        failpoint("export.put.switched")

    def _switch(self, unit: plan.Unit, home: Path) -> None:
        if unit.config is None:
            if self.place.served(unit.home) != unit.version:
                self.place.put_link(home / CURRENT, unit.version)
        elif _content(home / CONFIG_FILE) != unit.config:
            self.place.put_file(home / CONFIG_FILE, unit.config)

    def discard(self, staged: str) -> None:
        """Remove what was staged."""
        self.place.take_away(f".staging/{staged}")

    def take_away(self, place: str) -> None:
        """Take a number out of its place by one rename; then remove it."""
        self.place.take_away(place)

    def withdraw(self, home: str) -> None:
        """Take a whole home away, by one rename."""
        self.place.take_away(home)
        failpoint("export.withdrawn")

    def note(self, name: str, data: bytes) -> None:
        """Replace a file beside the homes where it has another content."""
        if _content(self.place.root / name) != data:
            self.place.put_file(self.place.root / name, data)

    @contextlib.contextmanager
    def _root(self) -> Iterator[int]:
        fd = objects.open_root(self.place.root)
        try:
            yield fd
        finally:
            os.close(fd)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
