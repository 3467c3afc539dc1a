"""That an entry is in the log, under the newest signed checkpoint that covers it: for command and console."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptd.record import checkpoint
from acceptd.record.keystore import own_history
from acceptd.record.log import InclusionProof, Ledger


@dataclass(frozen=True, slots=True)
class Proven:
    """An inclusion proof, and the signed note over its tree; no note where nothing signed covers the entry yet."""

    origin: str
    proof: InclusionProof
    note: str | None = None
    signed: checkpoint.Checkpoint | None = None

    @property
    def sealed(self) -> bool:
        """Whether a checkpoint of this instance's ledger key, verified, has exactly the proof's size and root."""
        proof, signed = self.proof, self.signed
        return signed is not None and (signed.size, signed.root) == (proof.size, proof.root)

    def as_json(self) -> dict[str, Any]:
        """Return the document that `acceptd ledger proof` prints."""
        return {"schema": 1, "origin": self.origin, **self.proof.as_json(), "checkpoint": self.note}


def prove(state: Path, ledger: Ledger, seq: int) -> Proven:
    """Return the proof of entry ``seq``; raise LedgerError where it, or its checkpoint, does not verify."""
    size = next((size for size in reversed(checkpoint.sizes(state)) if size > seq), None)
    if size is None or size > ledger.tree().size:
        return Proven(ledger.origin, ledger.proof(seq))
    signed = checkpoint.read(state, size, own_history(state, ledger), ledger.origin)
    return Proven(ledger.origin, ledger.proof(seq, size), checkpoint.note_of(state, size).decode(), signed)
