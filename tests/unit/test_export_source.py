"""The store is looked at again when it is exported: nothing but what was promoted reaches a consumer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptd.objectstore.local import Directory
from acceptd.objectstore.remote import Found
from tests.export_world import Bucketed, Exported
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["directory", "objects"])
def exported(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Exported | Bucketed:
    if request.param == "directory":
        return Exported(world, tmp_path / "exported")
    return Bucketed(world, Directory(tmp_path / "bucket", make=True))


def gone(path: Path) -> None:
    path.unlink()


def shorter(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size - 1)


def of_two_names(path: Path) -> None:
    os.link(path, path.parents[3] / "another name")


def a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def a_queue(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def nobody_is_led_there(exported: Exported | Bucketed) -> bool:
    if isinstance(exported, Exported):
        return not (exported.root / MODEL / "production" / "current").exists()
    return f"{MODEL}/production/current" not in exported.names()


@pytest.mark.parametrize("change", [gone, shorter, of_two_names, a_link, a_queue])
def test_a_file_of_the_store_that_is_not_as_it_was_promoted_is_exported_nowhere(
    world: World, exported: Exported | Bucketed, change: Callable[[Path], None]
) -> None:
    release = world.released("1")
    change(Path(os.path.realpath(release.bundle)) / "data/labels.txt")
    done = exported.follow()
    assert done.done == []
    [problem] = done.problems
    assert "data/labels.txt" in problem
    assert nobody_is_led_there(exported)


def test_a_release_document_that_was_exchanged_since_it_was_read_is_no_proof(
    world: World, exported: Exported | Bucketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acceptd.release import objects

    world.released("1")
    read = objects.read_small

    def another(root: int, path: str, *most: int) -> bytes:
        data = read(root, path, *most)
        return data + b" " if path.endswith("/release.json") else data

    monkeypatch.setattr("acceptd.export.build.objects.read_small", another)
    done = exported.follow()
    assert done.done == []
    assert "release.json" in done.problems[0]
    assert nobody_is_led_there(exported)


class Forgetful(Directory):
    """Objects that are gone as soon as they were written: somebody else clears the place."""

    def look(self, key: str) -> Found | None:
        return None if key.endswith("/release.json") else super().look(key)


class Taken(Directory):
    """Objects of another writer: none can be created, and what is there is not ours."""

    def create(self, key: str, data: bytes) -> bool:
        super().create(key, data[::-1])
        return False


class Moving(Directory):
    """An object that another one replaces each time before we do."""

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Forgetful, "is gone as soon as it was written"),
        (Taken, "another"),
        (Moving, "another"),
    ],
)
def test_a_place_that_somebody_else_writes_too_is_told_and_nobody_is_led_into_it(
    world: World, tmp_path: Path, kind: type[Directory], said: str
) -> None:
    world.released("1")
    exported = Bucketed(world, kind(tmp_path / "bucket", make=True))
    done = exported.follow()
    assert any(said in one for one in done.problems)
    assert nobody_is_led_there(exported)
