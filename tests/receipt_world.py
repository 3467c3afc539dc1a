"""Receipts without a runtime: of a release that is there, or of none, as many as a test needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from acceptd.release.receipt import Beside, Decision, Durations, Receipt

DIGESTS = {"release": "1" * 64, "bundle": "2" * 64, "runtime": "3" * 64, "input": "4" * 64, "output": "5" * 64,
           "preprocessing": "6" * 64}  # fmt: skip
LABELS = ("accept", "review", "reject")
PLAIN = Receipt(
    request_id="r-1",
    at="2026-11-29T12:00:00Z",
    model_id="mosaic/evidence-disposition",
    model="main",
    channel="production",
    number=1,
    release_digest=DIGESTS["release"],
    bundle_digest=DIGESTS["bundle"],
    profile="cpu",
    runtime_identity=DIGESTS["runtime"],
    preprocessing=None,
    raw_input=None,
    inputs={"features": DIGESTS["input"]},
    outputs={"probabilities": DIGESTS["output"]},
    decision=Decision(0, "probabilities", 0, "accept"),
    beside=Beside(Durations(run=1000), requested_provider="CPUExecutionProvider", provider="CPUExecutionProvider"),
)


def receipt(request_id: str = "r-1", **changes: Any) -> Receipt:
    """Return a receipt; ``run``, ``error``, ``validation``, ``timeout`` and ``label`` reach inside."""
    beside, decision = PLAIN.beside, PLAIN.decision
    if "run" in changes:
        beside = replace(beside, durations=Durations(run=changes.pop("run")))
    for name in ("error", "validation", "timeout"):
        if name in changes:
            beside = replace(beside, **{name: changes.pop(name)})
    if "label" in changes:
        label = changes.pop("label")
        index = None if label is None else LABELS.index(label) if label in LABELS else 7
        decision = Decision(changes.pop("row", 0), "probabilities", index, label)
    return replace(PLAIN, **{"request_id": request_id, "beside": beside, "decision": decision, **changes})


def changed(one: Receipt, change: Callable[[dict[str, Any]], None], *, seal: bool = False) -> bytes:
    """Return the line of a receipt whose JSON was changed; ``seal`` gives it the digest of what it binds then."""
    from acceptd.record.canonical import digest

    document = json.loads(one.line)
    change(document)
    if seal:
        document["digest"] = digest(document["bound"])
    return json.dumps(document).encode()
