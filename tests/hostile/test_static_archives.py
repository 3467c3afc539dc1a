"""Attacks by archive: names, links, doubles, bombs, and sizes that lie, in zip, tar and tar.gz."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import unpack, unpack_common
from tests import static_world as world

pytestmark = pytest.mark.hostile

LIMITS = {"files": 20, "bundle_bytes": 64 << 20, "file_bytes": 48 << 20, "ratio": 200}
Members = list[tuple[str, bytes]]


def zipped(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def tarred(members: Members, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name.rstrip("/") if name.endswith("/") else name)
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def gzipped(members: Members) -> bytes:
    return gzip.compress(tarred(members))


MAKERS: dict[str, Callable[[Members], bytes]] = {"zip": zipped, "tar": tarred, "tar.gz": gzipped}


def unpacked(root: Path, raw: bytes, kind: str, **limits: int) -> world.Recorder:
    (root / "archive").write_bytes(raw)
    spec = {"root": str(root), "archive": "archive", "format": kind, "limits": {**LIMITS, **limits}}
    return world.recorded(unpack.body, spec)


def refused(found: world.Recorder, code: str) -> None:
    assert found.refused is not None
    assert found.refused.code == code, found.refused


every_kind = pytest.mark.parametrize("kind", MAKERS)


@every_kind
@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "/x", "a//x", "a/./x", "..", "c:/x", "C:x", "a\\x", "..\\x", "é" * 600, "a/..", "x\\"],
)
def test_name_that_leads_out_of_the_bundle(tmp_path: Path, kind: str, name: str) -> None:
    refused(unpacked(tmp_path, MAKERS[kind]([("ok", b"1"), (name, b"2")]), kind), "archive/path-escape")


def test_name_with_nul_or_not_utf8(tmp_path: Path) -> None:
    for raw_name in (b"a\0b", b"a\xffb"):
        raw = zipped([("aXb", b"1")]).replace(b"aXb", raw_name)
        refused(unpacked(tmp_path, raw, "zip"), "archive/path-escape")
    info = tarfile.TarInfo("x")
    info.pax_headers = {"path": "a\0b"}
    raw = info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    refused(unpacked(tmp_path, raw, "tar"), "archive/path-escape")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "link"),
        (tarfile.CHRTYPE, "special"),
        (tarfile.BLKTYPE, "special"),
        (tarfile.FIFOTYPE, "special"),
        (tarfile.GNUTYPE_SPARSE, "special"),
        (tarfile.CONTTYPE, "special"),
        (b"V", "special"),
    ],
)
def test_tar_member_that_is_no_file(tmp_path: Path, kind: bytes, code: str) -> None:
    info = tarfile.TarInfo("x")
    info.type = kind
    info.linkname = "/etc/passwd"
    refused(unpacked(tmp_path, info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024), "tar"), f"archive/{code}")


@pytest.mark.parametrize(
    ("mode", "code"),
    [(stat.S_IFLNK, "link"), (stat.S_IFCHR, "special"), (stat.S_IFIFO, "special"), (stat.S_IFSOCK, "special")],
)
def test_zip_member_that_is_no_file(tmp_path: Path, mode: int, code: str) -> None:
    for system in (0, 3):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            info = zipfile.ZipInfo("x")
            info.create_system = system
            info.external_attr = (mode | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
        refused(unpacked(tmp_path, out.getvalue(), "zip"), f"archive/{code}")


@every_kind
@pytest.mark.parametrize(
    "members",
    [
        [("a", b"1"), ("a", b"2")],
        [("a", b"1"), ("./a", b"2")],
        [("a", b"1"), ("a/b", b"2")],
        [("a/b", b"1"), ("a", b"2")],
        [("é", b"1"), ("e\u0301", b"2")],
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entry_that_would_overwrite_another(tmp_path: Path, kind: str, members: Members) -> None:
    refused(unpacked(tmp_path, MAKERS[kind](members), kind), "archive/duplicate-entry")


@every_kind
def test_too_many_members_and_too_many_bytes(tmp_path: Path, kind: str) -> None:
    many = MAKERS[kind]([(f"f{i}", b"") for i in range(21)])
    refused(unpacked(tmp_path, many, kind), "archive/too-many-entries")
    directories = MAKERS[kind]([(f"d{i}/", b"") for i in range(200)])
    refused(unpacked(tmp_path, directories, kind), "archive/too-many-entries")
    two = MAKERS[kind]([("a", bytes(3000)), ("b", bytes(3000))])
    refused(unpacked(tmp_path, two, kind, bundle_bytes=5000), "archive/too-large")
    refused(unpacked(tmp_path, two, kind, file_bytes=2999), "archive/too-large")


def test_bomb_is_stopped_while_it_streams(tmp_path: Path) -> None:
    for kind in ("zip", "tar.gz"):
        found = unpacked(tmp_path, MAKERS[kind]([("zeros", bytes(40 << 20))]), kind)
        refused(found, "archive/bomb")
        assert sum(map(len, found.files.values())) <= unpack_common.FREE_BYTES + (2 << 20)


def test_bomb_whose_header_states_a_small_size_is_stopped_at_that_size(tmp_path: Path) -> None:
    raw = zipped([("zeros", bytes(4 << 20))])
    lie = raw.replace(struct.pack("<L", 4 << 20), struct.pack("<L", 100))
    assert lie != raw
    found = unpacked(tmp_path, lie, "zip")
    refused(found, "archive/size-mismatch")
    assert len(found.files["zeros"]) == 0


def test_overlapping_members_of_a_zip(tmp_path: Path) -> None:
    """Fifield's bomb: many directory records, one kernel of bytes."""
    raw = zipped([("a", bytes(1000))])
    start = raw.index(b"PK\x01\x02")
    record = raw[start : raw.index(b"PK\x05\x06")]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, 2 * len(record), start, 0)
    refused(unpacked(tmp_path, raw[:start] + record * 2 + end, "zip"), "archive/trailing-data")


def test_zip_whose_headers_disagree(tmp_path: Path) -> None:
    raw = zipped([("name", b"12345678")], zipfile.ZIP_STORED)
    other_name = raw.replace(b"name", b"NAME", 1)
    refused(unpacked(tmp_path, other_name, "zip"), "archive/size-mismatch")
    refused(unpacked(tmp_path, raw.replace(b"12345678", b"12345679"), "zip"), "archive/size-mismatch")
    encrypted = bytearray(raw)
    encrypted[6] |= 1
    encrypted[raw.index(b"PK\x01\x02") + 8] |= 1
    refused(unpacked(tmp_path, bytes(encrypted), "zip"), "archive/encrypted")
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        refused(unpacked(tmp_path, zipped([("a", b"1")], method), "zip"), "archive/method")


def test_bytes_before_between_and_after(tmp_path: Path) -> None:
    raw = zipped([("a", b"1")])
    for polyglot in (b"#!/bin/sh\n" + raw, raw + b"x", raw.replace(b"PK\x01\x02", b"hiddenPK\x01\x02")):
        refused(unpacked(tmp_path, polyglot, "zip"), "archive/trailing-data")
    refused(unpacked(tmp_path, tarred([("a", b"1")]) + b"x", "tar"), "archive/trailing-data")
    refused(unpacked(tmp_path, gzipped([("a", b"1")]) + b"junk", "tar.gz"), "archive/trailing-data")


@every_kind
def test_every_truncation_is_refused(tmp_path: Path, kind: str) -> None:
    raw = MAKERS[kind]([("a", bytes(range(256)) * 4), ("b", b"2")])
    whole = unpacked(tmp_path, raw, kind)
    assert whole.refused is None
    for size in range(0, len(raw) - 1, 37):
        found = unpacked(tmp_path, raw[:size], kind)
        if kind == "tar" and found.refused is None:
            assert found.files == whole.files, "only padding after the end mark may be missing"
            continue
        assert found.refused is not None
        assert found.refused.code in {"archive/truncated", "archive/malformed"}


def test_tar_headers_that_lie(tmp_path: Path) -> None:
    raw = tarred([("a", b"1")], tarfile.USTAR_FORMAT)
    refused(unpacked(tmp_path, raw.replace(b"ustar", b"ustaR"), "tar"), "archive/malformed")
    info = tarfile.TarInfo("a")
    info.size = 1 << 20
    refused(unpacked(tmp_path, info.tobuf(tarfile.GNU_FORMAT), "tar"), "archive/truncated")
    long_header = tarfile.TarInfo("pax")
    long_header.type = tarfile.XHDTYPE
    long_header.size = 4 << 30
    refused(unpacked(tmp_path, long_header.tobuf(tarfile.GNU_FORMAT), "tar"), "archive/malformed")
    info = tarfile.TarInfo("a")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "b"}
    refused(unpacked(tmp_path, info.tobuf(tarfile.PAX_FORMAT) + bytes(1024), "tar"), "archive/special")


@pytest.mark.parametrize("kind", [*MAKERS, "rar"])
def test_file_that_is_no_archive_or_empty(tmp_path: Path, kind: str) -> None:
    for raw in (b"", b"\0" * 100, b"MZ" * 600, zlib.compress(b"x" * 5000)):
        found = unpacked(tmp_path, raw, kind)
        assert found.refused is not None
        assert found.refused.code in {"archive/truncated", "archive/malformed"}
        assert found.files == {}


@every_kind
def test_archive_without_a_file(tmp_path: Path, kind: str) -> None:
    refused(unpacked(tmp_path, MAKERS[kind]([]), kind), "archive/empty")
    refused(unpacked(tmp_path, MAKERS[kind]([("d/", b"")]), kind), "archive/empty")
