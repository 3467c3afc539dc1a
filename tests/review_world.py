"""A held bundle in quarantine with its verdict, and a person who may decide about it."""

from __future__ import annotations

import base64
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.policy.policy import Policy
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.record import attest
from acceptd.record.canonical import digest, document_digest, plain
from acceptd.record.keys import Signer, load_signer
from acceptd.record.queue import Queue
from acceptd.release.model import SessionOptions
from acceptd.review.desk import Desk
from tests.release_world import MODEL, World

ADA = Signer.of("reviewer", Ed25519PrivateKey.generate())
PEOPLE = Reviewers(reviewers=[Reviewer(name="ada", team="security", key=base64.b64encode(ADA.public).decode())])


def held(
    world: World, *, verdict: str = "held", state: str = "done", drop: tuple[str, ...] = (), **more: Any
) -> tuple[Desk, str]:
    """Leave a bundle in quarantine with its verdict; ``drop``: keys that its entry lacks, not its statement."""
    place, sealed = world.sealed({"model.onnx": b"model" * 50})
    submission = place.name
    (world.state / "quarantine" / submission).mkdir(parents=True)
    place.rename(world.state / "quarantine" / submission / "bundle")
    manifest = {"schema": 1, "bundle": {"id": MODEL, "version": "1.0.0"}, "models": []}
    findings = [
        {
            "code": "contract/missing",
            "severity": "hold",
            "audience": "team",
            "stage": "judge",
            "where": "m",
            "message": "none",
        }
    ]
    facts: dict[str, Any] = {
        "team": "mosaic", "policy_digest": "cd" * 32, "contract_digest": None, "profile_digest": "ef" * 32,
        "profiles_digest": document_digest([]), "manifest_digest": document_digest(manifest),
        "reviewer_findings": {"count": 0, "digest": digest([])}, "judged_at": "2026-11-29T11:57:00Z",
        "reason": "r", "bundle_digest": sealed.digest, **more,
    }  # fmt: skip
    statement = attest.verdict_statement(
        submission=submission, verdict=verdict, bundle_id=MODEL, bundle_digest=sealed.digest,
        files=[(file.path, file.sha256) for file in sealed.files], findings=findings, predicate=plain(facts),
    )  # fmt: skip
    body = {key: value for key, value in facts.items() if key not in drop} | {
        "verdict": verdict, "findings": findings, "model": MODEL,
        "statement": attest.sign_statement(statement, load_signer(world.state, "ledger")),
    }  # fmt: skip
    queue = Queue(world.ledger)
    queue.add(
        submission, team="mosaic", name="d", path="/p", kind="directory", bundle_digest=sealed.digest, model=MODEL
    )
    world.ledger.append("verdict", body, submission=submission)
    document = {"findings": findings}
    queue.advance(
        submission, state, verdict=verdict, sealed=sealed.model_dump(mode="json"), manifest=manifest,
        options=SessionOptions().model_dump(mode="json"), profiles=[], document=document,
    )  # fmt: skip
    return Desk(world.state, world.ledger, Policy(), PEOPLE), submission
