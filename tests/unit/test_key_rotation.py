"""Rotations end to end: the log, what lies on disk, and what loaders and auditors with old keyrings make of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd import key_rotation
from acceptd.errors import (
    ConfigError,
    LedgerError,
    LoaderError,
    ReleaseError,
    RollbackError,
    SignatureError,
    UsageError,
)
from acceptd.record import attest, audit, checkpoint, keystore, succession
from acceptd.record.keys import ROLES, Keyring, Signer, load_keyring, load_signer
from acceptd.record.keystore import open_signer, own_history
from acceptd.record.succession import Rotation
from acceptd.release import audit as release_audit
from acceptd.release import memory, trust
from acceptd.release.reconcile import reconcile
from acceptd.release.signers import Auditor, ReleaseKeys
from tests.release_world import MODEL, World, memory_directory, payload_of, put_signed, resign

pytestmark = pytest.mark.unit


@pytest.fixture
def world() -> Iterator[World]:
    memory.forget()
    made = World(memory_directory())
    yield made
    made.close()
    shutil.rmtree(made.root)


def turn(world: World, role: str, **more: Any) -> key_rotation.Rotated:
    made = key_rotation.rotate(world.state, world.ledger, role, reason="age", terms=world.terms, **more)
    world.keys = ReleaseKeys.load(world.state, world.ledger)
    return made


def seal(world: World) -> bytes:
    history = own_history(world.state, world.ledger)
    made = checkpoint.write(world.state, world.ledger, open_signer(world.state, "ledger"), history)
    return checkpoint.note_of(world.state, made.size)


def differences(world: World, keyring: Keyring | None = None, *notes: bytes) -> list[str]:
    kept = [audit.Kept(f"note {number}", note) for number, note in enumerate(notes)]
    found = [*audit.examine(world.state, keyring, kept).differences]
    anchored = keyring or load_keyring(world.state)
    keys = Auditor.of(keystore.history(world.ledger, anchored))
    found += release_audit.examine(world.state, world.ledger, keys)
    return [f"{one.what} {one.where}: {one.message}" for one in found]


# -- roles


def test_each_key_counts_for_its_role_only(world: World) -> None:
    """A release by the ledger's key, a revocation list by the release key, a checkpoint by the release key."""
    world.released()
    world.revoke("ab" * 32)
    ledger, release = (load_signer(world.state, role) for role in ("ledger", "release"))
    for path, kind, signer, word in (
        (world.channel_file, trust.CHANNEL_TYPE, ledger, "the ledger key, and that is no release key"),
        (
            world.revocations_file,
            trust.REVOCATIONS_TYPE,
            release,
            "the release key, and that is no revocation key",
        ),
    ):
        good = path.read_bytes()
        put_signed(path, payload_of(path), kind, signer)
        with pytest.raises(SignatureError, match=word):
            world.open()
        assert any(path.name in line for line in differences(world))
        path.write_bytes(good)
    digest = world.release_file(1).read_bytes()
    put_signed(world.release_file(1), payload_of(world.release_file(1)), trust.RELEASE_TYPE, ledger)
    changed = trust.sha256(world.release_file(1).read_bytes())
    resign(world, world.channel_file, lambda value: value.update(release_digest=changed), trust.CHANNEL_TYPE)
    memory.forget()
    with pytest.raises(SignatureError, match="the ledger key, and that is no release key"):
        world.open()
    assert digest != world.release_file(1).read_bytes()
    head = world.ledger.tree()
    note = checkpoint.sign(checkpoint.Checkpoint(world.ledger.origin, head.size, head.root), release)
    with pytest.raises(SignatureError, match="no signature by the ledger key"):
        checkpoint.verify(note, own_history(world.state, world.ledger))
    with pytest.raises(LedgerError, match="nothing is signed"):
        checkpoint.write(world.state, world.ledger, release, own_history(world.state, world.ledger))


def test_a_signature_of_one_kind_of_document_is_none_of_another(world: World) -> None:
    """Domain separation: the same key, the same payload, another type; and a note is no envelope's pre-image."""
    world.released()
    envelope = json.loads(world.channel_file.read_bytes())
    envelope["payloadType"] = trust.RELEASE_TYPE
    with pytest.raises(SignatureError, match="does not verify"):
        attest.verify(envelope, trust.RELEASE_TYPE, load_keyring(world.state), "release")
    assert attest.pae(trust.CHANNEL_TYPE, b"").startswith(b"DSSEv1 ")
    assert not checkpoint.Checkpoint(world.ledger.origin, 1, bytes(32)).text().startswith("DSSEv1 ")


# -- the ledger's key


def test_the_log_goes_on_under_a_new_key_and_the_first_keyring_verifies_all_of_it(world: World) -> None:
    world.accepted("1.0.0")
    first, before = load_keyring(world.state), seal(world)
    for _ in range(2):
        turn(world, "ledger")
        world.accepted("2.0.0")
        after = seal(world)
    assert load_keyring(world.state).for_role("ledger") != first.for_role("ledger")
    assert sorted(path.name for path in (world.state / "keys").iterdir()) == [f"{role}.pem" for role in ROLES]
    for keyring in (None, first):
        assert differences(world, keyring, before, after) == []
    middle = Keyring.parse(Keyring.of(world.keys.history.tenures[1].key for _ in "1").to_json())  # type: ignore[union-attr]
    assert (
        differences(world, Keyring.of([*middle.keys, *first.for_role("release"), *first.for_role("revocation")]))
        == []
    )
    stranger = Signer.of("ledger", Ed25519PrivateKey.generate()).public_key()
    assert any("does not know" in line for line in differences(world, Keyring.of([stranger])))


def test_what_a_key_signed_before_its_time_or_after_it_is_found_with_its_entry(world: World) -> None:
    old = load_signer(world.state, "ledger")
    made = turn(world, "ledger")
    new = load_signer(world.state, "ledger")
    late = world.accepted("1.0.0").verdict_seq
    assert differences(world) == []

    def verdict(signer: Signer, submission: str) -> int:
        statement = attest.verdict_statement(
            submission=submission, verdict="rejected", bundle_id=MODEL, bundle_digest="ab" * 32, files=[],
            findings=[], predicate={},
        )  # fmt: skip
        body = {
            "verdict": "rejected", "judged_at": "2026-11-29T11:57:00Z", "reason": "r", "findings": [],
            "model": MODEL, "bundle_digest": "ab" * 32, "statement": attest.sign_statement(statement, signer),
        }  # fmt: skip
        return world.ledger.append("verdict", body, submission=submission).seq

    forged = verdict(old, "late")
    (line,) = differences(world)
    assert line.startswith(f"statement entry {forged}: signed by the ledger key {old.key_id}")
    assert f"gave way at entry {made.seq}" in line
    shared = audit.examine(world.state, workers=2)
    assert [one.where for one in shared.differences] == [f"entry {forged}"], (
        "other processes know the keys as well"
    )
    third = turn(world, "ledger")
    early = verdict(new, "again")
    assert any(
        f"entry {early}" in line and f"gave way at entry {third.seq}" in line for line in differences(world)
    )
    with pytest.raises(LedgerError, match="rotated out"):
        checkpoint.write(world.state, world.ledger, new, own_history(world.state, world.ledger))
    assert late < forged < early


def test_a_promotion_rests_on_no_verdict_of_a_key_out_of_office(world: World) -> None:
    old = load_signer(world.state, "ledger")
    turn(world, "ledger")
    accepted = world.accepted("1.0.0")
    entry = world.ledger.entry(accepted.verdict_seq)
    statement = attest.verify_statement(
        entry.body["statement"], own_history(world.state, world.ledger).at(entry.seq)
    )
    body = entry.body | {"statement": attest.sign_statement(statement, old)}
    forged = world.ledger.append("verdict", body | {}, submission="forged")
    with pytest.raises(ReleaseError, match="no signed verdict"):
        world.promote(replace(accepted, verdict_seq=forged.seq))
    assert world.promote(accepted).number == 1


def test_a_rotation_by_hand_in_the_database_is_no_rotation(world: World) -> None:
    """Somebody who can write to the ledger, and has made a key of their own, but not the old one."""
    keys = [Signer.of("ledger", Ed25519PrivateKey.generate()) for _ in range(2)]
    old = load_signer(world.state, "ledger")
    made = Rotation(
        world.ledger.origin, "ledger", 1, old.public_key(), keys[0].public_key(), "2026-11-29T11:57:00Z", "r"
    )
    envelope = attest.sign(succession.ROTATION_TYPE, made.payload(), replace(keys[1], key_id=old.key_id), keys[0])
    seq = world.ledger.append("key-rotated", made.body(envelope)).seq
    assert any(line.startswith(f"keys entry {seq}: a rotation that does not hold") for line in differences(world))
    with pytest.raises(LedgerError, match=f"entry {seq}"):
        turn(world, "ledger")


# -- the release and the revocation key


def test_loaders_go_on_with_the_old_keyring_and_with_the_new_one(world: World) -> None:
    world.released("1.0.0")
    old, seen = world.state / "old.json", world.root / "seen.json"
    shutil.copy(world.state / "keyring.json", old)
    before = world.open(keys=old, state_file=seen)
    for role in ("release", "revocation", "release"):
        world.revoke("ab" * 32)
        made = turn(world, role)
        assert made.problems == ()
        for keys in (old, world.state / "keyring.json"):
            memory.forget()
            opened = world.open(keys=keys, state_file=seen)
            assert opened.bundle_digest == before.bundle_digest
    assert opened.number == 3
    assert differences(world) == differences(world, Keyring.load(old)) == []
    world.released("2.0.0")
    world.revoke("cd" * 32)
    assert world.open(keys=old, state_file=seen).revocations == 2
    world.rollback()
    assert world.open(keys=old).bundle_digest == before.bundle_digest
    assert differences(world) == []
    (world.state / "rotations.json").unlink()
    memory.forget()
    with pytest.raises(SignatureError):
        world.open(keys=old)
    assert world.open().bundle_digest == before.bundle_digest, "an operator replaced the keyring"


def test_a_pipe_or_a_device_in_the_place_of_rotations_holds_nobody(world: World) -> None:
    turn(world, "release")
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
        (world.state / "rotations.json").unlink()
        make(world.state / "rotations.json")
        assert differences(world) == ["keys rotations.json: is not what the entries say: loaders cannot follow"]
        assert keystore.publish(world.state, world.ledger)


def test_a_loader_takes_no_new_key_on_its_own_word(world: World) -> None:
    world.released()
    old, thief = load_signer(world.state, "release"), Signer.of("release", Ed25519PrivateKey.generate())
    payload = payload_of(world.channel_file)
    put_signed(world.channel_file, payload, trust.CHANNEL_TYPE, thief)
    made = Rotation(
        world.ledger.origin, "release", 1, old.public_key(), thief.public_key(), "2026-11-29T11:57:00Z", "r"
    )
    for signers in ((thief,), (replace(thief, key_id=old.key_id), thief), (thief, thief)):
        envelope = attest.sign(succession.ROTATION_TYPE, made.payload(), *signers)
        (world.state / "rotations.json").write_text(json.dumps({"schema": 1, "rotations": [envelope]}))
        with pytest.raises(SignatureError):
            world.open()
    for text in ("", "[]", '{"schema": 2, "rotations": []}', '{"schema": 1, "rotations": [7]}', "x" * (2 << 20)):
        (world.state / "rotations.json").write_text(text)
        with pytest.raises(LoaderError):
            world.open()


def test_a_key_that_gave_way_and_was_stolen_later_leads_no_loader_that_saw_the_rotation(world: World) -> None:
    world.released()
    old, seen = world.state / "old.json", world.root / "seen.json"
    shutil.copy(world.state / "keyring.json", old)
    stolen, thief = load_signer(world.state, "release"), Signer.of("release", Ed25519PrivateKey.generate())
    turn(world, "release")
    world.open(keys=old, state_file=seen)
    rotations, channel = world.state / "rotations.json", world.channel_file.read_bytes()
    good = rotations.read_bytes()
    made = Rotation(
        world.ledger.origin, "release", 1, stolen.public_key(), thief.public_key(), "2026-11-29T11:57:00Z", "r"
    )
    evil = json.dumps({"schema": 1, "rotations": [succession.seal(made, stolen, thief)]})
    payload = payload_of(world.channel_file) | {"sequence": 2**40}
    tries = ((evil, thief, "leads to another key"), (None, stolen, "is hidden"))
    for remembers in (None, seen):  # this process, and another one by its state file
        for text, signer, word in tries:
            rotations.unlink(missing_ok=True)
            if text is not None:
                rotations.write_text(text)
            put_signed(world.channel_file, payload, trust.CHANNEL_TYPE, signer)
            with pytest.raises(RollbackError, match=word):
                world.open(keys=old, state_file=remembers)
        memory.forget()
    rotations.write_bytes(good)
    world.channel_file.write_bytes(channel)
    assert world.open(keys=old, state_file=seen).number == 2


def test_a_signature_of_the_old_key_alone_counts_no_more(world: World) -> None:
    world.released()
    old = load_signer(world.state, "release")
    turn(world, "release")
    payload = payload_of(world.channel_file) | {"sequence": payload_of(world.channel_file)["sequence"] + 1}
    put_signed(world.channel_file, payload, trust.CHANNEL_TYPE, old)
    with pytest.raises(SignatureError):
        world.open()
    assert any(
        "channel.json: is signed by a release key that did not count" in line for line in differences(world)
    )


def test_a_list_by_a_revocation_key_that_gave_way_is_made_anew_and_nothing_of_it_stays(
    world: World,
) -> None:
    """Put back from before the rotation, or made by who found the old key: it revokes what nobody revoked."""
    bad, good = world.released("1.0.0"), world.released("2.0.0")
    world.revoke(bad.bundle_digest)
    listed, old = payload_of(world.revocations_file), load_signer(world.state, "revocation")
    turn(world, "revocation")
    rows = sorted([*listed["revoked"], listed["revoked"][0] | {"digest": good.bundle_digest}], key=str)
    for payload in (listed, listed | {"revoked": rows, "number": 2**53 - 2}):
        put_signed(world.revocations_file, payload, trust.REVOCATIONS_TYPE, old)
        with pytest.raises(SignatureError):
            world.open()
        assert any("does not count any more" in line for line in differences(world))
        reconcile(world.state, world.ledger, world.keys, terms=world.terms)
        assert (world.open().bundle_digest, differences(world)) == (good.bundle_digest, [])
        assert payload_of(world.revocations_file)["number"] < 10
    put_signed(world.revocations_file, listed | {"revoked": rows}, trust.REVOCATIONS_TYPE, old)
    turn(world, "revocation")
    assert world.open().bundle_digest == good.bundle_digest, "a rotation signs what stands by keys that count"


def test_a_compromised_release_key_leads_no_loader_and_its_late_releases_are_not_trusted(world: World) -> None:
    world.released("1.0.0")
    size = world.ledger.tree().size
    late = world.accepted("2.0.0")
    world.promote(late)
    old = world.state / "old.json"
    shutil.copy(world.state / "keyring.json", old)
    made = turn(world, "release", compromised_from=size)
    assert "expires" in made.problems[0], "number 2 was signed when the thief could sign as well"
    with pytest.raises(SignatureError):
        world.open(keys=old)
    with pytest.raises(SignatureError):
        world.open()
    assert any("000002/release.json" in line for line in differences(world))
    again = world.promote(late)
    assert (again.number, world.open().bundle_digest) == (3, late.digest), "judged by a key that nobody stole"
    back = world.rollback()
    assert (back.number, world.open().bundle_digest) == (4, back.bundle_digest)


def test_a_compromised_ledger_key_is_not_trusted_from_the_stated_entry_on(world: World) -> None:
    first = load_keyring(world.state)
    good, bad = world.accepted("1.0.0"), world.accepted("2.0.0")
    note = seal(world)
    made = turn(world, "ledger", compromised_from=bad.verdict_seq)
    seal(world)
    (line,) = differences(world, None, note)
    assert line.startswith(f"statement entry {bad.verdict_seq}: ")
    assert f"entry {made.seq} gave it up as compromised" in line
    assert any("bring one that does" in line for line in differences(world, first))
    with pytest.raises(ReleaseError, match="no signed verdict"):
        world.promote(bad)
    assert world.promote(good).number == 1


def test_a_rotation_that_cannot_be_changes_nothing(world: World) -> None:
    world.released()
    before = {
        path: path.read_bytes() for path in world.state.rglob("*") if path.is_file() and "ledger" not in path.name
    }
    size = world.ledger.tree().size
    current = load_keyring(world.state).for_role("ledger")[0]
    for role, more, error in (
        ("root", {}, UsageError),
        ("release", {"compromised_from": size + 1}, UsageError),
        ("release", {"compromised_from": 0}, UsageError),
        ("release", {"public": current._replace(role="release")}, ConfigError),
    ):
        with pytest.raises(error):
            turn(world, role, **more)
    with pytest.raises(UsageError):
        key_rotation.rotate(world.state, world.ledger, "release", reason=" ")
    assert world.ledger.tree().size == size
    assert all(path.read_bytes() == data for path, data in before.items())


def test_keys_put_back_from_a_backup_sign_nothing(world: World) -> None:
    shutil.copytree(world.state / "keys", world.root / "backup")
    shutil.copy(world.state / "keyring.json", world.root / "backup" / "keyring.json")
    for role in ("ledger", "release"):
        turn(world, role)
    for role in ("ledger", "release"):
        shutil.copy(world.root / "backup" / f"{role}.pem", world.state / "keys" / f"{role}.pem")
    with pytest.raises(ConfigError, match="not in the keyring"):
        ReleaseKeys.load(world.state, world.ledger)
    shutil.copy(world.root / "backup" / "keyring.json", world.state / "keyring.json")
    with pytest.raises(LedgerError, match="gave way at entry"):
        ReleaseKeys.load(world.state, world.ledger)
    with pytest.raises(LedgerError, match="rotated out"):
        seal(world)
    assert any("keyring.json: names the ledger key" in line for line in differences(world))
