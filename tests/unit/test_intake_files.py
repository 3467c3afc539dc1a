"""File primitives: what they refuse, and what a reader or a crash can see of them."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from acceptd.intake import beneath as opening
from acceptd.intake import files

pytestmark = pytest.mark.unit


@pytest.fixture(params=["openat2", "by-component"])
def beneath(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the system call and with its replacement."""
    if request.param == "by-component":
        monkeypatch.setattr(opening, "HAVE_OPENAT2", False)
    elif not opening.HAVE_OPENAT2:
        pytest.skip("this kernel has no openat2")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "file").write_text("inside")
    (root / "link").symlink_to("sub/file")
    (root / "dirlink").symlink_to("sub")
    (root / "out").symlink_to("../secret")
    return root


def errno_of(fd: int, path: str) -> int | None:
    """Return the error number of opening ``path`` beneath ``fd``, or None when it was opened."""
    try:
        os.close(files.open_beneath(fd, path, os.O_RDONLY))
    except OSError as error:
        return error.errno
    return None


@pytest.mark.usefixtures("beneath")
class TestOpenBeneath:
    def test_opens_what_lies_below(self, tree: Path) -> None:
        with files.opened(tree) as fd:
            inner = files.open_beneath(fd, "sub/file", os.O_RDONLY)
        with os.fdopen(inner) as stream:
            assert stream.read() == "inside"
            assert not os.get_inheritable(stream.fileno())

    @pytest.mark.parametrize(
        ("path", "number"),
        [
            ("link", errno.ELOOP),
            ("out", errno.ELOOP),
            ("../secret", errno.EXDEV),
            ("sub/../../secret", errno.EXDEV),
            ("/etc/passwd", errno.EXDEV),
            ("absent", errno.ENOENT),
            ("sub\0file", errno.EINVAL),
        ],
    )
    def test_refuses(self, tree: Path, path: str, number: int) -> None:
        with files.opened(tree) as fd:
            assert errno_of(fd, path) == number

    def test_a_link_in_the_middle_is_refused(self, tree: Path) -> None:
        with files.opened(tree) as fd:
            assert errno_of(fd, "dirlink/file") in {errno.ELOOP, errno.ENOTDIR}

    def test_another_file_system_is_refused(self) -> None:
        with files.opened(Path("/")) as fd:
            assert errno_of(fd, "proc/self/status") == errno.EXDEV

    def test_stat_is_of_the_link_itself(self, tree: Path) -> None:
        with files.opened(tree) as fd:
            assert files.stat_beneath(fd, "out").st_ino == os.lstat(tree / "out").st_ino

    def test_a_refused_open_leaks_no_descriptor(self, tree: Path) -> None:
        with files.opened(tree) as fd:
            before = len(os.listdir("/proc/self/fd"))
            for path in ("out", "sub/../../secret", "dirlink/file", "absent/x"):
                assert errno_of(fd, path) is not None
            assert len(os.listdir("/proc/self/fd")) == before


def test_scan_is_sorted_and_says_when_it_was_capped(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / name).touch()
    with files.opened(tmp_path) as fd:
        assert files.scan(fd, 3) == ([b"a", b"b", b"c"], False)
        names, capped = files.scan(fd, 2)
        assert len(names) == 2
        assert capped
        assert files.scan(fd, 3) == ([b"a", b"b", b"c"], False)  # the position is not shared


def test_two_descriptors_of_one_directory_share_no_position(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with files.opened(tmp_path) as fd:
        again = files.open_directory(fd)
        try:
            with os.scandir(fd) as first:
                next(first)
                assert files.scan(again, 9) == ([b"a"], False)
        finally:
            os.close(again)


def test_write_exclusive_refuses_a_taken_name_and_ignores_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        files.write_exclusive(tmp_path, "a", b"one", 0o644)
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o644
    with pytest.raises(FileExistsError):
        files.write_exclusive(tmp_path, "a", b"two")
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        files.write_exclusive(tmp_path, "dangling", b"two")
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "a").read_bytes() == b"one"


def test_replace_file_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "name").symlink_to("target")
    files.replace_file(tmp_path, "name", b"new")
    assert not (tmp_path / "name").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"kept"
    assert sorted(os.listdir(tmp_path)) == ["name", "target"]


def test_replace_file_onto_a_directory_fails_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    with pytest.raises(IsADirectoryError):
        files.replace_file(tmp_path, "name", b"new")
    assert os.listdir(tmp_path) == ["name"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", b"a/b"])
def test_names_with_a_path_in_them_are_refused(tmp_path: Path, name: str | bytes) -> None:
    for call in (
        lambda: files.write_exclusive(tmp_path, name, b""),
        lambda: files.replace_file(tmp_path, name, b""),
        lambda: files.swap_symlink(tmp_path, name, "x"),
        lambda: files.remove_tree(tmp_path, name),
    ):
        with pytest.raises(ValueError, match="single file name"):
            call()


def test_a_reader_never_misses_a_link_that_is_swapped(tmp_path: Path) -> None:
    files.swap_symlink(tmp_path, "current", "0")
    seen: set[str] = set()
    done = threading.Event()
    failures: list[OSError] = []

    def read() -> None:
        while not done.is_set():
            try:
                seen.add(os.readlink(tmp_path / "current"))
            except OSError as error:
                failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 200):
        files.swap_symlink(tmp_path, "current", str(number))
    done.set()
    reader.join()
    assert not failures
    assert seen <= {str(number) for number in range(200)}


class TestRemoveTree:
    def test_links_are_removed_and_never_followed(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "kept").write_text("kept")
        drop = tmp_path / "drop"
        (drop / "a").mkdir(parents=True)
        (drop / "a" / "directory").symlink_to(outside)
        (drop / "a" / "file").symlink_to(outside / "kept")
        os.mkfifo(drop / "fifo")
        assert files.remove_tree(tmp_path, "drop") == []
        assert not drop.exists()
        assert (outside / "kept").read_text() == "kept"

    def test_a_name_that_is_a_link_loses_only_the_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        assert files.remove_tree(tmp_path, "link") == []
        assert os.listdir(tmp_path) == ["real"]

    def test_three_thousand_levels_need_few_descriptors(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        fd = os.open(tmp_path / "deep", os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=fd)
            inner = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)
        assert files.remove_tree(tmp_path, "deep") == []
        assert os.listdir(tmp_path) == []

    def test_what_is_beyond_the_limit_is_left_and_named(self, tmp_path: Path) -> None:
        (tmp_path / "drop").mkdir()
        for number in range(10):
            (tmp_path / "drop" / str(number)).touch()
        left = files.remove_tree(tmp_path, "drop", limit=4)
        assert left
        assert "limit" in left[0]
        assert len(os.listdir(tmp_path / "drop")) == 6
        assert files.remove_tree(tmp_path, "drop") == []

    def test_a_directory_without_permissions_is_removed_by_its_owner(self, tmp_path: Path) -> None:
        (tmp_path / "drop" / "closed").mkdir(parents=True)
        (tmp_path / "drop" / "closed" / "file").touch()
        (tmp_path / "drop" / "closed").chmod(0o555)
        assert files.remove_tree(tmp_path, "drop") == []

    def test_a_name_that_is_gone_is_no_error(self, tmp_path: Path) -> None:
        assert files.remove_tree(tmp_path, "absent") == []

    def test_temporaries_of_killed_processes_are_removed(self, tmp_path: Path) -> None:
        (tmp_path / files.temporary_name()).mkdir()
        (tmp_path / "kept").mkdir()
        assert files.remove_temporaries(tmp_path) == []
        assert os.listdir(tmp_path) == ["kept"]
