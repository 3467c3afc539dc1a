"""Whether a file is a native library or program, told by its first bytes while it is copied.

No parsing: fixed marks at fixed places, as the operating systems' own loaders look for them. Marks:
ELF (System V ABI, "ELF identification"); PE (``MZ``, and ``PE\\0\\0`` where the four bytes at 0x3c point,
Microsoft's PE format); Mach-O thin and fat (``mach-o/loader.h``, ``mach-o/fat.h``).
"""

from __future__ import annotations

from typing import Final, Literal

Native = Literal["", "elf", "pe", "mach-o"]

_HEAD: Final = 64
_THIN: Final = frozenset({b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"})
_FAT: Final = frozenset({b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"})
_JAVA: Final = 45
"""Java's class files share the fat mark; the number behind it is at least 45, more parts than a fat file has."""


class Sniffer:
    """Fed the bytes of one file in order, in parts of any size; :attr:`native` says what it is."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._mark = bytearray()
        self._at = 0
        self._read = 0
        self._done = False
        self.native: Native = ""

    def feed(self, part: bytes | memoryview) -> None:
        """Look at the next bytes; costs nothing once it is decided."""
        if self._done:
            return
        start = self._read
        self._read += len(part)
        if len(self._head) < _HEAD:
            self._head += part[: _HEAD - len(self._head)]
            self._decide()
        if self._at and not self._done:
            # The header that the old one points to, in whichever parts it comes.
            begin = max(self._at + len(self._mark) - start, 0)
            self._mark += part[begin : max(self._at + 4 - start, 0)]
            if len(self._mark) == 4:
                self._done = True
                self.native = "pe" if self._mark == b"PE\0\0" else ""

    def _decide(self) -> None:
        mark = bytes(self._head[:4])
        if len(mark) < 4:
            return
        if mark == b"\x7fELF":
            self._end("elf")
        elif mark in _THIN:
            self._end("mach-o")
        elif mark in _FAT:
            if len(self._head) >= 8:
                self._end("mach-o" if int.from_bytes(self._head[4:8], "big") < _JAVA else "")
        elif mark[:2] != b"MZ":
            self._end("")
        elif len(self._head) == _HEAD:
            self._at = int.from_bytes(self._head[0x3C:0x40], "little")
            if self._at < 4:  # a header over the old one, as the smallest programs have it, begins at 4
                self._end("")
            elif self._at < _HEAD:
                self._mark += self._head[self._at : self._at + 4]

    def _end(self, native: Native) -> None:
        self._done = True
        self.native = native
