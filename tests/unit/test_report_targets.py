"""Result files: refused before any work, written whole or not at all, never into what is checked."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from acceptd.errors import UsageError
from acceptd.report.targets import Targets
from tests import commands

pytestmark = pytest.mark.unit


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_a_file_is_there_whole_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "out.sarif"
    path.write_bytes(b"old")
    with Targets({"--sarif": path, "--junit": None}) as targets:
        targets.write("--sarif", b"new ")
        targets.write("--junit", b"nobody asked")
        assert path.read_bytes() == b"old"
        targets.write("--sarif", b"text")
    assert path.read_bytes() == b"new text"
    assert names(tmp_path) == ["out.sarif"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_after_an_error_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.sarif"
    path.write_bytes(b"old")
    targets = Targets({"--sarif": path, "--jsonl": tmp_path / "new"})
    with pytest.raises(ZeroDivisionError), targets:
        raise ZeroDivisionError(targets.write("--sarif", b"half"))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out.sarif"]


@pytest.mark.parametrize("path", ["missing/out", ".", "file/out"])
def test_a_path_that_cannot_be_written_is_one_line_with_a_remedy(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError) as caught, Targets({"--jsonl": tmp_path / "good", "--sarif": tmp_path / path}):
        raise AssertionError("entered")
    assert caught.value.message.startswith(f"--sarif {tmp_path / path}: ")
    assert caught.value.remedy
    assert "\n" not in caught.value.message
    assert names(tmp_path) == ["file"]


def test_two_options_with_one_file_are_refused_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with (
        pytest.raises(UsageError, match="writes there too"),
        Targets({"--jsonl": tmp_path / "out", "--sarif": tmp_path / "link"}),
    ):
        raise AssertionError("entered")


def test_a_result_never_becomes_a_part_of_what_is_checked(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "sub").mkdir(parents=True)
    with (
        pytest.raises(UsageError, match="inside what is checked"),
        Targets({"--sarif": bundle / "sub" / "out"}, outside=bundle),
    ):
        raise AssertionError("entered")
    assert names(bundle / "sub") == []
    with Targets({"--sarif": tmp_path / "bundle.sarif"}, outside=bundle):
        pass


def test_a_link_to_a_file_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Targets({"--sarif": tmp_path / "link"}) as targets:
        targets.write("--sarif", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"x"


def test_a_device_is_written_not_replaced() -> None:
    with Targets({"--sarif": Path("/dev/null")}) as targets:
        targets.write("--sarif", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", ["bundle.zip", "link", "hard"])
def test_the_archive_that_is_checked_is_not_written_over(tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "bundle.zip"
    bundle.write_bytes(b"PK")
    (tmp_path / "link").symlink_to("bundle.zip")
    (tmp_path / "hard").hardlink_to(bundle)
    with (
        pytest.raises(UsageError, match="is what is checked"),
        Targets({"--html": tmp_path / name}, outside=bundle),
    ):
        raise AssertionError
    assert bundle.read_bytes() == b"PK"


def test_a_check_does_not_write_its_report_over_its_bundle(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.zip"
    bundle.write_bytes(b"PK")
    done = commands.run("check", str(bundle), "--html", str(bundle))
    assert done.returncode == 2
    assert "is what is checked" in done.stderr
    assert bundle.read_bytes() == b"PK"
