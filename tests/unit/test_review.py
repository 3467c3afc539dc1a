"""Decisions: what they bind, whose count, and what they never do."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ConfigError, LoaderError, MalformedError, ReleaseError, SignatureError, UsageError
from acceptd.policy.policy import ApprovalsTable, Policy
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.record import attest
from acceptd.record.canonical import canonical, digest
from acceptd.record.database import FILE_NAME
from acceptd.record.entry import Entry
from acceptd.record.keys import Signer
from acceptd.record.log import Ledger
from acceptd.review import decision as decisions
from acceptd.review import keys
from acceptd.review.decision import Decision, Word
from acceptd.review.desk import Desk
from acceptd.review.standing import Case, Given, Standing, standing

pytestmark = pytest.mark.unit

NOW, LATER, BEFORE = "2026-11-29T12:00:00Z", "2026-12-29T12:00:00Z", "2026-11-28T12:00:00Z"
DIGEST = "ab" * 32
HOLD = "contract/missing"
RULES = ApprovalsTable()


def person(name: str, team: str = "security", uid: int | None = None) -> tuple[Signer, Reviewer]:
    signer = Signer.of("reviewer", Ed25519PrivateKey.generate())
    return signer, Reviewer(name=name, team=team, key=base64.b64encode(signer.public).decode(), uid=uid)


ADA, BEN, EVE = person("ada"), person("ben", uid=1000), person("eve", team="mosaic")
PEOPLE = Reviewers(reviewers=[ADA[1], BEN[1], EVE[1]])


def verdict_body(verdict: str = "held", **more: Any) -> dict[str, Any]:
    finding = {"severity": "hold", "audience": "team", "stage": "judge", "where": "m", "message": "none"}
    return {
        "verdict": verdict, "judged_at": NOW, "reason": "r", "findings": [{"code": HOLD, **finding}],
        "team": "mosaic", "model": "mosaic/m", "bundle_digest": DIGEST, "policy_digest": "cd" * 32,
        "contract_digest": None, "profile_digest": "ef" * 32, "profiles_digest": None,
        "reviewer_findings": {"count": 0, "digest": digest([])}, **more,
    }  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    state = tmp_path / "state"
    state.mkdir()
    ledger = Ledger.open(state)
    ledger.append("verdict", verdict_body(), submission="s-1")
    ledger.append("verdict", verdict_body(bundle_digest="12" * 32), submission="s-2")
    return Desk(state, ledger, Policy(), PEOPLE)


def about(desk: Desk, word: Word = "approve", submission: str = "s-1", **more: Any) -> Decision:
    terms: dict[str, Any] = {"channel": "production", "reason": "looked at", "expires_at": "2099-01-01T00:00:00Z"}
    return decisions.about(desk.verdict(submission), desk.ledger.origin, word, **(terms | more))


def signed(desk: Desk, who: tuple[Signer, Reviewer] = ADA, **more: Any) -> attest.Envelope:
    return decisions.sign(decisions.to_sign(about(desk, **more)), who[0])


def case(verdict: str = "held", **more: Any) -> Case:
    return Case.of(verdict_body(verdict, **more), uid=more.pop("uid", None))


def one(
    seq: int, who: tuple[Signer, Reviewer], word: Word = "approve", expires: str = LATER,
    channel: str = "production", **more: Any,
) -> Given:  # fmt: skip
    made = Decision(
        log="acceptd/x", decision=word, submission="s", verdict_seq=1, leaf_hash=DIGEST, bundle_digest=DIGEST,
        policy_digest=DIGEST, contract_digest=None, profile_digest=DIGEST, profiles_digest=None, channel=channel,
        reason="r", expires_at=expires, nonce=f"{seq:032x}", **more,
    )  # fmt: skip
    return Given(seq, who[1], made)


def weigh(given: list[Given], rules: ApprovalsTable = RULES, of: Case | None = None, **more: Any) -> Standing:
    return standing(of or case(), given, more.get("waivers", []), rules, "production", NOW)


def test_one_approval_of_another_team_is_enough_by_default_and_none_is_not() -> None:
    assert not weigh([]).allowed
    assert weigh([one(1, ADA)]) == Standing(True, "approved by ada", (1,))


def test_two_signatures_of_one_person_are_one() -> None:
    rules = ApprovalsTable(required=2)
    assert not weigh([one(1, ADA), one(2, ADA)], rules).allowed
    assert weigh([one(1, ADA), one(2, BEN)], rules).allowed


@pytest.mark.parametrize(
    "given",
    [
        one(1, EVE), one(1, ADA, expires=NOW), one(1, ADA, expires=BEFORE), one(1, ADA, channel="canary"),
        one(1, ADA, "attest", attestations=["license"]), one(1, ADA, "waive", codes=["run/crash"]),
        one(1, ADA, "break-glass"),
    ],
    ids=["of the submitting team", "expired now", "expired", "another channel", "attests", "waives another code",
         "breaks glass where that is not allowed"],
)  # fmt: skip
def test_what_does_not_count(given: Given) -> None:
    assert not weigh([given]).allowed


def test_who_dropped_it_does_not_decide_it() -> None:
    mine = Case.of(verdict_body(), uid=1000)
    assert not weigh([one(1, BEN)], of=mine).allowed
    assert weigh([one(1, ADA)], of=mine).allowed
    signed_so = Case.of(verdict_body(uid=1000), uid=7)
    assert not weigh([one(1, BEN)], of=signed_so).allowed, "the queue, edited, says another"


def test_only_the_policys_teams_count() -> None:
    assert not weigh([one(1, ADA)], ApprovalsTable(teams=["safety"])).allowed
    assert weigh([one(1, ADA)], ApprovalsTable(teams=["security"])).allowed


def test_a_rejection_stands_against_any_number_of_approvals_until_it_expires() -> None:
    assert not weigh([one(1, ADA), one(2, BEN, "reject")]).allowed
    assert weigh([one(1, ADA), one(2, BEN, "reject", expires=BEFORE)]).allowed


@pytest.mark.parametrize("verdict", ["rejected", "inconclusive"])
@pytest.mark.parametrize("word", ["approve", "break-glass"])
def test_no_decision_promotes_what_is_rejected_or_could_not_be_judged(verdict: str, word: Word) -> None:
    rules = ApprovalsTable(break_glass=True)
    assert not weigh([one(1, ADA, word), one(2, BEN, word)], rules, case(verdict)).allowed


def test_broken_glass_is_loud() -> None:
    found = weigh([one(1, ADA, "break-glass")], ApprovalsTable(required=5, break_glass=True))
    assert found == Standing(True, "BROKEN GLASS by ada", (1,), broken_glass=True)


def test_a_waiver_names_every_code_that_holds_and_is_good_for_later_bundles() -> None:
    waiver = one(1, ADA, "waive", codes=[HOLD])
    assert weigh([], waivers=[waiver]) == Standing(True, "waived by ada", (1,))
    assert weigh([waiver]).allowed
    assert not weigh([], ApprovalsTable(required=2), waivers=[waiver]).allowed
    another = {"code": "vectors/insensitive", "severity": "hold"}
    body = verdict_body()
    body["findings"].append(another)
    assert not weigh([], of=Case.of(body, None), waivers=[waiver]).allowed
    expired = one(1, ADA, "waive", codes=[HOLD], expires=BEFORE)
    assert not weigh([], waivers=[expired]).allowed


def test_a_waiver_covers_only_what_is_known_to_hold_and_no_inferred_manifest() -> None:
    waiver = [one(1, ADA, "waive", codes=[HOLD])]
    secret = {"code": "heldout/budget-spent", "severity": "hold", "audience": "reviewer"}
    hidden = verdict_body(reviewer_findings={"count": 1, "digest": digest([secret])})
    assert not weigh([], of=Case.of(hidden, None), waivers=waiver).allowed, "it is not known what holds"
    assert not weigh([], of=Case.of(hidden, None, [secret]), waivers=waiver).allowed, "it is not waived"
    lie = {**secret, "severity": "info"}
    assert not weigh([], of=Case.of(hidden, None, [lie]), waivers=waiver).allowed, "the entry binds another"
    both = [*waiver, one(2, ADA, "waive", codes=["heldout/budget-spent"])]
    assert weigh([], of=Case.of(hidden, None, [secret]), waivers=both).allowed
    assert not weigh([], of=case(inferred=["name"]), waivers=waiver).allowed


def test_attestations_hold_accepted_bundles_too() -> None:
    rules = ApprovalsTable(attestations=["license", "model_card"])
    accepted = case("accepted")
    assert weigh([], of=accepted).allowed
    assert weigh([], rules, accepted).reason == "not attested: license, model_card"
    some = one(1, ADA, "attest", attestations=["license"])
    assert not weigh([some], rules, accepted).allowed
    rest = one(2, BEN, "attest", attestations=["model_card"])
    assert weigh([some, rest], rules, accepted) == Standing(True, "accepted", (1, 2))
    assert not weigh([some, rest], rules).allowed, "held still needs its approval"


def test_an_inferred_manifest_needs_an_approval() -> None:
    inferred = case("accepted", inferred=["interface"])
    assert not weigh([], of=inferred).allowed
    assert weigh([one(1, ADA)], of=inferred).allowed


def test_a_decision_is_recorded_once_verified_and_counts(desk: Desk) -> None:
    assert desk.weigh(desk.verdict("s-1"), "production").reason == "1 more of 1 approvals needed"
    envelope = signed(desk)
    _, entered = desk.record(envelope)
    assert desk.weigh(desk.verdict("s-1"), "production").by == (entered.seq,)
    assert not desk.weigh(desk.verdict("s-2"), "production").allowed, "of another bundle"
    assert not desk.weigh(desk.verdict("s-1"), "canary").allowed, "for another channel"
    assert desk.examine() == []
    with pytest.raises(UsageError, match="on record already"):
        desk.record(envelope)


def replayed_elsewhere(desk: Desk) -> attest.Envelope:
    other = about(desk).model_copy(update={"log": "acceptd/another"})
    return decisions.sign(decisions.to_sign(other), ADA[0])


def moved_to_another_verdict(desk: Desk) -> attest.Envelope:
    other = about(desk).model_copy(update={"submission": "s-2", "verdict_seq": desk.verdict("s-2").seq})
    return decisions.sign(decisions.to_sign(other), ADA[0])


def of_an_older_verdict(desk: Desk) -> attest.Envelope:
    """Whose entry is another one than that of the submission's verdict."""
    return decisions.sign(decisions.to_sign(about(desk).model_copy(update={"verdict_seq": 2})), ADA[0])


def another_policy(desk: Desk) -> attest.Envelope:
    return decisions.sign(decisions.to_sign(about(desk).model_copy(update={"policy_digest": DIGEST})), ADA[0])


def of_a_stranger(desk: Desk) -> attest.Envelope:
    return signed(desk, person("mallory"))


def edited(desk: Desk) -> attest.Envelope:
    envelope = signed(desk)
    payload = base64.b64decode(envelope["payload"]).replace(b"production", b"production-x"[:10])
    changed = payload.replace(b'"looked at"', b'"looked-at"')
    return envelope | {"payload": base64.b64encode(changed).decode()}


def signed_as_something_else(desk: Desk) -> attest.Envelope:
    return attest.sign(attest.PAYLOAD_TYPE, decisions.to_sign(about(desk)), ADA[0])


def no_decision(_desk: Desk) -> attest.Envelope:
    return attest.sign(decisions.DECISION_TYPE, canonical({"decision": "approve"}), ADA[0])


def not_canonical(desk: Desk) -> attest.Envelope:
    payload = decisions.to_sign(about(desk)).replace(b'{"', b'{ "', 1)
    return attest.sign(decisions.DECISION_TYPE, payload, ADA[0])


def expired(desk: Desk) -> attest.Envelope:
    return signed(desk, expires_at=BEFORE)


@pytest.mark.parametrize(
    "forge",
    [
        replayed_elsewhere, moved_to_another_verdict, of_an_older_verdict, another_policy, of_a_stranger, edited,
        signed_as_something_else, no_decision, not_canonical, expired,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_refused(forge: Callable[[Desk], attest.Envelope], desk: Desk) -> None:
    size = desk.ledger.tree().size
    with pytest.raises((SignatureError, MalformedError, UsageError)):
        desk.record(forge(desk))
    assert desk.ledger.tree().size == size


def test_a_decision_that_somebody_wrote_into_the_database_does_not_count_and_is_found(desk: Desk) -> None:
    body = {"decision": "approve", "verdict_seq": 1, "nonce": "0" * 32, "reviewer": "ada", "model": "mosaic/m"}
    desk.ledger.append("decision", body | {"envelope": of_a_stranger(desk)}, submission="s-1")
    assert not desk.weigh(desk.verdict("s-1"), "production").allowed
    assert [found.what for found in desk.examine()] == ["decision"]


def test_a_genuine_decision_about_an_entry_that_is_not_here_stops_nothing(desk: Desk) -> None:
    other = about(desk).model_copy(update={"verdict_seq": 999_999})
    envelope = decisions.sign(decisions.to_sign(other), ADA[0])
    body = {"decision": "approve", "verdict_seq": 1, "nonce": "0" * 32, "reviewer": "ada", "model": "mosaic/m"}
    desk.ledger.append("decision", body | {"envelope": envelope}, submission="s-1")
    assert not desk.weigh(desk.verdict("s-1"), "production").allowed
    assert [found.where for found in desk.examine()] == ["entry 3"]


def carried(envelope: attest.Envelope) -> attest.Envelope:
    """A signed file after somebody without a key had it: more members, signatures by nobody."""
    (own,) = envelope["signatures"]
    nobody = [{"keyid": "ben approves too", "sig": "AAAA"}, {"keyid": own["keyid"], "sig": "AAAA"}]
    more = {"note": "approved by all", "x": float("inf"), "y": "\ud800", "z": 10**30}
    return {**envelope, **more, "signatures": [*nobody, {**own, "by": "everybody"}, own]}


def test_words_that_nobody_signed_do_not_come_into_the_ledger_with_a_decision(desk: Desk) -> None:
    envelope = signed(desk)
    desk.record(carried(envelope))
    (entry,) = desk.ledger.entries(kind="decision")
    assert entry.body["envelope"] == envelope
    assert desk.examine() == []
    with pytest.raises(UsageError, match="on record already"):
        desk.record(envelope)


def test_who_is_no_reviewer_any_more_does_not_count(desk: Desk) -> None:
    desk.record(signed(desk))
    gone = Desk(desk.state, desk.ledger, desk.policy, Reviewers(reviewers=[BEN[1]]))
    assert not gone.weigh(gone.verdict("s-1"), "production").allowed


def test_who_has_left_still_verifies_rejects_and_counts_for_nothing_else(desk: Desk) -> None:
    desk.record(signed(desk))
    desk.record(signed(desk, submission="s-2", word="reject"))
    ada = ADA[1].model_copy(update={"left": True})
    since = Desk(desk.state, desk.ledger, desk.policy, Reviewers(reviewers=[ada, BEN[1]]))
    assert since.examine() == []
    assert not since.weigh(since.verdict("s-1"), "production").allowed
    since.record(signed(desk, who=BEN, submission="s-2"))
    assert since.weigh(since.verdict("s-2"), "production").reason == "rejected by ada"
    with pytest.raises(UsageError, match="no reviewer any more"):
        since.record(signed(desk))


def test_words_name_what_they_need(desk: Desk) -> None:
    for word, more in (("waive", {}), ("attest", {}), ("approve", {"codes": ("run/crash",)})):
        with pytest.raises(MalformedError):
            about(desk, word, **more)  # type: ignore[arg-type]


def test_a_key_is_made_once_and_read_only_if_nobody_else_can(tmp_path: Path) -> None:
    path = tmp_path / "me.pem"
    made = keys.make(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys.load(path).key_id == made.key_id
    with pytest.raises(UsageError):
        keys.make(path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod go-rwx"):
        keys.load(path)
    path.chmod(0o600)
    (tmp_path / "link.pem").symlink_to(path)
    with pytest.raises(ConfigError, match="review keygen"):
        keys.load(tmp_path / "link.pem")


def test_two_people_with_one_key_are_refused() -> None:
    twin = ADA[1].model_copy(update={"name": "adam"})
    with pytest.raises(ValueError, match="two have the key"):
        Reviewers(reviewers=[ADA[1], twin])
    with pytest.raises(ValueError, match="32 bytes"):
        Reviewer(name="x", team="y", key="AAAA")


def test_entries_are_verdicts(desk: Desk) -> None:
    with pytest.raises((LoaderError, ReleaseError, UsageError)):
        desk.verdict("s-9")
    assert isinstance(desk.verdict("s-1"), Entry)


def tampered(desk: Desk, statement: str) -> Desk:
    """Edit the database below an instance that is opened anew afterwards."""
    desk.ledger.close()
    raw = sqlite3.connect(desk.state / FILE_NAME)
    triggers = raw.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(statement)
    for _, sql in triggers:
        raw.execute(sql)
    raw.commit()
    raw.close()
    return Desk(desk.state, Ledger.open(desk.state), desk.policy, desk.reviewers)


def test_a_waiver_copied_under_another_models_name_does_not_reach_that_model(desk: Desk) -> None:
    envelope = signed(desk, word="waive", codes=(HOLD,))
    desk.record(envelope)
    desk.ledger.append("verdict", verdict_body(model="mosaic/other"), submission="s-3")
    body = {"decision": "waive", "verdict_seq": 1, "nonce": "0" * 32, "reviewer": "ada", "model": "mosaic/other"}
    desk.ledger.append("decision", body | {"envelope": envelope}, submission="s-1")
    assert desk.weigh(desk.verdict("s-2"), "production").allowed, "the same model"
    assert not desk.weigh(desk.verdict("s-3"), "production").allowed, "another model"
    assert any("model is 'mosaic/other'" in one.message for one in desk.examine())


def test_a_verdict_rewritten_below_its_leaf_hash_takes_the_decisions_about_it_along(desk: Desk) -> None:
    desk.record(signed(desk))
    assert desk.weigh(desk.verdict("s-1"), "production").allowed
    leaf = f"CAST(replace(CAST(leaf AS TEXT), '{HOLD}', 'contract/nothing') AS BLOB)"
    desk = tampered(desk, f"UPDATE entries SET leaf = {leaf} WHERE seq = 1")
    assert not desk.weigh(desk.verdict("s-1"), "production").allowed


def test_a_rejection_that_was_hidden_while_its_bundle_was_promoted_is_found_afterwards(desk: Desk) -> None:
    rejection = desk.record(signed(desk, who=BEN, word="reject"))[1].seq
    desk = tampered(desk, f"UPDATE entries SET type = 'note' WHERE seq = {rejection}")
    assert not desk.weigh(desk.verdict("s-1"), "production").rejected
    release = {"model": "mosaic/m", "channel": "production", "number": 1, "digest": DIGEST, "verdict_seq": 1}
    desk.ledger.append("intent", release)
    desk.ledger.append("activated", release | {"release_digest": DIGEST})
    desk = tampered(desk, f"UPDATE entries SET type = 'decision' WHERE seq = {rejection}")
    assert [one.message for one in desk.examine()] == ["was promoted while a person's rejection of it stood"]


def test_the_same_bytes_dropped_again_are_still_rejected(desk: Desk) -> None:
    desk.record(signed(desk, word="reject"))
    desk.ledger.append("verdict", verdict_body(), submission="s-3")
    desk.record(signed(desk, who=BEN, submission="s-3"))
    assert desk.weigh(desk.verdict("s-3"), "production").reason == "rejected by ada"
    desk.record(signed(desk, who=BEN, submission="s-2"))
    assert desk.weigh(desk.verdict("s-2"), "production").allowed, "other bytes"


def test_one_key_written_in_two_ways_is_one_key() -> None:
    key = ADA[1].key
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    twin = ADA[1].model_copy(update={"name": "adam", "key": f"{key[:42]}{letters[letters.index(key[42]) ^ 1]}="})
    assert twin.key != key
    assert twin.raw == ADA[1].raw
    with pytest.raises(ValueError, match="two have the key"):
        Reviewers(reviewers=[ADA[1], twin])
