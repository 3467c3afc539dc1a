"""A statement is verified with public keys alone, by acceptd and by another DSSE verifier."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey
from typer.testing import CliRunner

from acceptd.cli.verify import verify
from acceptd.record import attest
from acceptd.record.keys import Keyring, Signer
from acceptd.release import trust
from acceptd.release.signers import seal_document
from tests.release_world import World, memory_directory

pytestmark = pytest.mark.unit

DIGEST = "ab" * 32
SIGNERS = {role: Signer.of(role, Ed25519PrivateKey.generate()) for role in ("ledger", "release", "revocation")}


def statement(role: str = "ledger", **more: Any) -> attest.Envelope:
    value = attest.verdict_statement(
        submission="s-1", verdict="accepted", bundle_id="mosaic/m", bundle_digest=DIGEST,
        files=[("model.onnx", "cd" * 32)], findings=[],
        predicate={"bundle_digest": DIGEST, "policy": "strict", **more},
    )  # fmt: skip
    return attest.sign_statement(value, SIGNERS[role])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "keyring.json"
    path.write_bytes(Keyring.of(one.public_key() for one in SIGNERS.values()).to_json())
    path.chmod(0o644)
    return path


def run(tmp_path: Path, key: Path, data: bytes | attest.Envelope, *words: str) -> tuple[int, dict[str, Any]]:
    app = typer.Typer()
    app.command()(verify)
    path = tmp_path / "file.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    done = CliRunner().invoke(app, [str(path), "--key", str(key), "--json", *words])
    return done.exit_code, json.loads(done.stdout) if done.stdout else {}


def test_a_statement_is_verified_without_state_or_database(tmp_path: Path, key: Path) -> None:
    code, told = run(tmp_path, key, statement(), "--digest", DIGEST)
    assert code == 0
    assert (told["verified"], told["kind"], told["verdict"], told["policy"]) == (
        True,
        "verdict",
        "accepted",
        "strict",
    )
    assert [one["name"] for one in told["subjects"]] == ["mosaic/m", "model.onnx"]


def test_a_file_by_a_key_that_came_later_says_what_to_name(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger = Signer.of("ledger", Ed25519PrivateKey.generate())
    old = tmp_path / "old.json"
    old.write_bytes(Keyring.of([stranger.public_key()]).to_json())
    old.chmod(0o644)
    path = tmp_path / "statement.json"
    path.write_text(json.dumps(statement()))
    with pytest.raises(typer.Exit) as end:
        verify(path, old)
    assert end.value.exit_code == 5
    told = capsys.readouterr().err
    assert str(path) in told
    assert "--rotations rotations.json" in told


def test_what_holds_is_told_line_by_line_and_what_does_not_is_of_no_use(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "statement.json"
    path.write_text(json.dumps(statement()))
    verify(path, key)
    told = capsys.readouterr().out
    assert "verdict" in told.split()
    assert DIGEST in told
    path.write_text("{}")
    with pytest.raises(typer.Exit):
        verify(path, key)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"acceptd: {path}: ")
    assert said[1] == ("  → use no part of it; fetch it again from where it was published, and ask who changed it")


def test_any_dsse_verifier_can_do_it() -> None:
    envelope = Envelope.from_dict(statement())
    ours = SIGNERS["ledger"].public_key()
    theirs = SSlibKey(ours.key_id, "ed25519", "ed25519", {"public": ours.raw.hex()})
    assert set(envelope.verify([theirs], 1)) == {ours.key_id}
    assert json.loads(envelope.payload)["predicate"]["verdict"] == "accepted"
    stranger = SIGNERS["release"].public_key()
    with pytest.raises(VerificationError):
        envelope.verify([SSlibKey(ours.key_id, "ed25519", "ed25519", {"public": stranger.raw.hex()})], 1)


def edited(envelope: attest.Envelope) -> attest.Envelope:
    payload = base64.b64decode(envelope["payload"]).replace(b'"accepted"', b'"rejected"')
    return {**envelope, "payload": base64.b64encode(payload).decode()}


def about(subject: object) -> attest.Envelope:
    value = json.loads(base64.b64decode(statement()["payload"]))
    return attest.sign_statement(value | {"subject": [subject]}, SIGNERS["ledger"])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (about({"name": "m", "digest": []}), ()),
        (about([["digest", {}]]), ()),
        (edited(statement()), ()),
        (statement("release"), ()),
        (statement("revocation"), ()),
        ({**statement(), "signatures": []}, ()),
        ({**statement(), "payloadType": trust.RELEASE_TYPE}, ()),
        ({**statement(), "payloadType": "text/plain"}, ()),
        (statement(), ("--digest", "cd" * 32)),
        (b"{}", ()),
        (b"[]", ()),
        (b"\xff", ()),
        (b'{"payload": "", "payload": ""}', ()),
        (b"[" * 100_000, ()),
    ],
)
def test_it_does_not_hold(
    data: bytes | attest.Envelope, words: tuple[str, ...], tmp_path: Path, key: Path
) -> None:
    code, told = run(tmp_path, key, data, *words)
    assert (code, told["verified"]) == (5, False)
    assert told["error"]


def test_release_channel_and_revocations_are_verified_too(tmp_path: Path) -> None:
    world = World(memory_directory())
    made = world.released()
    keyring = world.state / "keyring.json"
    for path, kind in ((world.release_file(1), "release"), (world.channel_file, "channel")):
        code, told = run(tmp_path, keyring, path.read_bytes())
        assert (code, told["kind"], told["number"]) == (0, kind, 1)
    assert run(tmp_path, keyring, world.release_file(1).read_bytes(), "--digest", made.bundle_digest)[0] == 0
    world.revoke(made.bundle_digest)
    assert run(tmp_path, keyring, world.revocations_file.read_bytes())[1]["kind"] == "revocations"
    world.close()


def test_a_release_signed_by_the_ledgers_key_is_none(tmp_path: Path, key: Path) -> None:
    from acceptd.policy.manifest import Tolerance

    forged = seal_document(Tolerance(), trust.RELEASE_TYPE, SIGNERS["ledger"])
    assert run(tmp_path, key, forged)[0] == 5
