"""Retention: an entry before the bytes go, nothing that anybody needs goes, and nothing outside is touched."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from acceptd.errors import LedgerError, ReleaseError, StateError
from acceptd.intake import files
from acceptd.policy.policy import Policy
from acceptd.record import audit
from acceptd.record.queue import Queue
from acceptd.release import audit as release_audit
from acceptd.release import store
from acceptd.release.layout import model_lock, store_lock
from acceptd.retention import audit as retention_audit
from acceptd.retention import collect as collecting
from acceptd.retention import service
from acceptd.retention.collect import GONE, plan
from acceptd.retention.look import Look
from acceptd.retention.service import Retention, look_at
from acceptd.rules import Rules
from tests.retention_world import DAYS, Kept, day
from tests.threads import die_at_once

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.close()


def reasons(world: Kept, days: float) -> dict[str, str]:
    return {one.thing.name: one.reason for one in plan(world.look(days), DAYS)}


def differences(world: Kept) -> list[str]:
    found = [
        *release_audit.examine(world.state, world.ledger, world.keys),
        *retention_audit.examine(world.state, world.ledger),
    ]
    return [f"{one.where}: {one.message}" for one in found]


def test_a_held_bundle_goes_after_its_days_with_an_entry_and_verify_finds_nothing_missing(world: Kept) -> None:
    place = world.held("s-1")
    before = audit.verify(world.state)  # this world signs no statements, and names no rules
    assert world.gone(9.9) == []
    assert place.is_dir()
    assert world.gone(10.1) == ["s-1"]
    assert os.listdir(world.state / "quarantine") == []
    entry = list(world.ledger.entries(kind="removed"))[-1]
    assert entry.submission == "s-1"
    assert (entry.body["what"], entry.body["model"], entry.body["items"][0]["name"]) == ("held", "mosaic/m", "s-1")
    assert "held_days = 10" in entry.body["reason"]
    assert entry.body["items"][0]["size"] > 0
    assert differences(world) == []
    assert audit.verify(world.state) == before, "the record itself is as it was"
    assert world.gone(99) == [], "and that was all"


def test_held_bytes_that_are_missing_without_an_entry_are_found(world: Kept) -> None:
    for name in ("s-1", "s-2"):
        files.remove_tree(world.held(name).parent, name)
    assert differences(world) == [
        f"quarantine/s-{number}: the held bundle's bytes are missing, and no removal of them is on record"
        for number in (1, 2)
    ]


def test_a_rejection_starts_the_time_of_its_own_and_an_open_decision_stops_it(world: Kept) -> None:
    for name in ("s-no", "s-yes", "s-later"):
        world.held(name)
    world.decide("s-no", "reject", 300)
    world.decide("s-yes", "approve", 20)
    table = DAYS.model_copy(update={"rejected_days": 5})
    assert world.gone(6, table) == ["s-no"]
    assert world.gone(11, table) == ["s-later"]
    assert reasons(world, 11)["s-yes"].startswith("a decision about it is open until")
    assert world.gone(20.5, table) == ["s-yes"]
    assert [entry.body["what"] for entry in world.ledger.entries(kind="removed")] == ["rejected", "held", "held"]


def test_where_the_reviewers_are_refused_nobody_knows_so_it_stays(world: Kept) -> None:
    world.held("s-1")
    look = Look(world.state, world.ledger, None, day(99), "the reviewers are refused: x")
    assert [(one.goes, one.reason) for one in plan(look, DAYS)] == [(False, "the reviewers are refused: x")]


def test_what_is_worked_on_or_unknown_stays(world: Kept) -> None:
    world.held("s-1", state="judged")
    world.held("s-2", state="promoted", folder="sealed")
    (world.state / "quarantine" / "by-hand").mkdir()
    assert world.gone(99) == []
    assert reasons(world, 99) == {"by-hand": "no submission of that name is known: look at it"}
    Queue(world.ledger).advance("s-1", "quarantined")
    assert world.gone(99) == ["s-1"]


def test_what_a_death_left_goes_after_its_own_days(world: Kept) -> None:
    world.held("s-1", verdict="inconclusive", state="quarantined")
    world.held("s-2", verdict="rejected", folder="sealed")
    assert world.gone(10.1, DAYS.model_copy(update={"rejected_days": 20})) == ["s-1"]
    assert world.gone(20.1, DAYS.model_copy(update={"rejected_days": 20})) == ["s-2"]


def test_outputs_go_by_when_they_were_last_kept_and_one_kept_meanwhile_stays(
    world: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, again, young = world.output("a", 11), world.output("b", 11), world.output("c", 9)
    (young.parent / ".tmp-0123456789abcdef").write_bytes(b"being written")
    (young.parent / "notes.txt").write_bytes(b"by hand")
    monkeypatch.setattr(
        collecting, "failpoint", lambda name: os.utime(again) if name == "retention.files.entered" else None
    )
    assert world.gone(0) == [old.name]
    assert sorted(os.listdir(old.parent)) == sorted([".tmp-0123456789abcdef", again.name, young.name, "notes.txt"])
    assert again.read_bytes() == b"kept"
    (entry,) = world.ledger.entries(kind="removed")
    assert [one["name"] for one in entry.body["items"]] == [old.name, again.name]


def test_current_prior_pinned_and_promised_bundles_of_the_store_stay(world: Kept) -> None:
    made = [world.released(f"1.{number}.0").bundle_digest for number in range(5)]
    other = world.promote(world.accepted("9.0.0"), channel="canary").bundle_digest
    unused = world.accepted("8.0.0").digest
    pinned = DAYS.model_copy(update={"pinned": [made[1]]})
    assert sorted(world.gone(11, pinned)) == sorted([made[0], made[2], unused])
    assert sorted(store.digests(world.state)) == sorted([made[1], made[3], made[4], other])
    assert reasons(world, 11)[made[4]] == "current release of mosaic/evidence-disposition production"
    assert reasons(world, 11)[made[3]] == "prior release of mosaic/evidence-disposition production"
    assert differences(world) == []
    world.revoke(made[3])
    assert made[3] not in world.gone(11, pinned), "the prior one stays, revoked or not"
    assert world.open().bundle_digest == made[4]


def test_a_rollback_to_a_removed_bundle_says_so_and_changes_nothing(world: Kept) -> None:
    made = [world.released(f"1.{number}.0").bundle_digest for number in range(3)]
    assert world.gone(11) == [made[0]]
    with pytest.raises(ReleaseError, match=r"the bytes of \w+ were removed on .* \(entry \d+\)"):
        world.rollback(made[0])
    assert world.rollback().bundle_digest == made[1]


def test_a_store_object_that_is_missing_without_an_entry_or_came_back_since_is_found(world: Kept) -> None:
    made = [world.released(f"1.{number}.0").bundle_digest for number in range(3)]
    files.remove_tree(world.state / "store" / "sha256", made[0])
    assert differences(world) == [f"store/sha256/{made[0]}: is missing, and a release names it"]
    world.accepted("1.0.0")
    assert world.gone(11) == [made[0]]
    assert differences(world) == []
    again = world.released("1.0.0").bundle_digest  # accepted anew, promoted anew
    assert again == made[0]
    world.released("2.0.0")  # it need not be current: the entry is older than its newest release
    files.remove_tree(world.state / "store" / "sha256", again)
    assert f"store/sha256/{again}: is missing, and a release names it" in differences(world)


def test_a_submission_in_flight_keeps_the_bundle_that_it_brings_again(world: Kept) -> None:
    first = world.released("1.0.0").bundle_digest
    for number in (1, 2):
        world.released(f"1.{number}.0")
    Queue(world.ledger).add("s-9", team="mosaic", name="d", path="/p", kind="directory")
    Queue(world.ledger).advance("s-9", "sealed", bundle_digest=first)
    assert world.gone(11) == []
    assert reasons(world, 11)[first] == "submission s-9 is being worked on"


@pytest.mark.parametrize("lock", ["model", "store"])
def test_a_bundle_is_looked_at_again_once_nobody_promotes(world: Kept, lock: str) -> None:
    """A rollback, or a promotion of the same bytes, that began before the removal wins over it."""
    made = [world.released(f"1.{number}.0") for number in range(3)]
    first = made[0].bundle_digest
    held = model_lock(world.state, made[0].model_id) if lock == "model" else store_lock(world.state, shared=True)
    found: list[str] = []
    planned = threading.Event()
    monkey = pytest.MonkeyPatch()

    def locking(*args: object, **more: object) -> object:
        planned.set()
        return store_lock(*args, **more)  # type: ignore[arg-type]

    monkey.setattr(collecting, "store_lock", locking)
    with monkey.context():
        with held:
            thread = threading.Thread(target=lambda: found.extend(world.gone(11)))
            thread.start()
            assert planned.wait(60)
            assert (world.state / "store" / "sha256" / first).is_dir()
            Queue(world.ledger).add("s-9", team="mosaic", name="d", path="/p", kind="directory")
            Queue(world.ledger).advance("s-9", "sealed", bundle_digest=first)
        thread.join(60)
    monkey.undo()
    assert found == []
    assert list(world.ledger.entries(kind="removed")) == []


def test_what_was_promoted_or_removed_meanwhile_gets_no_entry(
    world: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, made = world.held("s-1"), [world.released(f"1.{number}.0").bundle_digest for number in range(3)]

    def meanwhile(*args: Any, **more: Any) -> Any:
        for folder, name in ((place.parent, "s-1"), (world.state / "store" / "sha256", made[0])):
            files.remove_tree(folder, name)
        return store_lock(*args, **more)

    monkeypatch.setattr(collecting, "store_lock", meanwhile)
    assert world.gone(11) == []
    assert list(world.ledger.entries(kind="removed")) == []


def test_no_bytes_go_where_the_entry_cannot_be_written(world: Kept) -> None:
    place, output = world.held("s-1"), world.output("a", 50)
    world.ledger.freeze("the log is not what was signed")
    with pytest.raises(LedgerError, match="nothing more is written"):
        world.collect(99)
    assert place.is_dir()
    assert output.exists()


def test_two_runs_do_not_meet(world: Kept) -> None:
    with collecting._alone(world.state), pytest.raises(StateError, match="another run removes things now"):
        world.collect(99)


def test_a_stop_ends_between_two_things(world: Kept) -> None:
    for number in range(3):
        world.held(f"s-{number}")
    asked = iter([False, False, True])
    done = collecting.collect(world.look(99), DAYS, lambda: next(asked))
    assert len(done.gone) == 2


def test_held_out_sets_evidence_and_entries_are_never_looked_at(world: Kept) -> None:
    heldout = world.state / "heldout" / "mosaic" / "m" / ("ab" * 32)
    heldout.mkdir(parents=True)
    with world.ledger.transaction() as change:
        digest = change.put_evidence(b"measured")
    world.held("s-1")
    size = world.ledger.tree().size
    world.collect(30_000)
    assert heldout.is_dir()
    assert world.ledger.evidence(digest) == b"measured"
    assert world.ledger.tree().size == size + 1


def test_what_a_killed_run_began_is_finished_by_the_next(world: Kept) -> None:
    world.held("s-1")
    half = world.state / "quarantine" / f"{GONE}0123"
    half.mkdir()
    (half / "x").write_bytes(b"x")
    assert world.gone(0) == []
    assert os.listdir(half.parent) == ["s-1"]


def settled(one: Retention) -> None:
    thread = one._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()


def test_the_daemon_looks_at_its_interval_and_not_at_each_turn(
    world: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(service, "utc_now", lambda: day(11))
    rules = cast("Rules", SimpleNamespace(policy=Policy(), directory=world.root))
    one = Retention(world.state, world.ledger, lambda: rules, DAYS)
    places = [world.held("s-1")]
    one.nudge()
    settled(one)
    places.append(world.held("s-2"))
    for moment in (100.0 + DAYS.interval_seconds - 1, 100.0 + DAYS.interval_seconds):
        clock[0] = moment
        before = one._thread
        one.nudge()
        settled(one)
        assert (one._thread is before) == (moment < 100.0 + DAYS.interval_seconds)
    assert [place.exists() for place in places] == [False, False]
    one.stop()
    world.held("s-3")
    clock[0] *= 1000
    one.nudge()
    settled(one)
    assert (world.state / "quarantine" / "s-3").is_dir(), "nothing is begun after a stop"


def test_what_a_run_meets_never_ends_the_daemon(world: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise next(errors)

    monkeypatch.setattr(service, "collect", broken)
    rules = cast("Rules", SimpleNamespace(policy=Policy(), directory=world.root))
    errors = iter((StateError("x"), OSError(28, "No space left on device"), RuntimeError("x")))
    with capture_logs() as told:
        for _ in range(3):
            one = Retention(world.state, world.ledger, lambda: rules, DAYS)
            one.nudge()
            settled(one)
    assert [entry["event"] for entry in told] == ["retention"] * 3


def test_reviewers_that_are_refused_let_held_bundles_stay(world: Kept) -> None:
    world.held("s-1")
    (world.root / "reviewers.toml").write_text("schema = 2")
    rules = cast("Rules", SimpleNamespace(policy=Policy(), directory=world.root))
    look = look_at(world.state, world.ledger, rules, day(99))
    (one,) = plan(look, DAYS)
    assert not one.goes
    assert one.reason.startswith("the reviewers are refused: ")


def test_a_run_that_finds_no_memory_for_its_thread_is_told_and_tried_again_at_the_next_nudge(
    world: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main loop nudges it: a start that waits for ever would end all housekeeping."""
    monkeypatch.setattr(service, "utc_now", lambda: day(11))
    rules = cast("Rules", SimpleNamespace(policy=Policy(), directory=world.root))
    one = Retention(world.state, world.ledger, lambda: rules, DAYS)
    place = world.held("s-1")
    with pytest.MonkeyPatch.context() as patch, capture_logs() as told:
        die_at_once(patch)
        one.nudge()
    assert ["ended before it began" in str(entry.get("error")) for entry in told] == [True]
    assert place.exists()
    one.nudge()
    settled(one)
    assert not place.exists()
    one.stop()
