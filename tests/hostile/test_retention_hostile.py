"""Links planted where retention removes: what they lead to is never touched, wherever they stand."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.retention import collect as collecting
from acceptd.retention.collect import plan
from tests.retention_world import DAYS, Kept

pytestmark = pytest.mark.hostile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.close()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that somebody else needs: its content, modes and link count must stay."""
    place = tmp_path / "outside"
    (place / "inner").mkdir(parents=True)
    (place / "inner" / "file").write_bytes(b"needed")
    (place / "inner").chmod(0o555)
    return place


def untouched(outside: Path) -> None:
    assert (outside / "inner" / "file").read_bytes() == b"needed"
    assert stat.S_IMODE((outside / "inner").stat().st_mode) == 0o555


def test_links_inside_a_bundle_are_removed_and_not_followed(world: Kept, outside: Path) -> None:
    bundle = world.held("s-1") / "bundle"
    os.symlink(outside, bundle / "tree")
    os.symlink(outside / "inner" / "file", bundle / "deep" / "file")
    os.symlink("../../../..", bundle / "deep" / "up")
    os.link(outside / "inner" / "file", bundle / "deep" / "hard")
    assert world.gone(11) == ["s-1"]
    assert os.listdir(world.state / "quarantine") == []
    untouched(outside)
    assert (outside / "inner" / "file").stat().st_nlink == 1


def test_a_submission_that_is_a_link_itself_loses_the_link_alone(world: Kept, outside: Path) -> None:
    place = world.held("s-1")
    shutil.rmtree(place)
    os.symlink(outside, place)
    world.collect(11)
    untouched(outside)
    assert not os.path.lexists(place)


@pytest.mark.parametrize("when", ["retention.bundle.entered", "retention.bundle.moved"])
def test_a_bundle_exchanged_for_a_link_at_the_last_moment(
    world: Kept, outside: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    place = world.held("s-1")

    def exchange(name: str) -> None:
        if name == when:
            there = next(one for one in place.parent.iterdir() if "s-1" in one.name or ".tmp-gone" in one.name)
            shutil.rmtree(there)
            os.symlink(outside, there)

    monkeypatch.setattr(collecting, "failpoint", exchange)
    world.collect(11)
    untouched(outside)


@pytest.mark.parametrize("folder", ["quarantine", "outputs", "backups"])
def test_a_place_that_is_a_link_is_not_entered(world: Kept, outside: Path, folder: str) -> None:
    world.held("s-1")
    name = {"quarantine": "s-1", "outputs": "ab" * 32, "backups": "ledger-v1-20200101T000000Z.sqlite3"}[folder]
    shutil.rmtree(world.state / folder, ignore_errors=True)
    (outside / name).write_bytes(b"old enough")
    os.utime(outside / name, (0, 0))
    os.symlink(outside, world.state / folder)
    done = world.collect(11)
    assert (outside / name).read_bytes() == b"old enough"
    assert name not in [one.thing.name for one in done.gone]
    assert [one.reason[:24] for one in done.kept if one.thing.name == folder] == ["nothing in it is touched"]
    untouched(outside)


@pytest.mark.parametrize("kind", ["symbolic", "hard", "directory"])
def test_kept_outputs_that_are_something_else(world: Kept, outside: Path, kind: str) -> None:
    path = world.output("a", 50)
    path.unlink()
    if kind == "symbolic":
        os.symlink(outside / "inner" / "file", path)
    elif kind == "hard":
        os.link(outside / "inner" / "file", path)
        os.utime(path, (0, 0))
    else:
        (path / "inner").mkdir(parents=True)
    world.collect(11)
    untouched(outside)
    stays = {one.thing.name: one.reason for one in plan(world.look(99), DAYS)}
    assert stays == ({} if kind == "hard" else {path.name: "nothing that acceptd puts there: look at it"})


def test_hostile_names_in_quarantine_are_only_shown(world: Kept) -> None:
    world.held("s-1")
    for name in ("..x", "\x1b[31m", "a\nb", "é" * 60, "' OR 1=1 --"):
        (world.state / "quarantine" / name).mkdir()
    assert world.gone(11) == ["s-1"]
    assert len(os.listdir(world.state / "quarantine")) == 5
