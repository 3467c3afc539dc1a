"""The first step: a claimed drop becomes durable, and its bytes acceptd's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from acceptd import outcomes
from acceptd.acceptance import Acceptance, Drop, Outcome
from acceptd.config import Paths
from acceptd.evidence import JobRecord, Sealed, SealFailure
from acceptd.intake import files
from acceptd.intake.claims import Claim
from acceptd.record.queue import Queue
from acceptd.record.queue import Submission as Row
from acceptd.rules import Rules
from acceptd.tools import Tools
from acceptd.work.hold import Hold

log = structlog.get_logger("acceptd.lifecycle")


@dataclass(frozen=True, slots=True)
class SealedDrop:
    """What was sealed, the job that unpacked it where one did, and how long that took."""

    sealed: Sealed
    unpack: tuple[JobRecord, ...]
    ms: float

    def kept(self) -> dict[str, Any]:
        """Return what the queue keeps of it, by field."""
        return {
            "bundle_digest": self.sealed.digest,
            "sealed": self.sealed.model_dump(mode="json"),
            "unpack": [record.model_dump(mode="json", by_alias=True) for record in self.unpack],
            "seal_ms": self.ms,
        }


@dataclass(frozen=True, slots=True)
class NotSealed:
    """Why a drop cannot be sealed: a refusal, or the ``unpack`` job that ended badly."""

    failure: SealFailure | None = None
    unpack: tuple[JobRecord, ...] = ()
    outer: Mapping[str, str] | None = None
    """The outer walls' states where that job ran."""

    def outcome(self, rules: Rules, submission: str, team: str) -> Outcome:
        """Return what is judged of it: the job's record is the evidence where there is no refusal."""
        if self.failure is None:
            return outcomes.not_unpacked(rules, submission, team, self.unpack, self.outer or {})
        return outcomes.refused(rules, submission, team, self.failure)


def drop_of(row: Row) -> Drop:
    """Return the drop that a submission was."""
    kind: Any = row.kind if row.kind in {"zip", "tar", "tar.gz"} else "directory"
    return Drop(id=row.id, team=row.team, name=row.name, source=Path(row.path), kind=kind)


@dataclass(frozen=True, slots=True)
class Sealing:
    """Claims and seals. It needs a cell (for archives) and no key."""

    paths: Paths
    queue: Queue
    tools: Tools
    on_stage: Callable[[Row, str], None] = lambda _row, _stage: None

    def claim(self, claim: Claim, **fields: Any) -> None:
        """Make a claimed drop durable in the queue; an id that is known already is left as it is."""
        if self.queue.get(claim.id) is not None:
            return
        refusal = claim.refusal.model_dump() if claim.refusal else None
        self.queue.add(
            claim.id,
            team=claim.team,
            name=claim.name,
            path=str(claim.path),
            kind=claim.kind,
            uid=claim.uid,
            refusal=refusal,
            **fields,
        )

    def seal(self, row: Row, rules: Rules, hold: Hold) -> SealedDrop | NotSealed:
        """Seal the drop of a submission. Raises GivenUpError when the work is cancelled."""
        if row.data.get("refusal"):
            return NotSealed(SealFailure(**row.data["refusal"]))
        # A kill while sealing leaves a torn copy: it never had a name that counts, and goes.
        files.remove_tree(self.paths.sealed, row.id)
        acceptance = Acceptance(drop_of(row), rules, self.tools, hold)
        self.on_stage(row, "seal")
        start = time.monotonic()
        sealed, failure = acceptance.seal()
        spent = round((time.monotonic() - start) * 1000, 3)
        if sealed is None:
            return NotSealed(failure, tuple(acceptance.jobs), dict(self.tools.cell.outer_states))
        log.info("sealed", digest=sealed.digest, files=len(sealed.files), bytes=sealed.total_bytes)
        return SealedDrop(sealed, tuple(acceptance.jobs), spent)
