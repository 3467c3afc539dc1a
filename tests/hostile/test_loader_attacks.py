"""What somebody with write access to the release tree may try on a loader; each attack has its own name.

Every test opens the release first, so that the refusal is the attack's doing.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import (
    ConfigError,
    DigestMismatchError,
    ExpiredError,
    LoaderError,
    MalformedError,
    ReleaseNotFoundError,
    RevokedError,
    RollbackError,
    SignatureError,
)
from acceptd.record.canonical import canonical
from acceptd.record.keys import Keyring, Signer
from acceptd.release import channel as channels
from acceptd.release import memory, trust
from tests.release_world import MODEL, World, payload_of, put_signed, replace, repoint, resign

pytestmark = pytest.mark.hostile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def released(world: World) -> World:
    world.released("1.0.0")
    assert world.open().number == 1
    return world


def _resigned(world: World, key: str, value: object) -> None:
    """Change one member of release.json and let the channel name the result, all validly signed."""

    def change(payload: dict[str, Any]) -> None:
        payload[key] = value

    resign(world, world.release_file(1), change, trust.RELEASE_TYPE)
    repoint(world, 1)
    memory.forget()


# Freshness: rollback, replay, freeze, hidden revocation


def test_replay_of_an_older_channel(released: World) -> None:
    old = released.channel_file.read_bytes()
    released.released("2.0.0")
    assert released.open().number == 2
    replace(released.channel_file, old)
    with pytest.raises(RollbackError, match="sequence"):
        released.open()


def test_rollback_of_the_number_by_a_newly_signed_channel(released: World) -> None:
    released.released("2.0.0")
    assert released.open().number == 2
    repoint(released, 1)
    with pytest.raises(RollbackError, match="number 1"):
        released.open()


def test_rollback_in_a_fresh_process_is_noticed_by_the_state_file(released: World, tmp_path: Path) -> None:
    state_file = tmp_path / "loader.json"
    old = released.channel_file.read_bytes()
    released.released("2.0.0")
    assert released.open(state_file=state_file).number == 2
    replace(released.channel_file, old)
    memory.forget()
    assert released.open().number == 1  # the control: without a memory it cannot be noticed
    memory.forget()
    with pytest.raises(RollbackError):
        released.open(state_file=state_file)


def test_damaged_state_file_is_not_a_fresh_start(released: World, tmp_path: Path) -> None:
    state_file = tmp_path / "loader.json"
    released.open(state_file=state_file)
    damaged = {"schema": 1, "revocations": 0, "channels": {f"{MODEL}:production": {}}}
    for text in ("", "{}", json.dumps(damaged), "[" * 9999):
        state_file.write_text(text)
        with pytest.raises(MalformedError):
            released.open(state_file=state_file)


def test_two_releases_under_one_number(released: World) -> None:
    def change(payload: dict[str, Any]) -> None:
        payload["reason"] = "another"

    resign(released, released.release_file(1), change, trust.RELEASE_TYPE)
    repoint(released, 1)
    with pytest.raises(RollbackError, match="another release"):
        released.open()


def test_freeze_past_expiry(released: World) -> None:
    released.now += 3599
    assert released.open().number == 1
    released.now += 1
    with pytest.raises(ExpiredError):
        released.open()


def test_hidden_revocation_by_removing_the_list(released: World) -> None:
    released.revoke("0" * 64)
    assert released.open().revocations == 1
    memory.forget()
    released.revocations_file.unlink()
    with pytest.raises(RollbackError, match="hidden"):
        released.open()


def test_hidden_revocation_by_an_older_list(released: World) -> None:
    released.revoke("0" * 64)
    old = released.revocations_file.read_bytes()
    released.revoke("1" * 64)
    assert released.open().revocations == 2
    memory.forget()
    replace(released.revocations_file, old)
    with pytest.raises(RollbackError, match="hidden"):
        released.open()


def test_hidden_revocation_with_the_channel_of_that_time(released: World) -> None:
    released.revoke("0" * 64)
    old = released.revocations_file.read_bytes(), released.channel_file.read_bytes()
    released.revoke("1" * 64)
    assert released.open().revocations == 2
    replace(released.revocations_file, old[0])
    replace(released.channel_file, old[1])
    with pytest.raises(RollbackError):
        released.open()


def test_hidden_revocation_across_models_of_one_root(released: World) -> None:
    other = "mosaic/other"
    released.promote(released.accepted("9.0.0", model_id=other), model_id=other)
    released.revoke("0" * 64)
    assert released.open().revocations == 1
    fresh = released.state / "releases" / other / "production" / "channel.json"

    def change(payload: dict[str, Any]) -> None:
        payload["least_revocations"] = 0

    resign(released, fresh, change, trust.CHANNEL_TYPE)
    released.revocations_file.unlink()
    with pytest.raises(RollbackError, match="hidden"):
        released.open(other)


def test_revoked_digest(released: World) -> None:
    release = released.open()
    released.revoke(release.bundle_digest)
    with pytest.raises(RevokedError, match="it bites"):
        released.open()


def test_revoked_digest_that_is_also_demanded(released: World) -> None:
    digest = released.open().bundle_digest
    assert released.open(digest=digest).number == 1
    released.revoke(digest)
    with pytest.raises(RevokedError):
        released.open(digest=digest)


# Signatures


def test_stripped_signature(released: World) -> None:
    for path in (released.channel_file, released.release_file(1)):
        kept = path.read_bytes()
        replace(path, canonical({**json.loads(kept), "signatures": []}))
        with pytest.raises((SignatureError, DigestMismatchError)):
            released.open()
        replace(path, kept)
    assert released.open().number == 1


@pytest.mark.parametrize(
    "signature", [b"", b"\0" * 64, b"\0" * 63, b"\0" * 4096], ids=["empty", "zeros", "short", "long"]
)
def test_made_up_signature(released: World, signature: bytes) -> None:
    value = json.loads(released.channel_file.read_bytes())
    value["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    replace(released.channel_file, canonical(value))
    with pytest.raises(SignatureError):
        released.open()


def test_wrong_key(released: World) -> None:
    stranger = Signer.of("release", Ed25519PrivateKey.generate())
    put_signed(released.channel_file, payload_of(released.channel_file), trust.CHANNEL_TYPE, stranger)
    with pytest.raises(SignatureError):
        released.open()


def test_stranger_under_the_key_id_of_a_known_key(released: World) -> None:
    stranger = Signer.of("release", Ed25519PrivateKey.generate())
    put_signed(released.channel_file, payload_of(released.channel_file), trust.CHANNEL_TYPE, stranger)
    value = json.loads(released.channel_file.read_bytes())
    value["signatures"][0]["keyid"] = released.keys.release.key_id
    replace(released.channel_file, canonical(value))
    with pytest.raises(SignatureError):
        released.open()


def test_key_of_another_role(released: World) -> None:
    assert released.keys.revocation is not None
    put_signed(
        released.channel_file, payload_of(released.channel_file), trust.CHANNEL_TYPE, released.keys.revocation
    )
    with pytest.raises(SignatureError):
        released.open()
    memory.forget()


def test_release_key_cannot_write_the_revocation_list(released: World) -> None:
    released.revoke("0" * 64)
    payload = payload_of(released.revocations_file)
    put_signed(released.revocations_file, payload, trust.REVOCATIONS_TYPE, released.keys.release)
    with pytest.raises(SignatureError):
        released.open()


def test_payload_changed_under_its_signature(released: World) -> None:
    value = json.loads(released.channel_file.read_bytes())
    payload = json.loads(base64.b64decode(value["payload"]))
    value["payload"] = base64.b64encode(canonical({**payload, "expires_at": "2099-01-01T00:00:00Z"})).decode()
    replace(released.channel_file, canonical(value))
    with pytest.raises(SignatureError):
        released.open()


def test_signed_document_of_one_kind_in_the_place_of_another(released: World) -> None:
    replace(released.channel_file, released.release_file(1).read_bytes())
    with pytest.raises((SignatureError, MalformedError)):
        released.open()


def test_type_confusion_by_renaming_the_payload_type(released: World) -> None:
    value = json.loads(released.release_file(1).read_bytes())
    replace(released.channel_file, canonical({**value, "payloadType": trust.CHANNEL_TYPE}))
    with pytest.raises(SignatureError):
        released.open()


def test_empty_keyring_verifies_nothing(released: World) -> None:
    with pytest.raises(SignatureError):
        released.open(keys=Keyring(()))


def test_keyring_that_others_may_write(released: World) -> None:
    keyring = released.state / "keyring.json"
    assert released.open(keys=json.loads(keyring.read_text())).number == 1
    keyring.chmod(0o666)
    with pytest.raises(ConfigError, match="writable"):
        released.open()


# Mix and match, identity


def test_mix_and_match_channel_of_another_model(released: World) -> None:
    other = "mosaic/other"
    released.promote(released.accepted("9.0.0", model_id=other), model_id=other)
    assert released.open(other).number == 1
    source = released.state / "releases" / other / "production"
    shutil.rmtree(released.channel_dir)
    shutil.copytree(source, released.channel_dir, symlinks=True)
    memory.forget()
    with pytest.raises(MalformedError, match=other):
        released.open()


def test_mix_and_match_channel_of_another_channel(released: World) -> None:
    canary = released.accepted("2.0.0")
    released.promote(canary, channel="canary")
    shutil.copy(released.channel_dir.parent / "canary" / "channel.json", released.channel_file)
    memory.forget()
    with pytest.raises(MalformedError, match="canary"):
        released.open()


def test_mix_and_match_release_of_another_number(released: World) -> None:
    released.released("2.0.0")
    assert released.open().number == 2
    replace(released.release_file(2), released.release_file(1).read_bytes())
    with pytest.raises(DigestMismatchError, match="is not the one"):
        released.open()


def test_mix_and_match_release_of_another_number_that_the_channel_names(released: World) -> None:
    released.released("2.0.0")
    replace(released.release_file(2), released.release_file(1).read_bytes())
    repoint(released, 2)
    memory.forget()
    with pytest.raises(MalformedError, match="speaks of"):
        released.open()


def test_current_moved_by_hand_moves_no_loader(released: World) -> None:
    released.released("2.0.0")
    (released.channel_dir / "current").unlink()
    os.symlink("000001", released.channel_dir / "current")
    assert released.open().number == 2


def test_digest_refuses_a_validly_signed_newer_release(released: World) -> None:
    first = released.open()
    assert released.open(digest=first.bundle_digest).number == 1
    released.released("2.0.0")
    with pytest.raises(DigestMismatchError, match="demanded"):
        released.open(digest=first.bundle_digest)
    assert released.open().number == 2


@pytest.mark.parametrize("digest", ["a" * 63, "a" * 65, "A" * 64, "", "g" * 64, "a" * 64 + "\n", "а" * 64])
def test_demanded_digest_that_is_none(released: World, digest: str) -> None:
    with pytest.raises(MalformedError, match="64 lowercase"):
        released.open(digest=digest)


@pytest.mark.parametrize(
    "model_id",
    [
        "../state",
        "mosaic/..",
        "mosaic/../x",
        "mosaic",
        "",
        "/etc",
        "mosaic/current",
        "Mosaic/x",
        "mosaic/x\0",
        "a/b/c",
    ],
)
def test_path_in_a_name(released: World, model_id: str) -> None:
    with pytest.raises(ReleaseNotFoundError):
        released.open(model_id)
    with pytest.raises(ReleaseNotFoundError):
        released.open(MODEL, model_id)


# The store


def _object(world: World) -> Path:
    return world.open().path


def _swap_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    replace(path, bytes(data))


def _grow(path: Path) -> None:
    replace(path, path.read_bytes() + b"!")


def _link_out(path: Path) -> None:
    aside = path.parents[3] / "aside"
    shutil.copy(path, aside)
    path.unlink()
    os.symlink(aside, path)


def _hard_link(path: Path) -> None:
    os.link(path, path.parents[3] / "second-name")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("attack", "error"),
    [
        (_swap_byte, DigestMismatchError),
        (_grow, DigestMismatchError),
        (Path.unlink, DigestMismatchError),
        (_link_out, MalformedError),
        (_hard_link, MalformedError),
        (_fifo, MalformedError),
        (_directory, MalformedError),
    ],
)
@pytest.mark.parametrize("name", ["model.onnx", "data/labels.txt"])
def test_swapped_store_object(
    released: World, name: str, attack: Callable[[Path], None], error: type[LoaderError]
) -> None:
    attack(_object(released) / name)
    with pytest.raises(error):
        released.open()


@pytest.mark.parametrize("name", ["extra.bin", "data/extra.bin", "deep/er.bin"])
def test_file_beside_the_promoted_ones(released: World, name: str) -> None:
    path = _object(released) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"weights that nobody saw")
    with pytest.raises(DigestMismatchError, match="never promoted"):
        released.open()


def test_swapped_store_directory(released: World) -> None:
    mine = _object(released)
    released.released("2.0.0")
    theirs = _object(released)
    aside = theirs.with_name("aside")
    theirs.rename(aside)
    mine.rename(theirs)
    with pytest.raises(DigestMismatchError):
        released.open()


def test_missing_store_object(released: World) -> None:
    shutil.rmtree(_object(released))
    with pytest.raises(ReleaseNotFoundError):
        released.open()


@pytest.mark.parametrize("inner", ["", "data"])
def test_store_directory_put_aside_and_back_is_noticed_by_recheck(released: World, inner: str) -> None:
    """The files keep every stamp of theirs while another directory stands in for as long as a session is made."""
    opened = released.open()
    opened.recheck()
    place = opened.path / inner if inner else opened.path
    place.parent.chmod(0o755)
    aside = opened.path.parent / "aside"
    place.rename(aside)
    shutil.copytree(aside, place)
    shutil.rmtree(place)
    aside.rename(place)
    assert opened.file("model.onnx").read_bytes().startswith(b"model 1.0.0")
    with pytest.raises(DigestMismatchError):
        opened.recheck()
    for folder in ("/", "data/"):
        with pytest.raises(ReleaseNotFoundError):
            opened.file(folder)


def test_write_after_load_is_noticed_by_recheck(released: World) -> None:
    release = released.open()
    release.recheck()
    _swap_byte(release.path / "model.onnx")
    with pytest.raises(DigestMismatchError, match="after it was verified"):
        release.recheck()


@pytest.mark.parametrize(
    "place",
    ["releases", "releases/mosaic", "releases/mosaic/evidence-disposition", "{channel}", "store", "store/sha256"],
)
def test_symlink_trick_directory(released: World, place: str) -> None:
    path = released.state / place.format(channel=f"releases/{MODEL}/production")
    aside = released.root / "aside"
    path.rename(aside)
    os.symlink(aside, path)
    with pytest.raises(MalformedError):
        released.open()


@pytest.mark.parametrize("name", ["channel.json", "000001/release.json", "000001", "../../../../revocations.json"])
def test_symlink_trick_file(released: World, name: str) -> None:
    released.revoke("0" * 64)
    assert released.open().number == 1
    path = released.channel_dir / name
    aside = released.root / "aside"
    path.rename(aside)
    os.symlink(aside, path)
    with pytest.raises(MalformedError):
        released.open()


def test_store_object_as_link_to_an_honest_copy(released: World) -> None:
    path = _object(released)
    aside = path.with_name("aside")
    path.rename(aside)
    os.symlink(aside, path)
    with pytest.raises(MalformedError):
        released.open()


def test_fifo_in_the_place_of_a_signed_file_does_not_hang(released: World) -> None:
    released.channel_file.unlink()
    os.mkfifo(released.channel_file)
    with pytest.raises(MalformedError, match="regular"):
        released.open()


# Hostile JSON, before and behind a valid signature

HOSTILE_JSON = {
    "empty": b"",
    "text": b"release",
    "array": b"[]",
    "deep": b"[" * 50_000,
    "deep-object": b'{"payload":' * 50_000,
    "not-utf-8": b'{"a":"\xff"}',
    "nan": b'{"payload":NaN}',
    "duplicate": b'{"payload":"","payload":"","payloadType":"","signatures":[]}',
    "surrogate": b'{"payload":"\\ud800","payloadType":"x","signatures":[]}',
    "wrong-types": b'{"payload":1,"payloadType":2,"signatures":3}',
    "number": b"9" * 5000,
    "not-base64": json.dumps({"payload": "%%", "payloadType": trust.CHANNEL_TYPE, "signatures": []}).encode(),
    "bad-signatures": json.dumps(
        {"payload": "", "payloadType": trust.CHANNEL_TYPE, "signatures": [1, None]}
    ).encode(),
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_malformed_json_as_channel(released: World, name: str) -> None:
    replace(released.channel_file, HOSTILE_JSON[name])
    with pytest.raises(MalformedError):
        released.open()


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_malformed_json_as_revocation_list(released: World, name: str) -> None:
    released.revocations_file.write_bytes(HOSTILE_JSON[name])
    with pytest.raises(MalformedError):
        released.open()


@pytest.mark.parametrize("name", [n for n in HOSTILE_JSON if n not in {"not-base64", "bad-signatures"}])
def test_malformed_json_behind_a_valid_signature(released: World, name: str) -> None:
    put_signed(released.channel_file, HOSTILE_JSON[name], trust.CHANNEL_TYPE, released.keys.release)
    with pytest.raises(MalformedError):
        released.open()


def test_huge_channel_is_measured_before_it_is_read(released: World) -> None:
    os.truncate(released.channel_file, trust.MAX_CHANNEL_BYTES + 1)
    with pytest.raises(MalformedError, match="larger than"):
        released.open()
    os.truncate(released.channel_file, 1 << 40)  # sparse: reading it would never end
    with pytest.raises(MalformedError, match="larger than"):
        released.open()


def test_release_is_compared_by_digest_before_it_is_parsed(released: World) -> None:
    replace(released.release_file(1), b"[" * 50_000)
    with pytest.raises(DigestMismatchError):
        released.open()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("number", 0),
        ("number", -1),
        ("number", "1"),
        ("number", True),
        ("number", 1.0),
        ("number", 10**6),
        ("number", 2**60),
        ("release_digest", "../x"),
        ("release_digest", None),
        ("sequence", 0),
        ("least_revocations", -1),
        ("expires_at", "2099-01-01"),
        ("expires_at", "2099-13-01T00:00:00Z"),
        ("expires_at", 4_000_000_000),
        ("schema", 2),
        ("channel", "../production"),
        ("model_id", ["mosaic"]),
    ],
)
def test_signed_channel_of_another_form(released: World, key: str, value: object) -> None:
    def change(payload: dict[str, Any]) -> None:
        payload[key] = value

    payload = payload_of(released.channel_file)
    change(payload)
    data = json.dumps(payload).encode()
    put_signed(released.channel_file, data, trust.CHANNEL_TYPE, released.keys.release)
    with pytest.raises(MalformedError):
        released.open()


# Inside release.json


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a//b", "a/./b", "", ".", "a\\b", "a\0b", "data/../../../x"]
)
def test_path_in_a_file_name_of_the_release(released: World, path: str) -> None:
    files = payload_of(released.release_file(1))["files"]
    _resigned(released, "files", [{**files[0], "path": path}, *files[1:]])
    with pytest.raises(MalformedError, match="no path inside"):
        released.open()


@pytest.mark.parametrize("value", [[], [1], [{"path": "a"}], "model.onnx", None, {}])
def test_file_list_of_another_form(released: World, value: object) -> None:
    _resigned(released, "files", value)
    with pytest.raises((MalformedError, DigestMismatchError)):
        released.open()


def test_file_list_that_does_not_give_the_bundle_digest(released: World) -> None:
    files = payload_of(released.release_file(1))["files"]
    _resigned(released, "files", files[:1])
    with pytest.raises(DigestMismatchError, match="do not give"):
        released.open()


def test_file_listed_twice(released: World) -> None:
    files = payload_of(released.release_file(1))["files"]
    _resigned(released, "files", [*files, files[0]])
    with pytest.raises(MalformedError, match="twice"):
        released.open()


def test_proof_of_another_promotion(released: World) -> None:
    released.released("2.0.0")
    other = payload_of(released.release_file(2))["inclusion"]
    _resigned(released, "inclusion", other)
    with pytest.raises(DigestMismatchError, match="another promotion"):
        released.open()


@pytest.mark.parametrize("member", ["root", "path", "size", "leaf"])
def test_forged_proof(released: World, member: str) -> None:
    inclusion = dict(payload_of(released.release_file(1))["inclusion"])
    forged = {
        "root": "0" * 64,
        "path": [*inclusion["path"][1:], "0" * 64],
        "size": inclusion["size"] + 40,
        "leaf": base64.b64encode(base64.b64decode(inclusion["leaf"]).replace(b"a test", b"a lie!")).decode(),
    }
    assert forged[member] != inclusion[member]
    _resigned(released, "inclusion", {**inclusion, member: forged[member]})
    with pytest.raises(DigestMismatchError, match="does not hold"):
        released.open()


@pytest.mark.parametrize(
    "value", [1, "x", {}, {"leaf": "%"}, {"leaf": "W10=", "seq": 1, "size": 2, "root": "", "path": []}]
)
def test_proof_of_another_form(released: World, value: object) -> None:
    _resigned(released, "inclusion", value)
    with pytest.raises(MalformedError, match="proof"):
        released.open()


def test_release_without_a_proof_says_so(released: World) -> None:
    assert released.open().proof == "unsigned"
    _resigned(released, "inclusion", None)
    assert released.open().proof == "absent"


# What the daemon signs


def test_refresh_gives_no_new_date_to_a_replayed_channel(released: World) -> None:
    old = released.channel_file.read_bytes()
    released.released("2.0.0")
    replace(released.channel_file, old)
    released.now += 3000
    channels.refresh(
        released.state, released.ledger, released.keys, valid_seconds=3600, clock=lambda: released.now
    )
    assert released.open().number == 2


def test_refresh_signs_nothing_over_a_changed_release(released: World) -> None:
    release = released.release_file(1)
    replace(release, release.read_bytes().replace(b"a", b"b", 1))
    done = channels.refresh(released.state, released.ledger, released.keys, clock=lambda: released.now, force=True)
    assert done.renewed == ()
    assert MODEL in done.problems[0]
    released.now += 3600
    with pytest.raises(ExpiredError):
        released.open()
