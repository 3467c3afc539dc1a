"""Attacks on the loader by signatures, keys and names: whose word counts, and for what."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import (
    ConfigError,
    DigestMismatchError,
    MalformedError,
    ReleaseNotFoundError,
    SignatureError,
)
from acceptd.record.canonical import canonical
from acceptd.record.keys import Keyring, Signer
from acceptd.release import memory, objects, trust
from tests.release_world import MODEL, World, payload_of, put_signed, replace, repoint

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


def test_rotations_that_are_others_each_time_hold_no_loader(
    released: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = iter(range(1, 1000))

    def read(_root: int, place: str, _limit: int) -> bytes | None:
        return b'{"schema": 1, "rotations": []}' + b" " * next(reads) if place == "rotations.json" else None

    monkeypatch.setattr(objects, "read_if_there", read)
    with pytest.raises(SignatureError):
        released.open(keys=Keyring(()))
    assert next(reads) < 20
