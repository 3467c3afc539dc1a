"""What the daemon promotes by itself, what people approve for a channel, and what the audit says of promotions."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ReleaseError, StateError
from acceptd.policy.channels import AfterTable, ChannelTable, ReleaseTable
from acceptd.policy.policy import ApprovalsTable, Policy
from acceptd.policy.profile import Profile
from acceptd.policy.reviewers import Reviewer
from acceptd.promotions import Promotions
from acceptd.record.failpoint import VARIABLE
from acceptd.record.log import Ledger
from acceptd.record.queue import Submission
from acceptd.release import channel as channels
from acceptd.release import hold, rules_audit
from acceptd.release.book import read_book
from acceptd.release.model import SessionOptions
from acceptd.release.signers import ReleaseKeys
from acceptd.report import promoted
from acceptd.review.decision import Decision
from acceptd.review.standing import Case, Given, approvers, standing
from acceptd.rules import Rules
from tests.release_world import MODEL, Accepted, World
from tests.retention_world import DAYS, Kept

pytestmark = pytest.mark.unit
SOAK = Policy(
    channels={
        "canary": ChannelTable(automatic=True),
        "production": ChannelTable(after=AfterTable(channel="canary", seconds=3600)),
    }
)
BOTH = Policy(release=ReleaseTable(), channels={"canary": ChannelTable(automatic=True)})


class Running(World):
    """A world with the daemon's promotions, whose clock tests turn."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.ledger.close()
        self.ledger = Ledger.open(self.state, clock=lambda: channels.stamp(self.now))
        self.keys = ReleaseKeys.load(self.state, self.ledger)
        self.policy = SOAK
        self.promotions = Promotions(
            self.state, self.ledger, self.keys, self._rules, lambda: channels.stamp(self.now)
        )

    def _rules(self) -> Rules:
        return Rules(self.policy, "a" * 64, Profile(), "b" * 64, self.root)

    def row(self, accepted: Accepted, named: Any) -> Submission:
        entry = self.ledger.entry(accepted.verdict_seq)
        data = {
            "promote": named,
            "manifest": accepted.manifest,
            "options": SessionOptions().model_dump(mode="json"),
        }
        return Submission(
            id=str(entry.submission),
            team="mosaic",
            name="d",
            path="/p",
            kind="directory",
            uid=None,
            state="judged",
            working=None,
            received_at=entry.at,
            updated_at=entry.at,
            bundle_digest=accepted.digest,
            model=MODEL,
            data=data,
        )

    def accept(self, version: str, named: Any = ("canary", "production")) -> tuple[Accepted, Any]:
        """Accept a bundle and promote it as the daemon does."""
        accepted = self.accepted(version)
        return accepted, self.promotions.accepted(self.row(accepted, list(named)), accepted.digest)

    def tick(self) -> str:
        """Let the daemon look, and return which digest is current in production."""
        for due in self.promotions.due():
            self.promotions._promote(due, self.terms)
        row = read_book(self.ledger).current(MODEL, "production")
        return row.digest if row else ""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.close()


def test_what_is_accepted_goes_to_every_channel_that_is_automatic(world: Running) -> None:
    world.policy = BOTH
    _, done = world.accept("1.0.0", [one.name for one in BOTH.all_channels()])
    assert [one["channel"] for one in done.releases] == ["production", "canary"]
    assert promoted.places(done.kept()) == "production 1, canary 1"
    assert not done.trouble


@pytest.mark.parametrize(("named", "places"), [("production", ["production"]), ("", []), (None, [])])
def test_a_submission_that_an_older_version_judged_is_promoted_as_it_said(
    named: Any, places: list[str], world: Running
) -> None:
    world.policy = Policy()
    accepted = world.accepted()
    done = world.promotions.accepted(world.row(accepted, named), accepted.digest)
    assert [one["channel"] for one in done.releases] == places


def test_a_row_of_the_queue_brings_nothing_to_a_channel_that_waits_for_a_person(world: Running) -> None:
    world.policy = Policy(release=ReleaseTable(automatic=False))
    for channel in ("canary", "production"):
        _, done = world.accept("1.0.0", [channel])
        assert not done.releases
        assert done.trouble == f"{channel}: nothing comes there by itself"


def test_an_old_verdict_that_is_brought_back_replaces_nothing_that_was_judged_later(world: Running) -> None:
    world.policy = Policy()
    old, done = world.accept("1.0.0", [])
    assert not done.releases
    new, done = world.accept("2.0.0", ["production"])
    assert len(done.releases) == 1
    again = world.promotions.accepted(world.row(old, ["production"]), old.digest)
    assert not again.releases
    assert "judged later" in again.trouble
    current = read_book(world.ledger).current(MODEL, "production")
    assert current is not None
    assert current.digest == new.digest


def test_a_frozen_channel_keeps_no_other_from_taking_it_and_the_report_says_how_it_is_promoted(
    world: Running,
) -> None:
    world.policy = BOTH
    hold.freeze(world.state, world.ledger, world.keys, model_id="", channel="production", reason="an incident")
    accepted, done = world.accept("1.0.0")
    assert [one["channel"] for one in done.releases] == ["canary"]
    [told] = promoted.troubles(done.kept())
    assert "an incident" in told
    assert f"`acceptd release promote {MODEL} --channel production --digest {accepted.digest[:12]}`" in told
    hold.unfreeze(world.state, world.ledger, model_id="", channel="production", reason="over")
    assert world.tick() == ""  # a person says which of those that came meanwhile


def test_the_daemon_promotes_when_the_time_in_the_other_channel_has_come(world: Running) -> None:
    accepted, done = world.accept("1.0.0")
    assert "wait until 2026-11-29T12:57:00Z, then the daemon promotes it by itself" in done.trouble
    world.now += 3599
    assert world.tick() == ""
    world.now += 1
    assert world.tick() == accepted.digest
    row = read_book(world.ledger).current(MODEL, "production")
    assert row is not None
    assert (row.by, row.number) == ("acceptd", 1)
    assert world.tick() == accepted.digest
    assert len(read_book(world.ledger).rows(MODEL, "production")) == 1


def test_the_daemons_regular_look_promotes_what_is_due_and_signs_each_channel_for_its_own_time(
    world: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted, _ = world.accept("1.0.0")
    world.now += 3600
    lives = []
    monkeypatch.setattr(
        channels, "refresh", lambda *_, life, **__: lives.append(life) or channels.Refreshed((), ())
    )
    world.policy = SOAK.model_copy(
        update={"channels": SOAK.channels | {"canary": ChannelTable(automatic=True, valid_seconds=60)}}
    )
    world.promotions.keep()
    row = read_book(world.ledger).current(MODEL, "production")
    assert row is not None
    assert row.digest == accepted.digest
    assert [lives[0](name) for name in ("canary", "production", "gone")] == [60, 86_400, 86_400]


def test_what_the_storage_refuses_is_tried_again_ever_later_and_burns_no_number_each_time(
    world: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted, _ = world.accept("1.0.0")
    world.now += 7200.0
    clock, tries = [0.0], []
    world.promotions.now = lambda: clock[0]

    def refused(*_: Any, **__: Any) -> None:
        tries.append(clock[0])
        raise StateError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("acceptd.promotions.promote", refused)
        for _ in range(480):  # two hours of looks every 15 s
            world.promotions.keep()
            clock[0] += 15.0
    assert tries == [0.0, 60.0, 180.0, 420.0, 900.0, 1860.0, 3780.0]
    clock[0] += 3600.0
    world.promotions.keep()
    row = read_book(world.ledger).current(MODEL, "production")
    assert row is not None
    assert (row.digest, row.number) == (accepted.digest, 1)


def test_a_rollback_stays_although_the_other_channel_has_the_bundle_still(world: Running) -> None:
    first, _ = world.accept("1.0.0")
    world.now += 3600
    world.tick()
    world.accept("2.0.0")
    world.now += 3600
    world.tick()
    assert world.rollback().bundle_digest == first.digest
    world.now += 9999
    assert world.tick() == first.digest


def test_what_was_judged_before_the_current_release_does_not_replace_it(world: Running) -> None:
    world.accept("1.0.0")
    newer = world.accepted("2.0.0")
    world.promote(newer)  # by broken glass, say
    world.now += 9999
    assert world.tick() == newer.digest


def test_a_revoked_bundle_does_not_go_on_when_its_time_comes(world: Running) -> None:
    accepted, _ = world.accept("1.0.0")
    world.revoke(accepted.digest)
    world.now += 9999
    assert world.tick() == ""


def test_a_freeze_that_ends_after_the_time_has_come_lets_it_go_on(world: Running) -> None:
    accepted, _ = world.accept("1.0.0")
    hold.freeze(world.state, world.ledger, world.keys, model_id=MODEL, channel="production", reason="an incident")
    world.now += 3600
    assert world.tick() == ""
    hold.unfreeze(world.state, world.ledger, model_id=MODEL, channel="production", reason="over")
    assert world.tick() == accepted.digest


def test_approvals_of_the_channel_hold_up_the_daemon_too(world: Running) -> None:
    table = ChannelTable(approvals=1, after=AfterTable(channel="canary", seconds=3600))
    world.policy = Policy(channels={"canary": ChannelTable(automatic=True), "production": table})
    _, done = world.accept("1.0.0")
    assert "1 more of 1 approvals needed" in done.trouble
    world.now += 3600
    assert world.tick() == ""


def test_a_death_between_two_channels_makes_no_second_number_and_undoes_no_rollback(world: Running) -> None:
    world.policy = BOTH
    first, _ = world.accept("1.0.0")
    accepted = world.accepted("2.0.0")
    world.close()
    pid = os.fork()
    if pid == 0:
        os.environ[VARIABLE] = "lifecycle.judged.promoted@1"
        try:
            child = Running(world.root)
            child.policy = BOTH
            child.promotions.accepted(child.row(accepted, ["canary", "production"]), accepted.digest)
        finally:
            os._exit(70)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    again = Running(world.root)
    again.policy = BOTH
    again.rollback(channel="canary")
    done = again.promotions.accepted(again.row(accepted, ["canary", "production"]), accepted.digest)
    assert promoted.places(done.kept()) == "production 2, canary 2"
    canary = read_book(again.ledger).current(MODEL, "canary")
    assert canary is not None
    assert (canary.number, canary.digest) == (3, first.digest)
    again.close()


@pytest.mark.parametrize("point", ["release.freeze.settled", "release.freeze.recorded"])
def test_a_killed_freeze_is_one_or_none_and_is_made_again(point: str, world: Running) -> None:
    world.accept("1.0.0", ["canary"])
    world.close()
    pid = os.fork()
    if pid == 0:
        os.environ[VARIABLE] = point
        try:
            child = Running(world.root)
            hold.freeze(child.state, child.ledger, child.keys, model_id="", channel="canary", reason="why")
        finally:
            os._exit(70)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    again = Running(world.root)
    stood = len(read_book(again.ledger).holds.all_frozen())
    assert stood == (1 if point.endswith("recorded") else 0)
    done = hold.freeze(again.state, again.ledger, again.keys, model_id="", channel="canary", reason="why")
    assert done.new == (not stood)
    assert len(read_book(again.ledger).holds.entries) == 1
    again.close()


# -- people


def given(name: str, **more: Any) -> Given:
    said = Decision.model_construct(
        decision="approve", channel="production", expires_at="2099-01-01T00:00:00Z", codes=[], attestations=[]
    ).model_copy(update=more)
    key = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()
    return Given(len(name), Reviewer(name=name, team="security", key=key), said)


ACCEPTED = Case("accepted", "mosaic", 1, frozenset(), False, False)
HELD = Case("held", "mosaic", 1, frozenset({"contract/missing"}), False, False)
NOW = "2026-11-29T12:00:00Z"


@pytest.mark.parametrize(
    ("case", "words", "least", "reason"),
    [
        (ACCEPTED, [], 0, "accepted"),
        (ACCEPTED, ["ada"], 2, "1 more of 2"),
        (ACCEPTED, ["ada", "ada"], 2, "1 more of 2"),
        (ACCEPTED, ["ada", "tom"], 2, "approved by ada, tom"),
        (HELD, ["ada"], 2, "1 more of 2"),
        (HELD, ["ada"], 0, "approved by ada"),
    ],
)
def test_a_channel_asks_for_people_even_where_the_verdict_accepted(
    case: Case, words: list[str], least: int, reason: str
) -> None:
    found = standing(case, [given(name) for name in words], [], ApprovalsTable(), "production", NOW, least)
    assert found.reason.startswith(reason)
    assert found.allowed == (not reason.startswith("1 more"))


def test_waivers_spare_a_held_bundle_not_what_its_channel_asks_for() -> None:
    waiver = given("tom", decision="waive", codes=["contract/missing"])
    assert standing(HELD, [waiver], [], ApprovalsTable(), "production", NOW, 0).allowed
    assert not standing(HELD, [waiver], [], ApprovalsTable(), "production", NOW, 1).allowed
    waivers = [waiver, given("bob", decision="waive", codes=["contract/missing"])]
    both = standing(HELD, [*waivers, given("ada")], [], ApprovalsTable(required=2), "production", NOW, 1)
    assert both.reason.startswith("waived by")


def test_approvals_for_another_channel_count_for_nothing_and_broken_glass_needs_none() -> None:
    other = given("ada", channel="canary")
    assert not standing(ACCEPTED, [other], [], ApprovalsTable(), "production", NOW, 1).allowed
    broken = given("ada", decision="break-glass")
    found = standing(ACCEPTED, [broken], [], ApprovalsTable(break_glass=True), "production", NOW, 2)
    assert (found.allowed, found.broken_glass) == (True, True)


def test_the_audit_counts_who_left_since_and_not_who_had_expired() -> None:
    left = given("ada")
    left = Given(1, left.reviewer.model_copy(update={"left": True}), left.decision)
    assert [one.reviewer.name for one in approvers(ACCEPTED, [left], "production", NOW)] == ["ada"]
    assert approvers(ACCEPTED, [given("ada", expires_at=NOW)], "production", NOW) == []


# -- the audit


def test_the_audit_finds_a_promotion_past_a_freeze_a_pin_and_before_its_time(world: Running) -> None:
    world.policy = BOTH
    first, _ = world.accept("1.0.0", ["production"])
    second = world.accepted("2.0.0")
    assert rules_audit.examine(world.ledger) == []
    body = {
        "model": MODEL, "channel": "production", "number": 2, "digest": second.digest, "kind": "promote",
        "verdict_seq": second.verdict_seq, "rule": {"after": {"channel": "canary", "seconds": 60}},
    }  # fmt: skip
    where = {"model": MODEL, "channel": "production", "reason": "why"}
    world.ledger.append("pinned", where | {"digest": first.digest})
    world.ledger.append("frozen", {"channel": "production", "reason": "why"})
    world.ledger.append("intent", body)
    found = [one.message for one in rules_audit.examine(world.ledger)]
    assert len(found) == 3
    assert [
        word for word, text in zip(("frozen", "pinned", "canary"), found, strict=True) if word not in text
    ] == []
    world.ledger.append("unfrozen", {"channel": "production", "reason": "why"})
    world.ledger.append("intent", body | {"number": 3, "kind": "rollback"})  # goes past all of it
    assert len(rules_audit.examine(world.ledger)) == 3


def test_promotions_that_the_rules_allowed_are_no_difference(world: Running) -> None:
    world.accept("1.0.0")
    world.now += 3600
    assert world.tick()
    hold.freeze(world.state, world.ledger, world.keys, model_id="", channel="production", reason="later")
    assert rules_audit.examine(world.ledger) == []


# -- retention


def test_a_pinned_bundle_stays_whatever_its_age_and_revoked_too(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    digests = [kept.released(f"{number}.0.0").bundle_digest for number in range(1, 5)]
    for wanted in digests[:2]:
        hold.pin(
            kept.state, kept.ledger, kept.keys, model_id=MODEL, channel="production", wanted=wanted, reason="kept"
        )
    kept.revoke(digests[1])
    assert kept.gone(400, DAYS) == []
    hold.unpin(kept.state, kept.ledger, model_id=MODEL, channel="production", wanted="", reason="enough")
    assert sorted(kept.gone(400, DAYS)) == sorted(digests[:2])
    with pytest.raises(ReleaseError, match="were removed"):
        hold.pin(
            kept.state, kept.ledger, kept.keys, model_id=MODEL, channel="production", wanted="1", reason="kept"
        )
    kept.close()
