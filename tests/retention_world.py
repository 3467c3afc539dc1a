"""A state directory with bundles of every kind that retention knows, a desk, and a clock that tests turn."""

from __future__ import annotations

import base64
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from acceptd.config import RetentionTable
from acceptd.policy.policy import Policy
from acceptd.policy.reviewers import Reviewer, Reviewers
from acceptd.record.canonical import digest
from acceptd.record.keys import Signer
from acceptd.record.queue import Queue
from acceptd.retention.collect import Collected, collect
from acceptd.retention.look import Look
from acceptd.review import decision as decisions
from acceptd.review.desk import Desk
from tests.release_world import World

DAYS = RetentionTable(
    held_days=10, rejected_days=10, quarantined_days=10, outputs_days=10, superseded_days=10, backups_days=10
)
NOW = datetime.now(UTC).timestamp()
_SIGNER = Signer.of("reviewer", Ed25519PrivateKey.generate())
_ADA = Reviewer(name="ada", team="security", key=base64.b64encode(_SIGNER.public).decode())


def day(number: float) -> str:
    """Return the moment so many days from now: what tests make is made now."""
    return datetime.fromtimestamp(NOW + number * 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kept(World):
    """A world with submissions that wait in quarantine."""

    @property
    def desk(self) -> Desk:
        return Desk(self.state, self.ledger, Policy(), Reviewers(reviewers=[_ADA]))

    def held(self, name: str, *, verdict: str = "held", state: str = "done", folder: str = "quarantine") -> Path:
        """A submission whose verdict and bytes are kept; return where they lie."""
        queue = Queue(self.ledger)
        queue.add(name, team="mosaic", name="drop", path="/p", kind="directory")
        path, sealed = self.sealed({"model.onnx": name.encode() * 100, "deep/er/x": b"x"})
        body: dict[str, Any] = {
            "verdict": verdict, "judged_at": day(0), "reason": "r", "team": "mosaic", "model": "mosaic/m",
            "bundle_digest": sealed.digest, "findings": [], "policy_digest": "cd" * 32, "contract_digest": None,
            "profile_digest": "ef" * 32, "profiles_digest": None,
            "reviewer_findings": {"count": 0, "digest": digest([])},
        }  # fmt: skip
        self.ledger.append("verdict", body, submission=name)
        queue.advance(
            name, state, bundle_digest=sealed.digest, model="mosaic/m", verdict=verdict,
            sealed=sealed.model_dump(mode="json"),
        )  # fmt: skip
        place = self.state / folder / name
        place.mkdir(parents=True)
        os.rename(path, place / "bundle")
        return place

    def decide(self, submission: str, word: decisions.Word, days: float) -> None:
        """Put a decision on record that holds for so many days."""
        desk = self.desk
        said = decisions.about(
            desk.verdict(submission),
            self.ledger.origin,
            word,
            channel="production",
            reason="r",
            expires_at=day(days),
        )
        desk.record(decisions.sign(decisions.to_sign(said), _SIGNER))

    def output(self, content: str, age_days: float = 0) -> Path:
        folder = self.state / "outputs"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / content.ljust(64, "0")
        path.write_bytes(b"kept")
        os.utime(path, (NOW - age_days * 86_400,) * 2)
        return path

    def look(self, days: float) -> Look:
        return Look(self.state, self.ledger, self.desk, day(days))

    def collect(self, days: float, table: RetentionTable = DAYS) -> Collected:
        return collect(self.look(days), table)

    def gone(self, days: float, table: RetentionTable = DAYS) -> list[str]:
        return [one.thing.name for one in self.collect(days, table).gone]
