"""An evaluation carried out: recorded first, then promoted, held or rolled back, and found again by the audit."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acceptd.canary import audit
from acceptd.canary.figures import Evaluation
from acceptd.errors import ReleaseError, StateError, UsageError
from acceptd.policy.channels import Rule
from acceptd.record.canonical import canonical
from acceptd.record.entry import Entry
from acceptd.record.failpoint import VARIABLE
from acceptd.record.log import Ledger
from acceptd.release.book import read_book
from acceptd.release.hold import freeze, unfreeze
from acceptd.release.model import Decided
from acceptd.release.reconcile import Reconciled, reconcile
from acceptd.release.rests import Rests
from tests.canary_world import CanaryWorld, manifest
from tests.release_world import MODEL, memory_directory, types_of

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def base() -> Iterator[CanaryWorld]:
    """Made once; each test works on a copy."""
    made = CanaryWorld(memory_directory())
    made.close()
    yield made
    shutil.rmtree(made.root)


@pytest.fixture
def world(base: CanaryWorld) -> Iterator[CanaryWorld]:
    made = base.copy(memory_directory())
    yield made
    made.close()
    shutil.rmtree(made.root)


def good(world: CanaryWorld) -> Any:
    return world.file(*world.some(world.new), *world.some(world.old))


def bad(world: CanaryWorld) -> Any:
    return world.file(*world.some(world.new, error="RuntimeRefusedError"), *world.some(world.old))


def evaluations(world: CanaryWorld) -> list[Entry]:
    return list(world.ledger.entries(kind="canary"))


def test_a_good_canary_is_promoted_after_its_entry(world: CanaryWorld) -> None:
    found, done = world.carried_out(good(world))
    assert found.decision == "promote"
    assert done.release is not None
    assert (done.release.channel, done.release.number) == ("production", 2)
    assert world.current("production") == world.current("canary") == world.new.bundle_digest
    assert types_of(world)[-3:] == ["canary", "intent", "activated"]
    [entry] = evaluations(world)
    assert (entry.seq, Evaluation.model_validate_json(canonical(entry.body))) == (done.seq, found)
    assert world.open().bundle_digest == world.new.bundle_digest
    assert audit.examine(world.ledger) == []


def test_too_few_receipts_hold_and_nothing_moves(world: CanaryWorld) -> None:
    found, done = world.carried_out(world.file(*world.some(world.new, 5), *world.some(world.old)))
    assert (found.decision, done.release) == ("hold", None)
    assert types_of(world)[-1] == "canary"
    assert world.current("production") == world.old.bundle_digest
    assert audit.examine(world.ledger) == []


def test_a_bad_canary_goes_back_to_its_older_release(world: CanaryWorld) -> None:
    older = world.new.bundle_digest
    accepted = world.accepted("3.0.0", manifest=manifest("3.0.0"))
    world.new = world.promote(accepted, channel="canary")
    found, done = world.carried_out(bad(world))
    assert found.decision == "rollback"
    assert done.release is not None
    assert (done.release.channel, done.release.number, done.release.kind) == ("canary", 3, "rollback")
    assert world.current("canary") == older
    assert world.current("production") == world.old.bundle_digest
    assert types_of(world)[-3:] == ["canary", "intent", "activated"]
    assert read_book(world.ledger).rows(MODEL, "canary")[-1].reason == f"canary evaluation, entry {done.seq}"
    assert audit.examine(world.ledger) == []


def test_a_canary_never_goes_back_to_one_that_was_rolled_back(world: CanaryWorld) -> None:
    first = world.new
    world.new = world.promote(world.accepted("3.0.0", manifest=manifest("3.0.0")), channel="canary")
    world.carried_out(bad(world))
    assert world.current("canary") == first.bundle_digest
    row = read_book(world.ledger).rows(MODEL, "canary")[-1]
    world.new = replace(first, number=row.number, release_digest=row.release_digest)
    _, done = world.carried_out(bad(world))
    assert done.release is not None
    assert world.current("canary") == world.old.bundle_digest


def test_a_bad_first_canary_gets_productions_bundle(world: CanaryWorld) -> None:
    _, done = world.carried_out(bad(world))
    assert done.release is not None
    assert (done.release.channel, done.release.bundle_digest) == ("canary", world.old.bundle_digest)
    assert world.current("canary") == world.current("production") == world.old.bundle_digest
    assert audit.examine(world.ledger) == []


def test_people_keep_a_bundle_out_and_the_evaluation_stands(world: CanaryWorld) -> None:
    asked: list[int] = []

    def weigh(entry: Entry) -> Decided:
        asked.append(entry.seq)
        return Decided("nobody has vouched for model_card")

    found, done = world.carried_out(good(world), weigh=weigh)
    assert found.decision == "promote"
    assert done.release is None
    assert "model_card" in done.refused
    assert asked
    assert [entry.seq for entry in evaluations(world)] == [done.seq]
    assert world.current("production") == world.old.bundle_digest


def test_a_channel_that_waits_or_is_frozen_does_not_take_what_its_figures_would_promote(
    world: CanaryWorld,
) -> None:
    files = world.file(*world.some(world.new)), world.file(*world.some(world.old))

    def waits(name: str) -> Rule:
        return Rule(name, after_channel="canary", after_seconds=86_400)

    _, early = world.carried_out(*files, rule=waits)
    assert early.release is None
    assert "current release of canary for 86400 s" in early.refused
    freeze(
        world.state, world.ledger, world.keys, channel="production", model_id=MODEL, reason="the fair", by="ada"
    )
    _, frozen = world.carried_out(*files)
    assert "the fair" in frozen.refused
    assert [entry.seq for entry in world.ledger.entries(kind="canary")] == [early.seq, frozen.seq]
    assert world.current("production") == world.old.bundle_digest


def test_a_revoked_canary_is_not_promoted(world: CanaryWorld) -> None:
    path = good(world)
    with pytest.raises(ReleaseError, match="revoked"):
        world.carried_out(path, between=lambda: world.revoke(world.new.bundle_digest))
    assert evaluations(world) == []
    with pytest.raises(UsageError, match="revoked"):
        world.basis()


@pytest.mark.parametrize("channel", ["canary", "production"])
@pytest.mark.parametrize("kind", ["good", "bad", "few"])
def test_a_release_that_moved_meanwhile_is_not_judged_by_old_receipts(
    world: CanaryWorld, channel: str, kind: str
) -> None:
    path = {"good": good, "bad": bad, "few": lambda _: world.file()}[kind](world)
    other = world.accepted("4.0.0", manifest=manifest("4.0.0"))
    with pytest.raises(ReleaseError, match="moved while receipts were read"):
        world.carried_out(path, between=lambda: world.promote(other, channel=channel))
    assert evaluations(world) == []
    assert world.current(channel) == other.digest


def test_somebody_else_was_quicker(world: CanaryWorld) -> None:
    def by_hand() -> None:
        accepted = next(world.ledger.entries(kind="verdict", submission="sub-2"))
        from acceptd.release.promote import promote

        promote(
            world.state, world.ledger, world.keys, model_id=MODEL, channel="production",
            digest=world.new.bundle_digest, manifest_json=manifest("2.0.0"), verdict_seq=accepted.seq, options={},
            reason="by hand", terms=world.terms,
        )  # fmt: skip

    with pytest.raises(ReleaseError, match="moved"):
        world.carried_out(good(world), between=by_hand)
    assert evaluations(world) == []


def test_receipts_of_an_earlier_number_of_the_same_bundle_do_not_count(world: CanaryWorld) -> None:
    early = world.some(world.new, 40)
    other = world.promote(world.accepted("3.0.0", manifest=manifest("3.0.0")), channel="canary")
    world.rollback(world.new.bundle_digest, channel="canary")
    found = world.evaluated(world.file(*early, world.of(other, 1), *world.some(world.old)))
    assert (found.counts.elsewhere, found.compared[0].canary.requests) == (41, 0)
    assert found.decision == "hold"


def test_there_has_to_be_something_to_compare(world: CanaryWorld) -> None:
    from acceptd.canary.evaluate import basis

    for canary, against, message in (
        ("beta", "production", "no release on beta"),
        ("canary", "beta", "no release on beta"),
        ("canary", "canary", "with itself"),
    ):
        with pytest.raises(UsageError, match=message):
            basis(world.state, world.ledger, world.keys, MODEL, canary, against)
    world.carried_out(good(world))
    with pytest.raises(UsageError, match="the same bundle"):
        world.basis()


def test_a_canary_with_other_labels_and_another_model(world: CanaryWorld) -> None:
    made = CanaryWorld(memory_directory(), labels=("accept", "review", "deny"), models=("main", "second"))
    found = made.evaluated(made.file(*made.some(made.old)))
    assert [one.against is None for one in found.compared] == [False, True]
    assert found.compared[0].shifts[0].kinds == 5
    assert found.decision == "hold"
    made.close()
    shutil.rmtree(made.root)


@pytest.mark.parametrize("kind", ["good", "bad"])
@pytest.mark.parametrize(
    "point", ["canary.recorded", "record.append.before-commit", "record.append.after-commit@2"]
)
def test_kill_9_leaves_an_entry_or_none_and_whole_channels(world: CanaryWorld, kind: str, point: str) -> None:
    path = good(world) if kind == "good" else bad(world)
    world.close()
    child = os.fork()
    if not child:
        os.environ[VARIABLE] = point
        world.ledger = Ledger.open(world.state)
        world.carried_out(path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    world.ledger = Ledger.open(world.state)
    recorded = len(evaluations(world))
    assert recorded == (point != "record.append.before-commit")
    reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert world.current("production") == world.old.bundle_digest
    assert world.current("canary") == world.new.bundle_digest
    assert audit.examine(world.ledger) == []
    resumed = world.resumed()
    assert (len(resumed.done), resumed.problems) == (recorded, ())
    if not recorded:
        _, done = world.carried_out(path)
        assert done.release is not None
    assert len(evaluations(world)) == 1, "what was counted once is not counted again"
    moved = "production" if kind == "good" else "canary"
    assert world.current(moved) == (world.new if kind == "good" else world.old).bundle_digest
    assert world.resumed() == Reconciled((), ()), "it is carried out once"


def cut_off(world: CanaryWorld, *paths: Path) -> int:
    """Record an evaluation and do nothing about it, as a kill leaves it; return its entry."""
    return world.ledger.append("canary", world.evaluated(*paths).model_dump(mode="json")).seq


def test_what_the_channel_did_not_take_is_not_done_by_a_restart_when_it_would(world: CanaryWorld) -> None:
    path = good(world)
    _, done = world.carried_out(path, weigh=lambda _: Decided("nobody has vouched for model_card"))
    assert done.refused
    [entry] = world.ledger.entries(kind="canary-refused")
    assert entry.body == {"model": MODEL, "entry": done.seq, "reason": done.refused}
    assert world.resumed() == Reconciled((), ())
    assert world.current("production") == world.old.bundle_digest


def test_what_was_cut_off_and_is_frozen_now_is_refused_once_and_for_all(world: CanaryWorld) -> None:
    seq = cut_off(world, good(world))
    held: dict[str, str] = {"channel": "production", "model_id": MODEL, "reason": "the fair", "by": "ada"}
    freeze(world.state, world.ledger, world.keys, **held)
    resumed = world.resumed()
    assert "the fair" in resumed.done[0]
    assert [one.body["entry"] for one in world.ledger.entries(kind="canary-refused")] == [seq]
    unfreeze(world.state, world.ledger, **held)
    assert world.resumed() == Reconciled((), ())
    assert world.current("production") == world.old.bundle_digest


def test_an_entry_that_is_no_whole_evaluation_is_not_carried_out(world: CanaryWorld) -> None:
    """Its figures are missing: what it says it decided, nobody can decide again."""
    side = {"channel": "canary", "digest": world.new.bundle_digest, "release_digest": "0" * 64}
    against = side | {"channel": "production"}
    body = {"model": MODEL, "decision": "promote", "canary": side, "against": against}
    entry = world.ledger.append("canary", body)
    world.ledger.append("canary-refused", {"model": MODEL, "entry": entry.seq - 1, "reason": "of an earlier one"})
    assert world.resumed() == Reconciled((), ())
    assert world.current("production") == world.old.bundle_digest


@pytest.mark.parametrize("since", ["a newer evaluation", "another release", "a revocation"])
def test_what_was_done_since_goes_before_what_was_cut_off(world: CanaryWorld, since: str) -> None:
    cut_off(world, good(world))
    if since == "a newer evaluation":
        world.carried_out(world.file(*world.some(world.new, 5), *world.some(world.old)))  # too few: hold
    elif since == "another release":
        world.promote(world.accepted("4.0.0", manifest=manifest("4.0.0")), channel="canary")
    else:
        world.revoke(world.new.bundle_digest)
    stood = world.current("production")
    assert world.resumed() == Reconciled((), ())
    assert world.current("production") == stood == world.old.bundle_digest


def test_one_that_cannot_be_carried_out_rests_and_is_told_each_time(
    world: CanaryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(world, good(world))
    seconds = [0.0]
    rests = Rests(lambda: seconds[0])

    def full(*_: Any, **__: Any) -> None:
        raise StateError("No space left on device")

    told = []
    with monkeypatch.context() as patch:
        patch.setattr("acceptd.canary.evaluate.promote", full)
        for _ in range(40):
            told += world.resumed(rests).problems
            seconds[0] += 15.0
    assert len(told) == 4  # at 0, 60, 180 and 420 s
    seconds[0] += 3600.0
    assert len(world.resumed(rests).done) == 1
    assert world.current("production") == world.new.bundle_digest


# -- the audit


def body_of(world: CanaryWorld) -> dict[str, Any]:
    found: dict[str, Any] = world.evaluated(world.file(*world.some(world.new, 5))).model_dump(mode="json")
    return found


TAMPERED: dict[str, tuple[Any, str]] = {
    "a promotion that its figures do not bear": (lambda body: body.update(decision="promote"), "come to hold"),
    "a failed check that is left out": (lambda body: body["reasons"].pop(), "other reasons"),
    "figures that were made better": (
        lambda body: body["compared"][0]["canary"].update(requests=100_000), "other reasons",
    ),
    "limits that were loosened": (lambda body: body["limits"].update(min_samples=1, rollback_samples=1), "other"),
    "a release that was not current": (lambda body: body["canary"].update(number=9), "number 9 was current"),
    "another release.json": (lambda body: body["against"].update(release_digest="a" * 64), "was current"),
    "lines that were dropped": (lambda body: body["counts"].update(counted=1), "other lines"),
    "an unknown member": (lambda body: body.update(more=1), "other form"),
    "no figures": (lambda body: body.update(compared=[]), "other form"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_the_audit_judges_again_what_is_on_record(world: CanaryWorld, name: str) -> None:
    change, message = TAMPERED[name]
    body = body_of(world)
    honest = world.ledger.append("canary", body).seq
    change(body)
    entry = world.ledger.append("canary", body)
    found = audit.examine(world.ledger)
    assert [(one.what, one.where) for one in found] == [("canary", f"entry {entry.seq}")] * len(found)
    assert any(message in one.message for one in found)
    assert honest != entry.seq


def test_an_evaluation_by_the_rules_of_another_version_is_not_judged_again(world: CanaryWorld) -> None:
    world.ledger.append("canary", body_of(world) | {"rules": 2, "decision": "promote"})
    assert audit.examine(world.ledger) == []


def test_a_release_that_was_current_then_and_is_not_now_is_no_difference(world: CanaryWorld) -> None:
    world.ledger.append("canary", body_of(world))
    world.released("5.0.0", manifest=manifest("5.0.0"))
    assert audit.examine(world.ledger) == []
    late = body_of(world)
    late["against"] |= {"number": 1, "digest": world.old.bundle_digest, "release_digest": world.old.release_digest}
    world.ledger.append("canary", late)
    assert ["number 1 was current" in one.message for one in audit.examine(world.ledger)] == [True]
