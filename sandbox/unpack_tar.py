"""Tar archives (POSIX ustar and pax, GNU long names), plain or gzipped, read front to back.

Written out instead of using tarfile, which reads a pax header of any stated size into memory and
follows links and sparse maps that a bundle has no use for.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from sandbox.messages import RefusedError, text_of
from sandbox.unpack_common import CHUNK, Member, Meter

BLOCK: Final = 512
MAX_HEADER_BYTES: Final = 64 << 10
"""Longest pax or GNU long-name header."""
_ZERO: Final = bytes(BLOCK)


class _Stream:
    """Reads forward over the (unpacked) bytes; ``skip`` seeks where the archive is plain."""

    def __init__(self, fd: int, size: int, gzipped: bool, meter: Meter) -> None:
        self._fd = fd
        self._size = size
        self._meter = meter
        self._gzipped = gzipped
        self._inflater = zlib.decompressobj(31)  # 16 + 15: gzip header and trailer are checked by zlib
        self._position = 0
        self._packed = b""
        self._buffer = b""
        self._started = False

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, fewer only at the end."""
        if not self._gzipped:
            raw = os.pread(self._fd, size, self._position)
            self._position += len(raw)
            self._meter.add(len(raw), len(raw), "archive")
            return raw
        parts = [self._buffer[:size]]
        self._buffer = self._buffer[size:]
        left = size - len(parts[0])
        while left and (piece := self._inflate()):
            parts.append(piece[:left])
            self._buffer = piece[left:]
            left -= len(parts[-1])
        return b"".join(parts)

    def _inflate(self) -> bytes:
        while True:
            if not self._packed:
                self._packed = os.pread(self._fd, CHUNK, self._position)
                self._position += len(self._packed)
                self._meter.add(len(self._packed), 0, "archive")
                if not self._packed:
                    if not self._inflater.eof:
                        raise RefusedError("archive/truncated", "archive", "the gzip stream ends too early")
                    return b""
            if self._inflater.eof:
                # RFC 1952 section 2.2: members may follow each other; tape writers pad with zeros.
                if not self._packed.strip(b"\0"):
                    self._packed = b""
                    continue
                self._inflater = zlib.decompressobj(31)
            try:
                piece = self._inflater.decompress(self._packed, CHUNK)
            except zlib.error as error:
                code = "archive/trailing-data" if self._started else "archive/malformed"
                raise RefusedError(code, "archive", f"gzip: {error}") from error
            self._started = self._started or self._inflater.eof
            self._packed = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
            self._meter.add(0, len(piece), "archive")
            if piece:
                return piece

    def skip(self, size: int) -> bool:
        """Move forward; False when the end comes first."""
        if not self._gzipped:
            self._position += size
            return self._position <= self._size
        while size:
            piece = self.read(min(size, CHUNK))
            if not piece:
                return False
            size -= len(piece)
        return True


class Tar:
    """One tar archive over a file descriptor."""

    def __init__(self, fd: int, size: int, gzipped: bool, meter: Meter) -> None:
        self._stream = _Stream(fd, size, gzipped, meter)

    def names(self) -> Iterable[Member]:
        """Yield the members; a gzipped archive is unpacked for it, so the caller stops as soon as it can."""
        for member, rest in self._headers():
            yield member
            if not self._stream.skip(rest):
                raise _truncated(member.name)

    def members(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Yield members in order with their bytes."""
        for member, rest in self._headers():
            yield member, self._data(member)
            if not self._stream.skip(rest - member.size):
                raise _truncated(member.name)

    def _data(self, member: Member) -> Iterator[bytes]:
        left = member.size
        while left:
            piece = self._stream.read(min(left, CHUNK))
            if not piece:
                raise _truncated(member.name)
            left -= len(piece)
            yield piece

    def _headers(self) -> Iterator[tuple[Member, int]]:
        """Yield each member and the bytes to its end, padding included."""
        long_name: bytes | None = None
        pax: dict[str, str] = {}
        while True:
            block = self._stream.read(BLOCK)
            if len(block) < BLOCK:
                raise _truncated("archive")
            if block == _ZERO:
                break
            name, size, kind = _header(block)
            if kind in b"Lxg":
                if size > MAX_HEADER_BYTES:
                    raise RefusedError("archive/malformed", "archive", f"a header of {size} bytes")
                raw = self._stream.read(size + -size % BLOCK)
                if len(raw) != size + -size % BLOCK:
                    raise _truncated("archive")
                if kind == b"L":
                    long_name = raw[:size].removesuffix(b"\0")
                else:
                    found = _pax(raw[:size])
                    if kind == b"g" and found.keys() & {"path", "size", "linkpath"}:
                        raise RefusedError("archive/malformed", "archive", "a global header that names files")
                    pax = found if kind == b"x" else pax
                continue
            path = pax.get(
                "path", (long_name if long_name is not None else name).decode("utf-8", "surrogateescape")
            )
            where = text_of(path)
            _allowed(kind, pax, where)
            size = _size(pax["size"], where) if "size" in pax else size
            is_dir = kind == b"5" or (kind in b"\0" and path.endswith("/"))
            yield Member(_utf8(path, where), size, is_dir), size + -size % BLOCK
            long_name, pax = None, {}
        while rest := self._stream.read(CHUNK):
            if rest.strip(b"\0"):
                raise RefusedError("archive/trailing-data", "archive", "bytes after the end of the archive")


def _truncated(name: str) -> RefusedError:
    return RefusedError(
        "archive/truncated", text_of(name), "the archive ends inside this member or without its end mark"
    )


_SPECIAL = {b"3": "a character device", b"4": "a block device", b"6": "a FIFO", b"S": "a sparse file"}


def _allowed(kind: bytes, pax: dict[str, str], where: str) -> None:
    if kind in {b"1", b"2", b"K"} or "linkpath" in pax:
        raise RefusedError("archive/link", where, "is a link")
    if kind not in {b"0", b"\0", b"5"} or any(key.startswith("GNU.sparse") for key in pax):
        what = _SPECIAL.get(kind, "a sparse file" if kind in {b"0", b"\0"} else f"a member of type {kind!r}")
        raise RefusedError("archive/special", where, f"is {what}: no regular file or directory")


def _utf8(path: str, where: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise RefusedError("archive/path-escape", where, "a name that is not UTF-8") from error
    return path


def _header(block: bytes) -> tuple[bytes, int, bytes]:
    """Return (name, size, type) of a header block whose checksum holds (POSIX.1-2017, pax, ustar format)."""
    stated = block[148:156].strip(b" \0")
    total = sum(block) - sum(block[148:156]) + 8 * 0x20
    if not stated or stated.strip(b"01234567") or int(stated, 8) != total:
        raise RefusedError("archive/malformed", "archive", "a tar header with a wrong checksum")
    name = block[:100].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0" and block[345] != 0:  # GNU's magic is "ustar  ": it has no prefix there
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    return name, _number(block[124:136], text_of(name)), block[156:157]


def _number(raw: bytes, where: str) -> int:
    """Return a size in octal, or in GNU's base 256 (first bit set)."""
    if raw[0] == 0x80:
        return int.from_bytes(raw[1:], "big")
    digits = raw.strip(b" \0")
    if digits.strip(b"01234567"):
        raise RefusedError("archive/malformed", where, "a size that is no octal number")
    return int(digits or b"0", 8)


def _size(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise RefusedError("archive/malformed", where, "a pax size that is no decimal number")
    return int(text)


def _pax(raw: bytes) -> dict[str, str]:
    """Return the records ``length key=value\\n`` of an extended header; a key that stands twice is refused."""
    found: dict[str, str] = {}
    position = 0
    while position < len(raw):
        digits, space, _ = raw[position : position + 8].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record = raw[position : position + length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if length < len(digits) + 3 or len(record) != length or record[-1:] != b"\n" or not equals:
            raise RefusedError("archive/malformed", "archive", "a broken pax header")
        name = key.decode("utf-8", "surrogateescape")
        if name in found:
            raise RefusedError("archive/duplicate-entry", text_of(key), "stands twice in a pax header")
        found[name] = value.decode("utf-8", "surrogateescape")
        position += length
    return found


def _sample() -> bytes:
    header = bytearray(BLOCK)
    header[:1], header[124:135], header[156:157], header[257:263] = b"a", b"%011o" % 64, b"0", b"ustar\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b"x" * 64 + bytes(BLOCK - 64) + bytes(2 * BLOCK)


SAMPLE: Final = _sample()
"""A tar archive of one file ``a``, for preload."""
SAMPLE_GZ: Final = zlib.compress(SAMPLE, wbits=31)
