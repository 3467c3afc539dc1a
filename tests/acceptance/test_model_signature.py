"""A model signature through the real cell: signed by a key of the policy, and the same with a file more."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from acceptd.release import model_signature
from examples import evidence_classifier as classifier
from tests import commands
from tests.world import ROOT, codes

pytestmark = pytest.mark.acceptance


def test_one_byte_after_the_signature_holds_the_bundle(tmp_path: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    policy = tmp_path / "signed.toml"
    rules = (ROOT / "policies" / "demo.toml").read_text()
    signers = f"[[signatures.signers]]\nname = 'build'\nkey = '''{public.decode()}'''\n"
    policy.write_text(f"{rules}\n[signatures]\nrequired = true\n{signers}")
    suite = tmp_path / "suite"
    suite.mkdir()
    for name in ("good", "changed", "unsigned", "taken-over"):
        bundle = classifier.write_bundle(suite / name, sets=1)
        files = {str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
        rows = [(path, sha256(data).hexdigest()) for path, data in files.items()]
        if name != "unsigned":
            data = model_signature.sign("any", rows, private)
            (bundle / "model.sig").write_bytes(b"[" * 99_999 if name == "taken-over" else data)
        if name == "changed":
            (bundle / "added.txt").write_bytes(b"x")
    lines = tmp_path / "lines.jsonl"
    done = commands.run("check", "--suite", str(suite), "--policy", str(policy), "--jsonl", str(lines))
    assert done.returncode == 3, done.stderr
    found = {Path(row["path"]).name: row for row in map(json.loads, lines.read_text().splitlines())}
    told = {name: codes(row, "reject", "hold") for name, row in found.items()}
    assert told == {
        "good": set(),
        "changed": {"signature/invalid"},
        "unsigned": {"signature/missing"},
        "taken-over": {"signature/invalid"},
    }
    assert "signature/verified" in codes(found["good"])
