"""A key behind a command: what it answers is believed only where it verifies, and its bytes are nowhere here."""

from __future__ import annotations

import base64
import os
import sys
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.errors import ConfigError, SigningError, StateError
from acceptd.record import keystore
from acceptd.record.key_command import KeyCommand
from acceptd.record.keys import Signer, create_keys, load_keyring, private_pem

pytestmark = pytest.mark.unit

HONEST = """
import sys
from cryptography.hazmat.primitives.serialization import load_pem_private_key
verb, role, key_id = sys.argv[1:]
assert (verb, role, len(key_id)) == ("sign", "release", 64)
key = load_pem_private_key(open({key!r}, "rb").read(), None)
sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))
"""


def program(path: Path, body: str) -> Path:
    path.write_text(
        f"#!{sys.executable} -S\n{body}" if "cryptography" not in body else f"#!{sys.executable}\n{body}"
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def held(tmp_path: Path) -> tuple[Ed25519PrivateKey, Path]:
    private = Ed25519PrivateKey.generate()
    (tmp_path / "elsewhere.pem").write_bytes(private_pem(private))
    return private, program(tmp_path / "sign", HONEST.format(key=str(tmp_path / "elsewhere.pem")))


def command(private: Ed25519PrivateKey, path: Path, seconds: float = 30.0) -> Signer:
    key = Signer.of("release", private).public_key()
    return KeyCommand.of([str(path)], seconds, key).signer()


def test_an_honest_command_signs_what_its_key_would(held: tuple[Ed25519PrivateKey, Path]) -> None:
    private, path = held
    signer, data = command(private, path), b"x" * 200_000
    assert signer.sign(data) == private.sign(data)
    assert signer.public_key() == Signer.of("release", private).public_key()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('x' * 63)", "no signature by this key"),
        ("import sys; sys.stdout.buffer.write(b'0' * 64)", "no signature by this key"),
        ("pass", "its answer of 0 bytes"),
        ("import sys; sys.stdout.buffer.write(b'0' * 10_000_000)", "its answer of 65 bytes"),
        ("import sys; sys.exit('the token is locked')", "ended with 1: the token is locked"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
    ],
)
def test_a_command_that_does_not_sign_fails_closed_in_one_line(tmp_path: Path, body: str, said: str) -> None:
    signer = command(Ed25519PrivateKey.generate(), program(tmp_path / "sign", body))
    with pytest.raises(SigningError) as caught:
        signer.sign(b"data")
    assert said in caught.value.message
    assert str(tmp_path / "sign") in caught.value.message
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_command_that_floods_is_killed_long_before_its_time(tmp_path: Path, stream: str) -> None:
    body = f"import sys\nwhile True: sys.{stream}.buffer.write(b'0' * (1 << 20))"
    began = time.monotonic()
    with pytest.raises(SigningError, match="it wrote more than 16 MiB"):
        command(Ed25519PrivateKey.generate(), program(tmp_path / "sign", body), 600.0).sign(b"data")
    assert time.monotonic() - began < 60


def test_another_keys_signature_and_one_of_other_bytes_are_not_believed(
    held: tuple[Ed25519PrivateKey, Path], tmp_path: Path
) -> None:
    private, path = held
    with pytest.raises(SigningError, match="no signature by this key"):
        command(Ed25519PrivateKey.generate(), path).sign(b"data")
    replay = private.sign(b"yesterday's data")
    lying = program(tmp_path / "replay", f"import sys; sys.stdout.buffer.write({replay!r})")
    assert command(private, lying).sign(b"yesterday's data") == replay
    with pytest.raises(SigningError, match="no signature by this key"):
        command(private, lying).sign(b"data")


def test_a_slow_command_is_killed_with_what_it_started(tmp_path: Path) -> None:
    body = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        f"    open({str(tmp_path / 'grandchild')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    signer = command(Ed25519PrivateKey.generate(), program(tmp_path / "sign", body), 0.5)
    with pytest.raises(SigningError, match=r"no answer within 0\.5 s"):
        signer.sign(b"data")
    if (tmp_path / "grandchild").exists() and (text := (tmp_path / "grandchild").read_text()):
        gone = False
        for _ in range(1000):
            try:
                os.kill(int(text), 0)
                gone = Path(f"/proc/{text}/stat").read_text().split()[2] == "Z"
            except (ProcessLookupError, FileNotFoundError):
                gone = True
            if gone:
                break
            time.sleep(0.01)
        assert gone


def test_a_command_that_others_could_change_is_refused(tmp_path: Path) -> None:
    path, key = program(tmp_path / "sign", "pass"), Signer.of("release", Ed25519PrivateKey.generate()).public_key()
    path.chmod(0o775)
    with pytest.raises(ConfigError, match="can be written by its group"):
        KeyCommand.of([str(path)], 1.0, key)
    path.chmod(0o644)
    for words, said in (
        ([str(path)], "cannot be executed"),
        (["sign"], "no absolute path of a program"),
        ([str(tmp_path / "missing")], "No such file"),
    ):
        with pytest.raises(ConfigError, match=said):
            KeyCommand.of(words, 1.0, key)
    if os.geteuid() == 0:
        path.chmod(0o755)
        os.chown(path, 12345, -1)
        with pytest.raises(ConfigError, match="is owned by uid 12345"):
            KeyCommand.of([str(path)], 1.0, key)


def test_no_private_byte_of_a_role_behind_a_command_is_in_the_state(
    held: tuple[Ed25519PrivateKey, Path], tmp_path: Path
) -> None:
    private, path = held
    state = tmp_path / "state"
    state.mkdir()
    (state / "acceptd.toml").write_text(f'[keys.release]\ncommand = ["{path}"]\nseconds = 30\n')
    key = Signer.of("release", private).public_key()
    create_keys(state, {"release": key})
    assert sorted(one.name for one in (state / "keys").iterdir()) == ["ledger.pem", "revocation.pem"]
    assert load_keyring(state).for_role("release") == (key,)
    signer = keystore.open_signer(state, "release")
    assert signer.sign(b"data") == private.sign(b"data")
    raw = private.private_bytes_raw()
    for file in state.rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        assert raw not in data
        assert base64.b64encode(raw)[:40] not in data
    (state / "acceptd.toml").write_text("")
    with pytest.raises(ConfigError, match="No such file"):
        keystore.open_signer(state, "release")


def test_one_key_for_two_roles_is_never_made(tmp_path: Path) -> None:
    key = Signer.of("release", Ed25519PrivateKey.generate()).public_key()
    twice = {"release": key, "ledger": type(key)("ledger", key.key_id, key.raw)}
    with pytest.raises(ConfigError, match="two roles"):
        create_keys(tmp_path, twice)
    assert not (tmp_path / "keys").exists()


def test_a_key_file_of_another_role_does_not_serve(tmp_path: Path) -> None:
    create_keys(tmp_path)
    pem = tmp_path / "keys" / "release.pem"
    pem.write_bytes((tmp_path / "keys" / "ledger.pem").read_bytes())
    with pytest.raises(ConfigError, match="not in the keyring"):
        keystore.open_signer(tmp_path, "release")


def test_while_a_rotation_is_half_done_nobody_signs(tmp_path: Path) -> None:
    create_keys(tmp_path)
    (tmp_path / "keys" / "ledger.next.pem").write_bytes(private_pem(Ed25519PrivateKey.generate()))
    with pytest.raises(StateError, match="interrupted") as caught:
        keystore.open_signer(tmp_path, "ledger")
    assert "--resume" in caught.value.remedy
    assert keystore.open_signer(tmp_path, "release").role == "release"


def test_public_keys_are_read_in_every_form_that_is_documented(tmp_path: Path) -> None:
    private = Ed25519PrivateKey.generate()
    public = private.public_key()
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    raw, place = public.public_bytes_raw(), tmp_path / "key.pub"
    for data in (
        raw,
        base64.b64encode(raw) + b"\n",
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ):
        place.write_bytes(data)
        assert keystore.read_public(place, "release").raw == raw
    for data in (b"", raw[:-1], b"*" * 44, b"-----BEGIN PUBLIC KEY-----\nnonsense\n"):
        place.write_bytes(data)
        with pytest.raises(ConfigError, match="no Ed25519 public key"):
            keystore.read_public(place, "release")
