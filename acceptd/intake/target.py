"""The directory that a seal writes: under a temporary name until it is whole, hashed and durable."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import rfc8785

from acceptd.errors import SealError, StateError
from acceptd.intake import files
from acceptd.intake.copying import Copier, storage_error
from acceptd.intake.durable import synchronise
from acceptd.intake.native import Native
from acceptd.intake.paths import MARKER
from acceptd.sealed_facts import BundleFile, Sealed

_OPEN_DIRECTORIES: Final = 64
"""So many directories are open at once to be synchronised together."""
Origin = Literal["directory", "zip", "tar", "tar.gz"]


def bundle_digest(bundle: Iterable[BundleFile]) -> str:
    """Return the bundle digest (hex): SHA-256 of the RFC 8785 array of {path, sha256, size}.

    The order is that of the paths' UTF-8 bytes (design, section 1).
    """
    rows = sorted(bundle, key=lambda file: file.path.encode())
    return hashlib.sha256(
        rfc8785.dumps([{"path": row.path, "sha256": row.sha256, "size": row.size} for row in rows])
    ).hexdigest()


class SealTarget:
    """The directory that is being written: under a temporary name until it is complete.

    ``durable`` off: nothing waits for the disk. For a place that does not outlive the process anyway.
    """

    def __init__(self, target: Path, temporary: str | None = None, *, durable: bool = True) -> None:
        self._target = target
        self._durable = durable
        self._temporary = temporary or files.temporary_name()
        self._copied: list[BundleFile] = []
        self._directories: list[str] = []
        self.copier = Copier(durable=durable)

    def __enter__(self) -> Self:
        try:
            self._parent = files.open_directory(self._target.parent)
        except OSError as error:
            raise storage_error(error) from error
        try:
            self.fd = self.make_directory(self._parent, self._temporary)
        except StateError:
            os.close(self._parent)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.copier.close()
        os.close(self.fd)
        if value is not None:
            files.remove_tree(self._parent, self._temporary)
        os.close(self._parent)

    def make_directory(self, parent: int, name: str) -> int:
        """Create ``name`` and return its descriptor."""
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
            fd = files.open_directory(parent, name)
            os.fchmod(fd, 0o755)  # not left to the umask
        except OSError as error:
            raise storage_error(error) from error
        return fd

    def nested(self, path: str) -> None:
        """Note that the directory ``path`` holds something and must be made durable."""
        self._directories.append(path)

    def create(self, parent: int, name: str) -> int:
        """Create a file and return its descriptor, which the copier closes."""
        try:
            return files.create_exclusive(parent, name, 0o444)
        except OSError as error:
            raise storage_error(error) from error

    def open_nested(self, path: str) -> int:
        """Return a descriptor of the directory ``path`` that was made before."""
        try:
            return files.open_directory(self.fd, path)
        except OSError as error:
            raise storage_error(error) from error

    def add(self, path: str, sha256: str, size: int, native: Native, holes: int = 0) -> None:
        """Put one complete file into the inventory."""
        self._copied.append(BundleFile(path=path, sha256=sha256, size=size, native=native, holes=holes))

    def publish(self, origin: Origin, top: str = "") -> Sealed:
        """Make everything durable under its final name; ``top`` is the directory that becomes the bundle.

        A readiness marker at the top is no part of a bundle. Raises SealError when no file is left.
        """
        cut = len(top) + 1 if top else 0
        copied = [file.model_copy(update={"path": file.path[cut:]}) for file in self._copied]
        copied = sorted((file for file in copied if file.path != MARKER), key=lambda file: file.path.encode())
        if not copied:
            raise SealError("seal/empty", "(drop)", "the bundle holds no file")
        try:
            if len(copied) < len(self._copied):
                os.unlink(f"{top}/{MARKER}" if top else MARKER, dir_fd=self.fd)
            if self._durable:
                self._synchronise()
            self._rename(top)
            if self._durable:
                os.fsync(self._parent)
        except OSError as error:
            raise storage_error(error) from error
        total = sum(file.size for file in copied)
        return Sealed(digest=bundle_digest(copied), files=copied, total_bytes=total, origin=origin)

    def _synchronise(self) -> None:
        self.copier.flush()
        for start in range(0, len(self._directories), _OPEN_DIRECTORIES):
            with contextlib.ExitStack() as stack:
                opened = []
                for path in self._directories[start : start + _OPEN_DIRECTORIES]:
                    opened.append(fd := files.open_directory(self.fd, path))
                    stack.callback(os.close, fd)
                synchronise(opened)
        os.fsync(self.fd)

    def _rename(self, top: str) -> None:
        name = self._target.name
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=self._parent, follow_symlinks=False)
            # rename(2) would silently replace an empty directory
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        if top:
            os.rename(top, name, src_dir_fd=self.fd, dst_dir_fd=self._parent)
            os.rmdir(self._temporary, dir_fd=self._parent)
        else:
            os.rename(self._temporary, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
