"""Keys and signed documents of the fuzz targets, the same in every run: a saved input means the same tomorrow.

What was really signed is remembered (:func:`seal`), so that :func:`genuine` can say of any payload that a
verifier let through whether anybody ever signed it. Nothing here is a secret.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.record import attest, merkle, note
from acceptd.record.canonical import canonical
from acceptd.record.keys import ROLES, Keyring, Signer
from acceptd.release import trust

MODEL: Final = "mosaic/small"
CHANNEL: Final = "production"
LOG: Final = "acceptd/" + "ab" * 16
NOW: Final = 1_795_953_420.0
"""2026-11-29T11:57:00Z, seconds since the epoch."""
AT: Final = "2026-11-29T11:57:00Z"
FILES: Final = {"model.onnx": b"model" * 9, "data/labels.txt": b"accept\nreject\n"}

_signed: set[tuple[str, bytes]] = set()


def signer(role: str, name: str = "") -> Signer:
    """Return the key of a role and a name: the same for the same words, on every machine."""
    return Signer.of(
        role, Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{role}/{name}".encode()).digest())
    )


KEYRING: Final = Keyring.of(signer(role).public_key() for role in ROLES)
ADA: Final = signer("reviewer", "ada")
PEOPLE: Final = Reviewers(
    reviewers=[Reviewer(name="ada", team="security", key=base64.b64encode(ADA.public).decode())]
)


def seal(kind: str, payload: bytes, *signers: Signer) -> bytes:
    """Return the canonical envelope of ``payload``, and remember that it was signed."""
    _signed.add((kind, hashlib.sha256(payload).digest()))
    return unremembered(kind, payload, *signers)


def unremembered(kind: str, payload: bytes, *signers: Signer) -> bytes:
    """Return the envelope of bytes under test, which nobody is to take for one that was signed before."""
    first, *more = signers
    return canonical(attest.sign(kind, payload, first, *more))


def genuine(kind: str, payload: bytes) -> None:
    """Raise AssertionError where a verifier let a payload through that nobody signed as ``kind``."""
    assert (kind, hashlib.sha256(payload).digest()) in _signed, f"{kind}: {payload[:80]!r} was never signed"


def only(errors: type[Exception] | tuple[type[Exception], ...], call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns, None where it raised one of ``errors``; each of them says something."""
    try:
        return call()
    except errors as error:
        assert str(error).strip(), f"{type(error).__name__} without a word"
        return None


def channel(number: int = 2, release_digest: str = "1" * 64, sequence: int = 7) -> dict[str, Any]:
    """Return the payload of a ``channel.json``."""
    return {
        "schema": 1, "model_id": MODEL, "channel": CHANNEL, "number": number, "release_digest": release_digest,
        "least_revocations": 1, "sequence": sequence, "issued_at": AT, "expires_at": "2026-11-29T12:57:00Z",
    }  # fmt: skip


def revocations(number: int = 1, *digests: str) -> dict[str, Any]:
    """Return the payload of a ``revocations.json``."""
    rows = [{"digest": one, "reason": "it bites", "at": AT} for one in digests or ("9" * 64,)]
    return {"schema": 1, "number": number, "issued_at": AT, "revoked": rows}


def release(number: int = 2, files: dict[str, bytes] | None = None, *, proof: bool = True) -> dict[str, Any]:
    """Return the payload of a ``release.json``, with its entry proved below a signed checkpoint."""
    rows = [
        {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for path, data in sorted((files or FILES).items())
    ]
    digest = trust.bundle_digest([trust.File(**row) for row in rows])  # type: ignore[arg-type]
    options = {
        "profile": "cpu", "onnxruntime": "", "libraries": {}, "custom_operators": [],
        "providers": ["CPUExecutionProvider"], "provider_options": {}, "allow_cpu_fallback": False,
        "intra_op_threads": 1, "inter_op_threads": 1, "optimisation": "all", "session_entries": {},
        "runtime_identity": None,
    }  # fmt: skip
    document: dict[str, Any] = {
        "schema": 1, "model_id": MODEL, "channel": CHANNEL, "number": number, "kind": "promote", "reason": "r",
        "released_at": AT, "bundle_digest": digest, "files": rows, "manifest": _manifest(),
        "manifest_by": "submitter", "options": options,
        "profiles": [{"profile": "cpu", "digest": "3" * 64, "runtime_identity": None, "options": options}],
        "runtimes": [{"profile": "other", "record": {"libraries": [{"name": "l", "sha256": "4" * 64}]}}],
        "preprocessing": None, "labels": None, "verdict_seq": 0, "decisions": [], "prior": None, "inclusion": None,
        "checkpoint": "",
    }  # fmt: skip
    if proof:
        body = {"model": MODEL, "channel": CHANNEL, "number": number, "digest": digest}
        leaf = canonical({"type": "intent", "seq": 1, "body": body})
        hashes = [merkle.leaf_hash(b"first"), merkle.leaf_hash(leaf), merkle.leaf_hash(b"third")]
        root = merkle.root_of(hashes)
        document["inclusion"] = {
            "seq": 1, "leaf": base64.b64encode(leaf).decode(), "leaf_hash": hashes[1].hex(), "size": 3,
            "root": root.hex(), "path": [hashes[0].hex(), hashes[2].hex()],
        }  # fmt: skip
        document["checkpoint"] = checkpoint(3, root).decode()
    return document


def checkpoint(size: int = 3, root: bytes = b"\1" * 32, origin: str = LOG) -> bytes:
    """Return a signed note of a tree head."""
    return note.sign(note.Checkpoint(origin, size, root), signer("ledger"))


def _manifest() -> dict[str, Any]:
    output = {"name": "y", "dtype": "float32", "shape": ["batch", 2], "kind": "probabilities"}
    return {
        "schema": 1, "bundle": {"id": MODEL, "version": "1"},
        "models": [{"name": "main", "file": "model.onnx", "inputs": [], "outputs": [output],
                    "vectors": [{"sets": ["set_*"]}]}],
    }  # fmt: skip


def memory_directory() -> Path:
    """Return a new directory in memory where there is one: thousands are made and removed each minute."""
    prefix = f"acceptd-fuzz-{os.getpid()}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=SHARED if SHARED.is_dir() else None))


def sweep(pid: int) -> None:
    """Remove what a process made in :func:`memory_directory` and left."""
    for path in (SHARED if SHARED.is_dir() else Path(tempfile.gettempdir())).glob(f"acceptd-fuzz-{pid}-*"):
        shutil.rmtree(path, ignore_errors=True)


SHARED: Final = Path("/dev/shm")
atexit.register(lambda: sweep(os.getpid()))
