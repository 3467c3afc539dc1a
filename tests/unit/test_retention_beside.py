"""Retention beside others at work: what cannot be read stays, what went is nobody's, a stop is a stop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from acceptd.errors import LedgerError, ObjectStoreError
from acceptd.objectstore.objects import Objects, open_objects
from acceptd.objectstore.settings import ObjectsTable
from acceptd.policy.policy import Policy
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.retention import collect as collecting
from acceptd.retention import objects as shelving
from acceptd.retention import service
from acceptd.retention.collect import Collected, collect, plan
from acceptd.retention.objects import Shelves
from acceptd.retention.rules import Thing, after, decide
from acceptd.retention.service import Retention
from acceptd.retention.usage import tree_bytes
from acceptd.rules import Rules
from acceptd.sealed_facts import Sealed
from tests.objects_world import sealed_bundle
from tests.retention_world import DAYS, Kept, day

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


def damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no entry of the log be read."""

    def refused(*_: Any, **__: Any) -> Any:
        raise LedgerError("entry 3 is not what its hash says")

    monkeypatch.setattr(Ledger, "entries", refused)
    monkeypatch.setattr(Ledger, "entry", refused)


def put(world: Kept, objects: Objects, name: str = "s-1") -> Sealed:
    """A submission whose sealed bundle lies in the object store, as intake leaves it."""
    place = world.held(name, verdict="rejected")
    row = Queue(world.ledger).get(name)
    assert row is not None
    sealed = Sealed.model_validate(row.data["sealed"])
    objects.put_bundle("sealed", place / "bundle", sealed)
    return sealed


def shelved(world: Kept, objects: Objects, days: float, stopped: Any = lambda: False) -> Collected:
    return collect(world.look(days), DAYS, stopped, Shelves(world.look(days), objects, UNUSED))


def reasons(done: Collected) -> set[str]:
    return {one.reason for one in done.kept if one.thing.folder.startswith("objects")}


# -- what cannot be read


def test_bytes_whose_record_cannot_be_read_stay_and_say_so(world: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a person has decided about them is written there and nowhere else."""
    world.held("s-1")
    look = world.look(400)
    damaged(monkeypatch)
    one = look.thing("quarantine", "s-1")
    assert one is not None
    assert decide(one, DAYS, look.now).goes is False
    assert one.keeps == "its record cannot be read: entry 3 is not what its hash says"


def test_a_stored_bundle_whose_verdict_cannot_be_read_stays(world: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = world.accepted("1.0.0").digest
    look = world.look(4000)
    table = DAYS.model_copy(update={"superseded_days": 1})
    before = look.stored(digest)
    monkeypatch.setattr(Ledger, "entry", lambda *_: (_ for _ in ()).throw(LedgerError("it is damaged")))
    stored = look.stored(digest)
    assert before.keeps == ""
    assert stored.keeps == "its record cannot be read: it is damaged"
    assert decide(stored, table, look.now).goes is False


def test_an_inventory_whose_record_cannot_be_read_stays(
    world: Kept, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, objects)
    look = world.look(400)
    damaged(monkeypatch)
    [one] = Shelves(look, objects, UNUSED).bundles(DAYS)
    assert (one.goes, one.reason) == (False, "its record cannot be read: entry 3 is not what its hash says")


def test_a_place_that_is_a_link_is_named_with_the_reason_and_nothing_beyond_it_is_listed(
    world: Kept, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / ("a" * 64)).write_bytes(b"kept")
    (world.state / "outputs").symlink_to(tmp_path / "outside")
    (one,) = [one for one in plan(world.look(400), DAYS) if one.thing.what == "outputs"]
    assert one.goes is False
    assert one.reason.startswith("nothing in it is touched: ")
    assert world.gone(400) == []
    assert (tmp_path / "outside" / ("a" * 64)).read_bytes() == b"kept"


# -- what went, or came, meanwhile


def test_a_kept_output_that_went_between_two_looks_is_nothing(
    world: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = world.output("a", 11)
    exists = os.path.lexists

    def gone(place: Any) -> bool:
        found = exists(place)
        output.unlink(missing_ok=True)
        return found

    look = world.look(0)
    monkeypatch.setattr("acceptd.retention.look.os.path.lexists", gone)
    assert look.thing("outputs", output.name) is None


def test_an_output_that_somebody_took_after_its_entry_is_no_problem_and_one_that_stays_is(
    world: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = world.output("a", 11), world.output("b", 11)
    remove = os.unlink

    def refused(path: Any, *more: Any, **named: Any) -> None:
        if "dir_fd" in named:
            raise OSError(5, "Input/output error")
        remove(path, *more, **named)

    monkeypatch.setattr(
        collecting, "failpoint", lambda name: first.unlink() if name == "retention.files.entered" else None
    )
    monkeypatch.setattr(collecting.os, "unlink", refused)
    done = world.collect(0)
    assert done.gone == []
    assert done.problems == [f"outputs/{second.name}: Input/output error"]
    monkeypatch.undo()
    assert world.collect(0).problems == [], "the next run ends what this one began"
    assert os.listdir(second.parent) == []


def test_an_inventory_that_went_meanwhile_is_told_as_gone(
    world: Kept, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = put(world, objects)
    look = objects.remote.look

    def late(key: str) -> Any:
        if key.startswith("sealed/"):
            objects.forget("sealed", sealed.digest)
        return look(key)

    monkeypatch.setattr(objects.remote, "look", late)
    done = shelved(world, objects, 400)
    assert reasons(done) >= {"it is gone already"}
    (entry,) = world.ledger.entries(kind="removed")
    assert entry.submission == "s-1", "its bytes in quarantine went; of the inventory nothing is entered"


def test_a_bundle_that_is_submitted_again_meanwhile_keeps_its_inventory(
    world: Kept, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = put(world, objects)
    look = objects.remote.look

    def late(key: str) -> Any:
        if key.startswith("sealed/") and Queue(world.ledger).get("s-2") is None:
            queue = Queue(world.ledger)
            queue.add("s-2", team="mosaic", name="drop", path="/p2", kind="directory")
            queue.advance("s-2", "sealed", bundle_digest=sealed.digest)
        return look(key)

    monkeypatch.setattr(objects.remote, "look", late)
    done = shelved(world, objects, 400)
    assert "it is worked on again" in reasons(done)
    assert objects.has("sealed", sealed.digest)


def test_an_inventory_that_is_forgotten_while_contents_are_named_names_nothing(
    world: Kept, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = put(world, objects)
    read = objects.inventory

    def late(_self: Objects, area: Any, digest: str) -> Any:
        objects.forget(area, digest)
        return read(area, digest)

    monkeypatch.setattr(Objects, "inventory", late)
    found = Shelves(world.look(0), objects, UNUSED).contents()
    assert {one.thing.name for one in found} == {row.sha256 for row in sealed.files}
    assert not any(one.goes for one in found), "they are noted first"


def test_a_content_that_went_meanwhile_is_not_removed_twice(
    world: Kept, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"left", "w.bin": b"behind"}, "left")
    objects.put_bundle("sealed", directory, sealed)
    objects.forget("sealed", sealed.digest)
    shelved(world, objects, 0)
    look, removed = objects.remote.look, []

    def late(key: str) -> Any:
        if key.startswith("blobs/"):
            objects.remote.remove(key)
            removed.append(key)
        return look(key)

    monkeypatch.setattr(objects.remote, "look", late)
    done = shelved(world, objects, 400)
    assert len(removed) == len({row.sha256 for row in sealed.files})
    assert [one for one in done.gone if one.thing.what == "object"] == []
    assert done.problems == []


# -- a stop


@pytest.mark.parametrize("after_answers", range(8))
def test_a_stop_ends_a_run_in_the_object_store_too_and_the_next_run_does_the_rest(
    after_answers: int, world: Kept, objects: Objects, tmp_path: Path
) -> None:
    put(world, objects)
    world.output("a", 11)
    directory, left = sealed_bundle(tmp_path, {"bundle.toml": b"left", "w.bin": b"behind"}, "left")
    objects.put_bundle("sealed", directory, left)
    objects.forget("sealed", left.digest)
    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > after_answers

    before = shelved(world, objects, 400, stopped)
    assert before.problems == []
    rest = [shelved(world, objects, days) for days in (400, 420)]
    whole = [*before.gone, *(one for done in rest for one in done.gone)]
    places = [one.thing.place for one in whole]
    assert len(places) == len(set(places)), "nothing goes twice"
    assert {row.sha256 for row in left.files} <= {one.thing.name for one in whole}
    assert not any(done.problems for done in rest)


# -- figures and words


def test_a_tree_without_end_is_counted_as_far_as_was_said(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"f{number}").write_bytes(b"x" * 5000)
    whole, some = tree_bytes(tmp_path), tree_bytes(tmp_path, 3)
    one = (tmp_path / "f0").lstat().st_blocks * 512
    assert whole - some == 5 * one


def test_days_beyond_the_last_date_mean_never() -> None:
    assert after("2026-11-30T00:00:00Z", 10**8) == "9999-12-31T23:59:59Z"
    thing = Thing("rejected", "sealed", "s-1", 1, "2026-11-30T00:00:00Z")
    assert not decide(thing, DAYS.model_copy(update={"rejected_days": 10**8}), day(0)).goes


def test_the_daemon_looks_at_its_objects_too_and_says_what_it_could_not_remove(
    world: Kept, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = put(world, objects)
    monkeypatch.setattr(service, "utc_now", lambda: day(400))
    monkeypatch.setattr(shelving.Shelves, "contents", _out_of_reach)
    rules = cast("Rules", type("Given", (), {"policy": Policy(), "directory": world.root})())
    one = Retention(world.state, world.ledger, lambda: rules, DAYS, ObjectsTable())
    with capture_logs() as told:
        one._run()
        one._run()
    assert not objects.has("sealed", sealed.digest)
    problems = [line["place"] for line in told if line["event"] == "not removed"]
    assert problems == ["the store does not answer"], "the store is looked at once a day"
    removed = {line["place"] for line in told if line["event"] == "removed"}
    assert f"objects/sealed/{sealed.digest}" in removed


def _out_of_reach(_self: Shelves) -> Any:
    raise ObjectStoreError("the store does not answer")
