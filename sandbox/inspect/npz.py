"""An ``.npz`` file of plain arrays: an archive by form, and no hiding place if every member is looked through."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

from numpy.lib import format as npy_format

MAX_MEMBERS: Final = 4096
MAX_BYTES: Final = 256 << 20
"""Inflated, of all members; more is an archive that nobody looked through."""
_END_MARK: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
"""Size of the end record without a comment (APPNOTE.TXT 4.3.16)."""


class NotArraysError(Exception):
    """The file is something else than an archive of plain arrays."""


def members(fd: int) -> Iterator[tuple[int, str, bytes]]:
    """Yield header offset, name and inflated bytes of each member of an ``.npz`` file, one at a time.

    Raises NotArraysError: a member is no ``.npy`` file or holds objects, there is more than one may be, or the
    archive is not sound. zipfile checks each member's CRC as it is read to its end.
    """
    left = MAX_BYTES
    try:
        with os.fdopen(os.dup(fd), "rb") as file, zipfile.ZipFile(file) as archive:
            found = archive.infolist()
            if len(found) > MAX_MEMBERS:
                raise NotArraysError(f"{len(found)} members")
            _require_whole(fd, archive, found)
            for info in found:
                with archive.open(info) as member:
                    data = member.read(left + 1)
                left -= len(data)
                if left < 0:
                    raise NotArraysError(f"more than {MAX_BYTES} bytes inflated")
                _require_plain(info.filename, data)
                yield info.header_offset, info.filename, data
    except (
        zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError,
    ) as error:  # fmt: skip
        # RuntimeError: encrypted; NotImplementedError: an unknown compression
        raise NotArraysError(str(error)) from error


def _require_whole(fd: int, archive: zipfile.ZipFile, found: list[zipfile.ZipInfo]) -> None:
    """Raise NotArraysError where a byte before the directory belongs to no member, or a comment follows it."""
    at = 0
    for info in sorted(found, key=lambda one: one.header_offset):
        head = os.pread(fd, 30, info.header_offset)  # APPNOTE.TXT 4.3.7: local file header
        if info.header_offset != at or len(head) < 30:
            raise NotArraysError("bytes between its members")
        name, extra = (int.from_bytes(head[start : start + 2], "little") for start in (26, 28))
        at += len(head) + name + extra + info.compress_size
    end = os.pread(fd, len(_END_MARK), max(0, os.fstat(fd).st_size - _END_BYTES))
    if at != archive.start_dir or archive.comment or end != _END_MARK:
        raise NotArraysError("bytes that belong to no member")


def _require_plain(name: str, data: bytes) -> None:
    if not name.endswith(".npy"):
        raise NotArraysError("a member that is no .npy file")
    file = io.BytesIO(data)
    version = npy_format.read_magic(file)
    if version not in {(1, 0), (2, 0)}:
        raise NotArraysError(f".npy of version {version}")
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, _, dtype = read(file)
    count = 1
    for size in shape:
        count *= int(size)
    if dtype.hasobject or file.tell() + count * dtype.itemsize != len(data):
        raise NotArraysError("a member with objects, or of another length than its header says")
