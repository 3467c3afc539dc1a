"""Archives that must be accepted, as every ordinary tool makes them."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from typing_extensions import Buffer

from sandbox import unpack
from tests import static_world as world

pytestmark = pytest.mark.unit

FILES = {
    "bundle.toml": b"schema = 1\n",
    "model.onnx": bytes(range(256)) * 8192,
    "test_data_set_0/input_0.pb": b"in",
    "long-name-" * 9 + "/" + "long-name-" * 9: b"long",
    "Grüße.txt": b"utf-8",
    "inner.zip": b"PK\x03\x04 an archive is a file",
    "empty": b"",
}
LIMITS = {"files": 100, "bundle_bytes": 1 << 30, "file_bytes": 1 << 30, "ratio": 200}


def unpacked(root: Path, raw: bytes, kind: str) -> dict[str, bytes]:
    (root / "archive").write_bytes(raw)
    spec = {"root": str(root), "archive": "archive", "format": kind, "limits": LIMITS}
    found = world.recorded(unpack.body, spec)
    assert found.refused is None, found.refused
    return found.files


def zipped(files: dict[str, bytes], method: int, *, stream: bool = False) -> bytes:
    out = io.BytesIO()

    class Unseekable(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Buffer) -> int:
            return out.write(data)

    with zipfile.ZipFile(Unseekable() if stream else out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files: dict[str, bytes], form: int, prefix: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        if prefix:
            top = tarfile.TarInfo(prefix.rstrip("/"))
            top.type = tarfile.DIRTYPE
            archive.addfile(top)
        for name, data in files.items():
            info = tarfile.TarInfo(prefix + name)
            info.size = len(data)
            info.mtime = 1.5 if form == tarfile.PAX_FORMAT else 1
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("stream", [False, True])
def test_zip(tmp_path: Path, method: int, stream: bool) -> None:
    assert unpacked(tmp_path, zipped(FILES, method, stream=stream), "zip") == FILES


def test_zip64_entry(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in FILES.items():
            with archive.open(name, "w", force_zip64=True) as file:
                file.write(data)
    assert unpacked(tmp_path, out.getvalue(), "zip") == FILES


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("prefix", ["", "./", "release-1.0/"])
def test_tar_and_common_top_directory(tmp_path: Path, form: int, prefix: str) -> None:
    raw = tarred(FILES, form, prefix)
    assert unpacked(tmp_path, raw, "tar") == FILES
    assert unpacked(tmp_path, gzip.compress(raw), "tar.gz") == FILES
    two = gzip.compress(raw[:5000]) + gzip.compress(raw[5000:]) + bytes(512)
    assert unpacked(tmp_path, two, "tar.gz") == FILES


def test_archives_of_the_tar_command(tmp_path: Path) -> None:
    source = tmp_path / "bundle"
    for name, data in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    for arguments in (["-C", str(source), "."], ["-C", str(tmp_path), "bundle"]):
        command = ["tar", "-czf", str(tmp_path / "out"), *arguments]
        subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
        assert unpacked(tmp_path, (tmp_path / "out").read_bytes(), "tar.gz") == FILES
    subprocess.run([sys.executable, "-m", "zipfile", "-c", "out.zip", "bundle"], check=True, cwd=tmp_path)
    assert unpacked(tmp_path, (tmp_path / "out.zip").read_bytes(), "zip") == FILES


def test_top_directory_stays_when_something_lies_beside_it_or_it_holds_no_bundle(tmp_path: Path) -> None:
    beside = {"a/bundle.toml": b"1", "note": b"2"}
    deeper = {"a/b/bundle.toml": b"1", "a/b/model.onnx": b"2"}
    for files in (beside, deeper, dict(reversed(beside.items()))):
        assert unpacked(tmp_path, zipped(files, 0), "zip") == files
        assert unpacked(tmp_path, gzip.compress(tarred(files, tarfile.GNU_FORMAT)), "tar.gz") == files


def test_small_file_may_pack_a_thousandfold(tmp_path: Path) -> None:
    files = {"bias.bin": bytes(8 << 20)}
    assert unpacked(tmp_path, zipped(files, zipfile.ZIP_DEFLATED), "zip") == files


def test_preload_leaves_nothing_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    unpack.preload()
    assert set(os.listdir("/proc/self/fd")) == before
