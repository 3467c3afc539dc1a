"""Programs, archives, pickles, scripts and addresses, wherever they lie in a file: found by content, never opened.

Every byte is looked at, in weights too, because what is hidden there begins at any byte. A table of
65,536 pairs of bytes marks where one of some hundred marks may begin (each has two neighbouring
bytes at an even position), the four bytes there decide, then :mod:`sandbox.inspect.marks` looks
for evidence. The cost does not depend on the number of marks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from sandbox.inspect import marks
from sandbox.inspect.bytes import Source
from sandbox.inspect.marks import Hit, Peek

BLOCK: Final = 256 << 10
"""Pairs of bytes that are looked up at once: index and result stay in the processor's last cache, and each
call gives the interpreter's lock away and takes it again."""
MAX_CANDIDATES: Final = 500_000
"""Places of one file that are looked at closely; 1 GiB of random bytes has about 2,000."""
MAX_HITS: Final = 32
"""Of each kind: many of one, as addresses, must not keep the others from being told."""

Look = Callable[[Peek, int], Hit | None]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def _looks() -> dict[bytes, Look]:
    """Return what the first four bytes of something lead to."""
    table: dict[bytes, Look] = {
        b"\x7fELF": marks.elf, b"PE\0\0": marks.pe, b"MZ\x90\0": marks.dos, b"\0asm": marks.wasm,
        b"PK\x03\x04": marks.zip_member, b"7z\xbc\xaf": marks.seven_zip, b"\xfd7zX": marks.xz, b"Rar!": marks.rar,
        b"usta": marks.tar, b"\x93NUM": marks.numpy_objects,
    }  # fmt: skip
    for mark in (
        b"\xcf\xfa\xed\xfe",
        b"\xce\xfa\xed\xfe",
        b"\xfe\xed\xfa\xcf",
        b"\xfe\xed\xfa\xce",
        b"\xca\xfe\xba\xbe",
    ):
        table[mark] = marks.macho
    for high in b"\x0d\x0e":  # Python 3.7 to 3.14
        table |= {bytes((high, 13, 10, flags)): marks.compiled_inside for flags in range(4)}
    table |= {b"\x1f\x8b\x08" + bytes((flags,)): marks.gzip for flags in range(32)}
    table |= {b"BZh" + bytes((level,)): marks.bzip2 for level in b"123456789"}
    for opcode in b"}](c)NXU\x8a\x8cKJq":
        for last in range(256):
            table[bytes((0x80, 2, opcode, last))] = table[bytes((0x80, 3, opcode, last))] = marks.pickle
    for last in range(256):
        table[bytes((0x80, 4, 0x95, last))] = table[bytes((0x80, 5, 0x95, last))] = marks.pickle
    for module in (
        b"os\n", b"pos", b"nt\n", b"sub", b"bui", b"__b", b"sys", b"imp", b"shu", b"soc", b"pty", b"run", b"cod",
        b"web", b"com", b"ope", b"fun", b"tor", b"num",
    ):  # fmt: skip
        table[b"c" + module] = table[b"i" + module] = marks.pickle_global
    for name in (
        b"os",
        b"posix",
        b"nt",
        b"subprocess",
        b"builtins",
        b"__builtin__",
        b"sys",
        b"importlib",
        b"shutil",
    ):
        table[b"\x8c" + bytes((len(name),)) + name[:2]] = marks.pickle_global
    table |= {b"#!/" + bytes((letter,)): marks.shebang for letter in b"abcdefghijklmnopqrstuvwxyz"}
    table |= {b"#! /": marks.shebang}
    for mark in (b"os.s", b"os.p", b"subp", b"__im", b"/bin", b"/dev", b"<scr", b"powe", b"Powe", b"POWE"):
        table[mark] = marks.code
    table |= dict.fromkeys((b"http", b"ftp:", b"file", b"s3:/", b"gs:/"), marks.address)
    for mark in (
        b"f0VM", b"TVqQ", b"TVpQ", b"TVoA", b"UEsD", b"H4sI", b"gASV", b"gAWV", b"gAJ9", b"gAJj", b"gAJd", b"gANj",
        b"gAN9", b"gANd", b"IyEv", b"/Td6",
    ):  # fmt: skip
        table[mark] = marks.base64_text
    return table


LOOKS: Final = _looks()
_PAIRS: Final = np.zeros(1 << 16, np.bool_)
"""Whether two bytes are the first and second, or the second and third of a mark."""
_FIRST: Final = np.zeros(1 << 16, np.bool_)
_LAST: Final = np.zeros(1 << 16, np.bool_)
for _mark in LOOKS:
    _PAIRS[_mark[0] | _mark[1] << 8] = _PAIRS[_mark[1] | _mark[2] << 8] = True
    _FIRST[_mark[0] | _mark[1] << 8] = _LAST[_mark[2] | _mark[3] << 8] = True


class _Room(threading.local):
    """What a thread needs to look up BLOCK pairs."""

    def __init__(self) -> None:
        self.index = np.empty(BLOCK, np.intp)
        self.hit = np.empty(BLOCK, np.bool_)


_room = _Room()


def candidates(data: Bytes) -> list[int]:
    """Return the offsets in ``data`` where four bytes are a mark, in order. Safe from threads."""
    index, hit = _room.index, _room.hit
    pairs = data[: len(data) & ~1].view(np.uint16)
    found = []
    for start in range(0, len(pairs), BLOCK):
        part = pairs[start : start + BLOCK]
        count = len(part)
        np.copyto(index[:count], part)
        _PAIRS.take(index[:count], out=hit[:count], mode="clip")
        places = np.flatnonzero(hit[:count])
        places += start
        found.append(places)
    if not found:
        return []
    places = np.concatenate(found)
    places *= 2
    places = np.concatenate((places, places - 1))
    places = places[(places >= 0) & (places + 4 <= len(data))]
    for table, begin in ((_FIRST, 0), (_LAST, 2)):
        pair = data[places + begin].astype(np.intp)
        pair |= data[places + (begin + 1)].astype(np.intp) << 8
        places = places[table.take(pair)]
    raw = data.data
    return sorted(at for at in set(places.tolist()) if bytes(raw[at : at + 4]) in LOOKS)


class Scanner:
    """Watches one file's bytes for payloads; :attr:`hits` are in order of their offset.

    ``ignored`` are codes of no interest in this file.
    """

    def __init__(self, source: Source, ignored: Iterable[str] = ()) -> None:
        self.hits: list[Hit] = []
        self.dropped = 0
        self._told: dict[str, int] = {}
        self.candidates = 0
        self._source = source
        self._ignored = frozenset(ignored)
        self._tail = b""
        self._at = 0
        self._block = memoryview(b"")
        self._reached: dict[str, int] = {}

    @property
    def flooded(self) -> bool:
        """Whether there were more marks than are looked at."""
        return self.candidates > MAX_CANDIDATES

    def peek(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``at``, out of the block at hand where it has them."""
        begin = at - self._at
        if begin >= 0 and begin + size <= len(self._block):
            return bytes(self._block[begin : begin + size])
        return self._source.peek(at, min(size, self._source.size - at)) if at >= 0 else b""

    def feed(self, at: int, block: memoryview) -> None:
        """Look through the next block."""
        self.found(at, block, self.search(block))

    def search(self, block: memoryview) -> list[int]:
        """Return where marks begin that lie in this block as a whole. Safe from threads."""
        return candidates(np.frombuffer(block, np.uint8))

    def found(self, at: int, block: memoryview, found: list[int]) -> None:
        """Look closely at the places that were found in the next block, and at what lies across its beginning."""
        self._at, self._block = at, block
        if self._tail:
            joint = self._tail + bytes(block[:3])
            for start in range(len(joint) - 3):
                if joint[start : start + 4] in LOOKS:
                    self._look(at - len(self._tail) + start, LOOKS[joint[start : start + 4]])
        for start in found:
            self._look(at + start, LOOKS[bytes(block[start : start + 4])])
        tail = bytes(block[-3:])
        self._tail = (self._tail + tail)[-3:] if len(block) < 3 else tail

    def end(self) -> None:
        """Forget the last block."""
        self._block = memoryview(b"")

    def begins(self, at: int) -> None:
        """Look at a place where something begins (a file, a tensor's values), for what shows only there."""
        if self.candidates <= MAX_CANDIDATES:
            for look in marks.BEGINNINGS:
                self._take(look(self.peek, at))

    def _look(self, at: int, look: Look) -> None:
        self.candidates += 1
        if self.candidates <= MAX_CANDIDATES:
            self._take(look(self.peek, at))

    def _take(self, hit: Hit | None) -> None:
        # One archive has a mark for each member, one pickle for each global: what lies close is told once.
        if hit is None or hit.code in self._ignored or any(hit.at == one.at for one in self.hits[-8:]):
            return
        near = hit.code in self._reached and hit.at < self._reached[hit.code]
        self._reached[hit.code] = hit.at + NEAR[hit.code]
        told = self._told.get(hit.code, 0)
        if near or told >= MAX_HITS:
            self.dropped += 1
        else:
            self._told[hit.code] = told + 1
            self.hits.append(hit)


NEAR: Final = {
    marks.PROGRAM: 0, marks.ARCHIVE: 1 << 20, marks.PICKLE: 64 << 10, marks.SCRIPT: 0, marks.ADDRESS: 0,
}  # fmt: skip
"""Bytes within which a second hit of one kind is taken for the same thing."""


def words(hit: Hit, first: bytes, place: str = "") -> str:
    """Return the message of a hit: what, where, the first bytes in hex, and the evidence."""
    at = f"{place}, byte {hit.at}" if place else f"byte {hit.at}"
    return f"{hit.what} at {at}, begins {first[:16].hex(' ')} ({hit.shows})"
