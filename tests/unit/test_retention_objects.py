"""Retention in the object store: bundles by their verdicts and days, contents that nothing names by two steps."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.config import Paths
from acceptd.errors import ObjectMissingError, ObjectsUnreachableError
from acceptd.intake.seal import seal_directory
from acceptd.objectstore.objects import Objects, open_objects
from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy.limits import LimitsTable
from acceptd.record.queue import Queue
from acceptd.record.removals import removed
from acceptd.release.gone import BUNDLES
from acceptd.retention import audit
from acceptd.retention.collect import Collected, collect
from acceptd.retention.objects import MARKS, Shelves
from acceptd.retention.service import shelves_of
from acceptd.sealed_facts import Sealed
from tests import commands
from tests.objects_world import sealed_bundle
from tests.retention_world import DAYS, NOW, Kept

pytestmark = pytest.mark.unit

UNUSED = 7


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.close()


@pytest.fixture
def objects(world: Kept) -> Objects:
    return open_objects(ObjectsTable(), world.state)


def put(world: Kept, objects: Objects, name: str, **more: str) -> Sealed:
    """A submission whose sealed bundle lies in the object store, as intake leaves it."""
    place = world.held(name, **more)
    row = Queue(world.ledger).get(name)
    assert row is not None
    sealed = Sealed.model_validate(row.data["sealed"])
    objects.put_bundle("sealed", place / "bundle", sealed)
    return sealed


def run(world: Kept, objects: Objects, days: float) -> Collected:
    return collect(world.look(days), DAYS, shelves=Shelves(world.look(days), objects, UNUSED))


def gone(done: Collected) -> set[str]:
    assert done.problems == []
    return {f"{one.thing.folder}/{one.thing.name}" for one in done.gone if one.thing.folder.startswith("objects")}


def blobs(objects: Objects) -> set[str]:
    return {one.key.rpartition("/")[2] for one in objects.remote.listed("blobs/")}


@pytest.mark.parametrize("verdict", ["rejected", "inconclusive", "held"])
def test_a_bundle_goes_after_its_days_with_an_entry_and_its_contents_days_later(
    world: Kept, objects: Objects, verdict: str
) -> None:
    """And not a day before; what another bundle shares with it stays."""
    sealed = put(world, objects, "s-1", verdict=verdict)
    other = put(world, objects, "s-2", verdict="held", state="sealed")  # still worked on
    assert gone(run(world, objects, 9.9)) == set()
    assert gone(run(world, objects, 10.1)) == {f"objects/sealed/{sealed.digest}"}
    assert not objects.has("sealed", sealed.digest)
    assert sealed.digest in {name for _, name in removed(world.ledger, BUNDLES)}
    mine = {row.sha256 for row in sealed.files} - {row.sha256 for row in other.files}
    assert mine
    assert mine <= blobs(objects)
    assert gone(run(world, objects, 17.0)) == set()
    assert gone(run(world, objects, 17.2)) == {f"objects/blobs/{one}" for one in mine}
    assert blobs(objects) == {row.sha256 for row in other.files}
    objects.fetch_bundle("sealed", other.digest, world.root / "out")


def test_a_bundle_that_one_submission_still_needs_stays(world: Kept, objects: Objects) -> None:
    """The same bytes dropped again are worked on: the bundle is one."""
    sealed = put(world, objects, "s-1", verdict="rejected")
    queue = Queue(world.ledger)
    queue.add("s-2", team="mosaic", name="drop", path="/p", kind="directory")
    queue.advance("s-2", "sealed", bundle_digest=sealed.digest)
    assert gone(run(world, objects, 400)) == set()
    assert objects.has("sealed", sealed.digest)


def test_a_bundle_that_intake_has_found_again_stays_for_a_day(world: Kept, objects: Objects) -> None:
    """The same bytes are sealed again, and no submission of them is on record yet."""
    sealed = put(world, objects, "s-1", verdict="rejected")
    (path,) = (world.state / "objects/sealed").iterdir()
    os.utime(path, (1, 1))
    objects.put_bundle("sealed", world.state / "quarantine/s-1/bundle", sealed)  # finds it old, makes it young
    os.utime(path, (path.stat().st_mtime + 20 * 86_400,) * 2)
    assert gone(run(world, objects, 20.9)) == set()
    assert gone(run(world, objects, 21.1)) == {f"objects/sealed/{sealed.digest}"}


def test_a_decision_that_is_open_keeps_a_held_bundle(world: Kept, objects: Objects) -> None:
    """As it does in quarantine."""
    sealed = put(world, objects, "s-1")
    world.decide("s-1", "approve", 50)
    assert gone(run(world, objects, 30)) == set()
    assert gone(run(world, objects, 51)) == {f"objects/sealed/{sealed.digest}"}


def test_what_no_submission_is_known_of_stays_and_is_told(world: Kept, objects: Objects, tmp_path: Path) -> None:
    """Another fleet below the same prefix would lose its bundles otherwise."""
    directory, sealed = sealed_bundle(tmp_path)
    objects.put_bundle("sealed", directory, sealed)
    done = run(world, objects, 400)
    assert gone(done) == set()
    assert any("no submission of it is known" in one.reason for one in done.kept)
    assert objects.has("sealed", sealed.digest)


def test_of_an_approved_bundle_no_byte_goes_with_its_sealed_inventory(world: Kept, objects: Objects) -> None:
    """Nor is anything entered as removed; the approved one stays as the store's bundle does."""
    sealed = put(world, objects, "s-1", verdict="accepted")
    objects.put_bundle("approved", world.state / "quarantine/s-1/bundle", sealed)
    assert gone(run(world, objects, 0.9)) == set()
    assert gone(run(world, objects, 1.1)) == {f"objects/sealed/{sealed.digest}"}
    assert sealed.digest not in {name for _, name in removed(world.ledger, BUNDLES)}
    objects.fetch_bundle("approved", sealed.digest, world.root / "out")


def test_a_current_release_is_never_taken_from_the_approved_ones(world: Kept, objects: Objects) -> None:
    """By the same words as in the store."""
    release = world.released("1")
    stored = world.state / "store/sha256" / release.bundle_digest
    sealed = seal_directory(stored, world.root / "again", LimitsTable())
    assert sealed.digest == release.bundle_digest
    objects.put_bundle("approved", stored, sealed)
    done = run(world, objects, 4000)
    assert gone(done) == set()
    assert any(
        one.thing.folder == "objects/approved" and one.reason.startswith("current release") for one in done.kept
    )


def unnamed(objects: Objects, tmp_path: Path) -> set[str]:
    """Contents that a killed upload left: no inventory names them."""
    directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"left", "w.bin": b"behind"}, "left")
    objects.put_bundle("sealed", directory, sealed)
    objects.forget("sealed", sealed.digest)
    return {row.sha256 for row in sealed.files}


def test_contents_that_nothing_names_go_in_two_steps(world: Kept, objects: Objects, tmp_path: Path) -> None:
    """However old they are at the first look: it only notes them."""
    left = unnamed(objects, tmp_path)
    assert gone(run(world, objects, 400)) == set()
    assert gone(run(world, objects, 406.9)) == set()
    assert gone(run(world, objects, 407.1)) == {f"objects/blobs/{one}" for one in left}
    assert blobs(objects) == set()


def test_contents_that_are_found_again_meanwhile_stay(
    world: Kept, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that comes between the look and the removal finds them, makes them young, and is whole."""
    unnamed(objects, tmp_path)
    path = world.state / "objects/blobs"
    for one in path.rglob("*"):
        os.utime(one, (1, 1))
    run(world, objects, 0)
    look = objects.remote.look
    came: list[Sealed] = []

    def late(key: str) -> object:
        if not came and key.startswith("blobs/"):
            came.append(sealed_bundle(tmp_path, {"bundle.toml": b"left", "w.bin": b"behind"}, "again")[1])
            objects.put_bundle("sealed", tmp_path / "again", came[0])
            for one in path.rglob("*"):  # the upload found them old, and refreshed them eight days from now
                os.utime(one, (NOW + 8 * 86_400,) * 2)
        return look(key)

    monkeypatch.setattr(objects.remote, "look", late)
    assert gone(run(world, objects, 8)) == set()
    assert came
    objects.fetch_bundle("sealed", came[0].digest, tmp_path / "out")


def test_an_inventory_that_came_meanwhile_keeps_its_contents(
    world: Kept, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inventories are read again after the contents were listed."""
    left = unnamed(objects, tmp_path)
    run(world, objects, 0)
    contents = Shelves.contents

    def late(shelves: Shelves) -> object:
        found = contents(shelves)
        directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"left", "w.bin": b"behind"}, "again")
        objects.put_bundle("sealed", directory, sealed)
        return found

    monkeypatch.setattr(Shelves, "contents", late)
    assert gone(run(world, objects, 8)) == set()
    assert blobs(objects) == left


def test_with_an_inventory_that_cannot_be_read_no_content_goes(
    world: Kept, objects: Objects, tmp_path: Path
) -> None:
    """Nobody knows what it names."""
    left = unnamed(objects, tmp_path)
    run(world, objects, 0)
    damaged = world.state / "objects/sealed" / f"{'0' * 64}.json"
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_bytes(b"[]")
    done = run(world, objects, 400)
    assert any("do not give that digest" in line for line in done.problems)
    assert blobs(objects) == left


@pytest.mark.parametrize(
    "marks", [b"", b"[", b"[" * 100_000, b"[]", b'{"x": 1}', b'{"%s": "yesterday"}' % (b"0" * 64), b"\xff"]
)
def test_damaged_marks_cost_time_and_nothing_else(
    world: Kept, objects: Objects, tmp_path: Path, marks: bytes
) -> None:
    """They are made anew."""
    left = unnamed(objects, tmp_path)
    assert objects.remote.replace(MARKS, marks, "")
    assert gone(run(world, objects, 400)) == set()
    assert set(json.loads(objects.remote.read(MARKS, 1 << 20)[0])) == left


def test_two_collections_at_once_are_told(
    world: Kept, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks are replaced on condition."""
    unnamed(objects, tmp_path)
    contents = Shelves.contents

    def late(shelves: Shelves) -> object:
        objects.remote.replace(MARKS, b"{}", "")
        return contents(shelves)

    monkeypatch.setattr(Shelves, "contents", late)
    assert any("another one collects" in line for line in run(world, objects, 0).problems)


def test_evidence_is_never_collected(world: Kept, objects: Objects) -> None:
    """Entries and evidence stay."""
    sha256 = objects.put_blob(b"evidence")
    run(world, objects, 0)
    run(world, objects, 4000)
    assert objects.get_blob(sha256, 100) == b"evidence"


def test_kept_outputs_go_after_their_days_and_one_that_is_kept_again_begins_anew(
    world: Kept, objects: Objects
) -> None:
    """By one entry for all of them."""
    first, second = objects.put_blob(b"first", "outputs"), objects.put_blob(b"second", "outputs")
    assert gone(run(world, objects, 9.9)) == set()
    (path,) = (world.state / "objects/outputs").rglob(second)
    os.utime(path, (NOW + 5 * 86_400,) * 2)
    assert gone(run(world, objects, 10.1)) == {f"objects/outputs/{first}"}
    assert objects.get_blob(second, 10, "outputs") == b"second"
    assert first in {name for _, name in removed(world.ledger, {"outputs"})}
    with pytest.raises(ObjectMissingError):
        objects.get_blob(second, 10)  # they are no evidence


def test_a_store_that_cannot_be_reached_keeps_nothing_else_from_going(world: Kept, tmp_path: Path) -> None:
    """One line says so."""
    world.held("s-1")
    away = open_objects(ObjectsTable(url=f"file://{tmp_path}/away"), world.state)
    done = run(world, away, 11)
    assert [one.thing.name for one in done.gone] == ["s-1"]
    assert any("does not exist" in line for line in done.problems)


def test_gc_says_what_would_go_and_changes_nothing(world: Kept, objects: Objects, tmp_path: Path) -> None:
    """`acceptd gc --dry-run` shows bundles and contents of the object store among the rest."""
    sealed = put(world, objects, "s-1", verdict="rejected")
    unnamed(objects, tmp_path)
    for path, mode in Paths(world.state).directories():
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    before = {one.key: one.tag for one in objects.remote.listed("")}
    done = commands.run("gc", "--dry-run", "--json", "--state", str(world.state))
    assert done.returncode == 0, done.stderr
    stay = {one["place"]: one["reason"] for one in json.loads(done.stdout)["stay"]}
    assert f"objects/sealed/{sealed.digest}" in stay
    assert sum(place.startswith("objects/blobs/") for place in stay) == 2
    assert {one.key: one.tag for one in objects.remote.listed("")} == before
    done = commands.run("gc", "--dry-run", "--state", str(world.state))
    assert "nothing names it" in done.stdout
    (world.state / "acceptd.toml").write_text(f'[objects]\nurl = "file://{tmp_path}/away"\n')
    (world.state / "acceptd.toml").chmod(0o600)
    done = commands.run("gc", "--dry-run", "--state", str(world.state))
    assert (done.returncode, "quarantine" in done.stdout or "rejected" in done.stdout) == (70, True)
    assert "notlookedat:file://" in "".join(done.stdout.split())  # wrapped at 80 columns


def test_a_state_without_objects_looks_at_none(world: Kept) -> None:
    """One machine needs none, and makes none."""
    assert shelves_of(world.look(0), ObjectsTable()) is None
    assert not (world.state / "objects").exists()
    with pytest.raises(ObjectMissingError):
        open_objects(ObjectsTable(), world.state).inventory("sealed", "0" * 64)
    assert not (world.state / "objects").exists()


def test_a_held_bundle_in_the_object_store_is_not_missing(world: Kept, objects: Objects) -> None:
    """And one that lies nowhere is; a store that is away is one difference and no more."""
    sealed = put(world, objects, "s-1")
    shutil.rmtree(world.state / "quarantine/s-1")
    other = world.held("s-2")
    shutil.rmtree(other)

    def elsewhere(digest: str) -> bool:
        return objects.has("sealed", digest)

    assert [one.where for one in audit.examine(world.state, world.ledger, elsewhere)] == ["quarantine/s-2"]
    objects.forget("sealed", sealed.digest)
    assert len(audit.examine(world.state, world.ledger, elsewhere)) == 2
    assert len(audit.examine(world.state, world.ledger)) == 2

    def away(digest: str) -> bool:
        raise ObjectsUnreachableError("nobody answers")

    (found,) = audit.examine(world.state, world.ledger, away)
    assert "not looked at: nobody answers" in found.message
