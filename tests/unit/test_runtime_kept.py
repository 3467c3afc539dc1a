"""Digests that are kept between processes: whose file is believed, and when an entry counts."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from acceptd.runtime import kept, libraries


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a user whose home is below ``tmp_path``; nothing is known at first."""
    path = tmp_path / ".cache" / "acceptd" / "libraries.json"
    monkeypatch.setattr(kept, "place", lambda: path)
    monkeypatch.setattr(kept, "_read", False)
    monkeypatch.setattr(libraries, "_cache", {})
    return path


def old_file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_what_one_process_hashed_another_one_knows(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "_SETTLED_NS", 0)
    file = old_file(tmp_path / "lib.so", b"a")
    libraries.digests([file])
    kept.keep({})
    assert place.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(libraries, "_cache", {})
    kept.recall()
    monkeypatch.setattr(libraries, "_read", lambda _descriptor: "read again")
    assert libraries.digests([file])[0].sha256 == hashlib.sha256(b"a").hexdigest()


def test_a_file_that_was_changed_a_moment_ago_is_not_kept(place: Path, tmp_path: Path) -> None:
    libraries.digests([old_file(tmp_path / "lib.so", b"a")])
    assert libraries.known() == {}
    kept.keep({})
    assert not place.exists()


def planted(place: Path, target: Path) -> None:
    """Write an entry that gives ``target`` a false digest."""
    status = target.stat()
    key = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    place.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    place.write_text(json.dumps([[*key, "0" * 64]]))
    place.chmod(0o600)


@pytest.mark.parametrize("how", ["file", "directory", "link"])
def test_a_file_that_others_could_have_written_is_not_believed(place: Path, tmp_path: Path, how: str) -> None:
    target = tmp_path / "lib.so"
    target.write_bytes(b"a")
    planted(place, target)
    if how == "file":
        place.chmod(0o666)
    elif how == "directory":
        place.parent.chmod(0o777)
    else:
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    kept.recall()
    assert libraries.digests([str(target)])[0].sha256 == hashlib.sha256(b"a").hexdigest()


def test_the_plant_itself_works_where_only_we_could_write(place: Path, tmp_path: Path) -> None:
    target = tmp_path / "lib.so"
    target.write_bytes(b"a")
    planted(place, target)
    kept.recall()
    assert libraries.digests([str(target)])[0].sha256 == "0" * 64


ODD = ("[" * 100_000, f'[[1e400,1,1,1,1,"{"0" * 64}"]]', f'[[1,1,1,1,"{"0" * 64}"]]', '{"a":1}', "9" * 5000)
"""What Python's own reader answers with other errors than for mere nonsense."""


@pytest.mark.parametrize("content", ["", "{", "[1]", '[["a",1,1,1,1,"00"]]', '[[1,1,1,1,1,"xyz"]]', "[[1]]", *ODD])
def test_a_broken_file_is_no_file(place: Path, content: str) -> None:
    place.parent.mkdir(parents=True)
    place.write_text(content)
    kept.recall()
    assert libraries.known() == {}


def test_the_place_does_not_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = kept.place()
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert kept.place() == before


def test_a_hard_link_made_meanwhile_only_means_another_reading(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lib.so"
    file.write_bytes(b"a")
    real, links = libraries._read, []

    def read(descriptor: int) -> str:
        if not links:
            time.sleep(0.02)
            os.link(file, tmp_path / "other")
            links.append(1)
        return real(descriptor)

    monkeypatch.setattr(libraries, "_read", read)
    assert libraries.digests([str(file)])[0].sha256 == hashlib.sha256(b"a").hexdigest()
