"""What people decided, up to the release: exchanged bytes, and the ways around a rejection."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.errors import ReleaseError, UsageError
from acceptd.evidence import Sealed
from acceptd.policy.policy import ApprovalsTable, Attestation, Policy
from acceptd.policy.profile import Profile
from acceptd.record.keys import load_keyring
from acceptd.record.queue import Queue
from acceptd.release import audit, store
from acceptd.release.promote import rollback
from acceptd.release.signers import Auditor
from acceptd.review import decision as decisions
from acceptd.review.decision import Word
from acceptd.review.desk import Desk, automatic
from acceptd.rules import Rules
from tests.release_world import MODEL, World, memory_directory
from tests.review_world import ADA, PEOPLE, held

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> Iterator[World]:
    root = memory_directory()
    made = World(root)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


def decide(desk: Desk, submission: str, word: Word) -> None:
    said = decisions.about(
        desk.verdict(submission), desk.ledger.origin, word, channel="production", reason="looked at",
        expires_at="2099-01-01T00:00:00Z",
    )  # fmt: skip
    desk.record(decisions.sign(decisions.to_sign(said), ADA))


def carry_out(world: World, desk: Desk, submission: str) -> None:
    desk.carry_out(submission, world.keys, "production", "decided", world.terms)


def test_exchanged_bytes_are_refused_at_the_second_attempt_too_and_never_count_as_stored(world: World) -> None:
    desk, submission = held(world)
    decide(desk, submission, "approve")
    kept = world.state / "quarantine" / submission / "bundle" / "model.onnx"
    honest = kept.read_bytes()
    kept.chmod(0o644)
    kept.write_bytes(b"m0del" * 50)
    kept.chmod(0o444)
    for _ in range(2):
        with pytest.raises(ReleaseError, match="store object"):
            carry_out(world, desk, submission)
        assert store.digests(world.state) == []
    kept.chmod(0o644)
    kept.write_bytes(honest)
    kept.chmod(0o444)
    carry_out(world, desk, submission)
    assert world.open().number == 1


def test_bytes_exchanged_in_the_store_before_the_decision_are_refused(world: World) -> None:
    desk, submission = held(world)
    store.put(world.state, world.state / "quarantine" / submission / "bundle", desk_sealed(desk, submission))
    decide(desk, submission, "approve")
    stored = next((world.state / "store" / "sha256").glob("*/model.onnx"))
    stored.chmod(0o644)
    stored.write_bytes(b"m0del" * 50)
    stored.chmod(0o444)
    with pytest.raises(ReleaseError):
        carry_out(world, desk, submission)


def desk_sealed(desk: Desk, submission: str) -> Sealed:
    row = desk.queue.get(submission)
    assert row is not None
    return Sealed.model_validate(row.data["sealed"])


def test_a_death_between_store_and_promotion_is_no_difference_and_the_next_attempt_promotes(world: World) -> None:
    desk, submission = held(world)
    decide(desk, submission, "approve")
    store.put(world.state, world.state / "quarantine" / submission / "bundle", desk_sealed(desk, submission))
    assert audit.examine(world.state, world.ledger, Auditor(load_keyring(world.state))) == []
    carry_out(world, desk, submission)
    assert world.open().number == 1


def test_what_a_daemon_died_over_after_its_verdict_still_waits_for_a_person(world: World) -> None:
    desk, submission = held(world, state="promoted")
    assert list(desk.undecided()) == []
    Queue(world.ledger).advance(submission, "quarantined", trouble="died twice")
    assert [row.id for row, _ in desk.undecided()] == [submission]


@pytest.mark.parametrize("why", ["rejected by ada", "not attested: license", "the reviewers are refused"])
def test_the_daemons_own_promotion_asks_people_too(why: str, world: World, tmp_path: Path) -> None:
    desk, submission = held(world)
    decide(desk, submission, "reject")
    store.put(world.state, world.state / "quarantine" / submission / "bundle", desk_sealed(desk, submission))
    again = world.accepted("1.0.0", files={"model.onnx": b"model" * 50})  # the same bytes, accepted now
    asked: list[Attestation] = ["license"] if why.startswith("not") else []
    policy = Policy(approvals=ApprovalsTable(attestations=asked))
    key = "none" if why.startswith("the") else PEOPLE.reviewers[0].key
    text = f'[[reviewers]]\nname = "ada"\nteam = "security"\nkey = "{key}"\n'
    (tmp_path / "reviewers.toml").write_text("" if asked else text)
    rules = Rules(policy, "a" * 64, Profile(), "b" * 64, tmp_path)
    with pytest.raises(ReleaseError, match=why):
        world.promote(again, decide=automatic(world.state, world.ledger, rules, "production"))


def test_an_entry_that_lost_its_team_does_not_let_the_team_decide(world: World) -> None:
    desk, submission = held(world, drop=("team",), team="security")
    decide(desk, submission, "approve")
    assert desk.weigh(desk.verdict(submission), "production").allowed, "the entry alone says no team"
    with pytest.raises(ReleaseError, match="1 more of 1 approvals"):
        carry_out(world, desk, submission)


def test_a_held_bundle_whose_bytes_are_gone_is_not_promoted_and_says_what_to_do(world: World) -> None:
    desk, submission = held(world)
    decide(desk, submission, "approve")
    shutil.rmtree(world.state / "quarantine" / submission)
    with pytest.raises(ReleaseError, match=f"the bytes of {submission} are not kept any more") as caught:
        carry_out(world, desk, submission)
    assert caught.value.remedy == "submit it again"
    with pytest.raises(UsageError, match="there is no submission s-9"):
        carry_out(world, desk, "s-9")


@pytest.mark.parametrize(
    ("asked", "late", "counted"),
    [(0, True, None), (1, False, None), (1, True, 0), (2, False, 1)],
)
def test_a_promotion_with_fewer_approvals_than_its_channel_asked_for_is_found(
    world: World, asked: int, late: bool, counted: int | None
) -> None:
    desk, submission = held(world)
    if not late:
        decide(desk, submission, "approve")
    entry = desk.verdict(submission)
    release = {
        "model": MODEL, "channel": "production", "number": 1, "digest": entry.body["bundle_digest"],
        "verdict_seq": entry.seq, "rule": {"approvals": asked},
    }  # fmt: skip
    world.ledger.append("intent", release)
    world.ledger.append("activated", release | {"release_digest": "ab" * 32})
    if late:
        decide(desk, submission, "approve")
    said = f"was promoted with {counted} of the {asked} approvals that were asked for"
    assert [one.message for one in desk.examine()] == ([] if counted is None else [said])
    assert {one.where for one in desk.examine()} <= {f"{MODEL} production number 1"}


def test_a_promotion_by_a_verdict_that_is_not_here_is_left_to_the_audit_of_entries(world: World) -> None:
    desk, _ = held(world)
    release = {"model": MODEL, "channel": "production", "number": 1, "digest": "ab" * 32, "verdict_seq": 99}
    world.ledger.append("intent", release | {"rule": {"approvals": 2}})
    world.ledger.append("activated", release | {"release_digest": "ab" * 32})
    assert desk.examine() == []


def test_a_rollback_is_no_way_around_a_rejection(world: World) -> None:
    desk, submission = held(world)
    decide(desk, submission, "approve")
    carry_out(world, desk, submission)
    world.released("2.0.0")
    decide(desk, submission, "reject")

    def back() -> int:
        return rollback(
            world.state, world.ledger, world.keys, model_id=MODEL, channel="production", reason="back",
            rejected=desk.rejected("production"), terms=world.terms,
        ).number  # fmt: skip

    with pytest.raises(ReleaseError, match="rejected by ada"):
        back()
    assert world.open().number == 2
