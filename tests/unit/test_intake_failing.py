"""Where a disk, the machine or another process fails intake: whose fault it is, and what stays where it was."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.errors import InternalError, SealError, StateError
from acceptd.intake import child, client, copying, files, seal, target
from acceptd.intake.paths import check_component
from acceptd.policy.limits import LimitsTable
from acceptd.threads import NoThreadError
from tests.sealing_world import LIMITS, refused

pytestmark = pytest.mark.unit


def failing(number: int, *, only: str = "", real: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return what fails by an error number; with ``only`` where an argument names it, and is ``real`` else."""

    def act(*args: Any, **more: Any) -> Any:
        if only and not any(only in os.fsdecode(one) for one in args if isinstance(one, (str, bytes))):
            assert real is not None
            return real(*args, **more)
        raise OSError(number, os.strerror(number))

    return act


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    made = tmp_path / "inbox" / "drop"
    (made / "data").mkdir(parents=True)
    (made / "bundle.toml").write_bytes(b"schema = 1\n")
    (made / "data" / "w.bin").write_bytes(b"x" * 100)
    (tmp_path / "sealed").mkdir()
    return made


# -- sealing


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ELOOP, "seal/symlink"),
        (errno.EXDEV, "seal/other-filesystem"),
        (errno.ENOENT, "seal/vanished"),
        (errno.ESTALE, "seal/vanished"),
        (errno.ENOTDIR, "seal/not-a-bundle"),
        (errno.ENXIO, "seal/not-a-file"),
        (errno.ENODEV, "seal/not-a-file"),
        (errno.EAGAIN, "seal/unreadable"),
        (errno.EACCES, "seal/unreadable"),
        (errno.EIO, "seal/unreadable"),
    ],
)
def test_what_a_drop_does_wrong_has_a_code_of_its_own(drop: Path, number: int, code: str) -> None:
    found = seal.source_error(OSError(number, os.strerror(number)), "data/w.bin")
    assert isinstance(found, SealError)
    assert (found.code, found.where) == (code, "data/w.bin")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("call", ["stat_beneath", "open_beneath"])
def test_a_machine_that_ran_out_of_something_is_no_fault_of_the_drop(
    drop: Path, number: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, call, failing(number, only="bundle.toml", real=getattr(files, call)))
    with pytest.raises(StateError, match="a drop cannot be read now") as raised:
        seal.seal_directory(drop, drop.parents[1] / "sealed" / "target", LIMITS)
    assert "the drop waits" in (raised.value.remedy or "")
    assert os.listdir(drop.parents[1] / "sealed") == []


def test_a_directory_or_file_that_cannot_be_read_is_named(drop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(files, "scan", failing(errno.EIO))
        assert (refused(drop).code, refused(drop).where) == ("seal/unreadable", "(drop)")
    with monkeypatch.context() as patch:
        patch.setattr(files, "open_beneath", failing(errno.EACCES, only="data", real=files.open_beneath))
        assert (refused(drop).code, refused(drop).where) == ("seal/unreadable", "data")
    with monkeypatch.context() as patch:
        patch.setattr(copying.os, "readv", failing(errno.EIO))
        error = refused(drop)
        assert (error.code, error.message) == ("seal/unreadable", "cannot be read: Input/output error")
        assert error.where in {"bundle.toml", "data/w.bin"}


def test_a_file_that_is_gone_after_it_was_read_was_replaced(drop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look, times = files.stat_beneath, []

    def gone(fd: int, name: str | bytes) -> os.stat_result:
        times.append(name)
        if times.count(b"bundle.toml") == 3:  # for its kind, before the open, and after all was read
            (drop / "bundle.toml").unlink(missing_ok=True)
        return look(fd, name)

    monkeypatch.setattr(files, "stat_beneath", gone)
    error = refused(drop)
    assert (error.code, error.where, error.message) == (
        "seal/changed-while-read", "bundle.toml", "the file was replaced"
    )  # fmt: skip


def test_space_that_is_taken_beyond_the_end_of_a_file_is_counted_too(drop: Path) -> None:
    limits = LIMITS.model_copy(update={"files": 2})
    done = subprocess.run(
        ["fallocate", "--keep-size", "--length", "8MiB", str(drop / "data" / "w.bin")],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0 or (drop / "data" / "w.bin").stat().st_blocks < 8 << 11:
        pytest.skip("this file system gives no space beyond the end of a file")
    error = refused(drop, limits)
    assert (error.code, error.where) == ("seal/bundle-too-large", "data/w.bin")
    assert "occupy more than limits.bundle_bytes on disk" in error.message


def test_a_file_system_that_tells_no_holes_is_not_taken_for_one_of_holes(
    drop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (drop / "data" / "w.bin").open("r+b") as file:
        file.truncate(140_000)
        assert seal._holes(file.fileno(), 140_000) > 100_000
        seek = os.lseek

        def told(fd: int, at: int, how: int) -> int:
            if how == os.SEEK_DATA:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return seek(fd, at, how)

        with monkeypatch.context() as patch:
            patch.setattr(seal.os, "lseek", told)
            assert seal._holes(file.fileno(), 140_000) == 0
        assert file.tell() == 0


def test_storage_that_fails_is_the_acceptors_and_leaves_nothing(
    drop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = drop.parents[1] / "sealed"
    with pytest.raises(StateError, match="sealed storage: No such file"):
        seal.seal_directory(drop, sealed / "none" / "target", LIMITS)
    for place, call in ((target.os, "mkdir"), (target.files, "create_exclusive"), (copying, "synchronise")):
        with monkeypatch.context() as patch:
            patch.setattr(place, call, failing(errno.ENOSPC))
            with pytest.raises(StateError, match="sealed storage: No space left") as raised:
                seal.seal_directory(drop, sealed / "target", LIMITS)
        assert raised.value.remedy == "free disk space"
        assert os.listdir(sealed) == []
    with (
        target.SealTarget(sealed / "target") as made,
        pytest.raises(StateError, match="check the state directory"),
    ):
        made.open_nested("never-made")


def test_without_a_thread_a_large_file_is_copied_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise NoThreadError("none")

    monkeypatch.setattr(copying, "_OVERLAP_FROM", 1)
    monkeypatch.setattr(copying.Copier, "_helper", none)
    (tmp_path / "from").write_bytes(b"x" * 500)
    copier = copying.Copier(durable=False)
    found = copied(tmp_path, copier)
    assert (found.size, (tmp_path / "to").read_bytes()) == (500, b"x" * 500)


def copied(place: Path, copier: copying.Copier) -> copying.Copied:
    source, made = os.open(place / "from", os.O_RDONLY), os.open(place / "to", os.O_CREAT | os.O_RDWR)
    try:
        return copier.copy(source, made, 500)
    finally:
        os.close(source)
        copier.close()


@pytest.mark.parametrize("got", [0, -1])
def test_a_copy_that_cannot_be_read_back_is_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, got: int
) -> None:
    """What lies in the target is what is hashed: where it is not there, no digest of it is told."""
    monkeypatch.setattr(copying, "_OVERLAP_FROM", 1)
    (tmp_path / "from").write_bytes(b"x" * 500)

    def read(*_: object) -> int:
        if got < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 0

    monkeypatch.setattr(copying.os, "preadv", read)
    with pytest.raises(StateError, match="sealed storage: Input/output error"):
        copied(tmp_path, copying.Copier(durable=False))


def test_a_name_of_dots_or_with_a_path_in_it_is_no_name() -> None:
    for raw in (b"", b".", b"..", b"a/b", b"a\0b"):
        with pytest.raises(SealError, match="empty, absolute or has"):
            check_component(raw, "x")


# -- the sealer's process


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ({"refused": ["seal/symlink", "a", "a symbolic link"]}, SealError),
        ({"storage": ["full", "free disk space"]}, StateError),
        ({"refused": ["seal/symlink"]}, InternalError),
        ({"sealed?": {}}, InternalError),
        ({}, InternalError),
    ],
)
def test_a_reply_of_another_form_is_never_a_seal(reply: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        client._checked(reply)


def test_what_a_killed_sealer_left_and_nobody_can_remove_is_told(
    drop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise child.LostError

    monkeypatch.setattr(client.SealerClient, "_once", lost)
    monkeypatch.setattr(client.files, "remove_tree", lambda *_: [".tmp-1/x: Operation not permitted"])
    with client.SealerClient(children=1) as sealer, pytest.raises(StateError, match=r"cannot remove \.tmp-1/x"):
        sealer.seal(drop, tmp_path / "sealed" / "target", LimitsTable())


def test_a_process_that_hangs_in_the_kernel_is_left_to_die_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for it would hold every other drop up; forgetting it would leave a zombie."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        raise subprocess.TimeoutExpired("sealer", seconds)

    killed: list[bool] = []
    hung = SimpleNamespace(kill=lambda: killed.append(True), wait=wait, returncode=None, poll=lambda: None)
    one = child.Child.__new__(child.Child)
    one._socket, one._process = SimpleNamespace(close=lambda: None), hung  # type: ignore[assignment]
    monkeypatch.setattr(child, "unreaped", [])
    one.kill()
    assert (killed, len(waits), child.unreaped) == ([True], 1, [hung])


def test_a_sealer_that_cannot_be_started_ahead_is_told_by_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_ahead", [])
    monkeypatch.setattr(child.subprocess, "Popen", failing(errno.EAGAIN))
    before = len(os.listdir("/proc/self/fd"))
    child.begin()
    with pytest.raises(OSError, match="temporarily unavailable"):
        child.first()
    assert len(os.listdir("/proc/self/fd")) == before
