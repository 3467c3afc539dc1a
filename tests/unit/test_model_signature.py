"""OpenSSF model signatures: only a key of the policy makes one good, whatever a job that took over says of it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from acceptd.cli import release_sign
from acceptd.cli.release import app
from acceptd.errors import ConfigError
from acceptd.evidence import BundleFile, JobRecord, Sealed, SignatureFacts
from acceptd.judge import inventory
from acceptd.judge.model_signature import covered, findings
from acceptd.policy import model_signature as verifying
from acceptd.policy.model_signature import encoded, payload
from acceptd.policy.policy import Policy
from acceptd.policy.signatures import SignaturesTable, SignerTable
from acceptd.record.attest import pae
from acceptd.release import model_signature
from acceptd.replay import needs
from acceptd.statement.told import sections
from sandbox.signature import parse, told
from tests import judge_world as world
from tests.release_world import MODEL, World, memory_directory

pytestmark = pytest.mark.unit
VENDOR = Path(__file__).resolve().parents[1] / "vendor" / "oms"
FILES = {"model.onnx": b"model", "data/w.bin": b"weights", "data.bin": b"more", "bundle.toml": b"schema = 1\n"}
"""What the recorded signatures are of; ``data/w.bin`` and ``data.bin`` sort otherwise by parts than by text."""


def sealed(files: dict[str, bytes]) -> Sealed:
    rows = [BundleFile(path=path, sha256=sha256(data).hexdigest(), size=len(data)) for path, data in files.items()]
    return Sealed(digest="d" * 64, files=rows, total_bytes=0)


def recorded(name: str) -> SignatureFacts:
    return SignatureFacts.model_validate(told(VENDOR / f"{name}.sig"))


def trusted(name: str, **more: Any) -> SignerTable:
    return SignerTable(name=name, key=(VENDOR / f"{name}.pub").read_text(), **more)


def signer(facts: SignatureFacts, held: Sealed, signers: list[SignerTable]) -> SignerTable | None:
    return verifying.signer(facts, covered(held), signers)


@pytest.mark.parametrize("name", ["p256", "p384"])
def test_what_the_reference_implementation_signed_is_verified(name: str) -> None:
    signers = [trusted("p384" if name == "p256" else "p256"), trusted(name)]
    found = signer(recorded(name), sealed({**FILES, "model.sig": b"whatever"}), signers)
    assert found is not None
    assert found.name == name
    assert signer(recorded(name), sealed(FILES), signers[:1]) is None


OTHER: dict[str, dict[str, bytes]] = {
    "one byte": {**FILES, "data/w.bin": b"weightz"},
    "a file more": {**FILES, "more": b""},
    "a hidden file more": {**FILES, ".gitignore": b"the signer's list of what it ignores names it"},
    "a file less": {key: value for key, value in FILES.items() if key != "data.bin"},
    "two exchanged": {**FILES, "data.bin": FILES["data/w.bin"], "data/w.bin": FILES["data.bin"]},
    "a name": {("data2.bin" if key == "data.bin" else key): value for key, value in FILES.items()},
}


@pytest.mark.parametrize("change", OTHER)
def test_it_is_good_for_exactly_these_files(change: str) -> None:
    assert signer(recorded("p256"), sealed(OTHER[change]), [trusted("p256")]) is None


# -- what a job that was taken over can prove ---------------------------------------------------------------

LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another name": lambda facts: facts["layout"].update(name="mosaic/other"),
    "no resources": lambda facts: facts["layout"].update(predicate=["serialization"]),
    "no digests": lambda facts: facts["layout"].update(resource=["name", "algorithm"]),
    "no subject": lambda facts: facts["layout"].update(statement=["_type", "predicateType", "predicate"]),
    "a key twice": lambda facts: facts["layout"].update(subject=["name", "name"]),
    "more is ignored": lambda facts: facts["layout"]["ignore_paths"].append("data"),
    "written otherwise": lambda facts: facts["layout"].update(style="compact"),
    "sorted otherwise": lambda facts: facts["layout"].update(sorted_by="path"),
    "nothing": lambda facts: facts.update(layout=None),
    "zeros": lambda facts: facts.update(r="0", s="0"),
    "the largest numbers": lambda facts: facts.update(r="f" * 132, s="f" * 132),
    "r for s": lambda facts: facts.update(r=facts["s"], s=facts["r"]),
    "a problem beside it": lambda facts: facts.update(problem="none"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_of_the_job_can_only_fail(lie: str) -> None:
    facts = recorded("p256").model_dump()
    LIES[lie](facts)
    assert signer(SignatureFacts.model_validate(facts), sealed(FILES), [trusted("p256")]) is None


def test_a_job_can_sign_with_a_key_of_its_own_and_gains_nothing() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    rows = [(path, sha256(data).hexdigest()) for path, data in FILES.items()]
    facts = SignatureFacts.model_validate(parse(model_signature.sign("m", rows, private)))
    assert signer(facts, sealed(FILES), [trusted("p256"), trusted("p384")]) is None
    own = SignerTable(name="own", key=model_signature._public(private).decode())
    assert signer(facts, sealed(FILES), [trusted("p256"), own]) == own  # the same, where the policy trusts the key


@pytest.mark.parametrize(
    "bad",
    [{"r": "g"}, {"r": "f" * 133}, {"r": 5}, {"surprise": 1}, {"layout": {"name": "x"}}],
)
def test_what_is_not_of_the_form_is_no_evidence(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SignatureFacts.model_validate(recorded("p256").model_dump() | bad)


def test_no_model_may_read_it_and_no_lock_needs_to_name_it() -> None:
    """Weights that lie in model.sig would be covered by no signature."""
    held = sealed({**FILES, "model.sig": b"{}"})
    taken = inventory.take(held, world.a_manifest())
    assert "model.sig" in taken.forbidden
    assert "model.sig" not in taken.visible("model.onnx")
    pattern = world.a_manifest(lambda document: document["models"][0].update(vectors=[{"sets": ["*.sig"]}]))
    assert inventory.take(held, pattern).overlaps == ("model.sig",)
    lock = {path: {"size": len(data), "sha256": sha256(data).hexdigest()} for path, data in FILES.items()}
    del lock["bundle.toml"]
    assert inventory.check_lock(held, world.a_manifest(lambda document: document.update(files=lock))) == []


# -- the parser of the cell -----------------------------------------------------------------------------------


def change(**members: Any) -> bytes:
    bundle = json.loads((VENDOR / "p256.sig").read_bytes())
    bundle["dsseEnvelope"] |= members
    return json.dumps(bundle).encode()


def with_payload(payload_: Any) -> bytes:
    data = payload_ if isinstance(payload_, bytes) else json.dumps(payload_).encode()
    return change(payload=base64.b64encode(data).decode())


def with_signature(der: bytes) -> bytes:
    return change(signatures=[{"sig": base64.b64encode(der).decode()}])


HOSTILE = [
    b"", b"\xff", b"[]", b"{}", b"[" * 100_000, b'{"mediaType": 1}', b"NaN", b'{"a":' * 50_000, b"1" * 10_000,
    change(payload=None), change(payload="*"), change(payloadType="text/plain"), change(signatures=[]),
    change(signatures=[1]), change(signatures=[{}, {}]), change(signatures={"sig": "AAAA"}),
    with_payload([]), with_payload({}), with_payload(b"\xff"), with_payload({"predicateType": "x"}),
    with_payload({"predicateType": "https://model_signing/signature/v1.0", "subject": [1], "predicate": []}),
    with_payload(b'{"predicateType": "https://model_signing/signature/v1.0", "subject": [' + b"[" * 90_000),
    with_signature(b""), with_signature(b"\x30"), with_signature(b"\x30\x81"), with_signature(b"\x30\x02\x02\xff"),
    with_signature(b"\x30\x06\x02\x01\x01\x02\x01\x01x"), with_signature(b"\x30\x06\x02\x01\x01\x02\x7f\x01"),
    json.dumps({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "verificationMaterial": {"certificate": {}}, "dsseEnvelope": {}}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_the_file_holds_the_job_says_a_problem(data: bytes) -> None:
    frame = parse(data)
    assert set(frame) == {"problem"}
    assert SignatureFacts.model_validate(frame).layout is None
    assert frame["problem"].isprintable()


def said(change_: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return the recorded signature with another statement in it."""
    statement = json.loads(
        base64.b64decode(json.loads((VENDOR / "p256.sig").read_bytes())["dsseEnvelope"]["payload"])
    )
    change_(statement)
    return with_payload(statement)


def serialized(statement: dict[str, Any], **members: Any) -> None:
    statement["predicate"]["serialization"] |= members


OTHERS: dict[str, bytes] = {
    "a key more of the statement": said(lambda it: it.update(materials=[])),
    "a key more of the subject": said(lambda it: it["subject"][0].update(uri="x")),
    "a key more of the predicate": said(lambda it: it["predicate"].update(annotations={})),
    "a key more of the serialization": said(lambda it: serialized(it, shard_size=5)),
    "a key more of a file": said(lambda it: it["predicate"]["resources"][0].update(size=5)),
    "files that are text": said(lambda it: it["predicate"].update(resources=["model.onnx"])),
    "a file whose name is a number": said(lambda it: it["predicate"]["resources"][0].update(name=5)),
    "names that are numbers": said(lambda it: it["predicate"].update(resources=[{"name": 5}])),
    "many ignored": said(lambda it: serialized(it, ignore_paths=["x"] * 257)),
    "very long ignored": said(lambda it: serialized(it, ignore_paths=["\U0001f600" * 4096] * 256)),
    "ignored by name": said(lambda it: serialized(it, ignore_paths={"x": 1})),
    "no text": said(lambda it: it["subject"][0].update(name="\ud800")),
    "a number of 67 bytes": with_signature(b"\x30\x48\x02\x43" + b"\xff" * 67 + b"\x02\x01\x01"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_signature_of_another_tool_is_a_problem_and_no_broken_protocol(name: str) -> None:
    """A key more is told as not verified, which holds; a frame that is refused would reject an honest bundle."""
    frame = parse(OTHERS[name])
    assert set(frame) == {"problem"}
    assert SignatureFacts.model_validate(frame).problem.isprintable()


@given(st.integers(0, 1 << 30), st.binary(max_size=3), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_no_mutation_of_a_signature_breaks_the_parser(at: int, put: bytes, cut: int) -> None:
    whole = (VENDOR / "p256.sig").read_bytes()
    at %= len(whole)
    facts = SignatureFacts.model_validate(parse(whole[:at] + put + whole[at + cut :]))
    found = signer(facts, sealed(FILES), [trusted("p256")])
    assert found is None or facts == recorded("p256")


def test_a_statement_that_hides_a_second_key_is_not_written_again() -> None:
    text = base64.b64decode(json.loads((VENDOR / "p256.sig").read_bytes())["dsseEnvelope"]["payload"])
    twice = text.replace(b'"predicateType"', b'"predicateType": "x",\n  "predicateType"', 1)
    assert "form that cannot be written again" in parse(with_payload(twice))["problem"]


@pytest.mark.parametrize("kind", ["link", "pipe", "open to all"])
def test_a_key_that_is_not_its_owners_alone_signs_nothing_and_holds_nobody_up(tmp_path: Path, kind: str) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    own, key = tmp_path / "own.pem", tmp_path / "key.pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    own.write_bytes(private.private_bytes(serialization.Encoding.PEM, *form))
    own.chmod(0o644 if kind == "open to all" else 0o600)
    if kind == "pipe":
        os.mkfifo(key, 0o600)
    elif kind == "link":
        key.symlink_to(own)
    else:
        os.rename(own, key)
    with pytest.raises(ConfigError, match=r"key\.pem"):
        model_signature.load_key(key)


# -- the judge ------------------------------------------------------------------------------------------------


def judged(
    rules: SignaturesTable, facts: SignatureFacts | None, *, present: bool = True, team: str = "mosaic"
) -> list[tuple[str, str, str]]:
    record = JobRecord(kind="signature", ending="done", signature=facts) if facts is not None else None
    files = {**FILES, "model.sig": b"{}"} if present else FILES
    given = world.submission([record] if record else [], sealed=sealed(files), team=team)
    policy = Policy(signatures=rules)
    found = findings(world.a_manifest(), policy, given)
    return [(one.code, one.severity, one.message) for one in found]


@pytest.mark.parametrize(
    ("rules", "facts", "present", "due"),
    [
        ({}, None, False, None),
        ({}, recorded("p256"), True, ("signature/unchecked", "info", "no signer")),
        ({"signers": ["p256"]}, None, False, None),
        ({"signers": ["p256"], "required": True}, None, False, ("signature/missing", "hold", "carries no")),
        ({"signers": ["p256"]}, recorded("p256"), True, ("signature/verified", "info", "by the key of p256")),
        ({"signers": ["p384"]}, recorded("p256"), True, ("signature/invalid", "hold", "no signer of the policy")),
        ({"signers": ["p256"]}, None, True, ("signature/invalid", "hold", "could not be read")),
        ({"signers": ["p256"]}, SignatureFacts(problem="no JSON"), True, ("signature/invalid", "hold", "no JSON")),
    ],
)
def test_what_a_signature_is_worth(
    rules: dict[str, Any], facts: SignatureFacts | None, present: bool, due: tuple[str, str, str] | None
) -> None:
    table = SignaturesTable(**{**rules, "signers": [trusted(name) for name in rules.get("signers", ())]})
    found = judged(table, facts, present=present)
    if due is None:
        assert found == []
    else:
        ((code, severity, message),) = found
        assert (code, severity) == due[:2]
        assert due[2] in message


def test_a_signer_of_one_team_signs_for_no_other() -> None:
    table = SignaturesTable(signers=[trusted("p256", teams=["mosaic"])])
    assert judged(table, recorded("p256"))[0][0] == "signature/verified"
    assert judged(table, recorded("p256"), team="other")[0][0] == "signature/invalid"


def test_a_model_file_of_that_name_is_covered_by_nothing() -> None:
    manifest = world.a_manifest(lambda document: document["models"][0].update(file="model.sig"))
    policy = Policy(signatures=SignaturesTable(signers=[trusted("p256")]))
    given = world.submission(sealed=sealed({**FILES, "model.sig": b"{}"}))
    assert [one.code for one in findings(manifest, policy, given)] == ["signature/invalid"]


def test_the_statement_names_the_signer_that_was_verified() -> None:
    record = JobRecord(kind="signature", ending="done", signature=recorded("p256"))
    given = world.submission([record], sealed=sealed({**FILES, "model.sig": b"{}"}))
    key = trusted("p256").key
    for signers, due in (
        ([trusted("p256")], {"signer": "p256", "key": sha256(key.encode()).hexdigest()}),
        ([trusted("p384")], None),
    ):
        policy = Policy(signatures=SignaturesTable(signers=signers))
        assert sections(given, world.a_manifest(), policy, [], {})["signature"] == due


def test_a_replay_asks_for_a_rerun_only_where_there_is_one() -> None:
    old, new = Policy(), Policy(signatures=SignaturesTable(signers=[trusted("p256")]))
    without = world.submission(sealed=sealed(FILES))
    assert not [one for one in needs.reasons(old, new, without, None) if "signatures" in one]
    with_one = world.submission(sealed=sealed({**FILES, "model.sig": b"{}"}))
    assert [one for one in needs.reasons(old, new, with_one, None) if "signatures" in one]


def pem(key: Any) -> str:
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return str(key.public_key().public_bytes(*form).decode())


@pytest.mark.parametrize(
    "key",
    [
        "", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        pem(ed25519.Ed25519PrivateKey.generate()), pem(rsa.generate_private_key(65537, 1024)),
        pem(ec.generate_private_key(ec.SECP256K1())),
    ],
)  # fmt: skip
def test_a_policy_names_keys_of_this_format_alone(key: str) -> None:
    with pytest.raises(ValidationError, match=r"PEM|ECDSA"):
        SignerTable(name="x", key=key)
    with pytest.raises(ValidationError, match="no signer is named"):
        SignaturesTable(required=True)


def test_the_encoding_is_that_of_dsse() -> None:
    facts = recorded("p256")
    assert facts.layout is not None
    data = payload(facts.layout, [("a", "ab" * 32)])
    assert encoded(data) == pae("application/vnd.in-toto+json", data)


# -- signing what was promoted --------------------------------------------------------------------------------


def test_the_promoted_bundle_is_signed_by_a_key_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = World(memory_directory())
    made = here.released()
    private = ec.generate_private_key(ec.SECP384R1())
    key, output = tmp_path / "key.pem", tmp_path / "model.sig"
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="group or others"):
        model_signature.load_key(key)
    key.chmod(0o600)
    monkeypatch.setattr(release_sign, "require_state", lambda _: SimpleNamespace(state=here.state))
    words = ["sign", MODEL, "--key", str(key), "--output", str(output), "--state", str(here.state)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    rows = {
        str(path.relative_to(made.bundle)): path.read_bytes() for path in made.bundle.rglob("*") if path.is_file()
    }
    own = SignerTable(name="own", key=pem(private))
    assert signer(SignatureFacts.model_validate(told(output)), sealed(rows), [own]) == own
    assert CliRunner().invoke(app, words).exit_code != 0  # never over another file
    output.unlink()
    here.revoke(made.bundle_digest)
    assert "revoked" in str(CliRunner().invoke(app, words).exception)
    assert not output.exists()
    here.close()
