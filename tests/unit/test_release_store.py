"""The store: what a bundle looks like there, what happens twice, and what is noticed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ReleaseError, StateError
from acceptd.evidence import BundleFile
from acceptd.release import store
from tests.release_world import World, survivors

pytestmark = pytest.mark.unit

FILES = {"model.onnx": b"model" * 100, "data/weights.bin": b"w" * 5000, "bundle.toml": b"schema = 1\n"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_put_moves_the_sealed_directory(world: World) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    inode = (sealed_dir / "model.onnx").stat().st_ino
    target = store.put(world.state, sealed_dir, sealed)
    assert target == world.state / "store" / "sha256" / sealed.digest
    assert not sealed_dir.exists()
    assert (target / "model.onnx").stat().st_ino == inode  # by rename, not by copy
    for path in target.rglob("*"):
        found = path.stat()
        assert (
            (found.st_mode & 0o777, found.st_nlink) == (0o444, 1)
            if path.is_file()
            else found.st_mode & 0o777 == 0o755
        )
    assert target.stat().st_mode & 0o777 == 0o755
    assert {file.path for file in store.verify(world.state, sealed.digest)} == set(FILES)
    assert store.digests(world.state) == [sealed.digest]


@pytest.mark.parametrize("other_device", [False, True])
def test_the_same_bundle_that_comes_first_while_one_is_moved_is_kept_once(
    world: World, monkeypatch: pytest.MonkeyPatch, other_device: bool
) -> None:
    one, sealed = world.sealed(FILES)
    two, _ = world.sealed(FILES)
    rename, raced = os.rename, []

    def move(source: Any, target: Any, **more: Any) -> None:
        into_store = str(target).endswith(sealed.digest)
        if other_device and into_store and source == two:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
        if into_store and not raced:
            raced.append(source)
            store.put(world.state, one, sealed)  # another submission's
        rename(source, target, **more)

    monkeypatch.setattr(os, "rename", move)
    target = store.put(world.state, two, sealed)
    assert raced
    assert not one.exists()
    assert not two.exists()
    assert {file.path for file in store.verify(world.state, sealed.digest)} == set(FILES)
    assert store.digests(world.state) == [sealed.digest]
    assert target.is_dir()
    assert survivors(world.state) == []


def test_the_same_bundle_twice_is_kept_once(world: World) -> None:
    one, sealed = world.sealed(FILES)
    two, again = world.sealed(FILES)
    assert sealed.digest == again.digest
    target = store.put(world.state, one, sealed)
    inode = (target / "model.onnx").stat().st_ino
    assert store.put(world.state, two, again) == target
    assert (target / "model.onnx").stat().st_ino == inode
    assert not two.exists()


def test_put_again_after_the_sealed_directory_is_gone(world: World) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    target = store.put(world.state, sealed_dir, sealed)
    assert store.put(world.state, sealed_dir, sealed) == target


def test_a_bundle_that_is_there_needs_no_copy_to_be_brought(world: World) -> None:
    """A promoter fetches nothing that its store has: not even the directory of the submission is there then."""
    sealed_dir, sealed = world.sealed(FILES)
    target = store.put(world.state, sealed_dir, sealed)
    assert store.put(world.state, world.state / "sealed" / "never-here" / "bundle", sealed) == target


def test_put_of_nothing(world: World) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    for path in sorted(sealed_dir.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    sealed_dir.rmdir()
    with pytest.raises(StateError) as told:
        store.put(world.state, sealed_dir, sealed)
    assert str(told.value).startswith(f"the store cannot take {sealed.digest}: No such file or directory: ")


def test_damaged_object_is_not_reused(world: World) -> None:
    one, sealed = world.sealed(FILES)
    target = store.put(world.state, one, sealed)
    (target / "model.onnx").unlink()
    (target / "model.onnx").write_bytes(b"other" * 100)
    two, again = world.sealed(FILES)
    with pytest.raises(ReleaseError, match="not the file"):
        store.put(world.state, two, again)
    assert two.exists()


def test_inventory_that_does_not_give_the_digest(world: World) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    lying = sealed.model_copy(update={"files": [BundleFile(path="x", sha256="0" * 64, size=1)]})
    with pytest.raises(ReleaseError, match="does not give its digest"):
        store.put(world.state, sealed_dir, lying)


def test_changed_inventory_is_noticed(world: World) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    store.put(world.state, sealed_dir, sealed)
    path = world.state / store.INVENTORY / f"{sealed.digest}.json"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data.replace(b"5000", b"5001"))
    with pytest.raises(ReleaseError, match="was changed"):
        store.present(world.state, sealed.digest)


@pytest.mark.parametrize("size", [499, 501])
def test_present_compares_sizes_and_verify_bytes(world: World, size: int) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    target = store.put(world.state, sealed_dir, sealed) / "model.onnx"
    target.unlink()
    target.write_bytes(b"x" * 500)
    store.present(world.state, sealed.digest)
    with pytest.raises(ReleaseError, match="not the file"):
        store.verify(world.state, sealed.digest)
    target.write_bytes(b"x" * size)
    with pytest.raises(ReleaseError, match=f"{size} bytes"):
        store.present(world.state, sealed.digest)


def test_some_files_of_a_bundle_are_verified_by_themselves_and_no_other_is_read(world: World) -> None:
    digest = world.accepted(files=FILES).digest
    wanted = ["data/weights.bin", "bundle.toml"]
    assert [file.path for file in store.verify_some(world.state, digest, wanted)] == wanted
    with pytest.raises(ReleaseError, match=f"^the store's bundle {digest} has no file 'gone'"):
        store.verify_some(world.state, digest, ["model.onnx", "gone", "lost"])
    model = world.state / "store" / "sha256" / digest / "model.onnx"
    data = model.read_bytes()
    model.chmod(0o644)
    model.write_bytes(data[::-1])
    model.chmod(0o444)
    assert len(store.verify_some(world.state, digest, wanted)) == 2
    with pytest.raises(ReleaseError, match="not the file"):
        store.verify_some(world.state, digest, ["bundle.toml", "model.onnx"])


@pytest.mark.parametrize("digest", ["0" * 64, "../keys", "", "A" * 64])
def test_unknown_digest(world: World, digest: str) -> None:
    for function in (store.inventory, store.verify, store.present):
        with pytest.raises(ReleaseError):
            function(world.state, digest)


def test_copy_between_file_systems(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    rename = os.rename

    def other_device(source: Any, target: Any, **more: Any) -> None:
        if Path(os.fspath(source)) == sealed_dir:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
        rename(source, target, **more)

    monkeypatch.setattr(os, "rename", other_device)
    store.put(world.state, sealed_dir, sealed)
    assert {file.path for file in store.verify(world.state, sealed.digest)} == set(FILES)
    assert not sealed_dir.exists()
    assert survivors(world.state) == []


def test_copy_between_file_systems_of_changed_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    (sealed_dir / "model.onnx").unlink()
    (sealed_dir / "model.onnx").write_bytes(b"other" * 100)
    rename = os.rename

    def other_device(source: Any, target: Any, **more: Any) -> None:
        if Path(os.fspath(source)) == sealed_dir:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
        rename(source, target, **more)

    monkeypatch.setattr(os, "rename", other_device)
    with pytest.raises(ReleaseError, match="no longer gives the digest"):
        store.put(world.state, sealed_dir, sealed)
    assert store.digests(world.state) == []
    assert survivors(world.state) == []


def test_sweep_removes_half_made_copies(world: World) -> None:
    sealed_dir, sealed = world.sealed(FILES)
    store.put(world.state, sealed_dir, sealed)
    half = world.state / "store" / "sha256" / ".tmp-half"
    half.mkdir()
    (half / "model.onnx").write_bytes(b"x")
    assert store.sweep(world.state) == []
    assert not half.exists()
    store.verify(world.state, sealed.digest)
