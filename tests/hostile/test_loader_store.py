"""Attacks on the loader by the bytes that it opens: objects, directories and links of the store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptd.errors import (
    DigestMismatchError,
    LoaderError,
    MalformedError,
    ReleaseNotFoundError,
)
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
