"""File primitives where the kernel fails them: asked again and not for ever, what stays is told by its path."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptd.intake import beneath, claims, files
from acceptd.intake.snapshot import fingerprint
from tests.unit.test_intake_failing import failing

pytestmark = pytest.mark.unit


def test_openat2_is_asked_again_after_a_rename_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def refusing(number: int, until: int) -> Callable[..., int]:
        def call(*_: object) -> int:
            calls.append(number)
            if len(calls) > until:
                return 4711
            beneath.ctypes.set_errno(number)
            return -1

        return call

    monkeypatch.setattr(beneath, "_syscall", refusing(errno.EAGAIN, 3))
    assert beneath._openat2(3, b"x", os.O_RDONLY) == 4711
    assert len(calls) == 4
    for number, flags, tries in (
        (errno.EAGAIN, os.O_RDONLY, 64),
        (errno.EAGAIN, os.O_NONBLOCK, 1),  # somebody's lease
        (errno.ELOOP, os.O_RDONLY, 1),
    ):
        calls.clear()
        monkeypatch.setattr(beneath, "_syscall", refusing(number, 1000))
        with pytest.raises(OSError, match=os.strerror(number)):
            beneath._openat2(3, b"x", flags)
        assert len(calls) == tries
    assert beneath._probe_openat2() is False  # as in a container whose filter does not know it


def test_nothing_is_created_by_who_opens_and_a_mount_that_comes_meanwhile_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with files.opened(tmp_path) as fd:
        with pytest.raises(ValueError, match="create_exclusive creates"):
            files.open_beneath(fd, "new", os.O_WRONLY | os.O_CREAT)
        (tmp_path / "a").write_bytes(b"")
        looks: list[int] = []
        same = beneath._same_device

        def mounted(found: os.stat_result, device: int, path: bytes) -> None:
            looks.append(device)
            same(found, device if len(looks) == 1 else device + 1, path)

        monkeypatch.setattr(beneath, "_same_device", mounted)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match="cross-device"):
            beneath._open_by_component(fd, b"a", os.O_RDONLY)
        assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(tmp_path) == ["a"]


def test_what_cannot_be_removed_is_a_line_with_its_path_and_the_rest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("keep", "a", "b/keep", "b/c"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "unlink", failing(errno.EPERM, only="keep", real=os.unlink))
        left = files.remove_tree(tmp_path, "tree")
        assert sorted(left) == ["tree/b/keep: Operation not permitted", "tree/keep: Operation not permitted"]
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*")) == [
        "tree", "tree/b", "tree/b/keep", "tree/keep"
    ]  # fmt: skip
    for call, said in (("rmdir", "tree"), ("unlink", "x")):
        (tmp_path / "x").write_bytes(b"")
        with monkeypatch.context() as patch:
            patch.setattr(files.os, call, failing(errno.EBUSY))
            assert files.remove_tree(tmp_path, said)[-1].endswith(": Device or resource busy")
    with monkeypatch.context() as patch:
        patch.setattr(files, "open_beneath", failing(errno.EACCES))
        assert files.remove_tree(tmp_path, "tree") == ["tree: Permission denied"]
    assert files.remove_tree(tmp_path, "tree") == []
    assert files.remove_tree(tmp_path, "never") == []


def test_of_many_that_cannot_be_removed_sixteen_are_told_and_a_limit_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    for number in range(30):
        (tmp_path / "tree" / str(number)).write_bytes(b"")
    assert files.remove_tree(tmp_path, "tree", limit=10) == ["tree: the limit of entries is reached"]
    assert len(os.listdir(tmp_path / "tree")) == 20
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "unlink", failing(errno.EPERM))
        assert len(files.remove_tree(tmp_path, "tree")) == 16
    made = claims.Claim("team", "v1", tmp_path / "tree", "id", "directory", None, None)
    with monkeypatch.context() as patch:
        patch.setattr(claims.files, "remove_tree", failing(errno.EIO))
        assert claims.discard(made) == ["tree: Input/output error"]


def test_a_part_of_a_drop_that_cannot_be_read_counts_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d" / "inner").mkdir(parents=True)
    (tmp_path / "d" / "inner" / "f").write_bytes(b"1")
    with files.opened(tmp_path) as fd:
        whole = fingerprint(fd, b"d", 99)
        opened = files.open_beneath

        def closed_directory(at: int, name: str | bytes, flags: int) -> int:
            if name == b"inner" and not flags & os.O_PATH:  # looked at, and not listed
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return opened(at, name, flags)

        with monkeypatch.context() as patch:
            patch.setattr(files, "open_beneath", closed_directory)
            closed = fingerprint(fd, b"d", 99)
        with monkeypatch.context() as patch:
            patch.setattr(files, "stat_beneath", failing(errno.EIO, only="inner", real=files.stat_beneath))
            unseen = fingerprint(fd, b"d", 99)
        assert len({whole, closed, unseen}) == 3
        assert closed == fingerprint(fd, b"d", 2)  # as where there were more entries than are looked at
        (tmp_path / "d" / "inner" / "f").write_bytes(b"12")
        assert fingerprint(fd, b"d", 99) != whole
        with pytest.raises(FileNotFoundError):
            fingerprint(fd, b"gone", 99)
