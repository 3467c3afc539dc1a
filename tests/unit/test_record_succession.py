"""One key follows another on the old one's word alone, and each counts for its own entries only."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import MalformedError, SignatureError
from acceptd.record import attest, succession
from acceptd.record.canonical import canonical
from acceptd.record.keys import Keyring, Signer
from acceptd.record.succession import History, Rotation, follow, opened, seal
from acceptd.release import rotated

pytestmark = pytest.mark.unit

LOG = "acceptd/" + "0" * 32


def signer(role: str = "ledger") -> Signer:
    return Signer.of(role, Ed25519PrivateKey.generate())


def rotation(old: Signer, new: Signer, number: int = 1, **more: Any) -> Rotation:
    made = Rotation(LOG, old.role, number, old.public_key(), new.public_key(), "2026-11-29T15:17:00Z", "age")
    return made._replace(**more)


def entered(old: Signer, new: Signer, number: int = 1, **more: Any) -> dict[str, Any]:
    made = rotation(old, new, number, **more)
    return made.body(seal(made, old, new))


def ring(*signers: Signer) -> Keyring:
    return Keyring.of(one.public_key() for one in signers)


def ids(keyring: Keyring, role: str = "ledger") -> set[str]:
    return {key.key_id for key in keyring.for_role(role)}


def test_a_keyring_of_the_first_key_alone_follows_all_later_ones() -> None:
    one, two, three = signer(), signer(), signer()
    history = History.of(ring(one), [(5, entered(one, two)), (9, entered(two, three, 2))], LOG)
    assert history.problems == ()
    for seq, due in ((0, one), (4, one), (5, two), (8, two), (9, three), (10**9, three)):
        assert ids(history.at(seq)) == {due.key_id}
    assert ids(history.current) == {three.key_id}
    assert ids(history.ever) == {one.key_id, two.key_id, three.key_id}
    assert "gave way at entry 5" in history.why("ledger", [one.key_id], 6)
    assert "signs from entry 5 on" in history.why("ledger", [two.key_id], 4)
    assert history.why("ledger", ["0" * 64], 4) == ""
    assert History.parse(json.loads(json.dumps(history.to_json()))) == history


def test_the_newest_key_vouches_for_those_before_it() -> None:
    one, two, three = signer(), signer(), signer()
    rotations = [(5, entered(one, two)), (9, entered(two, three, 2))]
    for anchor in (two, three):
        history = History.of(ring(anchor), rotations, LOG)
        assert history.problems == ()
        assert ids(history.at(0)) == {one.key_id}


def test_a_rotation_without_the_word_of_the_old_key_counts_for_nobody() -> None:
    old, new, thief = signer(), signer(), signer()
    made = rotation(old, new)
    alone = attest.sign(succession.ROTATION_TYPE, made.payload(), new)
    forged = attest.sign(succession.ROTATION_TYPE, made.payload(), thief, new)
    unproved = attest.sign(succession.ROTATION_TYPE, made.payload(), old)
    for envelope in (alone, forged, unproved):
        with pytest.raises(SignatureError):
            opened(envelope)
        history = History.of(ring(old), [(5, made.body(envelope))], LOG)
        assert [seq for seq, _ in history.problems] == [5]
        assert ids(history.at(10**6)) == {old.key_id}
        with pytest.raises(SignatureError):
            follow(ring(old), [envelope])


def test_a_rotation_of_keys_that_nobody_anchored_is_told_and_not_followed() -> None:
    old, one, two = signer(), signer(), signer()
    history = History.of(ring(old), [(5, entered(one, two))], LOG)
    assert "does not know" in history.problems[0][1]
    assert ids(history.at(7)) == {old.key_id}
    keyring, followed = follow(ring(old), [entered(one, two)["envelope"]])
    assert (keyring, followed) == (ring(old), {})


def test_a_key_that_gave_way_names_no_second_successor() -> None:
    old, new, evil = signer(), signer(), signer()
    rotations = [(5, entered(old, new)), (7, entered(old, evil, 2))]
    history = History.of(ring(old), rotations, LOG)
    assert "was not the ledger key any more" in history.problems[0][1]
    assert ids(history.at(8)) == {new.key_id}
    keyring, _ = follow(ring(old), [body["envelope"] for _, body in rotations])
    assert ids(keyring) == {new.key_id}


def test_a_statement_of_another_log_or_beside_its_entry_does_not_hold() -> None:
    old, new = signer(), signer()
    strange = entered(old, new, log="acceptd/" + "1" * 32)
    renamed = entered(old, new) | {"reason": "another one"}
    skipped = entered(old, new, 3)
    for body, word in ((strange, "another log"), (renamed, "the entry"), (skipped, "number 3")):
        history = History.of(ring(old), [(5, body)], LOG)
        assert word in history.problems[0][1]
        assert ids(history.at(9)) == {old.key_id}


def test_no_key_gets_a_second_role_or_serves_twice() -> None:
    ledger, release, new = signer(), signer("release"), signer()
    as_ledger = replace(release, role="ledger")
    history = History.of(ring(ledger, release), [(5, entered(ledger, as_ledger))], LOG)
    assert "served before" in history.problems[0][1]
    with pytest.raises(SignatureError, match="two roles"):
        follow(ring(ledger, release), [entered(ledger, as_ledger)["envelope"]])
    again = [(5, entered(ledger, new)), (9, entered(new, ledger, 2))]
    assert "served before" in History.of(ring(ledger), again, LOG).problems[0][1]
    across = [(5, entered(ledger, new)), (9, entered(release, replace(new, role="release")))]
    assert "served before" in History.of(ring(ledger, release), across, LOG).problems[0][1]


def test_a_compromised_key_leads_nobody_to_its_successor() -> None:
    old, new, later = signer(), signer(), signer()
    rotations = [(9, entered(old, new, compromised_from=4)), (12, entered(new, later, 2))]
    history = History.of(ring(old), rotations, LOG)
    assert "bring one that does" in history.problems[0][1]
    assert (ids(history.at(3)), ids(history.at(4)), ids(history.at(20))) == ({old.key_id}, set(), set())
    told = History.of(ring(new), rotations, LOG)
    assert told.problems == ()
    assert (ids(told.at(3)), ids(told.at(4)), ids(told.at(9))) == ({old.key_id}, set(), {new.key_id})
    assert ids(told.in_office(5)) == {old.key_id}
    assert old.key_id not in ids(told.ever)
    assert "entry 9 gave it up as compromised" in told.why("ledger", [old.key_id], 5)
    envelopes = [body["envelope"] for _, body in rotations]
    assert follow(ring(old), envelopes) == (Keyring(()), {old.key_id: ""})
    assert ids(follow(ring(old, new), envelopes)[0]) == {later.key_id}


def test_a_rotation_in_a_swapped_role_makes_no_key_one_of_that_role() -> None:
    """The holder of the release key signs for another role: its own key as successor there, or as predecessor."""
    ledger, release, stranger, later = signer(), signer("release"), signer(), signer("release")
    here, as_ledger = ring(ledger, release), replace(release, role="ledger")

    def told(*bodies: dict[str, Any]) -> Keyring:
        document = {"schema": 1, "rotations": [body["envelope"] for body in bodies]}
        return rotated.over_time(json.dumps(document).encode(), here)

    assert told(entered(stranger, as_ledger)) == here
    both = told(entered(release, later), entered(as_ledger, replace(later, role="ledger")))
    assert (ids(both), ids(both, "release")) == ({ledger.key_id}, {release.key_id, later.key_id})
    with pytest.raises(SignatureError, match="two roles"):
        told(entered(replace(ledger, role="release"), release))
    # What a key that was given up says of the one before it is the thief's word too.
    given_up = entered(ledger, signer(), compromised_from=4)
    assert stranger.key_id not in ids(told(entered(stranger, ledger), given_up))


def test_malformed_rotations_are_refused() -> None:
    old, new = signer(), signer()
    good = json.loads(rotation(old, new).payload())
    for change in (
        {"schema": 2}, {"role": "root"}, {"number": 0}, {"number": True}, {"old": good["new"]}, {"new": {}},
        {"new": good["new"] | {"key_id": "0" * 64}}, {"reason": "x" * 2001}, {"reason": 7}, {"extra": 1},
        {"compromised_from": -1}, {"compromised_from": "4"}, {"log": None}, {"old": None},
    ):  # fmt: skip
        envelope = attest.sign(succession.ROTATION_TYPE, canonical(good | change), old, new)
        with pytest.raises(MalformedError):
            opened(envelope)
    for envelope in (None, {}, {"payload": "e30=", "payloadType": "x", "signatures": []}):
        with pytest.raises((MalformedError, SignatureError)):
            opened(envelope)
