"""Both ways, over all curves: the reference signs and acceptd verifies, acceptd signs and the reference verifies.

``python -m oms.interop PYTHON``, with the interpreter of the reference's environment; ``make oms`` makes both.
Every signature is also held against a bundle with one byte changed, a file more and a file less. Ends 1 where one
of the two sees it otherwise.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from acceptd.evidence import BundleFile, Sealed
from acceptd.judge.inventory import SIGNATURE_FILE
from acceptd.judge.model_signature import covered
from acceptd.policy.model_signature import signer
from acceptd.policy.signatures import SignerTable
from acceptd.release import model_signature
from acceptd.signature_facts import SignatureFacts
from sandbox.signature import told

FILES: Final = {
    "bundle.toml": b"schema = 1\n", "model.onnx": b"model", "data/w.bin": b"weights", "data.bin": b"more",
    "\u00e9t\u00e9/ a b.txt": b"text", ".hidden": b"too",
}  # fmt: skip
CHANGES: Final[dict[str, Callable[[Path], object]]] = {
    "as it was signed": lambda _: None,
    "one byte changed": lambda bundle: (bundle / "data/w.bin").write_bytes(b"weightz"),
    "a file more": lambda bundle: (bundle / "more.txt").write_bytes(b""),
    "a file less": lambda bundle: (bundle / "data.bin").unlink(),
}


def write(bundle: Path) -> None:
    """Write the bundle."""
    for name, data in FILES.items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(data)


def sealed(bundle: Path) -> Sealed:
    """Return what sealing would say of the bundle."""
    paths = sorted(path for path in bundle.rglob("*") if path.is_file())
    rows = [
        BundleFile(path=str(path.relative_to(bundle)), sha256=sha256(path.read_bytes()).hexdigest(), size=0)
        for path in paths
    ]
    return Sealed(digest="0" * 64, files=rows, total_bytes=0)


def keys(home: Path, curve: ec.EllipticCurve) -> tuple[Path, Path]:
    """Write a key pair; return private and public PEM."""
    private, public = home / "key.pem", home / "key.pub"
    key = ec.generate_private_key(curve)
    pem = serialization.Encoding.PEM
    private.touch(0o600)
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def main() -> int:
    """Try all of it; print a line each."""
    reference = [sys.argv[1], str(Path(__file__).with_name("reference.py"))]
    bad = 0
    for curve in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()):
        for change, apply in CHANGES.items():
            with tempfile.TemporaryDirectory() as name:
                home, bundle = Path(name), Path(name) / "bundle"
                write(bundle)
                private, public = keys(home, curve)
                inside, outside = bundle / SIGNATURE_FILE, home / "ours.sig"
                subprocess.run([*reference, "sign", str(private), str(bundle), str(inside)], check=True)
                files = [(one.path, one.sha256) for one in sealed(bundle).files]
                outside.write_bytes(model_signature.sign("team/model", files, model_signature.load_key(private)))
                apply(bundle)
                table = SignerTable(name="it", key=public.read_text())
                facts = SignatureFacts.model_validate(told(inside))
                ours = signer(facts, covered(sealed(bundle)), [table]) is not None
                done = subprocess.run(
                    [*reference, "verify", str(public), str(bundle), str(outside)],
                    capture_output=True,
                    check=False,
                )
                theirs = done.returncode == 0
                due = change == "as it was signed"
                bad += (ours, theirs) != (due, due)
                print(f"{curve.name} {change}: acceptd {ours}, model_signing {theirs}; due {due} {facts.problem}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
