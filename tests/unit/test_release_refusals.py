"""Where a promotion, a hold or a start meets something that is not as it left it: what is said, and what stays."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from structlog.testing import capture_logs

from acceptd.errors import AnchorError, ConfigError, LedgerError, ReleaseError, StateError
from acceptd.record import checkpoint
from acceptd.release import channel as channels
from acceptd.release import hold, layout, signers, stated, store, trust
from acceptd.release.book import Row, read_book
from acceptd.release.heads import proved, runtimes_of
from acceptd.release.model_signature import load_key
from acceptd.release.reconcile import reconcile
from acceptd.release.signers import ReleaseKeys
from tests.release_world import MODEL, World, payload_of, replace, resign

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def row_of(world: World) -> Row:
    row = read_book(world.ledger).current(MODEL, "production")
    assert row is not None
    return row


def pin(world: World) -> hold.Held:
    return hold.pin(
        world.state, world.ledger, world.keys, model_id=MODEL, channel="production", wanted="", reason="an audit"
    )


# -- what a start finds


@pytest.mark.parametrize("content", [b"", b'{"pay', b'{"payload":"e30=", "x', b'{\n "keys'])
def test_a_start_takes_away_the_half_written_lists_and_keyrings_of_a_kill(content: bytes, world: World) -> None:
    place = world.state / ".tmp-0123456789abcdef"
    place.write_bytes(content)
    channels.sweep_revocations(world.state)
    assert not place.exists()


@pytest.mark.parametrize("kind", ["another document", "a link", "a directory", "a pipe"])
def test_a_start_leaves_what_another_room_writes_under_such_a_name(kind: str, world: World) -> None:
    place = world.state / ".tmp-0123456789abcdef"
    outside = world.root / "outside"
    outside.write_bytes(b"")
    if kind == "another document":
        place.write_bytes(b"SQLite format 3\0")
    elif kind == "a link":
        place.symlink_to(outside)
    elif kind == "a directory":
        place.mkdir()
    else:
        os.mkfifo(place)
    channels.sweep_revocations(world.state)
    assert os.path.lexists(place)
    assert outside.exists()


def test_a_temporary_name_that_goes_while_a_start_looks_at_it_ends_no_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another room has renamed its file between two looks: the daemon would not have come up."""
    world.released("1.0.0")
    place = world.state / ".tmp-0123456789abcdef"
    place.write_bytes(b"")
    is_link = Path.is_symlink

    def late(self: Path) -> bool:
        found = is_link(self)
        if self == place:
            place.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "is_symlink", late)
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert done.problems == ()
    assert not place.exists()


def test_a_number_that_was_taken_and_never_written_is_burnt_and_the_link_that_led_to_it_turned(
    world: World,
) -> None:
    world.released("1.0.0")
    digest = world.accepted("2.0.0").digest
    body = {"model": MODEL, "channel": "production", "number": 2, "digest": digest, "kind": "promote"}
    world.ledger.append("intent", {**body, "reason": "r", "verdict_seq": 1})
    (world.channel_dir / "000002").mkdir()
    (world.channel_dir / "current").unlink()
    (world.channel_dir / "current").symlink_to("000002")
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert f"{MODEL} production number 2: burnt (release.json was not yet durable)" in done.done
    assert os.readlink(world.channel_dir / "current") == "000001"
    assert not (world.channel_dir / "000002").exists()
    assert world.open().number == 1


def test_the_first_number_of_a_channel_that_is_burnt_leaves_no_link_at_all(world: World) -> None:
    digest = world.accepted("1.0.0").digest
    body = {"model": MODEL, "channel": "production", "number": 1, "digest": digest, "kind": "promote"}
    world.ledger.append("intent", {**body, "reason": "r", "verdict_seq": 1})
    (world.channel_dir / "000001").mkdir(parents=True)
    (world.channel_dir / "current").symlink_to("000001")
    reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert not os.path.lexists(world.channel_dir / "current")


@pytest.mark.parametrize(
    ("why", "words"), [("revoked", "its bundle was revoked"), ("later", "a later number is current")]
)
def test_a_promotion_that_was_cut_off_is_not_finished_over_what_was_decided_since(
    why: str, words: str, world: World
) -> None:
    digest = world.accepted("1.0.0").digest
    body = {"model": MODEL, "channel": "production", "number": 1, "digest": digest, "kind": "promote"}
    world.ledger.append("intent", {**body, "reason": "r", "verdict_seq": 1})
    if why == "revoked":
        world.ledger.append("revoked", {"digest": digest, "reason": "it bites", "rollback": False})
    else:
        other = world.accepted("2.0.0")
        later = {**body, "number": 2, "digest": other.digest}
        world.ledger.append("intent", {**later, "reason": "r", "verdict_seq": other.verdict_seq})
        world.ledger.append("activated", {**later, "release_digest": "ab" * 32})
    reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    [burnt] = world.ledger.entries(kind="abandoned")
    assert (burnt.body["number"], burnt.body["reason"]) == (1, words)


def test_a_revocation_list_without_a_channel_that_asks_for_it_is_carried_out_at_the_next_start(
    world: World,
) -> None:
    """The kill came between the list and the channels: loaders could still be shown the list from before."""
    world.released("1.0.0")
    other = world.accepted("2.0.0")
    before = world.channel_file.read_bytes()
    world.revoke(other.digest)
    replace(world.channel_file, before)
    done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
    assert "the revocation list 1 was carried out" in done.done
    assert payload_of(world.channel_file)["least_revocations"] == 1


# -- holds


def test_a_release_is_pinned_once_and_a_revoked_one_never(world: World) -> None:
    made = world.released("1.0.0")
    first, again = pin(world), pin(world)
    assert (first.new, again.new) == (True, False)
    world.revoke(made.bundle_digest)
    with pytest.raises(ReleaseError, match="is revoked: no loader opens it") as caught:
        pin(world)
    assert caught.value.remedy == "pin another release"


@pytest.mark.parametrize("channel", ["Production", "../x", "current", ""])
def test_a_freeze_of_all_models_names_a_channel_that_could_be_one(channel: str, world: World) -> None:
    with pytest.raises(ReleaseError):
        hold.freeze(world.state, world.ledger, world.keys, model_id="", channel=channel, reason="r")
    assert not list(world.ledger.entries(kind="frozen"))


# -- storage


def test_a_lock_and_a_directory_that_cannot_be_made_are_told_with_their_place(world: World) -> None:
    (world.state / "locks").mkdir(exist_ok=True)
    (world.state / "locks" / "mosaic").write_bytes(b"")
    with pytest.raises(StateError, match=r"locks/mosaic/[^:]*: cannot be"), layout.model_lock(world.state, MODEL):
        pass
    (world.state / "releases").mkdir(exist_ok=True)
    (world.state / "releases" / "mosaic").symlink_to(world.root)
    with pytest.raises(StateError, match="releases/mosaic is a link") as caught:
        layout.make_directories(world.state, "releases/mosaic/evidence-disposition")
    assert caught.value.remedy == "put the directory itself there"


def test_a_part_of_a_stored_bundle_is_verified_and_a_path_that_it_has_not_is_refused(world: World) -> None:
    digest = world.accepted("1.0.0").digest
    (one,) = store.verify_some(world.state, digest, ["model.onnx"])
    assert one.path == "model.onnx"
    with pytest.raises(ReleaseError, match=r"has no file 'weights\.bin'"):
        store.verify_some(world.state, digest, ["model.onnx", "weights.bin"])
    replace(store.path(world.state, digest) / "data/labels.txt", b"other")
    store.verify_some(world.state, digest, ["model.onnx"])
    with pytest.raises(ReleaseError, match="store object") as caught:
        store.verify_some(world.state, digest, ["data/labels.txt"])
    assert "acceptd ledger verify" in caught.value.remedy


# -- the statement of a release


def test_a_statement_that_its_schema_does_not_know_is_not_signed(world: World) -> None:
    world.released("1.0.0")
    document = payload_of(world.release_file(1)) | {"activated_at": 7, "reason": 7}
    row = dataclasses.replace(row_of(world))
    with pytest.raises(ReleaseError, match=f"the statement of release 1 of {MODEL}: "):
        stated.make(world.ledger, world.keys, row, row.release_digest, document)


def test_a_copy_that_cannot_be_written_is_told_with_its_place_and_a_half_one_gives_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released("1.0.0")
    row, folder = row_of(world), world.channel_dir / "000001"
    (folder / "statement.json").unlink(missing_ok=True)
    (folder / ".tmp-statement").write_bytes(b"half")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(stated, "write_all", full)
        with pytest.raises(StateError, match=r"000001/.*: No space left on device"):
            stated.mend(world.state, world.ledger, row)
    assert stated.mend(world.state, world.ledger, row)
    assert not (folder / ".tmp-statement").exists()
    assert not stated.mend(world.state, world.ledger, row), "it is there, and the same"


def test_an_entry_whose_statement_is_no_object_is_damaged(world: World) -> None:
    made = world.accepted("1.0.0")
    body = {"model": MODEL, "channel": "production", "number": 1, "digest": made.digest, "kind": "promote"}
    intent = world.ledger.append("intent", {**body, "reason": "r", "verdict_seq": made.verdict_seq})
    active = world.ledger.append("activated", {**body, "release_digest": "ab" * 32, "statement": "signed"})
    row = Row(MODEL, "production", 1, made.digest, "promote", "r", made.verdict_seq, intent.seq, "")
    row = dataclasses.replace(row, activated_seq=active.seq)
    with pytest.raises(LedgerError, match=f"entry {active.seq} has a statement that is none"):
        stated.mend(world.state, world.ledger, row)


# -- the checkpoint in a release


@pytest.mark.parametrize("error", [AnchorError("the volume is not there"), OSError(5, "Input/output error")])
def test_an_anchor_out_of_reach_holds_up_no_promotion_and_is_said(
    error: Exception, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(checkpoint, "write", away)
    with capture_logs() as said:
        inclusion, note = proved(world.state, world.ledger, world.keys, 0)
    assert (note, inclusion.seq, inclusion.size) == ("", 0, world.ledger.tree().size)
    [line] = [one for one in said if one["event"] == "a release without a signed checkpoint"]
    assert line["reason"] == str(error)


def test_without_the_ledgers_key_a_release_carries_a_proof_and_no_checkpoint(world: World) -> None:
    with capture_logs() as said:
        _, note = proved(world.state, world.ledger, dataclasses.replace(world.keys, ledger=None), 0)
    assert note == ""
    assert [one["reason"] for one in said] == ["the ledger's key is not usable here"]


def test_a_release_records_no_runtime_of_evidence_that_is_not_kept(world: World) -> None:
    profile: Any = type("Profile", (), {"profile": "cpu", "runtime_identity": "a" * 64})()
    assert runtimes_of(world.ledger, "0" * 64, [profile]) == []
    assert runtimes_of(world.ledger, None, [profile]) == []


# -- keys


@pytest.mark.parametrize("how", ["exposed", "half a rotation"])
def test_a_ledger_key_that_cannot_be_used_costs_the_checkpoint_and_not_the_promotion(
    how: str, world: World
) -> None:
    if how == "exposed":
        (world.state / "keys/ledger.pem").chmod(0o644)
    else:
        (world.state / "keys/ledger.next.pem").write_bytes(b"")
    assert signers.sealer(world.state) == (None, None)
    assert ReleaseKeys.load(world.state, world.ledger).ledger is None


def test_keys_without_their_ledger_are_not_loaded(world: World) -> None:
    (world.state / "ledger.sqlite3").rename(world.root / "elsewhere")
    with pytest.raises(StateError, match=r"ledger\.sqlite3 is missing") as caught:
        ReleaseKeys.load(world.state)
    assert caught.value.remedy == f"run `acceptd init --state {world.state}`"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: b"no key at all", "no private key in PEM without a password"),
        (lambda: _pem("ed25519"), "not an ECDSA key"),
        (lambda: _pem("p224"), "curve"),
    ],
    ids=["no key", "another kind", "another curve"],
)
def test_a_key_that_no_model_signature_is_made_with_is_refused(make: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(make())
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=words) as caught:
        load_key(path)
    assert str(path) in caught.value.message


def _pem(kind: str) -> bytes:
    key = ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else ec.generate_private_key(ec.SECP224R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# -- what another ledger, or none, has left


def test_a_release_that_names_another_bundle_than_its_entry_is_not_read(world: World) -> None:
    world.released("1.0.0")
    row = row_of(world)
    with pytest.raises(ReleaseError, match="names another bundle than its ledger entry"):
        channels.verified_release(
            world.state, world.keys, dataclasses.replace(row, digest="0" * 64), row.release_digest
        )
    world.release_file(1).unlink()
    channels.rewrite_release(world.state, row)
    assert not world.release_file(1).exists(), "what is not there is not made up"


def test_where_the_revocation_key_is_not_no_list_is_signed(world: World) -> None:
    assert not channels.countersign_revocations(world.state, world.keys)
    world.revoke(world.released("1.0.0").bundle_digest)
    before = world.revocations_file.read_bytes()
    offline = dataclasses.replace(world.keys, revocation=None)
    with pytest.raises(ReleaseError, match="the revocation key is not here"):
        channels.countersign_revocations(world.state, offline)
    document: Any = None
    with pytest.raises(ReleaseError, match="the revocation key is not here") as caught:
        channels.write_revocations(world.state, offline, document)
    assert caught.value.remedy == "run this where keys/revocation.pem is"
    assert world.revocations_file.read_bytes() == before


def test_a_channel_beyond_an_older_ledger_is_told_when_something_is_revoked(world: World) -> None:
    """Its loaders are not protected by that list: nothing is signed below what they have seen."""
    made = world.released("1.0.0")
    resign(world, world.channel_file, lambda payload: payload.update(number=9), trust.CHANNEL_TYPE)
    done = world.revoke(made.bundle_digest)
    assert any("was it restored from a backup?" in line for line in done.problems)


def test_a_link_in_the_place_of_a_statement_is_replaced_and_what_it_leads_to_is_left(world: World) -> None:
    world.released("1.0.0")
    copy, outside = world.channel_dir / "000001/statement.json", world.root / "outside"
    outside.write_bytes(b"mine")
    copy.unlink(missing_ok=True)
    copy.symlink_to(outside)
    assert stated.mend(world.state, world.ledger, row_of(world))
    assert not copy.is_symlink()
    assert outside.read_bytes() == b"mine"
