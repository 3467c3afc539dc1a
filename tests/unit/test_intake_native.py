"""Native libraries told by their first bytes, however the bytes come; and nothing else taken for one."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import pytest

from acceptd.evidence import BundleFile, Sealed
from acceptd.intake.native import Sniffer
from acceptd.judge.codes import may_override
from acceptd.judge.native import native_libraries

pytestmark = pytest.mark.unit


def pe(at: int = 0x80, mark: bytes = b"PE\0\0") -> bytes:
    """Return an old header that points to a new one at ``at``."""
    head = bytearray(b"MZ" + bytes(62))
    head[0x3C:0x40] = struct.pack("<I", at)
    body = bytearray(max(at + 24, 64))
    body[:64] = head
    body[at : at + 4] = mark
    return bytes(body)


LIBRARIES = {
    "elf": [
        b"\x7fELF\x02\x01\x01" + bytes(57),
        b"\x7fELF\x01\x02\x01" + bytes(9),
        Path(sys.executable).read_bytes()[:4096],
    ],
    "pe": [pe(), pe(0x40), pe(4), pe(70_000), pe(1 << 20), pe((1 << 20) - 2)],
    "mach-o": [
        b"\xcf\xfa\xed\xfe" + bytes(28),
        b"\xce\xfa\xed\xfe" + bytes(24),
        b"\xfe\xed\xfa\xcf" + bytes(28),
        b"\xfe\xed\xfa\xce" + bytes(24),
        b"\xca\xfe\xba\xbe\0\0\0\2" + bytes(40),
        b"\xca\xfe\xba\xbf\0\0\0\1" + bytes(40),
    ],
}  # fmt: skip
OTHERS = [
    b"",
    b"\x7fEL",
    b"\x7fELf" + bytes(60),
    b" \x7fELF" + bytes(60),
    b"MZ",
    b"MZ" + bytes(62),
    b"MZ" + bytes(200),
    pe(mark=b"NE\0\0"),
    pe()[:0x81],
    b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(40),  # a Java class: no library, and its mark is the fat one
    b"PK\x03\x04" + bytes(60),
    b"\x08\x08\x12\x07pytorch",
    b"\x93NUMPY\x01\0",
]


def told(content: bytes, sizes: list[int]) -> str:
    sniffer = Sniffer()
    at = 0
    for size in sizes:
        sniffer.feed(memoryview(content)[at : at + size])
        at += size
    sniffer.feed(content[at:])
    return sniffer.native


@pytest.mark.parametrize(("kind", "content"), [(kind, one) for kind, all_ in LIBRARIES.items() for one in all_])
def test_a_library_is_told_whole_and_in_parts(kind: str, content: bytes) -> None:
    assert told(content, []) == kind
    assert told(content, [1] * 200) == kind
    chance = random.Random(7)
    for _ in range(20):
        sizes = [chance.choice((1, 3, 17, 63, 64, 65, 4096, 1 << 16)) for _ in range(40)]
        assert told(content, sizes) == kind


@pytest.mark.parametrize("content", OTHERS)
def test_other_files_are_none(content: bytes) -> None:
    assert told(content, []) == ""
    assert told(content, [1] * 100) == ""


NAMES = [
    "x.so", "X.SO", "lib/x.so.1.2", "x.so.6", "x.dll", "x.Dll", "a/b/x.DYLIB", "x.pyd",
    "_x.cpython-311-x86_64-linux-gnu.so",
]  # fmt: skip
PLAIN = [
    "model.onnx", "labels.txt", "also.txt", "x.sock", "x.so.txt", "so", "dll", "espresso", "x.pydantic",
    "test_data_set_0/input_0.pb", "x.npz",
]  # fmt: skip


def sealed(path: str, native: str = "") -> Sealed:
    file = BundleFile.model_validate({"path": path, "sha256": "0" * 64, "size": 1, "native": native})
    return Sealed(digest="0" * 64, files=[file], total_bytes=1)


@pytest.mark.parametrize("path", NAMES)
def test_a_name_of_a_library_is_enough(path: str) -> None:
    (found,) = native_libraries(sealed(path))
    assert (found.code, found.severity, found.where) == ("seal/native-library", "reject", path)


@pytest.mark.parametrize("path", PLAIN)
def test_other_names_say_nothing_and_bytes_say_all(path: str) -> None:
    assert not list(native_libraries(sealed(path)))
    (found,) = native_libraries(sealed(path, "elf"))
    assert "ELF" in found.message


@pytest.mark.parametrize("severity", ["hold", "warn", "info"])
def test_no_policy_lowers_it(severity: str) -> None:
    assert not may_override("seal/native-library", severity)  # type: ignore[arg-type]
