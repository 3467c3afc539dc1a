"""Attacks on the loader by the bytes that it opens: objects, directories and links of the store."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import (
    DigestMismatchError,
    ExpiredError,
    LoaderError,
    MalformedError,
    ReleaseNotFoundError,
    SignatureError,
)
from acceptd.record.keys import Keyring, create_keys
from acceptd.release import objects
from acceptd.release.content import Keep
from tests.release_world import MODEL, World, replace

pytestmark = pytest.mark.hostile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def released(world: World) -> World:
    world.released("1.0.0")
    assert world.open().number == 1
    return world


# The store


def _object(world: World) -> Path:
    return world.open().path


def _swap_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    replace(path, bytes(data))


def _grow(path: Path) -> None:
    replace(path, path.read_bytes() + b"!")


def _link_out(path: Path) -> None:
    aside = path.parents[3] / "aside"
    shutil.copy(path, aside)
    path.unlink()
    os.symlink(aside, path)


def _hard_link(path: Path) -> None:
    os.link(path, path.parents[3] / "second-name")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("attack", "error"),
    [
        (_swap_byte, DigestMismatchError),
        (_grow, DigestMismatchError),
        (Path.unlink, DigestMismatchError),
        (_link_out, MalformedError),
        (_hard_link, MalformedError),
        (_fifo, MalformedError),
        (_directory, MalformedError),
    ],
)
@pytest.mark.parametrize("name", ["model.onnx", "data/labels.txt"])
def test_swapped_store_object(
    released: World, name: str, attack: Callable[[Path], None], error: type[LoaderError]
) -> None:
    attack(_object(released) / name)
    with pytest.raises(error):
        released.open()


@pytest.mark.parametrize("name", ["extra.bin", "data/extra.bin", "deep/er.bin"])
def test_file_beside_the_promoted_ones(released: World, name: str) -> None:
    path = _object(released) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"weights that nobody saw")
    with pytest.raises(DigestMismatchError, match="never promoted"):
        released.open()


def test_swapped_store_directory(released: World) -> None:
    mine = _object(released)
    released.released("2.0.0")
    theirs = _object(released)
    aside = theirs.with_name("aside")
    theirs.rename(aside)
    mine.rename(theirs)
    with pytest.raises(DigestMismatchError):
        released.open()


def test_missing_store_object(released: World) -> None:
    shutil.rmtree(_object(released))
    with pytest.raises(ReleaseNotFoundError):
        released.open()


@pytest.mark.parametrize("inner", ["", "data"])
def test_store_directory_put_aside_and_back_is_noticed_by_recheck(released: World, inner: str) -> None:
    """The files keep every stamp of theirs while another directory stands in for as long as a session is made."""
    opened = released.open()
    opened.recheck()
    place = opened.path / inner if inner else opened.path
    place.parent.chmod(0o755)
    aside = opened.path.parent / "aside"
    place.rename(aside)
    shutil.copytree(aside, place)
    shutil.rmtree(place)
    aside.rename(place)
    assert opened.file("model.onnx").read_bytes().startswith(b"model 1.0.0")
    with pytest.raises(DigestMismatchError):
        opened.recheck()
    for folder in ("/", "data/"):
        with pytest.raises(ReleaseNotFoundError):
            opened.file(folder)


def test_write_after_load_is_noticed_by_recheck(released: World) -> None:
    release = released.open()
    release.recheck()
    _swap_byte(release.path / "model.onnx")
    with pytest.raises(DigestMismatchError, match="after it was verified"):
        release.recheck()


@pytest.mark.parametrize(
    "place",
    ["releases", "releases/mosaic", "releases/mosaic/evidence-disposition", "{channel}", "store", "store/sha256"],
)
def test_symlink_trick_directory(released: World, place: str) -> None:
    path = released.state / place.format(channel=f"releases/{MODEL}/production")
    aside = released.root / "aside"
    path.rename(aside)
    os.symlink(aside, path)
    with pytest.raises(MalformedError):
        released.open()


@pytest.mark.parametrize("name", ["channel.json", "000001/release.json", "000001", "../../../../revocations.json"])
def test_symlink_trick_file(released: World, name: str) -> None:
    released.revoke("0" * 64)
    assert released.open().number == 1
    path = released.channel_dir / name
    aside = released.root / "aside"
    path.rename(aside)
    os.symlink(aside, path)
    with pytest.raises(MalformedError):
        released.open()


def test_store_object_as_link_to_an_honest_copy(released: World) -> None:
    path = _object(released)
    aside = path.with_name("aside")
    path.rename(aside)
    os.symlink(aside, path)
    with pytest.raises(MalformedError):
        released.open()


def test_fifo_in_the_place_of_a_signed_file_does_not_hang(released: World) -> None:
    released.channel_file.unlink()
    os.mkfifo(released.channel_file)
    with pytest.raises(MalformedError, match="regular"):
        released.open()


class _Growing(FileIO):
    """A file to which somebody appends for as long as it is read."""

    reads = 0

    def readinto(self, buffer: Any, /) -> int:
        _Growing.reads += 1
        assert _Growing.reads < 50, "whoever appends to a file holds its reader for ever"
        with open(f"/proc/self/fd/{self.fileno()}", "ab") as more:
            more.write(bytes(1 << 20))
        return super().readinto(buffer) or 0


def test_file_that_grows_for_as_long_as_it_is_hashed(released: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in _object(released).rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    monkeypatch.setattr(objects, "FileIO", _Growing)
    monkeypatch.setattr(_Growing, "reads", 0)
    with pytest.raises(DigestMismatchError, match="is not the file that was promoted"):
        released.open()


def test_golden_file_that_grows_is_no_longer_read_in_memory_mode_either(
    released: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Golden sets are hashed and not kept, so they go the way of mapped files."""
    release = released.open(mode="memory")
    for path in release.path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    monkeypatch.setattr(objects, "FileIO", _Growing)
    monkeypatch.setattr(_Growing, "reads", 0)
    root = objects.open_root(released.state)
    try:
        with pytest.raises(DigestMismatchError, match="is not the file that was promoted"):
            objects.verify_object(root, release.bundle_digest, release.files, Keep(lambda _: False))
    finally:
        os.close(root)


def test_what_one_caller_changes_in_a_release_reaches_no_other(released: World) -> None:
    """Verified documents are remembered in the process; the tables that a caller gets are his own."""
    honest = released.open()
    kept = json.dumps([honest.manifest, honest.options, honest.labels, honest.preprocessing, honest.files])
    for _ in range(2):
        release = released.open()
        for table in (release.manifest, release.options):
            assert isinstance(table, dict)
            table.clear()
        again = released.open()
        told = [again.manifest, again.options, again.labels, again.preprocessing, again.files]
        assert json.dumps(told) == kept


def test_a_release_that_was_read_before_is_judged_anew_by_other_keys_time_and_numbers(released: World) -> None:
    released.open()
    with pytest.raises(SignatureError):
        released.open(keys=Keyring(()))
    other = released.root / "other"
    other.mkdir(mode=0o700)
    create_keys(other)
    with pytest.raises(SignatureError):
        released.open(keys=other / "keyring.json")
    released.now += 3601
    with pytest.raises(ExpiredError):
        released.open()
