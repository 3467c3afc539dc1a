"""Hostile drops against the seal: every one is refused with its code and place, and nothing is left behind."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptd.errors import SealError
from acceptd.intake import files
from acceptd.intake.seal import seal_directory
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


def fifo(at: Path) -> None:
    os.mkfifo(at / "data" / "odd")


def unix_socket(at: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(at / "data", os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/odd")
        finally:
            os.close(here)


def hard_link(at: Path) -> None:
    os.link(at.parents[1] / "secret", at / "data" / "odd")


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (lambda at: (at / "data" / "odd").symlink_to("../../../secret"), "seal/symlink"),
        (lambda at: (at / "data" / "odd").symlink_to("/etc/passwd"), "seal/symlink"),
        (lambda at: (at / "data" / "odd").symlink_to("input_0.pb"), "seal/symlink"),
        (lambda at: (at / "data" / "odd").symlink_to("."), "seal/symlink"),
        (lambda at: (at / "data" / "odd").symlink_to("/proc/self/root"), "seal/symlink"),
        (lambda at: (at / "data" / "odd").symlink_to("absent"), "seal/symlink"),
        (hard_link, "seal/hard-link"),
        (fifo, "seal/not-a-file"),
        (unix_socket, "seal/not-a-file"),
    ],
    ids=["out", "absolute", "inside", "directory", "proc", "dangling", "hard-link", "fifo", "socket"],
)
def test_links_and_special_files(drop: Path, plant: Callable[[Path], None], code: str) -> None:
    plant(drop)
    error = refused(drop)
    assert (error.code, error.where) == (code, "data/odd")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_even_opened(drop: Path) -> None:
    try:
        os.mknod(drop / "data" / "odd", 0o20600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    assert refused(drop).code == "seal/not-a-file"


def test_the_drop_itself_is_a_link(drop: Path) -> None:
    link = drop.parent / "link"
    link.symlink_to("drop")
    assert refused(link).code in {"seal/symlink", "seal/not-a-bundle"}


def test_a_sparse_terabyte(drop: Path) -> None:
    os.truncate(drop / "data" / "input_0.pb", 1 << 40)
    assert refused(drop).code == "seal/file-too-large"
    generous = LimitsTable(file_bytes=1 << 41, bundle_bytes=1 << 41)
    error = refused(drop, generous)
    assert (error.code, error.where) == ("seal/sparse-file", "data/input_0.pb")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (b"\xff\xfe", "seal/name-encoding"),
        (b"a\x1b[2Jb", "seal/name-control"),
        (b"a\nb", "seal/name-control"),
        ("a\u202egnp.exe".encode(), "seal/name-control"),
        ("a\u200bb".encode(), "seal/name-control"),
        ("e\u0301".encode(), "seal/name-not-normalised"),
        (b"..\\..\\secret", "seal/name-backslash"),
        (b"NUL", "seal/name-reserved"),
        (b"com1.txt", "seal/name-reserved"),
        (b"model.onnx ", "seal/name-reserved"),
        (b"model.onnx.", "seal/name-reserved"),
        (b"n" * 255, "seal/name-too-long"),
    ],
)
@pytest.mark.parametrize("directory", [False, True])
def test_names(drop: Path, name: bytes, code: str, directory: bool) -> None:
    path = os.fsencode(drop / "data") + b"/" + name
    if directory:
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    assert refused(drop).code == code


@pytest.mark.parametrize(("one", "two"), [("Model.onnx", "model.onnx"), ("straße", "STRASSE"), ("É", "é")])
def test_names_that_collide_where_case_does_not_count(drop: Path, one: str, two: str) -> None:
    (drop / one).write_text("1")
    (drop / two).write_text("2")
    assert refused(drop).code == "seal/name-collision"


def test_directories_that_collide(drop: Path) -> None:
    (drop / "DATA").mkdir()
    (drop / "DATA" / "other").touch()
    assert refused(drop).code == "seal/name-collision"


def test_a_tree_too_deep(drop: Path) -> None:
    (drop / "1/2/3/4").mkdir(parents=True)
    (drop / "1/2/3/4/file").touch()
    assert refused(drop).code == "seal/too-deep"


def test_a_tree_deeper_than_the_stack(drop: Path) -> None:
    fd = os.open(drop, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    endless = LimitsTable(path_depth=1 << 40, path_bytes=1 << 40)
    try:
        assert refused(drop, endless).code == "seal/too-deep"
    finally:
        # pytest's own cleanup cannot remove so deep a tree
        assert files.remove_tree(drop, "d") == []


def test_too_many_files(drop: Path) -> None:
    for number in range(25):
        (drop / str(number)).touch()
    assert refused(drop).code == "seal/too-many-files"


def test_too_many_entries_are_not_even_listed(drop: Path) -> None:
    for number in range(400):
        (drop / "data" / f"d{number}").mkdir()
    error = refused(drop)
    assert (error.code, error.where) == ("seal/too-many-files", "data")


def test_too_many_bytes_together(drop: Path) -> None:
    for name in ("one", "two"):
        (drop / name).write_bytes(b"x" * 120_000)
    assert refused(drop).code == "seal/bundle-too-large"


def test_nothing_but_empty_directories(tmp_path: Path) -> None:
    drop = tmp_path / "inbox" / "drop"
    (drop / "a" / "b").mkdir(parents=True)
    (drop / ".ready").touch()
    (tmp_path / "sealed").mkdir()
    assert refused(drop).code == "seal/empty"


def test_a_marker_that_is_a_link_is_a_link(drop: Path) -> None:
    (drop / ".ready").symlink_to("/etc/passwd")
    assert refused(drop).code == "seal/symlink"


def test_another_file_system_inside(drop: Path) -> None:
    """A mount inside a drop; it is made in a mount namespace of its own, so that it ends with the child."""
    child = os.fork()
    if child == 0:
        os._exit(_seal_around_a_mount(drop))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 77:
        pytest.skip("mounts cannot be made here")
    assert status == 0


def _seal_around_a_mount(drop: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, ms_rec_private = 0x20000, 0x44000
    if libc.unshare(clone_newns) or libc.mount(b"none", b"/", None, ms_rec_private, None):
        return 77
    (drop / "mounted").mkdir()
    if libc.mount(b"none", os.fsencode(drop / "mounted"), b"tmpfs", 0, None):
        return 77
    try:
        seal_directory(drop, drop.parents[1] / "sealed" / "target", LIMITS)
    except SealError as error:
        return 0 if (error.code, error.where) == ("seal/other-filesystem", "mounted") else 1
    return 2


def test_a_write_lease_on_a_file_does_not_stall_the_seal(drop: Path) -> None:
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel tells the holder that it is broken
    try:
        with (drop / "data" / "input_0.pb").open("r+b") as stream:
            fcntl.fcntl(stream, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            error = refused(drop)
    finally:
        signal.signal(signal.SIGIO, old)
    assert (error.code, error.where) == ("seal/unreadable", "data/input_0.pb")
