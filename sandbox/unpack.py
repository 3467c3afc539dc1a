"""Job ``unpack``: the regular files of an archive as entry frames with their bytes, in archive order.

The common top directory that ``zip -r`` and ``tar`` of a directory make is taken off when every
member lies below it and ``bundle.toml`` or ``model.onnx`` directly inside it; otherwise paths stay
as they are. Archives inside the archive are files like any other.

Nothing that a header says is believed: sizes are counted while streaming, in pieces of 1 MiB.
"""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from sandbox import unpack_tar, unpack_zip
from sandbox.messages import MODEL_DIR, Channel, RefusedError, text_of
from sandbox.unpack_common import CHUNK, Member, Meter

MAX_PATH_BYTES: Final = 1024
TOP_FILES: Final = frozenset({"bundle.toml", "model.onnx"})


class Archive(Protocol):
    """One archive format over an open file."""

    def members(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Yield every member with its bytes; the bytes of one must be used up before the next."""

    def names(self) -> Iterable[Member]:
        """Yield every member without reading more of its bytes than the format makes necessary."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Counts, bytes, and unpacked bytes per packed byte."""

    files: int
    bundle_bytes: int
    file_bytes: int
    ratio: int


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:  # noqa: ARG001
    """Send an entry frame and the bytes of each regular file, or raise RefusedError (``archive/…``)."""
    started = time.perf_counter()
    spec = order["spec"]
    limits = Limits(**{key: int(spec["limits"][key]) for key in ("files", "bundle_bytes", "file_bytes", "ratio")})
    name = str(spec["archive"])
    fd = _open(Path(spec.get("root", MODEL_DIR)) / name, name)
    try:
        _unpack(fd, str(spec["format"]), limits, channel)
    finally:
        os.close(fd)
    return {"unpack": (time.perf_counter() - started) * 1000}


def _open(path: Path, name: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise RefusedError("archive/malformed", name, f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RefusedError("archive/malformed", name, "is no regular file")
    return fd


def _archive(fd: int, kind: str, limits: Limits) -> Callable[[], Archive]:
    size = os.fstat(fd).st_size
    if kind == "zip":
        return lambda: unpack_zip.Zip(fd, size, 2 * limits.files + 64, Meter(limits.ratio, limits.bundle_bytes))
    if kind not in {"tar", "tar.gz"}:
        raise RefusedError("archive/malformed", "archive", f"unknown format {kind!r}")
    return lambda: unpack_tar.Tar(fd, size, kind == "tar.gz", Meter(limits.ratio, limits.bundle_bytes))


def _unpack(fd: int, kind: str, limits: Limits, channel: Channel) -> None:
    make = _archive(fd, kind, limits)
    top = _common_top(make().names(), limits)
    names = Names(limits)
    for member, data in make().members():
        path = names.take(member, top)
        if path is None:
            for _ in data:
                raise RefusedError("archive/size-mismatch", text_of(member.name), "a directory with bytes")
            continue
        if member.size > limits.file_bytes:
            raise RefusedError("archive/too-large", path, f"{member.size} bytes, the limit is {limits.file_bytes}")
        names.stated += member.size
        if names.stated > limits.bundle_bytes:
            raise RefusedError("archive/too-large", path, f"more than {limits.bundle_bytes} bytes in all")
        channel.send("entry", {"path": path, "size": member.size})
        for piece in data:  # the readers raise when the bytes are not exactly as many as stated
            channel.data(piece)
    if not names.files:
        raise RefusedError("archive/empty", "archive", "no regular file")


def checked_path(member: Member) -> str:
    """Return a member's path inside the bundle; ``""`` for the archive's own root (``./``). No I/O.

    Raises RefusedError for a name that is no plain relative path.
    """
    name = member.name
    where = text_of(name)
    if not name or len(name.encode()) > MAX_PATH_BYTES:
        raise RefusedError("archive/path-escape", where[:200], f"a name of {len(name)} characters")
    while name.startswith("./"):
        name = name[2:]
    if member.is_dir:
        name = name.removesuffix("/")
        if name in {"", "."}:
            return ""
    if "\0" in name or "\\" in name:
        raise RefusedError("archive/path-escape", where, "a name with NUL or backslash")
    if name.startswith("/") or (len(name) > 1 and name[1] == ":" and name[0].isascii() and name[0].isalpha()):
        raise RefusedError("archive/path-escape", where, "an absolute name")
    if any(part in {"", ".", ".."} for part in name.split("/")):
        raise RefusedError("archive/path-escape", where, "a name with an empty, . or .. part")
    return name


class Names:
    """The names taken so far: counts them, and refuses doubles and files that are directories too."""

    def __init__(self, limits: Limits) -> None:
        self.files = 0
        self.stated = 0
        self._members = 0
        self._limits = limits
        self._taken: dict[str, bool] = {}

    def take(self, member: Member, top: str) -> str | None:
        """Return the path to send for a file, None for a directory. NFC-equal names are the same name."""
        self._members += 1
        if self._members > 2 * self._limits.files + 64:
            raise RefusedError("archive/too-many-entries", "archive", f"more than {self._members - 1} members")
        path = checked_path(member)
        if path:
            self._claim(unicodedata.normalize("NFC", path), path, member.is_dir)
        if member.is_dir:
            return None
        self.files += 1
        if self.files > self._limits.files:
            raise RefusedError("archive/too-many-entries", "archive", f"more than {self._limits.files} files")
        return path.removeprefix(top)

    def _claim(self, name: str, path: str, is_dir: bool) -> None:
        if name in self._taken and not (is_dir and self._taken[name]):
            raise RefusedError("archive/duplicate-entry", text_of(path), "stands twice in the archive")
        self._taken[name] = is_dir
        parent = name.rpartition("/")[0]
        while parent:
            if not self._taken.setdefault(parent, True):
                raise RefusedError("archive/duplicate-entry", text_of(path), "lies below a name that is a file")
            parent = parent.rpartition("/")[0]


def _common_top(members: Iterable[Member], limits: Limits) -> str:
    """Return ``top/`` when all members lie below one directory that holds the bundle directly, else ``""``."""
    top: str | None = None
    found = False
    for count, member in enumerate(members):
        if count > 2 * limits.files + 64:
            raise RefusedError("archive/too-many-entries", "archive", f"more than {count} members")
        path = checked_path(member)
        if not path:
            continue
        first, slash, rest = path.partition("/")
        if (not slash and not member.is_dir) or top not in {None, first}:
            return ""
        top = first
        found = found or (not member.is_dir and rest in TOP_FILES)
    return f"{top}/" if found else ""


class _Silent:
    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        """Drop a frame."""

    def data(self, payload: bytes | memoryview) -> None:
        """Drop bytes."""


def preload() -> None:
    """Read a small archive of each kind, which sets up zlib and the codecs of zip's names."""
    b"x".decode("cp437")
    unicodedata.normalize("NFC", "e\u0301")
    limits = Limits(8, CHUNK, CHUNK, 100)
    for kind, raw in (("zip", unpack_zip.SAMPLE), ("tar", unpack_tar.SAMPLE), ("tar.gz", unpack_tar.SAMPLE_GZ)):
        fd = os.memfd_create("preload", os.MFD_CLOEXEC)
        try:
            os.write(fd, raw)
            _unpack(fd, kind, limits, _Silent())
        finally:
            os.close(fd)
