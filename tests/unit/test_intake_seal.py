"""Sealing what is in order: bytes, modes, digest, archives, storage faults."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from acceptd.errors import SealError, StateError
from acceptd.evidence import BundleFile
from acceptd.intake import copying, files
from acceptd.intake.seal import bundle_digest, copy_archive, seal_directory
from acceptd.intake.stream import StreamSealer, bundle_top
from acceptd.policy.policy import LimitsTable

pytestmark = pytest.mark.unit
LIMITS = LimitsTable()


def make_bundle(at: Path) -> Path:
    (at / "test_data_set_0").mkdir(parents=True)
    (at / "empty" / "nested").mkdir(parents=True)
    (at / "bundle.toml").write_bytes(b"schema = 1\n")
    (at / "model.onnx").write_bytes(b"\x08\x08")
    (at / "größe.txt").write_bytes(b"")
    (at / "test_data_set_0" / "input_0.pb").write_bytes(b"\x01" * 70_000)
    return at


def test_the_sealed_copy_has_the_bytes_the_modes_and_no_empty_directory(tmp_path: Path) -> None:
    source = make_bundle(tmp_path / "drop")
    old = os.umask(0o077)
    try:
        sealed = seal_directory(source, tmp_path / "sealed", LIMITS)
    finally:
        os.umask(old)
    target = tmp_path / "sealed"
    assert [file.path for file in sealed.files] == [
        "bundle.toml", "größe.txt", "model.onnx", "test_data_set_0/input_0.pb",
    ]  # fmt: skip
    for file in sealed.files:
        data = (source / file.path).read_bytes()
        assert (target / file.path).read_bytes() == data
        assert (file.sha256, file.size) == (hashlib.sha256(data).hexdigest(), len(data))
        assert (target / file.path).stat().st_mode & 0o7777 == 0o444
    assert target.stat().st_mode & 0o7777 == 0o755
    assert (target / "test_data_set_0").stat().st_mode & 0o7777 == 0o755
    assert not (target / "empty").exists()
    assert sealed.total_bytes == sum(file.size for file in sealed.files)
    assert sorted(os.listdir(tmp_path)) == ["drop", "sealed"]


def test_a_throw_away_place_waits_for_no_disk_and_a_durable_one_for_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_bundle(tmp_path / "drop")
    synchronised: list[int] = []
    monkeypatch.setattr(os, "fsync", synchronised.append)
    durable = seal_directory(source, tmp_path / "durable", LIMITS)
    assert len(synchronised) == len(durable.files) + 3  # the nested directory, the bundle, and what it lies in
    synchronised.clear()
    assert seal_directory(source, tmp_path / "passing", LIMITS, durable=False) == durable
    assert not synchronised
    assert sorted(os.listdir(tmp_path)) == ["drop", "durable", "passing"]


def test_the_digest_is_that_of_the_design() -> None:
    bundle = [
        BundleFile(path="b", sha256="22" * 32, size=2),
        BundleFile(path="é", sha256="33" * 32, size=3),
        BundleFile(path="a", sha256="11" * 32, size=1),
        BundleFile(path="a-", sha256="44" * 32, size=4),
        BundleFile(path="a/x", sha256="55" * 32, size=5),
    ]
    rows = sorted(bundle, key=lambda row: row.path.encode())
    text = json.dumps(
        [{"path": r.path, "sha256": r.sha256, "size": r.size} for r in rows],
        separators=(",", ":"),
        ensure_ascii=False,
    )
    assert bundle_digest(bundle) == hashlib.sha256(text.encode()).hexdigest()
    assert [row.path for row in rows] == ["a", "a-", "a/x", "b", "é"]


def test_a_readiness_marker_inside_does_not_change_the_digest(tmp_path: Path) -> None:
    source = make_bundle(tmp_path / "drop")
    plain = seal_directory(source, tmp_path / "one", LIMITS)
    (source / ".ready").write_text("whatever")
    (source / "empty" / ".ready").write_text("part of the bundle: no marker here")
    marked = seal_directory(source, tmp_path / "two", LIMITS)
    assert [file.path for file in marked.files if file not in plain.files] == ["empty/.ready"]
    assert not (tmp_path / "two" / ".ready").exists()


def test_a_large_file_is_hashed_beside_the_copy_with_the_same_result(tmp_path: Path) -> None:
    source = tmp_path / "drop"
    source.mkdir()
    data = os.urandom(1 << 20) * 9 + b"end"
    (source / "weights.bin").write_bytes(data)
    sealed = seal_directory(source, tmp_path / "sealed", LIMITS)
    assert sealed.files[0].sha256 == hashlib.sha256(data).hexdigest()
    assert (tmp_path / "sealed" / "weights.bin").read_bytes() == data


def test_more_files_than_stay_open_at_once(tmp_path: Path) -> None:
    source = tmp_path / "drop"
    source.mkdir()
    for number in range(150):
        (source / f"{number:03}").write_bytes(b"%d" % number)
    before = len(os.listdir("/proc/self/fd"))
    assert len(seal_directory(source, tmp_path / "sealed", LIMITS).files) == 150
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_target_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    source = make_bundle(tmp_path / "drop")
    (tmp_path / "sealed").mkdir()
    with pytest.raises(StateError):
        seal_directory(source, tmp_path / "sealed", LIMITS)
    assert os.listdir(tmp_path / "sealed") == []
    assert sorted(os.listdir(tmp_path)) == ["drop", "sealed"]


def test_a_full_disk_is_not_the_drops_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes | memoryview) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copying.files, "write_all", full)
    with pytest.raises(StateError, match="free disk space"):
        seal_directory(make_bundle(tmp_path / "drop"), tmp_path / "sealed", LIMITS)
    assert os.listdir(tmp_path) == ["drop"]


def test_an_archive_is_copied_before_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK whatever")
    copy = copy_archive(tmp_path / "x.zip", tmp_path / "private", LIMITS, "zip")
    assert copy.path.read_bytes() == b"PK whatever"
    assert copy.path.stat().st_mode & 0o7777 == 0o444
    assert (copy.sha256, copy.size, copy.format) == (hashlib.sha256(b"PK whatever").hexdigest(), 11, "zip")
    (tmp_path / "link.zip").symlink_to("x.zip")
    with pytest.raises(SealError) as caught:
        copy_archive(tmp_path / "link.zip", tmp_path / "other", LIMITS, "zip")
    assert caught.value.code == "seal/symlink"


def test_an_archive_and_its_directory_have_one_digest(tmp_path: Path) -> None:
    source = make_bundle(tmp_path / "drop")
    whole = seal_directory(source, tmp_path / "sealed", LIMITS)
    for number, prefix in enumerate(("", "mosaic-v1/")):
        target = tmp_path / f"stream{number}"
        with StreamSealer(target, LIMITS) as sealer:
            sealer.entry(f"{prefix}.ready", 1)
            sealer.data(b"x")
            for file in reversed(whole.files):
                data = (source / file.path).read_bytes()
                sealer.entry(prefix + file.path, len(data))
                sealer.data(data[:10])
                sealer.data(data[10:])
            streamed = sealer.finish("zip")
        assert (streamed.digest, streamed.files, streamed.origin) == (whole.digest, whole.files, "zip")
        assert sorted(os.listdir(target)) == sorted({file.path.partition("/")[0] for file in whole.files})
        assert (target / "model.onnx").stat().st_mode & 0o7777 == 0o444
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tmp-")]


@pytest.mark.parametrize(
    ("paths", "top"),
    [
        (["a/bundle.toml", "a/b/c"], "a"),
        (["a/model.onnx"], "a"),
        (["a/x/model.onnx"], ""),
        (["a/bundle.toml", "b/x"], ""),
        (["bundle.toml", "a/bundle.toml"], ""),
        (["model.onnx"], ""),
    ],
)
def test_which_top_directory_is_the_bundle(paths: list[str], top: str) -> None:
    assert bundle_top(paths) == top


def test_an_abandoned_stream_leaves_nothing(tmp_path: Path) -> None:
    with StreamSealer(tmp_path / "sealed", LIMITS) as sealer:
        sealer.entry("a/b", 3)
        sealer.data(b"xy")
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="ended"):
        sealer.finish("tar")


def test_temporaries_can_be_named_for_who_cleans_up(tmp_path: Path) -> None:
    (tmp_path / ".tmp-mine").mkdir()
    with pytest.raises(StateError):
        seal_directory(make_bundle(tmp_path / "drop"), tmp_path / "sealed", LIMITS, temporary=".tmp-mine")
    assert files.remove_temporaries(tmp_path) == []


def _copied(tmp_path: Path, name: str, size: int, copier: copying.Copier) -> copying.Copied:
    source, target = os.open(tmp_path / "from", os.O_RDONLY), os.open(tmp_path / name, os.O_CREAT | os.O_RDWR)
    try:
        return copier.copy(source, target, size)
    finally:
        os.close(source)


def _large(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Write a file that counts as large, in parts of 64 bytes."""
    monkeypatch.setattr(copying, "_LARGE_CHUNK", 64)
    monkeypatch.setattr(copying, "_OVERLAP_FROM", 1)
    data = bytes((index * 7 + index // 251) & 0xFF for index in range(size))
    (tmp_path / "from").write_bytes(data)
    return data


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 64 * 40 + 7])
def test_a_large_file_is_hashed_as_it_was_written_however_late_the_hasher_is(
    size: int, durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    monkeypatch.setattr(copying.files, "start_writeback", written.append)
    data = _large(tmp_path, size, monkeypatch)
    copier = copying.Copier(durable=durable)
    for name in ("to", "again"):
        copier._helper().submit(time.sleep, 0.01)
        found = _copied(tmp_path, name, size, copier)
        assert (found.size, found.sha256) == (size, hashlib.sha256(data).hexdigest())
        assert (tmp_path / name).read_bytes() == data
    copier.flush()
    assert bool(written) is durable
    assert copier._written == []
    copier.close()


@pytest.mark.parametrize("after", [0, 1, 3])
def test_where_the_kernel_does_not_copy_the_rest_is_read_and_written(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that refuses sendfile(2), or an error in the middle, which does not say whose it is."""
    data = _large(tmp_path, 64 * 10 + 7, monkeypatch)
    real, calls = os.sendfile, []

    def refused(*args: int | None) -> int:
        calls.append(args)
        if len(calls) > after:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "sendfile", refused)
    copier = copying.Copier(durable=False)
    found = _copied(tmp_path, "to", len(data), copier)
    assert len(calls) == after + 1
    assert (found.size, found.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (tmp_path / "to").read_bytes() == data
    copier.close()


def test_a_full_disk_in_the_middle_of_a_large_file_is_not_the_drops_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _large(tmp_path, 64 * 10, monkeypatch)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "sendfile", full)
    monkeypatch.setattr(copying.files, "write_all", full)
    copier = copying.Copier(durable=False)
    with pytest.raises(StateError, match="free disk space"):
        _copied(tmp_path, "to", 64 * 10, copier)
    copier.close()


def test_a_large_file_that_grows_is_left_a_chunk_beyond_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _large(tmp_path, 64 * 100, monkeypatch)
    monkeypatch.setattr(copying, "CHUNK", 64)
    copier = copying.Copier(durable=False)
    found = _copied(tmp_path, "to", 200, copier)
    assert 200 < found.size <= 200 + 2 * 64
    copier.close()
