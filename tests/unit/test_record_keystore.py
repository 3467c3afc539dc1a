"""Where each role's key is, and that a key which the log has given up signs no more."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from acceptd import key_rotation
from acceptd.errors import ConfigError, LedgerError, StateError
from acceptd.record import keystore
from acceptd.record.keys import Signer, create_keys, load_signer
from tests.release_world import World

pytestmark = pytest.mark.unit
PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_role_is_here_by_its_file_or_by_its_command(tmp_path: Path) -> None:
    create_keys(tmp_path)
    assert keystore.is_here(tmp_path, "revocation")
    (tmp_path / "keys/revocation.pem").unlink()
    assert not keystore.is_here(tmp_path, "revocation")
    settings = tmp_path / "acceptd.toml"
    settings.write_text('[keys.revocation]\ncommand = ["sign", "here"]\nseconds = 7.5\n')
    settings.chmod(0o644)
    assert keystore.is_here(tmp_path, "revocation")
    assert keystore.command_of(tmp_path, "revocation") == ["sign", "here"]
    assert keystore.seconds_of(tmp_path, "revocation") == 7.5
    assert keystore.command_of(tmp_path, "release") == []


def test_a_key_that_was_rotated_out_signs_no_more_and_says_since_when(world: World) -> None:
    old = load_signer(world.state, "ledger")
    keystore.in_force(keystore.own_history(world.state, world.ledger), old)
    key_rotation.rotate(world.state, world.ledger, "ledger", reason="age", terms=world.terms)
    found = keystore.own_history(world.state, world.ledger)
    keystore.in_force(found, load_signer(world.state, "ledger"))
    ((entry, _body),) = keystore.rotations(world.ledger)
    with pytest.raises(LedgerError) as told:
        keystore.in_force(found, old)
    assert str(told.value) == f"the ledger key {old.key_id} in keys/ signs no more: it gave way at entry {entry}"


def test_a_key_that_the_log_never_knew_signs_nothing(world: World) -> None:
    stranger = Signer.of("ledger", ed25519.Ed25519PrivateKey.generate())
    with pytest.raises(LedgerError, match="signs no more: the log's keyring does not know it"):
        keystore.in_force(keystore.own_history(world.state, world.ledger), stranger)


def test_rotations_lie_beside_the_log_for_all_to_read_and_are_written_when_they_differ(world: World) -> None:
    path = world.state / "rotations.json"
    assert not keystore.publish(world.state, world.ledger)
    assert not path.exists(), "a log without rotations has none to tell"
    key_rotation.rotate(world.state, world.ledger, "release", reason="age", terms=world.terms)
    due = path.read_bytes()
    ((_seq, body),) = keystore.rotations(world.ledger)
    assert json.loads(due) == {"schema": 1, "rotations": [body["envelope"]]}
    assert not keystore.publish(world.state, world.ledger), "it is what the log says"
    for damaged in (due + b"\n", due[:-1], b""):
        path.unlink()
        path.write_bytes(damaged)
        path.chmod(0o600)
        assert keystore.publish(world.state, world.ledger)
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (due, 0o644)


def test_what_is_no_file_is_told_from_nothing_and_never_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "rotations.json"
    assert keystore.lies_there(tmp_path, b"due") is None
    path.write_bytes(b"x" * 100)
    assert keystore.lies_there(tmp_path, b"due") == b"xxxx", "a byte more than is due is enough to differ"
    path.rename(tmp_path / "else")
    path.symlink_to("else")
    assert keystore.lies_there(tmp_path, b"due") == b""
    path.unlink()
    path.mkdir()
    assert keystore.lies_there(tmp_path, b"due") == b""


def test_a_public_key_is_read_in_each_of_its_forms(tmp_path: Path) -> None:
    private = ed25519.Ed25519PrivateKey.generate()
    raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    path = tmp_path / "key.pub"
    for data in (raw, base64.b64encode(raw) + b"\n", private.public_key().public_bytes(*PEM)):
        path.write_bytes(data)
        found = keystore.read_public(path, "release")
        assert (found.role, found.raw, found.key_id) == ("release", raw, Signer.of("release", private).key_id)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes"),
        (b"x" * 31, "no Ed25519 public key"),
        (base64.b64encode(b"x" * 31), "31 bytes"),
        (ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(*PEM), "not an Ed25519 key"),
        (bytes(32), "no Ed25519 public key"),
    ],
)
def test_what_is_no_public_key_is_refused_with_its_forms(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "key.pub"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=words) as told:
        keystore.read_public(path, "release")
    assert str(told.value).endswith("give PEM, or base64 of its 32 bytes")


def test_a_role_without_file_and_command_names_both(tmp_path: Path) -> None:
    create_keys(tmp_path)
    key = load_signer(tmp_path, "release").public_key()
    with pytest.raises(ConfigError, match=r"keys\.release\.command is not set in .*acceptd\.toml"):
        keystore.behind_command(tmp_path, key)
    (tmp_path / "keys/release.next.pub").write_bytes(key.raw)
    assert keystore.pending(tmp_path, "release")
    with pytest.raises(StateError, match=r"the rotation of the release key was interrupted.*--resume"):
        keystore.open_signer(tmp_path, "release")
    assert keystore.any_signer(tmp_path, "release").key_id == key.key_id
