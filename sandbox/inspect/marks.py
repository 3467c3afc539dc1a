"""Is it a program, an archive, a pickle, a script? By the fields of its header, never by a mark alone.

Weights are as good as random: every mark of four bytes stands in 4 GiB of them by chance. So each mark
leads to a look at the fields that follow it, and what is called by a name has shown at least about
50 bits that fit. Nothing is unpacked, decompressed or executed. Formats: elf(5), PE/COFF
specification, mach-o/loader.h, APPNOTE.TXT 4.3, RFC 1952 and 1951, 7zFormat.txt, the .xz file format 1.1,
RFC 8878, POSIX ustar, NumPy NEP 1.
"""

from __future__ import annotations

import binascii
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sandbox.inspect import pickles

Peek = Callable[[int, int], bytes]
"""Takes an offset and a number of bytes; gives as many as there are, none before 0."""
HEAD: Final = 2048


@dataclass(frozen=True, slots=True)
class Hit:
    """Something with evidence. ``code`` is the finding, ``at`` where it begins, ``what`` it is, ``shows`` why."""

    code: str
    at: int
    what: str
    shows: str


PROGRAM: Final = "payload/executable"
ARCHIVE: Final = "payload/archive"
PICKLE: Final = "payload/pickle"
SCRIPT: Final = "payload/script"
ADDRESS: Final = "payload/url"

_ELF_TYPES: Final = {1: "object", 2: "program", 3: "shared object", 4: "core dump"}
_ELF_MACHINES: Final = frozenset({3, 8, 20, 21, 22, 40, 62, 183, 243, 247, 258})
_ELF_FORMS: Final = (("<", 64, 54, 56), (">", 64, 54, 56), ("<", 32, 42, 32), (">", 32, 42, 32))
"""Byte order, bits, where size and number of program headers stand, and the size of one."""
_MACHINES: Final = frozenset({0x14C, 0x8664, 0x1C0, 0x1C4, 0xAA64, 0x200, 0x166, 0x1F0, 0x5032, 0x5064, 0x6264})
_CPUS: Final = frozenset({7, 12, 18, 0x1000007, 0x100000C, 0x1000012, 0x200000C})
_METHODS: Final = frozenset({*range(13), 14, 16, 18, 19, 20, *range(93, 100)})
_SYSTEMS: Final = frozenset({*range(14), 255})
_PRINTABLE: Final = re.compile(rb"[\x20-\x7e]+")
_SHEBANG: Final = re.compile(rb"#![ \t]?/[A-Za-z0-9_./+-]{4,120}[ \t]*([\x20-\x7e]{0,200})?\r?\n")
_CODE: Final = re.compile(
    rb"os\.system\s?\(|os\.popen\s?\(|subprocess\.(?:Popen|run|call|check_output|check_call|getoutput)\s?\("
    rb"|__import__\s?\(\s?['\"][a-z]|/bin/(?:ba|da|z)?sh +-[a-z]*[ci]|/dev/tcp/[0-9A-Za-z]"
    rb"|<script[ >/]|(?i:powershell)(?:\.exe)? +-[A-Za-z]"
)
_URL: Final = re.compile(rb"(?:https?|ftp|file|s3|gs|data)://[A-Za-z0-9\[][\x21-\x7e]{3,120}")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{40,4000}")
_GLOBAL: Final = re.compile(
    rb"[ci]((?:os|posix|nt|subprocess|builtins|__builtin__|sys|importlib|shutil|socket|pty|runpy|code|webbrowser"
    rb"|commands|operator|functools|torch|numpy)(?:\.[A-Za-z_]\w*)*)\n([A-Za-z_][\w.]*)\n[()qprR}\]tVUSX\x85-\x8c\x94.0NKMJI]"
)
_STACK_GLOBAL: Final = re.compile(
    rb"\x8c[\x02-\x20]([a-z_][\w.]{1,31})(?:\x94|q.)?\x8c[\x02-\x20]([A-Za-z_][\w.]{1,31})(?:\x94|q.)?\x93",
    re.DOTALL,
)


def elf(peek: Peek, at: int) -> Hit | None:
    """Return an ELF file: class, byte order, version twice, type; or what Linux runs without looking at these."""
    head = peek(at, 64)
    if len(head) < 52:
        return None
    for order, bits, sizes, entry in _ELF_FORMS:
        if len(head) < sizes + 4:
            continue
        kind, machine = struct.unpack_from(f"{order}HH", head, 16)
        size, count = struct.unpack_from(f"{order}HH", head, sizes)
        # linux, fs/binfmt_elf.c: mark, type, machine, size and number of program headers, and nothing else.
        if kind in {2, 3} and machine in _ELF_MACHINES and size == entry and 0 < count <= 65536 // entry:
            return Hit(PROGRAM, at, "an ELF program", f"{bits} bits, {_ELF_TYPES[kind]}, machine {machine}")
    if head[4] not in {1, 2} or head[5] not in {1, 2} or head[6] != 1:
        return None
    order = "<" if head[5] == 1 else ">"
    kind, machine, version = struct.unpack_from(f"{order}HHI", head, 16)
    if version != 1 or kind not in _ELF_TYPES or not 0 < machine < 512:
        return None
    return Hit(PROGRAM, at, "an ELF program", f"{32 * head[4]} bits, {_ELF_TYPES[kind]}, machine {machine}")


def pe(peek: Peek, at: int) -> Hit | None:
    """Return a Windows program by its PE header at ``at``; the MZ header before it is found by its pointer."""
    head = peek(at, 26)
    if len(head) < 26:
        return None
    machine, sections = struct.unpack_from("<HH", head, 4)
    optional, magic = struct.unpack_from("<H2xH", head, 20)
    if machine not in _MACHINES or not 0 < sections <= 96 or optional > 1024:
        return None
    if magic not in {0x10B, 0x20B}:
        return None
    begin = max(at - 4096, 0)
    before = peek(begin, at - begin)
    pos = before.rfind(b"MZ")
    while pos >= 0:
        if before[pos + 60 : pos + 64] == (len(before) - pos).to_bytes(4, "little"):
            return Hit(PROGRAM, begin + pos, "a Windows program", f"MZ and PE headers, machine {machine:#x}")
        pos = before.rfind(b"MZ", 0, pos)
    return Hit(PROGRAM, at, "a Windows program", f"PE header, machine {machine:#x}, {sections} sections")


def dos(peek: Peek, at: int) -> Hit | None:
    """Return a Windows program by the DOS header that linkers write."""
    head = peek(at, 64)
    if head[:8] == b"MZ\x90\0\x03\0\0\0" and len(head) == 64 and head[8:16] == b"\x04\0\0\0\xff\xff\0\0":
        return Hit(PROGRAM, at, "a Windows program", "MZ header")
    return None


def macho(peek: Peek, at: int) -> Hit | None:
    """Return a Mach-O file, its fat archive or a Java class, whose mark is the same."""
    head = peek(at, 32)
    if len(head) < 28:
        return None
    if head[:4] == b"\xca\xfe\xba\xbe":
        count, cpu = struct.unpack_from(">II", head, 4)
        if 0 < count < 20 and cpu in _CPUS:
            return Hit(PROGRAM, at, "a macOS program", f"fat header, {count} architectures")
        if 45 <= count & 0xFFFF <= 80 and count >> 16 <= 3 and 1 <= head[10] <= 20:
            return Hit(PROGRAM, at, "a Java class", f"class file version {count & 0xFFFF}")
        return None
    order = "<" if head[3] == 0xFE else ">"
    cpu, _, kind, commands, size = struct.unpack_from(f"{order}IIIII", head, 4)
    if cpu in _CPUS and 1 <= kind <= 12 and 0 < commands < 10_000 and 8 * commands <= size < 1 << 24:
        return Hit(PROGRAM, at, "a macOS program", f"Mach-O, CPU {cpu:#x}, {commands} load commands")
    return None


def wasm(peek: Peek, at: int) -> Hit | None:
    """Return a WebAssembly module: version 1 and a first section that fits."""
    head = peek(at, 10)
    if head[:8] == b"\0asm\x01\0\0\0" and len(head) > 9 and head[8] <= 12:
        return Hit(PROGRAM, at, "a WebAssembly module", "version 1")
    return None


def zip_member(peek: Peek, at: int) -> Hit | None:
    """Return a zip archive by a local file header: version, flags, method, date, and a printable name."""
    head = peek(at, 30 + 64)
    if len(head) < 31:
        return None
    version, flags, method, time, date = struct.unpack_from("<HHHHH", head, 4)
    name_length, extra = struct.unpack_from("<HH", head, 26)
    if version & 0xFF > 63 or version >> 8 > 19 or flags & 0xD780 or method not in _METHODS:
        return None
    if time >> 11 > 23 or (time >> 5 & 63) > 59 or (date >> 5 & 15) > 12 or not 0 < name_length <= 4096:
        return None
    name = head[30 : 30 + min(name_length, 64)]
    if len(name) < min(name_length, 64) or extra > 4096 or any(byte < 32 or byte == 127 for byte in name):
        return None
    if name.endswith((b"/data.pkl", b".pickle", b".pkl")):
        return Hit(
            PICKLE, at, "a zip archive with a pickle, as PyTorch writes it", f"member {name[:40].decode()!r}"
        )
    return Hit(ARCHIVE, at, "a zip archive", f"member {name[:40].decode('utf-8', 'backslashreplace')!r}")


def gzip(peek: Peek, at: int) -> Hit | None:
    """Return a gzip member: flags, maker, a plausible time, and a deflate block that can begin so."""
    head = peek(at, HEAD)
    if len(head) < 18 or head[3] >= 32 or head[8] not in {0, 2, 4} or head[9] not in _SYSTEMS:
        return None
    made = int.from_bytes(head[4:8], "little")
    if made and not 300_000_000 < made < 2_500_000_000:
        return None
    pos = 10
    if head[3] & 4:
        pos += 2 + int.from_bytes(head[10:12], "little")
    for bit in (8, 16):
        if head[3] & bit:
            end = head.find(b"\0", pos)
            if end < 0 or (end > pos and not _PRINTABLE.fullmatch(head, pos, end)):
                return None
            pos = end + 1
    pos += 2 if head[3] & 2 else 0
    if not _deflate(head[pos : pos + 300]):
        return None
    return Hit(ARCHIVE, at, "a gzip archive", f"flags {head[3]}, made on system {head[9]}")


def _deflate(data: bytes) -> bool:
    """Whether a deflate stream can begin so (RFC 1951, 3.2): no block is decoded."""
    if len(data) < 5:
        return False
    kind = data[0] >> 1 & 3
    if kind == 0:
        return data[1] ^ 0xFF == data[3] and data[2] ^ 0xFF == data[4]
    if kind == 2:
        bits = int.from_bytes(data[:16], "little") >> 3
        if bits & 31 > 29 or bits >> 5 & 31 > 29:
            return False
        lengths = [bits >> (14 + 3 * index) & 7 for index in range((bits >> 10 & 15) + 4)]
        return sum(1 << (7 - length) for length in lengths if length) == 128
    return kind == 1


def seven_zip(peek: Peek, at: int) -> Hit | None:
    """Return a 7z archive: the start header fits its CRC."""
    head = peek(at, 32)
    if len(head) == 32 and head[:6] == b"7z\xbc\xaf\x27\x1c" and zlib.crc32(head[12:]) == _u32(head, 8):
        return Hit(ARCHIVE, at, "a 7z archive", "start header with its CRC")
    return None


def xz(peek: Peek, at: int) -> Hit | None:
    """Return an xz stream: the stream flags fit their CRC."""
    head = peek(at, 12)
    if len(head) == 12 and head[:6] == b"\xfd7zXZ\0" and zlib.crc32(head[6:8]) == _u32(head, 8):
        return Hit(ARCHIVE, at, "an xz archive", "stream flags with their CRC")
    return None


def rar(peek: Peek, at: int) -> Hit | None:
    """Return a RAR archive of version 4 or 5."""
    head = peek(at, 8)
    if head[:7] == b"Rar!\x1a\x07\0" or head == b"Rar!\x1a\x07\x01\0":
        return Hit(ARCHIVE, at, "a RAR archive", f"version {4 + head[6]}")
    return None


def bzip2(peek: Peek, at: int) -> Hit | None:
    """Return a bzip2 stream by the mark of its first block."""
    head = peek(at, 10)
    if head[:3] == b"BZh" and head[3:4] in b"123456789" and head[4:] == b"1AY&SY":
        return Hit(ARCHIVE, at, "a bzip2 archive", "stream and block header")
    return None


def zstd(peek: Peek, at: int) -> Hit | None:
    """Return a zstd frame whose blocks follow each other to a last one; up to 64 of them are stepped over."""
    head = peek(at, 18)
    if len(head) < 9 or head[:4] != b"\x28\xb5\x2f\xfd" or head[4] & 8:
        return None
    single = head[4] >> 5 & 1
    size_field = (1 if single else 0, 2, 4, 8)[head[4] >> 6]
    pos = at + 5 + (1 - single) + (0, 1, 2, 4)[head[4] & 3] + size_field
    for blocks in range(1, 65):
        block = peek(pos, 3)
        if len(block) < 3:
            return None
        word = int.from_bytes(block, "little")
        kind, size = word >> 1 & 3, word >> 3
        if kind == 3 or size > 128 << 10 or (not size and not word & 1):
            return None
        pos += 3 + (1 if kind == 1 else size)
        if word & 1:
            if blocks == 1 and not peek(pos - 1, 1):
                return None
            return Hit(ARCHIVE, at, "a zstd archive", f"{blocks} blocks")
    return Hit(ARCHIVE, at, "a zstd archive", "64 blocks and more")


def tar(peek: Peek, at: int) -> Hit | None:
    """Return a tar archive by the mark at 257 of a header whose checksum fits."""
    if at < 257:
        return None
    head = peek(at - 257, 512)
    if len(head) < 512 or head[257:263] not in {b"ustar\0", b"ustar "}:
        return None
    stated = head[148:156].strip(b" \0")
    total = sum(head) - sum(head[148:156]) + 8 * 32
    if not re.fullmatch(rb"[0-7]{1,7}", stated) or int(stated, 8) != total:
        return None
    name = head[:40].split(b"\0")[0].decode("utf-8", "backslashreplace")
    return Hit(ARCHIVE, at - 257, "a tar archive", f"member {name!r}")


def numpy_objects(peek: Peek, at: int) -> Hit | None:
    """Return a NumPy file of Python objects, which is a pickle."""
    head = peek(at, 512)
    if head[:6] == b"\x93NUMPY" and len(head) > 16 and head[6] in {1, 2, 3}:
        begin = 10 if head[6] == 1 else 12
        if re.search(rb"'descr':.{0,200}[|]O", head[begin:]):
            return Hit(PICKLE, at, "a NumPy file of Python objects", "dtype object")
    return None


def pickle(peek: Peek, at: int, *, beginning: bool = False) -> Hit | None:
    """Return a pickle of protocol 2 and later, which begins with its protocol."""
    head = peek(at, 512)
    shows = pickles.evidence(head, beginning=beginning)
    if not shows and not pickles.walk(head).faulty:  # the walk came to the end of the head
        shows = pickles.evidence(peek(at, pickles.PREFIX), beginning=beginning)
    return Hit(PICKLE, at, "a pickle", shows) if shows else None


def pickle_global(peek: Peek, at: int) -> Hit | None:
    """Return a pickle by an opcode that names a global, whatever its protocol."""
    head = peek(at, 256)
    found = _GLOBAL.match(head) or _STACK_GLOBAL.match(head)
    if found is None:
        return None
    return Hit(PICKLE, at, "a pickle", f"names {found[1].decode()}.{found[2].decode()}")


def compiled_python(peek: Peek, at: int) -> Hit | None:
    """Return compiled Python: magic number, flags, and a code object (importlib/_bootstrap_external.py)."""
    head = peek(at, 17)
    number = int.from_bytes(head[:2], "little")
    if len(head) < 17 or head[2:4] != b"\r\n" or not 3000 <= number < 3900:
        return None
    if _u32(head, 4) > 3 or head[16] & 0x7F != 0x63:
        return None
    return Hit(PROGRAM, at, "compiled Python", f"magic number {number}")


def compiled_inside(peek: Peek, at: int) -> Hit | None:
    """Return compiled Python by the second byte of its magic number, the line end, and the flags."""
    return compiled_python(peek, at - 1) if at > 0 else None


def shebang(peek: Peek, at: int) -> Hit | None:
    """Return a script: an interpreter's path and the end of a line."""
    found = _SHEBANG.match(peek(at, 340))
    return Hit(SCRIPT, at, "a script", found[0][:60].decode().strip()) if found else None


def code(peek: Peek, at: int) -> Hit | None:
    """Return a call that starts a program, in Python, a shell or HTML."""
    found = _CODE.match(peek(at, 80))
    return Hit(SCRIPT, at, "a command", found[0][:60].decode()) if found else None


def address(peek: Peek, at: int) -> Hit | None:
    """Return a URL."""
    found = _URL.match(peek(at, 160))
    return Hit(ADDRESS, at, "a URL", found[0][:120].decode()) if found else None


def base64_text(peek: Peek, at: int) -> Hit | None:
    """Return what a base64 text begins with: at most 1,000 of its characters are decoded and looked at."""
    found = _BASE64.match(peek(at, 1400))
    if found is None:
        return None
    text = found[0][: len(found[0]) // 4 * 4]
    data = binascii.a2b_base64(text)
    for look in ENCODED:
        hit = look(lambda begin, size: data[max(begin, 0) : max(begin, 0) + size], 0)
        if hit is not None:
            return Hit(hit.code, at, f"{hit.what} in base64", hit.shows)
    return None


def _decoded(text: bytes) -> bytes:

    return binascii.a2b_base64(text)


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _beginning_pickle(peek: Peek, at: int) -> Hit | None:
    if peek(at, 1) == b"\x80":
        return pickle(peek, at, beginning=True)
    # Protocol 0 and 1 have no mark; by accident nothing names a global, calls, and ends well.
    head = peek(at, 512)
    seen = pickles.walk(head)
    if not seen.faulty and not seen.stopped:
        head = peek(at, pickles.PREFIX)
        seen = pickles.walk(head)
    if seen.stopped and seen.names and seen.calls:
        return Hit(PICKLE, at, "a pickle", f"names {seen.names[0][:80]} and calls")
    return None


def _pe_from_start(peek: Peek, at: int) -> Hit | None:
    head = peek(at, 64)
    if len(head) < 64 or head[:2] != b"MZ":
        return None
    return pe(peek, at + _u32(head, 60)) if peek(at + _u32(head, 60), 4) == b"PE\0\0" else dos(peek, at)


def _marked(mark: bytes, look: Callable[[Peek, int], Hit | None]) -> Callable[[Peek, int], Hit | None]:
    return lambda peek, at: look(peek, at) if peek(at, len(mark)) == mark else None


ENCODED: Final = (
    _marked(b"\x7fELF", elf),
    _pe_from_start,
    _marked(b"PK\x03\x04", zip_member),
    _marked(b"\x1f\x8b\x08", gzip),
    _beginning_pickle,
    shebang,
    _marked(b"\xfd7zXZ", xz),
)
BEGINNINGS: Final = (_beginning_pickle, compiled_python, _marked(b"\x28\xb5\x2f\xfd", zstd), _pe_from_start)
"""What is only looked for where something begins: a file, a tensor's values, a text."""
