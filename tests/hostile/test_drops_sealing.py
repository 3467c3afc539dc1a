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
from acceptd.intake import copying, files
from acceptd.intake.seal import seal_directory
from acceptd.intake.stream import StreamSealer
from acceptd.policy.policy import LimitsTable

pytestmark = pytest.mark.hostile
LIMITS = LimitsTable(
    files=20, bundle_bytes=200_000, file_bytes=150_000, path_bytes=100, path_depth=4, archive_ratio=10
)


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    at = tmp_path / "inbox" / "drop"
    (at / "data").mkdir(parents=True)
    (at / "bundle.toml").write_bytes(b"schema = 1\n")
    (at / "data" / "input_0.pb").write_bytes(b"x" * 100)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "sealed").mkdir()
    return at


def refused(drop: Path, limits: LimitsTable = LIMITS) -> SealError:
    """Seal and return the refusal, after looking that neither copy nor descriptor stays."""
    sealed = drop.parents[1] / "sealed"
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SealError) as caught:
        seal_directory(drop, sealed / "target", limits)
    assert os.listdir(sealed) == []
    assert len(os.listdir("/proc/self/fd")) == before
    assert caught.value.where.isprintable()
    assert caught.value.message.isprintable()
    return caught.value


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


def test_a_write_lease_on_a_file_does_not_stall_the_seal(drop: Path) -> None:
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel tells the holder that it is broken
    try:
        with (drop / "data" / "input_0.pb").open("r+b") as stream:
            fcntl.fcntl(stream, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            error = refused(drop)
    finally:
        signal.signal(signal.SIGIO, old)
    assert (error.code, error.where) == ("seal/unreadable", "data/input_0.pb")
