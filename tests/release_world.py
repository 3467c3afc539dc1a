"""A small state directory with real keys, a real ledger and real bundles, for the tests of releases and loader."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptd.evidence import Sealed
from acceptd.intake.seal import seal_directory
from acceptd.loader import OpenRelease, open_release
from acceptd.policy.policy import LimitsTable
from acceptd.record import attest
from acceptd.record.canonical import canonical, document_digest
from acceptd.record.keys import Signer, create_keys, load_signer
from acceptd.record.log import Ledger
from acceptd.release import store, trust
from acceptd.release.model import SessionOptions
from acceptd.release.promote import Release, promote, rollback
from acceptd.release.revoke import Revocation, revoke
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys

MODEL = "mosaic/evidence-disposition"
NOON = 1_795_953_420.0
"""2026-11-29T11:57:00Z, when every test begins."""


@dataclass(frozen=True)
class Accepted:
    """A bundle in the store with the ledger entry that accepted it."""

    digest: str
    manifest: dict[str, Any]
    verdict_seq: int


class World:
    """One instance of acceptd, as far as releases go, with a clock that tests turn."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        self.now = NOON
        self.terms = Terms(valid_seconds=3600, clock=lambda: self.now)
        if not self.state.exists():
            self.state.mkdir(mode=0o700)
            create_keys(self.state)
        self.ledger = Ledger.open(self.state)
        self.keys = ReleaseKeys.load(self.state, self.ledger)
        self._count = len(list(root.glob("drop-*")))

    def close(self) -> None:
        self.ledger.close()

    def sealed(self, files: dict[str, bytes]) -> tuple[Path, Sealed]:
        """Seal ``files`` under the state directory, as the intake does."""
        self._count += 1
        drop = self.root / f"drop-{self._count}"
        for name, data in files.items():
            path = drop / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        target = self.state / "sealed" / f"sub-{self._count}"
        target.parent.mkdir(mode=0o755, exist_ok=True)
        return target, seal_directory(drop, target, LimitsTable())

    def accepted(
        self,
        version: str = "1.0.0",
        *,
        files: dict[str, bytes] | None = None,
        manifest: dict[str, Any] | None = None,
        model_id: str = MODEL,
        verdict: str = "accepted",
        **predicate: Any,
    ) -> Accepted:
        """Put a verdict about a bundle into the ledger, and the bundle into the store."""
        accepted, path, sealed = self.judged(
            version, files=files, manifest=manifest, model_id=model_id, verdict=verdict, **predicate
        )
        store.put(self.state, path, sealed)
        return accepted

    def judged(
        self,
        version: str = "1.0.0",
        *,
        files: dict[str, bytes] | None = None,
        manifest: dict[str, Any] | None = None,
        model_id: str = MODEL,
        verdict: str = "accepted",
        **predicate: Any,
    ) -> tuple[Accepted, Path, Sealed]:
        """Seal a bundle and put a verdict about it into the ledger; return where it lies, and what was sealed."""
        document = manifest or {
            "schema": 1,
            "bundle": {"id": model_id, "version": version},
            "models": [{"name": "main", "file": "model.onnx", "inputs": [], "outputs": []}],
        }
        path, sealed = self.sealed(
            files or {"model.onnx": f"model {version}".encode() * 50, "data/labels.txt": version.encode()}
        )
        submission = f"sub-{self._count}"
        body = self.verdict(sealed, document, submission, model_id=model_id, verdict=verdict, **predicate)
        entry = self.ledger.append("verdict", body, submission=submission)
        return Accepted(sealed.digest, document, entry.seq), path, sealed

    def verdict(
        self,
        sealed: Sealed,
        document: dict[str, Any],
        submission: str,
        *,
        model_id: str,
        verdict: str = "accepted",
        **predicate: Any,
    ) -> dict[str, Any]:
        """Return the body of a verdict's entry, with its signed statement."""
        body: dict[str, Any] = {
            "verdict": verdict, "judged_at": "2026-11-29T11:57:00Z", "reason": "as it is", "findings": [],
            "model": model_id, "bundle_digest": sealed.digest, "manifest_digest": document_digest(document),
        }  # fmt: skip
        statement = attest.verdict_statement(
            submission=submission, verdict=verdict, bundle_id=model_id, bundle_digest=sealed.digest,
            files=[(file.path, file.sha256) for file in sealed.files], findings=[],
            predicate={"manifest_digest": body["manifest_digest"], **predicate},
        )  # fmt: skip
        body["statement"] = attest.sign_statement(statement, load_signer(self.state, "ledger"))
        return body

    def promote(
        self, accepted: Accepted, *, model_id: str = MODEL, channel: str = "production", **more: Any
    ) -> Release:
        return promote(
            self.state, self.ledger, self.keys, model_id=model_id, channel=channel, digest=accepted.digest,
            manifest_json=accepted.manifest, verdict_seq=accepted.verdict_seq,
            options=more.pop("options", SessionOptions()), reason="a test", terms=self.terms, **more,
        )  # fmt: skip

    def released(self, version: str = "1.0.0", **more: Any) -> Release:
        """Accept and promote in one go."""
        return self.promote(self.accepted(version, **more))

    def rollback(self, digest: str | None = None, *, channel: str = "production", **more: Any) -> Release:
        return rollback(
            self.state, self.ledger, self.keys, model_id=MODEL, channel=channel, reason="back", digest=digest,
            terms=self.terms, **more,
        )  # fmt: skip

    def revoke(self, digest: str, *, rollback: bool = False) -> Revocation:
        return revoke(
            self.state,
            self.ledger,
            self.keys,
            digest=digest,
            reason="it bites",
            rollback=rollback,
            terms=self.terms,
        )

    def open(self, model_id: str = MODEL, channel: str = "production", **more: Any) -> OpenRelease:
        keys = more.pop("keys", self.state / "keyring.json")
        return open_release(self.state, model_id, channel, keys=keys, now=lambda: self.now, **more)

    @property
    def channel_dir(self) -> Path:
        return self.state / "releases" / MODEL / "production"

    def release_file(self, number: int) -> Path:
        return self.channel_dir / f"{number:06d}" / "release.json"

    @property
    def channel_file(self) -> Path:
        return self.channel_dir / "channel.json"

    @property
    def revocations_file(self) -> Path:
        return self.state / "revocations.json"


def payload_of(path: Path) -> dict[str, Any]:
    """Return the payload of a signed file, unverified."""
    value = json.loads(attest._open(json.loads(path.read_bytes()))[0])
    assert isinstance(value, dict)
    return value


def put_signed(path: Path, payload: object, kind: str, signer: Signer) -> None:
    """Write ``payload`` as a signed file over ``path``, as somebody with that key could."""
    data = payload if isinstance(payload, bytes) else canonical(payload)
    replace(path, canonical(attest.sign(kind, data, signer)))


def replace(path: Path, data: bytes) -> None:
    """Replace a file that may be read-only."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def resign(
    world: World, path: Path, change: Callable[[dict[str, Any]], None], kind: str, role: str = "release"
) -> None:
    """Change the payload of a signed file and sign it anew with the instance's own key."""
    payload = payload_of(path)
    change(payload)
    signer = world.keys.release if role == "release" else world.keys.revocation
    assert signer is not None
    put_signed(path, payload, kind, signer)


def repoint(world: World, number: int) -> None:
    """Let channel.json, validly signed, name what now lies in ``number``/release.json."""
    digest = trust.sha256(world.release_file(number).read_bytes())

    def change(payload: dict[str, Any]) -> None:
        payload.update(number=number, release_digest=digest, sequence=payload["sequence"] + 1)

    resign(world, world.channel_file, change, trust.CHANNEL_TYPE)


def memory_directory() -> Path:
    """Return a new directory in memory where there is one: these tests kill processes, not the power."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="acceptd-", dir=shared if os.access(shared, os.W_OK) else None))


def survivors(state: Path) -> list[str]:
    """Return temporary names that lie anywhere below the state directory."""
    found: list[str] = []
    for folder, folders, files in os.walk(state):
        found += [f"{folder}/{name}" for name in (*folders, *files) if name.startswith(".tmp-")]
    return found


def types_of(world: World) -> list[str]:
    """Return the types of the entries, without the log's own and the verdicts."""
    return [entry.type for entry in world.ledger.entries() if entry.type not in {"log", "verdict"}]
