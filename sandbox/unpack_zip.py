"""Zip archives (PKWARE APPNOTE 6.3.10), read from the central directory and held against the local headers.

Written out instead of using zipfile, which believes the stated size (bytes beyond it vanish), cuts
names at NUL, and lets members overlap, so that a small file unpacks without end.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sandbox.messages import RefusedError, text_of
from sandbox.unpack_common import CHUNK, Member, Meter, exactly

_END: Final = struct.Struct("<4s4H2LH")
_END64_LOCATOR: Final = struct.Struct("<4sLQL")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
MAX_DIRECTORY_BYTES: Final = 64 << 20
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_DESCRIPTOR: Final = 0x8
_UTF8: Final = 0x800
_STORED, _DEFLATED = 0, 8
_DESCRIPTOR_MARK: Final = b"PK\x07\x08"


@dataclass(frozen=True, slots=True)
class _Record:
    member: Member
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    offset: int


def _malformed(message: str, where: str = "archive") -> RefusedError:
    return RefusedError("archive/malformed", where, message)


class Zip:
    """One zip archive over a file descriptor."""

    def __init__(self, fd: int, size: int, most_members: int, meter: Meter) -> None:
        self._fd = fd
        self._meter = meter
        count, start, length = self._end(size)
        if count > most_members:
            raise RefusedError("archive/too-many-entries", "archive", f"{count} members")
        if length > MAX_DIRECTORY_BYTES:
            raise RefusedError("archive/too-many-entries", "archive", f"a directory of {length} bytes")
        self._start = start
        self._records = _directory(exactly(fd, length, start, "archive"), count)

    def _end(self, size: int) -> tuple[int, int, int]:
        """Return (members, start of the central directory, its length) from the end records."""
        tail_at = max(0, size - _END.size - 0xFFFF)
        tail = exactly(self._fd, size - tail_at, tail_at, "archive")
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) - at < _END.size:
            raise RefusedError("archive/truncated", "archive", "no end-of-directory record")
        _, disk, start_disk, here, count, length, start, comment = _END.unpack_from(tail, at)
        if at + _END.size + comment != len(tail):
            raise RefusedError("archive/trailing-data", "archive", "bytes after the end of the archive")
        end = tail_at + at
        if at >= _END64_LOCATOR.size and tail[at - _END64_LOCATOR.size :].startswith(b"PK\x06\x07"):
            _, disk64, end64, disks = _END64_LOCATOR.unpack_from(tail, at - _END64_LOCATOR.size)
            if disk64 or disks > 1 or end64 + _END64.size + _END64_LOCATOR.size != end:
                raise _malformed("a zip64 end record out of its place")
            record = _END64.unpack(exactly(self._fd, _END64.size, end64, "archive"))
            if record[0] != b"PK\x06\x06":
                raise _malformed("no zip64 end record")
            disk, start_disk, here, count, length, start = record[4:]
            end = end64
        if disk or start_disk or here != count:
            raise _malformed("an archive in several parts")
        if start + length != end:
            raise RefusedError("archive/trailing-data", "archive", "bytes around the archive's directory")
        return int(count), int(start), int(length)

    def names(self) -> Iterable[Member]:
        """Yield the members as the central directory names them."""
        return [record.member for record in self._records]

    def members(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Yield members in the order of the file, which must have no gap and no overlap between them."""
        position = 0
        for record in sorted(self._records, key=lambda item: item.offset):
            where = text_of(record.member.name)
            if record.offset != position:
                raise RefusedError("archive/trailing-data", where, "a gap or an overlap before this member")
            begin = self._local(record, where)
            yield record.member, self._data(record, begin, where)
            position = begin + record.packed + self._descriptor(record, begin + record.packed, where)
        if position != self._start:
            raise RefusedError("archive/trailing-data", "archive", "bytes between the members and the directory")

    def _local(self, record: _Record, where: str) -> int:
        """Hold the local header against the directory; return where the member's bytes begin."""
        raw = exactly(self._fd, _LOCAL.size, record.offset, where)
        mark, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(raw)
        if mark != b"PK\x03\x04":
            raise _malformed("no local header", where)
        name = exactly(self._fd, name_length, record.offset + _LOCAL.size, where)
        extra = exactly(self._fd, extra_length, record.offset + _LOCAL.size + name_length, where)
        if (
            name != record.raw_name
            or method != record.method
            or (flags ^ record.flags) & (_ENCRYPTED | _DESCRIPTOR)
        ):
            raise RefusedError("archive/size-mismatch", where, "local header and directory disagree")
        if not flags & _DESCRIPTOR:
            size, packed, _ = _zip64(extra, size, packed, 0)
            if (crc, packed, size) != (record.crc, record.packed, record.member.size):
                raise RefusedError("archive/size-mismatch", where, "local header and directory disagree")
        return record.offset + _LOCAL.size + int(name_length) + int(extra_length)

    def _descriptor(self, record: _Record, at: int, where: str) -> int:
        """Return the length of the data descriptor after a member (12 to 24 bytes), 0 without one."""
        if not record.flags & _DESCRIPTOR:
            return 0
        raw = exactly(self._fd, min(24, self._start - at), at, where) if at < self._start else b""
        skip = 4 if raw.startswith(_DESCRIPTOR_MARK) else 0
        for form in (struct.Struct("<3L"), struct.Struct("<L2Q")):
            if len(raw) >= skip + form.size and form.unpack_from(raw, skip) == (
                record.crc, record.packed, record.member.size,
            ):  # fmt: skip
                return skip + int(form.size)
        raise RefusedError("archive/size-mismatch", where, "the data descriptor disagrees with the directory")

    def _data(self, record: _Record, begin: int, where: str) -> Iterator[bytes]:
        crc = total = 0
        for piece in self._pieces(record, begin, where):
            total += len(piece)
            if total > record.member.size:
                raise RefusedError(
                    "archive/size-mismatch", where, f"more than the stated {record.member.size} bytes"
                )
            crc = zlib.crc32(piece, crc)
            yield piece
        if total != record.member.size or crc != record.crc:
            raise RefusedError(
                "archive/size-mismatch", where, f"{total} bytes, {record.member.size} stated, or another CRC"
            )

    def _pieces(self, record: _Record, begin: int, where: str) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-15) if record.method == _DEFLATED else None
        position = begin
        end = begin + record.packed
        while position < end:
            packed = exactly(self._fd, min(CHUNK, end - position), position, where)
            position += len(packed)
            if inflater is None:
                self._meter.add(len(packed), len(packed), where)
                yield packed
                continue
            self._meter.add(len(packed), 0, where)
            while packed and not inflater.eof:
                try:
                    piece = inflater.decompress(packed, CHUNK)
                except zlib.error as error:
                    raise _malformed(f"deflate: {error}", where) from error
                packed = inflater.unconsumed_tail
                self._meter.add(0, len(piece), where)
                if piece:
                    yield piece
            if inflater.eof and (inflater.unused_data or packed or position < end):
                raise RefusedError("archive/size-mismatch", where, "packed bytes after the end of the stream")
        while inflater is not None and not inflater.eof:
            piece = inflater.decompress(b"", CHUNK) if inflater.unconsumed_tail == b"" else b""
            if not piece:
                raise RefusedError("archive/truncated", where, "the packed bytes end too early")
            self._meter.add(0, len(piece), where)
            yield piece


def _zip64(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """Return sizes and offset with those of the zip64 extra field in the place of 0xFFFFFFFF (APPNOTE 4.5.3)."""
    values = [size, packed, offset]
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        position += 4
        if kind == 1:
            at = position
            for index, value in enumerate(values):
                if value == 0xFFFF_FFFF:
                    if at + 8 > min(position + length, len(extra)):
                        raise _malformed("a zip64 field that is too short")
                    values[index] = struct.unpack_from("<Q", extra, at)[0]
                    at += 8
            break
        position += length
    return values[0], values[1], values[2]


def _directory(raw: bytes, count: int) -> list[_Record]:
    records = []
    position = 0
    for _ in range(count):
        if position + _CENTRAL.size > len(raw):
            raise RefusedError("archive/truncated", "archive", "the directory ends inside a record")
        fields = _CENTRAL.unpack_from(raw, position)
        mark, _, _, flags, method, _, _, crc, packed, size, name_length, extra_length, comment_length = fields[:13]
        disk, _, attributes, offset = fields[13:]
        if mark != b"PK\x01\x02" or disk:
            raise _malformed("a broken directory record")
        position += _CENTRAL.size
        raw_name = raw[position : position + name_length]
        extra = raw[position + name_length : position + name_length + extra_length]
        position += name_length + extra_length + comment_length
        size, packed, offset = _zip64(extra, size, packed, offset)
        name = _name(raw_name, flags)
        where = text_of(raw_name)
        if flags & _ENCRYPTED:
            raise RefusedError("archive/encrypted", where, "is encrypted")
        if method not in {_STORED, _DEFLATED}:
            raise RefusedError("archive/method", where, f"compression method {method}")
        kind = stat.S_IFMT(attributes >> 16)
        if kind == stat.S_IFLNK:
            raise RefusedError("archive/link", where, "is a symbolic link")
        is_dir = name.endswith("/")
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR} or (kind == stat.S_IFDIR) > is_dir:
            raise RefusedError("archive/special", where, "is no regular file or directory")
        if method == _STORED and size != packed:
            raise RefusedError("archive/size-mismatch", where, "stored, but with two sizes")
        records.append(_Record(Member(name, size, is_dir), raw_name, flags, method, crc, packed, offset))
    if position != len(raw):
        raise RefusedError("archive/trailing-data", "archive", "bytes after the directory's last record")
    return records


def _name(raw: bytes, flags: int) -> str:
    """Return a member's name: UTF-8 by its flag, ASCII, or UTF-8 without the flag as many tools write it."""
    try:
        return raw.decode("utf-8" if flags & _UTF8 or not raw.isascii() else "ascii")
    except UnicodeDecodeError as error:
        raise RefusedError("archive/path-escape", text_of(raw), "a name that is not UTF-8") from error


def _sample() -> bytes:
    data = zlib.compress(b"x" * 64, wbits=-15)
    crc = zlib.crc32(b"x" * 64)
    local = _LOCAL.pack(b"PK\x03\x04", 20, 0, _DEFLATED, 0, 0, crc, len(data), 64, 1, 0) + b"a" + data
    central = (
        _CENTRAL.pack(b"PK\x01\x02", 20, 20, 0, _DEFLATED, 0, 0, crc, len(data), 64, 1, 0, 0, 0, 0, 0, 0) + b"a"
    )
    return local + central + _END.pack(b"PK\x05\x06", 0, 0, 1, 1, len(central), len(local), 0)


SAMPLE: Final = _sample()
"""A zip archive of one file ``a``, for preload."""
