"""Keys: private ones stay private, and a signature counts for its role only."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ConfigError, SignatureError, StateError
from acceptd.record import keys
from acceptd.record.keys import ROLES, Keyring, Signer, create_keys, load_keyring, load_signer

pytestmark = pytest.mark.unit


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_keys_are_private_and_the_keyring_is_public_whatever_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0o077)
    try:
        keyring = create_keys(tmp_path)
    finally:
        os.umask(previous)
    assert mode(tmp_path / "keys") == 0o700
    assert {path.name: mode(path) for path in (tmp_path / "keys").iterdir()} == {
        f"{role}.pem": 0o600 for role in ROLES
    }
    assert mode(tmp_path / "keyring.json") == 0o644
    assert load_keyring(tmp_path) == keyring
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keyring.json", "keys"]
    assert len({key.key_id for key in keyring.keys}) == 3
    for role in ROLES:
        assert load_signer(tmp_path, role).public_key() in keyring.for_role(role)


def test_keys_and_keyring_are_never_overwritten(tmp_path: Path) -> None:
    create_keys(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StateError, match="never overwritten"):
        create_keys(tmp_path)
    for role in ROLES:
        (tmp_path / "keys" / f"{role}.pem").unlink()
    (tmp_path / "keys").rmdir()
    with pytest.raises(StateError, match="never overwritten"):
        create_keys(tmp_path)
    assert (tmp_path / "keyring.json").read_bytes() == before[tmp_path / "keyring.json"]


def test_an_interrupted_creation_is_finished(tmp_path: Path) -> None:
    keyring = create_keys(tmp_path)
    (tmp_path / "keyring.json").unlink()
    assert create_keys(tmp_path) == keyring
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "keys").mkdir(mode=0o700)
    assert len(create_keys(tmp_path / "other").keys) == 3


def test_a_state_directory_that_is_not_there_is_an_error_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be written"):
        create_keys(tmp_path / "missing")
    with pytest.raises(StateError, match="no state directory"):
        load_keyring(tmp_path / "missing")
    with pytest.raises(ConfigError, match="acceptd init"):
        load_signer(tmp_path, "ledger")


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_private_key_that_others_can_touch_is_refused(tmp_path: Path, bits: int) -> None:
    create_keys(tmp_path)
    key = tmp_path / "keys" / "ledger.pem"
    key.chmod(bits)
    with pytest.raises(ConfigError) as told:
        load_signer(tmp_path, "ledger")
    assert str(told.value) == f"{key}: readable or writable by group or others; chmod go-rwx {key}"
    assert load_signer(tmp_path, "release").role == "release"


@pytest.mark.parametrize("bits", [0o750, 0o705, 0o701])
def test_an_open_key_directory_is_refused(tmp_path: Path, bits: int) -> None:
    create_keys(tmp_path)
    (tmp_path / "keys").chmod(bits)
    with pytest.raises(ConfigError, match="by group or others"):
        load_signer(tmp_path, "ledger")


def test_links_and_strangers_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_keys(tmp_path)
    key, ring = tmp_path / "keys" / "ledger.pem", tmp_path / "keyring.json"
    os.rename(key, tmp_path / "moved.pem")
    key.symlink_to(tmp_path / "moved.pem")
    with pytest.raises(ConfigError):
        load_signer(tmp_path, "ledger")
    for bits in (0o664, 0o646):
        ring.chmod(bits)
        with pytest.raises(ConfigError, match=f"^{ring}: writable by group or others; chmod go-w {ring}$"):
            load_keyring(tmp_path)
    ring.chmod(0o644)
    with pytest.raises(ConfigError, match="a stranger"):
        Keyring.load(ring, owners={os.geteuid() + 1})
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    if os.getuid() != 0:  # root's files are nobody's stranger
        with pytest.raises(ConfigError, match="a stranger"):
            load_signer(tmp_path, "release")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_does_not_use_a_key_that_a_user_owns(tmp_path: Path) -> None:
    create_keys(tmp_path)
    os.chown(tmp_path / "keys" / "ledger.pem", 12345, -1)
    with pytest.raises(ConfigError, match="owned by uid 12345"):
        load_signer(tmp_path, "ledger")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("owner", "trusted"), [(0, True), (1111, True), (2222, True), (1, False), (3333, False)])
def test_a_keyring_is_taken_from_root_from_us_and_from_the_states_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, trusted: bool
) -> None:
    keyring = create_keys(tmp_path)
    os.chown(tmp_path, 1111, -1)
    os.chown(tmp_path / "keyring.json", owner, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 2222)
    if trusted:
        assert load_keyring(tmp_path) == keyring
    else:
        with pytest.raises(ConfigError, match=f"owned by uid {owner}, a stranger; chown it to acceptd's user"):
            load_keyring(tmp_path)


def test_a_key_directory_that_is_none_is_refused_by_its_kind(tmp_path: Path) -> None:
    create_keys(tmp_path)
    os.rename(tmp_path / "keys", tmp_path / "moved")
    for make in ((tmp_path / "keys").touch, lambda: (tmp_path / "keys").symlink_to("moved")):
        make()
        with pytest.raises(ConfigError, match=r"keys: not a directory$"):
            load_signer(tmp_path, "ledger")
        (tmp_path / "keys").unlink()


def test_what_is_no_ed25519_key_is_refused(tmp_path: Path) -> None:
    create_keys(tmp_path)
    key = tmp_path / "keys" / "ledger.pem"
    key.write_bytes(b"-----BEGIN PRIVATE KEY-----\nnonsense\n")
    with pytest.raises(ConfigError, match="no private key"):
        load_signer(tmp_path, "ledger")
    key.write_bytes(
        generate_private_key(SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    with pytest.raises(ConfigError, match="not an Ed25519 key"):
        load_signer(tmp_path, "ledger")
    with pytest.raises(ConfigError, match="no role"):
        load_signer(tmp_path, "root")


def test_a_signature_counts_for_its_role_its_key_and_its_bytes_only() -> None:
    ledger, release = (Signer.of(role, Ed25519PrivateKey.generate()) for role in ("ledger", "release"))
    keyring = Keyring.of([ledger.public_key(), release.public_key()])
    signature = ledger.sign(b"data")
    keyring.verify("ledger", ledger.key_id, b"data", signature)
    for role, key_id, data, made in (
        ("release", ledger.key_id, b"data", signature),
        ("ledger", release.key_id, b"data", signature),
        ("ledger", ledger.key_id, b"datum", signature),
        ("ledger", ledger.key_id, b"data", signature[:-1]),
        ("ledger", ledger.key_id, b"data", b""),
        ("ledger", ledger.key_id[:8], b"data", signature),
    ):
        with pytest.raises(SignatureError):
            keyring.verify(role, key_id, data, made)
    with pytest.raises(SignatureError):
        Keyring(()).verify("ledger", ledger.key_id, b"data", signature)


def test_a_private_key_shows_in_no_representation() -> None:
    signer = Signer.of("ledger", Ed25519PrivateKey.generate())
    assert "Private" not in repr(signer)
    assert signer.key_id in repr(signer)


def test_one_key_cannot_have_two_roles() -> None:
    private = Ed25519PrivateKey.generate()
    with pytest.raises(ConfigError, match="two roles"):
        Keyring.of([Signer.of(role, private).public_key() for role in ("ledger", "release")])


def test_malformed_keyrings_are_refused_with_the_reason() -> None:
    signer = Signer.of("ledger", Ed25519PrivateKey.generate())
    good = json.loads(Keyring.of([signer.public_key()]).to_json())
    assert Keyring.parse(json.dumps(good).encode()).keys == (signer.public_key(),)
    other = keys.key_id(b"x" * 32)
    for key in (
        {**good["keys"][0], "role": "root"},
        {**good["keys"][0], "key_id": other},
        {**good["keys"][0], "public": "AA=="},
        {**good["keys"][0], "public": "*"},
        {**good["keys"][0], "extra": "1"},
        "text",
        7,
        None,
    ):
        with pytest.raises(ConfigError):
            Keyring.parse(json.dumps({"schema": 1, "keys": [key]}).encode())
    for data in (
        b"",
        b"[]",
        b"7",
        b"{}",
        b"\xff",
        b'{"schema":2,"keys":[]}',
        b'{"schema":1,"keys":{}}',
        b"[" * 100_000,
    ):
        with pytest.raises(ConfigError):
            Keyring.parse(data)
