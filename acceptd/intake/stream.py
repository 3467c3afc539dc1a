"""Sealing what the unpack job streams: the members of an archive, under the rules of any other file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from acceptd.errors import SealError
from acceptd.intake.native import Sniffer
from acceptd.intake.paths import Inventory, shown
from acceptd.intake.target import Origin, SealTarget
from acceptd.policy.limits import LimitsTable
from acceptd.sealed_facts import Sealed

_RATIO_FLOOR: Final = 1 << 20
"""Below so many bytes the ratio of an archive says nothing."""


class StreamSealer:
    """Writes (path, size, bytes) entries into the new directory ``target``.

    The order is ``entry``, ``data`` until the entry's size is reached, the next ``entry``, at last
    ``finish``. The job that streams is hostile: its paths, sizes and data are checked here, and
    SealError is raised for what breaks a rule. Use as a context manager; without ``finish`` nothing
    is left behind. ``archive_bytes`` is the size of the archive, to hold the ratio against.
    """

    def __init__(self, target: Path, limits: LimitsTable, archive_bytes: int | None = None) -> None:
        self._limits = limits
        self._inventory = Inventory(limits)
        self._ceiling = limits.bundle_bytes
        if archive_bytes is not None:
            self._ceiling = max(_RATIO_FLOOR, archive_bytes * limits.archive_ratio)
        self._target = SealTarget(target)
        self._target.__enter__()
        self._made: set[str] = set()
        self._paths: list[str] = []
        self._open: int | None = None
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def entry(self, path: str, size: int) -> None:
        """Begin the member ``path`` of exactly ``size`` bytes; the member before it must be complete."""
        self._complete()
        if size < 0:
            raise SealError("archive/size-lies", shown(path), "a negative size")
        # A lone surrogate cannot be a file name: it becomes bytes that are refused as no UTF-8.
        name = self._inventory.path(path.encode("utf-8", "surrogatepass"))
        self._inventory.file(name, size)
        if self._inventory.total_bytes > self._ceiling:
            message = f"the archive grows to more than {self._limits.archive_ratio} times its size"
            raise SealError("archive/ratio", shown(name), message)
        parent, _, last = name.rpartition("/")
        directory = self._directory(parent)
        try:
            self._open = self._target.create(directory, last)
        finally:
            if parent:
                os.close(directory)
        self._target.copier.adopt(self._open)
        self._path, self._left, self._hash, self._size = name, size, hashlib.sha256(), size
        self._sniffer = Sniffer()

    def data(self, data: bytes) -> None:
        """Append ``data`` to the member that was begun last."""
        if self._open is None or len(data) > self._left:
            where = shown(self._path) if self._open is not None else "(archive)"
            raise SealError("archive/size-lies", where, "more bytes than the member's size says")
        self._left -= len(data)
        self._hash.update(data)
        self._sniffer.feed(data)
        self._target.copier.write(self._open, data)

    def finish(self, origin: Origin) -> Sealed:
        """Make everything durable and return the inventory.

        Where all members lie in one top directory that holds ``bundle.toml`` or an ``.onnx`` file,
        that directory is the bundle: archives are often made from outside it.
        """
        self._complete()
        sealed = self._target.publish(origin, bundle_top(self._paths))
        self._ended = True
        self._target.__exit__(None, None, None)
        return sealed

    def abort(self) -> None:
        """Remove what was written; after ``finish`` or another ``abort`` this does nothing."""
        if not self._ended:
            self._ended = True
            error = SealError("seal/vanished", "(archive)", "unpacking was abandoned")
            self._target.__exit__(SealError, error, None)

    def _complete(self) -> None:
        if self._ended:
            raise ValueError("the sealer has ended")
        if self._open is None:
            return
        if self._left:
            raise SealError("archive/size-lies", shown(self._path), "fewer bytes than the member's size says")
        self._target.add(self._path, self._hash.hexdigest(), self._size, self._sniffer.native)
        self._paths.append(self._path)
        self._open = None

    def _directory(self, path: str) -> int:
        """Return a descriptor of ``path`` below the target, made as needed."""
        if not path:
            return self._target.fd
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            prefix = "/".join(parts[:end])
            if prefix not in self._made:
                self._make(prefix)
        return self._target.open_nested(path)

    def _make(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        above = self._target.open_nested(parent) if parent else self._target.fd
        try:
            os.close(self._target.make_directory(above, name))
        finally:
            if parent:
                os.close(above)
        self._target.nested(path)
        self._made.add(path)


def bundle_top(paths: list[str]) -> str:
    """Return the one top directory that is the bundle, or an empty string when the archive itself is."""
    tops = {path.partition("/")[0] for path in paths if "/" in path}
    if len(tops) != 1 or any("/" not in path for path in paths):
        return ""
    top = tops.pop()
    inside = [path[len(top) + 1 :] for path in paths]
    return (
        top
        if any(name == "bundle.toml" or ("/" not in name and name.endswith(".onnx")) for name in inside)
        else ""
    )
