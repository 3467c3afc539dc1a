"""What is compared of held-out sets, and with which limits. Pure: a replay asks the same of stored evidence."""

from __future__ import annotations

from collections.abc import Sequence

from acceptd.compare import pairing
from acceptd.compare.task import CompareTask
from acceptd.evidence import JobRecord, Statistics, Vectors
from acceptd.judge import heldout
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy


def task(
    manifest: Manifest, contract: Contract, policy: Policy, vectors: Vectors, jobs: Sequence[JobRecord]
) -> CompareTask:
    """Return the comparer's task: given against expected, by the contract's kinds and tolerances."""
    runs = [job.model_copy(update={"variant": ""}) for job in jobs if job.kind == "run"]
    whole = pairing.pair(heldout.view(manifest, contract), contract, policy, vectors, runs)
    pairs = [one for one in whole.pairs if one.expected.file == pairing.EXPECTED]
    return CompareTask(pairs=pairs, problems=whole.problems)


def as_heldout(found: Statistics) -> Statistics:
    """Return the comparer's answer as what it is: statistics of held-out sets."""
    rows = [row.model_copy(update={"against": "heldout"}) for row in found.outputs]
    return found.model_copy(update={"outputs": rows, "insensitive": []})
