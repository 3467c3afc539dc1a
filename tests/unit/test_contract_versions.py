"""Versions of contracts: who may sign, what follows what, and that nothing else counts as one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acceptd.contracts import version as versions
from acceptd.errors import MalformedError, SignatureError, UsageError
from acceptd.policy.contract import Contract
from acceptd.record import attest
from acceptd.record.canonical import canonical, plain
from acceptd.record.canonical import digest as digest_of
from acceptd.review.decision import DECISION_TYPE
from tests.contract_world import (
    ADA,
    BEN,
    EVE,
    MODEL,
    Instance,
    a_contract,
    an_instance,
    looser,
    person,
    tighter,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def place(tmp_path: Path) -> Instance:
    return an_instance(tmp_path)


def refused(place: Instance, envelope: Any, words: str) -> None:
    before = place.ledger.tree()
    with pytest.raises(UsageError, match=re.escape(words)):
        place.install(envelope)
    assert place.ledger.tree() == before


def test_a_signed_version_is_on_record_with_digest_signers_and_what_it_supersedes(place: Instance) -> None:
    place.install(place.signed(a_contract()))
    place.install(place.signed(a_contract(2, looser), ADA, BEN))
    first, second = place.register.entries(MODEL)
    assert second.body["supersedes"] == first.body["digest"] != second.body["digest"]
    assert [one["name"] for one in second.body["signers"]] == ["ada", "ben"]
    assert (first.body["supersedes"], second.body["reason"]) == (None, "agreed")
    assert place.register.examine() == []
    assert place.register.read(second).opened.own == a_contract(2, looser)


def test_version_numbers_only_rise_and_the_way_back_is_a_new_version(place: Instance) -> None:
    place.install(place.signed(a_contract(1)))
    place.install(place.signed(a_contract(2, looser)))
    refused(place, place.signed(a_contract(1)), "version 2 is in force")
    refused(place, place.signed(a_contract(2)), "version 2 is in force")
    place.install(place.signed(a_contract(3)))
    newest = place.register.newest(MODEL)
    assert newest is not None
    assert place.register.read(newest).opened.own.ceilings == a_contract(1).ceilings


def test_an_old_signed_file_recorded_again_changes_nothing(place: Instance) -> None:
    old = place.signed(a_contract(1))
    place.install(old)
    place.install(place.signed(a_contract(2, tighter)))
    refused(place, old, "version 2 is in force")


def test_what_was_compared_with_a_version_that_is_not_in_force_any_more_is_prepared_again(place: Instance) -> None:
    place.install(place.signed(a_contract(1)))
    late = place.signed(a_contract(3, looser))
    place.install(place.signed(a_contract(2, tighter)))
    refused(place, late, "it supersedes")


def test_members_of_the_models_own_team_may_tighten_and_not_loosen(place: Instance) -> None:
    refused(place, place.signed(a_contract(), EVE), "members of mosaic do not count")
    place.install(place.signed(a_contract(), ADA))
    refused(place, place.signed(a_contract(2, looser), EVE), "members of mosaic do not count")
    place.install(place.signed(a_contract(2, tighter), EVE))


def test_a_tighter_key_does_not_hide_a_looser_one(place: Instance) -> None:
    place.install(place.signed(a_contract(), ADA))

    def both(document: dict[str, Any]) -> None:
        tighter(document)
        document["max_atol"] = 1e-3

    refused(place, place.signed(a_contract(2, both), EVE), "members of mosaic do not count")


def test_nobody_signs_the_last_number_there_is_and_leaves_none_after_it(place: Instance) -> None:
    place.install(place.signed(a_contract(20261130)))
    refused(place, place.signed(a_contract(2**31, tighter), EVE), "write version = 20261131")
    place.install(place.signed(a_contract(20270101)))


def test_the_models_own_team_buys_no_held_out_evaluations_by_tightening(place: Instance) -> None:
    def holding_out(document: dict[str, Any]) -> None:
        document["models"][0]["heldout"] = [{"sets": ["zebra_*"], "sha256": "7" * 64}]

    def and_tighter(document: dict[str, Any]) -> None:
        holding_out(document)
        tighter(document)

    place.install(place.signed(a_contract(), ADA))
    place.install(place.signed(a_contract(2, holding_out), EVE))
    refused(place, place.signed(a_contract(3, and_tighter), EVE), "members of mosaic do not count")
    place.install(place.signed(a_contract(3, and_tighter), BEN))


def test_as_many_people_as_the_policy_says_each_counted_once(tmp_path: Path) -> None:
    place = an_instance(tmp_path, ADA, BEN, EVE, signers=2)
    refused(place, place.signed(a_contract(), ADA), "1 more of 2 signatures needed")
    refused(place, place.signed(a_contract(), ADA, ADA), "1 more of 2 signatures needed")
    refused(place, place.signed(a_contract(), ADA, EVE), "1 more of 2 signatures needed")
    place.install(place.signed(a_contract(), ADA, BEN))


def test_only_the_policys_teams_count(tmp_path: Path) -> None:
    place = an_instance(tmp_path, ADA, BEN, teams=["safety"])
    refused(place, place.signed(a_contract(), ADA), "of a member of safety")
    place.install(place.signed(a_contract(), BEN))


def test_who_left_signs_nothing_new(tmp_path: Path) -> None:
    gone = person("gil", left=True)
    place = an_instance(tmp_path, ADA, gone)
    refused(place, place.signed(a_contract(), gone), "no reviewer any more")


def _flipped(envelope: attest.Envelope) -> attest.Envelope:
    payload = base64.b64decode(envelope["payload"]).replace(b'"load_ms":1000', b'"load_ms":9000')
    return {**envelope, "payload": base64.b64encode(payload).decode()}


def _unsigned(envelope: attest.Envelope) -> attest.Envelope:
    return {**envelope, "signatures": []}


def _as_decision(envelope: attest.Envelope) -> attest.Envelope:
    return attest.sign(DECISION_TYPE, base64.b64decode(envelope["payload"]), ADA[0])


def _by_stranger(envelope: attest.Envelope) -> attest.Envelope:
    return versions.sign(base64.b64decode(envelope["payload"]), person("mal")[0])


def _half_strange(envelope: attest.Envelope) -> attest.Envelope:
    return versions.joined([envelope, _by_stranger(envelope)])


@pytest.mark.parametrize("tamper", [_flipped, _unsigned, _as_decision, _by_stranger, _half_strange])
def test_nothing_but_reviewers_signatures_over_these_bytes_counts(
    place: Instance, tamper: Callable[[attest.Envelope], attest.Envelope]
) -> None:
    envelope = tamper(place.signed(a_contract()))
    with pytest.raises(SignatureError):
        place.install(envelope)
    assert place.register.entries() == []


def test_a_version_signed_for_another_instance_does_not_count_here(place: Instance, tmp_path: Path) -> None:
    other = an_instance(tmp_path / "other")
    refused(place, other.signed(a_contract()), "another instance")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("digest", "0" * 64),
        ("version", 7),
        ("model", "mosaic/other"),
        ("inherited", [{"path": ["x"], "value": 1, "source": "team x"}]),
    ],
)
def test_bytes_that_contradict_themselves_are_not_signed(place: Instance, key: str, value: Any) -> None:
    document = json.loads(place.bytes_of(a_contract())) | {key: value}
    with pytest.raises(MalformedError):
        versions.sign(canonical(plain(document)), ADA[0])


def test_signatures_over_different_bytes_are_not_joined(place: Instance) -> None:
    with pytest.raises(MalformedError, match="different bytes"):
        versions.joined([place.signed(a_contract()), place.signed(a_contract(1, looser))])


@pytest.mark.parametrize("key", ["digest", "version", "supersedes", "reason", "signers", "model"])
def test_an_entry_that_says_otherwise_than_what_was_signed_is_found_with_its_place(
    place: Instance, key: str
) -> None:
    envelope = place.signed(a_contract())
    opened, _ = versions.opened(envelope, place.reviewers)
    body = {
        "model": MODEL, "version": 1, "digest": opened.said.digest, "supersedes": None, "reason": "agreed",
        "signers": [{"name": "ada", "team": "security"}], "envelope": envelope,
    }  # fmt: skip
    other = {"version": 2, "signers": [], "model": "mosaic/other", "reason": "x"}.get(key, "f" * 64)
    entered = place.ledger.append("contract-version", plain({**body, key: other}))
    [found] = place.register.examine()
    assert (found.what, found.where) == ("contract", f"entry {entered.seq}")


def test_a_version_that_nobody_signed_in_the_ledger_is_found_and_so_is_a_gap(place: Instance) -> None:
    place.install(place.signed(a_contract()))
    forged = place.signed(a_contract(9, looser), supersedes="e" * 64)
    body = {
        "model": MODEL,
        "version": 9,
        "digest": versions.payload_of(forged).said.digest,
        "supersedes": "e" * 64,
    }
    more = {"reason": "agreed", "signers": [{"name": "ada", "team": "security"}], "envelope": forged}
    place.ledger.append("contract-version", plain({**body, **more}))
    [found] = place.register.examine()
    assert "does not supersede what is before it" in found.message


def test_what_follows_nothing_that_is_on_record_is_told_as_that(place: Instance) -> None:
    def told(contract: Contract, *, first: bool, **more: Any) -> str:
        before = place.ledger.tree()
        with pytest.raises(UsageError) as refused:
            place.register.install(place.home, place.signed(contract, **more), place.table, first=first)
        assert place.ledger.tree() == before
        return refused.value.message

    assert told(a_contract(1), first=False) == f"{MODEL} has no version to supersede"
    elsewhere = told(a_contract(2), first=True, supersedes="7" * 64)
    assert elsewhere == "it supersedes a version that is not on record here"
    there = place.install(place.signed(a_contract(1)))
    assert told(a_contract(1), first=False) == f"{MODEL} version 1 is on record already, entry {there.seq}"
    assert told(a_contract(2, tighter), first=True) == f"{MODEL} has version 1 already"


def entered(place: Instance, envelope: attest.Envelope, **other: Any) -> int:
    """Put a signed version into the ledger as somebody who writes into its database does; return the entry."""
    said = versions.payload_of(envelope).said
    kept = {key: getattr(said, key) for key in ("model", "version", "digest", "supersedes", "reason")}
    body = {**kept, "signers": [{"name": "ada", "team": "security"}], "envelope": envelope, **other}
    return place.ledger.append("contract-version", plain(body)).seq


def test_an_entry_that_was_signed_for_another_log_is_found(place: Instance, tmp_path: Path) -> None:
    """Somebody has copied it from another instance's database."""
    other = an_instance(tmp_path / "other", ADA, BEN, EVE)
    foreign = other.signed(a_contract())
    other.ledger.close()

    entered(place, foreign)
    [found] = place.register.examine()
    assert found.message.startswith("it was signed for the log acceptd/")


def test_a_version_on_record_before_the_one_that_it_supersedes_is_found(place: Instance) -> None:
    first = place.signed(a_contract(1))
    second = place.signed(a_contract(2, looser), supersedes=versions.payload_of(first).said.digest)
    early, late = entered(place, second), entered(place, first)
    [found] = place.register.examine()
    assert (found.where, found.message) == (
        f"entry {early}",
        f"the version that it supersedes is entry {late}, after it",
    )


def test_a_version_that_supersedes_an_entry_of_other_bytes_is_found(place: Instance) -> None:
    """The digest in an entry is anybody's word: what counts is the contract that lies under it."""
    digest = versions.payload_of(place.signed(a_contract(1, looser))).said.digest
    one = entered(place, place.signed(a_contract(1), supersedes=None), digest=digest)
    entered(place, place.signed(a_contract(2), supersedes=digest))
    messages = {found.message for found in place.register.examine()}
    assert f"entry {one} does not hold the contract whose digest it gives" in messages


def test_what_makes_no_contract_is_not_prepared_to_be_signed(place: Instance) -> None:
    with pytest.raises(MalformedError, match="no version of a contract: reason: "):
        versions.prepared(a_contract(), [], place.ledger.origin, None, "")
    payload = json.loads(place.bytes_of(a_contract()))
    broken = payload["contract"] | {"version": 0}
    payload |= {"contract": broken, "digest": digest_of(broken)}
    with pytest.raises(MalformedError, match="the contract in it: version: "):
        versions.read(canonical(payload))
