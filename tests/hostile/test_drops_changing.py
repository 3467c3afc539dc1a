"""Drops that change while they are sealed, and members that stream in: refused, and nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptd.errors import SealError
from acceptd.intake import copying, files
from acceptd.intake.stream import StreamSealer
from acceptd.policy.policy import LimitsTable
from tests.sealing_world import LIMITS, refused

pytestmark = pytest.mark.hostile


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    at = tmp_path / "inbox" / "drop"
    (at / "data").mkdir(parents=True)
    (at / "bundle.toml").write_bytes(b"schema = 1\n")
    (at / "data" / "input_0.pb").write_bytes(b"x" * 100)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "sealed").mkdir()
    return at


def during_copy(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do ``act`` once, in the middle of the first copy of ``input_0.pb``."""
    real = copying.Copier.copy
    done: list[bool] = []

    def copy(self: copying.Copier, source: int, target: int, size: int) -> tuple[str, int]:
        result = real(self, source, target, size)
        if os.readlink(f"/proc/self/fd/{source}").endswith("input_0.pb") and not done:
            done.append(True)
            act()
        return result

    monkeypatch.setattr(copying.Copier, "copy", copy)


@pytest.mark.parametrize(
    "how", ["rewritten", "grown", "truncated", "linked", "swapped", "added", "removed", "early"]
)
def test_changed_while_sealed(drop: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path = drop / "data" / "input_0.pb"

    def act() -> None:
        match how:
            case "rewritten":  # same size, and the old modification time put back
                old = path.stat()
                path.write_bytes(b"y" * 100)
                os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
            case "grown":
                with path.open("ab") as stream:
                    stream.write(b"more")
            case "truncated":
                os.truncate(path, 3)
            case "linked":
                os.link(path, drop.parents[1] / "second")
            case "swapped":
                (drop.parent / "new").write_bytes(b"x" * 100)
                os.replace(drop.parent / "new", path)
            case "added":
                (drop / "data" / "late").touch()
            case "removed":
                path.unlink()
            case "early":  # a file of an outer directory that was sealed before
                (drop / "bundle.toml").write_bytes(b"schema = 2\n")

    during_copy(monkeypatch, act)
    assert refused(drop).code == "seal/changed-while-read"


def test_a_file_that_grows_without_end_is_not_followed(drop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = drop / "data" / "input_0.pb"
    real, reads = os.readv, 0

    def readv(fd: int, buffers: list[memoryview]) -> int:
        nonlocal reads
        if os.readlink(f"/proc/self/fd/{fd}").endswith("input_0.pb"):
            reads += 1
            with path.open("ab") as stream:
                stream.write(b"z" * 1000)
        return real(fd, buffers)

    monkeypatch.setattr(os, "readv", readv)
    assert refused(drop).code == "seal/changed-while-read"
    assert reads <= 2


def test_a_directory_swapped_for_a_link_between_look_and_open(drop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.stat_beneath

    def stat_then_swap(fd: int, name: str | bytes) -> os.stat_result:
        found = real(fd, name)
        if name == b"data" and not (drop / "data").is_symlink():
            (drop / "data").rename(drop.parent / "moved")
            (drop / "data").symlink_to("/etc")
        return found

    monkeypatch.setattr(files, "stat_beneath", stat_then_swap)
    error = refused(drop)
    assert (error.code, error.where) == ("seal/changed-while-read", "data")


def test_a_drop_that_is_gone(drop: Path) -> None:
    assert refused(drop.parent / "absent").code == "seal/vanished"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(drop: Path) -> None:
    (drop / "data" / "input_0.pb").chmod(0)
    assert refused(drop).code == "seal/unreadable"


class TestStreamedMembers:
    """What a hostile unpack job may say."""

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("../secret", "seal/path-escape"),
            ("/etc/passwd", "seal/path-escape"),
            ("a/../../b", "seal/path-escape"),
            ("a//b", "seal/path-escape"),
            ("", "seal/path-escape"),
            (".", "seal/path-escape"),
            ("a\0b", "seal/path-escape"),
            ("a\\..\\b", "seal/name-backslash"),
            ("C:\\x", "seal/name-backslash"),
            ("\ud800", "seal/name-encoding"),
            ("a/" * 9 + "b", "seal/too-deep"),
            ("n" * 101, "seal/name-too-long"),
        ],
    )
    def test_paths(self, tmp_path: Path, path: str, code: str) -> None:
        self.refused(tmp_path, [(path, 1, b"x")], code)

    @pytest.mark.parametrize(
        ("entries", "code"),
        [
            ([("a", 3, b"abcd")], "archive/size-lies"),
            ([("a", 3, b"ab"), ("b", 0, b"")], "archive/size-lies"),
            ([("a", -1, b"")], "archive/size-lies"),
            ([("a", 150_001, b"")], "seal/file-too-large"),
            ([("a", 1, b"x"), ("a", 1, b"y")], "archive/duplicate-entry"),
            ([("a", 1, b"x"), ("A", 1, b"y")], "seal/name-collision"),
            ([("a", 1, b"x"), ("a/b", 1, b"y")], "seal/name-collision"),
            ([("a/b", 1, b"x"), ("a", 1, b"y")], "seal/name-collision"),
            ([("a/b", 1, b"x"), ("A/c", 1, b"y")], "seal/name-collision"),
            ([(f"f{n}", 0, b"") for n in range(21)], "seal/too-many-files"),
            ([("a", 140_000, b"x" * 140_000), ("b", 70_000, b"")], "seal/bundle-too-large"),
            ([], "seal/empty"),
        ],
    )
    def test_entries(self, tmp_path: Path, entries: list[tuple[str, int, bytes]], code: str) -> None:
        self.refused(tmp_path, entries, code)

    def test_data_before_any_entry(self, tmp_path: Path) -> None:
        with StreamSealer(tmp_path / "t", LIMITS) as sealer, pytest.raises(SealError, match="size"):
            sealer.data(b"x")

    def test_a_bomb_is_refused_before_its_bytes(self, tmp_path: Path) -> None:
        limits = LimitsTable(archive_ratio=10)
        with StreamSealer(tmp_path / "t", limits, archive_bytes=200_000) as sealer:
            sealer.entry("a", 2_000_000)
            sealer.data(b"\0" * 2_000_000)
            with pytest.raises(SealError) as caught:
                sealer.entry("b", 1)
        assert caught.value.code == "archive/ratio"
        assert os.listdir(tmp_path) == []

    @staticmethod
    def refused(tmp_path: Path, entries: list[tuple[str, int, bytes]], code: str) -> None:
        def stream() -> None:
            with StreamSealer(tmp_path / "t", LIMITS) as sealer:
                for path, size, data in entries:
                    sealer.entry(path, size)
                    if data:
                        sealer.data(data)
                sealer.finish("zip")

        with pytest.raises(SealError) as caught:
            stream()
        assert caught.value.code == code
        assert caught.value.where.isprintable()
        assert os.listdir(tmp_path) == []
