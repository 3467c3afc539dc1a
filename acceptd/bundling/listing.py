"""What lies in a directory, by names and sizes alone: nothing is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from acceptd.errors import SealError, UsageError
from acceptd.intake.paths import MARKER, Inventory, shown
from acceptd.judge.golden_sets import CONVENTIONAL_DIRECTORY
from acceptd.policy.limits import LimitsTable

MODEL_SUFFIX: Final = ".onnx"
MAX_DEPTH: Final = 16
MAX_PATH: Final = 512
STAGING: Final = ".goldens.part"
"""Where golden sets are made before they get their names; it is there after a kill alone."""
MAX_NEAR: Final = 100_000
"""So many files may lie beside a model that is copied from among them."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Regular files by their path inside ``root``, with their sizes; and what is no regular file."""

    root: Path
    files: dict[str, int] = field(default_factory=dict)
    special: tuple[str, ...] = ()
    """Links, sockets, devices: no bundle may hold them."""
    followed: Mapping[str, Path] = field(default_factory=dict)
    """Links that somebody named on purpose, to be copied from where they lead; they are among ``files`` too."""

    def at(self, path: str) -> Path:
        """Return where the bytes of a file lie."""
        return self.followed.get(path, self.root / path)

    def has(self, path: str) -> bool:
        """Say whether a regular file is there, also one that a listing of what is near left out."""
        if path in self.files:
            return True
        parts = path.split("/")
        if path.startswith("/") or ".." in parts or "\0" in path or len(path) > MAX_PATH:
            return False  # a model's own words never lead out of its directory
        place = self.root
        try:
            for part in parts[:-1]:
                place = place / part
                if place.is_symlink():
                    return False
            return stat.S_ISREG(os.lstat(place / parts[-1]).st_mode)
        except (OSError, ValueError):  # not there, and a name that none can have is not there either
            return False

    @property
    def models(self) -> tuple[str, ...]:
        """``.onnx`` files at the top; where there are none, one level below."""
        found = [path for path in self.files if path.lower().endswith(MODEL_SUFFIX)]
        top = tuple(path for path in found if "/" not in path)
        return top or tuple(path for path in found if path.count("/") == 1)


def listed(root: Path, most: int, *, near: bool = False) -> Listing:
    """Return what is below ``root``, sorted; raise UsageError beyond ``most`` files.

    ``near``: the top and directories named like golden sets alone, for a model that lies among other things, which
    may be many.
    Hidden files count, as a bundle's do; a readiness marker at the top does not.
    """
    files: dict[str, int] = {}
    special: list[str] = []
    most = max(most, MAX_NEAR) if near else most
    for path, info in _walk(root, "", near=near):
        if not stat.S_ISREG(info.st_mode):
            special.append(path)
        elif path != MARKER:
            files[path] = info.st_size
        if len(files) + len(special) > most:
            raise UsageError(
                f"more than {most} files below {shown(str(root))}",
                remedy="name the model file and a directory for the bundle: acceptd bundle init MODEL --into DIR",
            )
    ordered = dict(sorted(files.items(), key=lambda item: os.fsencode(item[0])))
    return Listing(root, ordered, tuple(sorted(special)))


def _walk(root: Path, head: str, *, near: bool) -> Iterator[tuple[str, os.stat_result]]:
    folders: list[str] = []
    with os.scandir(root / head) as entries:
        for entry in entries:
            path = f"{head}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if not near or fnmatchcase(entry.name.lower(), CONVENTIONAL_DIRECTORY):
                    folders.append(f"{path}/")
            else:
                yield path, entry.stat(follow_symlinks=False)
    for folder in folders:
        if folder.count("/") >= MAX_DEPTH:
            raise UsageError(f"{shown(folder)} is nested more than {MAX_DEPTH} deep", remedy="flatten the bundle")
        yield from _walk(root, folder, near=near)


def busy() -> UsageError:
    """Return what to say where golden sets are being made, or were when a command was killed."""
    return UsageError(
        f"{STAGING} is there: another command is at work in the bundle, or was killed",
        remedy="where nothing runs there, remove that directory",
    )


def speakable(paths: Iterable[str], limits: LimitsTable) -> None:
    """Raise UsageError, with the place, for a name that no bundle may have, and for too many of them."""
    inventory = Inventory(limits)
    try:
        for path in paths:
            raw = os.fsencode(path)
            inventory.file(inventory.path(raw), 0)
    except SealError as error:
        remedy = (
            "rename the file" if error.code.startswith("seal/name") else "a bundle cannot hold that: make it less"
        )
        raise UsageError(f"{error.where}: {error.message}", remedy=remedy) from error
