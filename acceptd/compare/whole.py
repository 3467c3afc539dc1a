"""Everything that the comparer is asked about the runs of one submission under one profile. Pure.

The acceptance asks it once; a replay builds it for two policies, and asks again only where they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from acceptd.compare import pairing, pairing_prior
from acceptd.compare.golden import with_goldens
from acceptd.compare.task import CompareTask, Slice
from acceptd.evidence import JobRecord, Prior, Vectors
from acceptd.judge.inventory import SetFiles
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy


def whole_task(
    manifest: Manifest,
    contract: Contract | None,
    policy: Policy,
    vectors: Vectors | None,
    jobs: Sequence[JobRecord],
    sets: Sequence[SetFiles],
    prior: Prior | None,
) -> CompareTask:
    """Return goldens, repeats, probes, relations and oracle, ranges and labels, and the current release's answers.

    ``jobs`` are those of one profile and those of none; ``sets`` is the trusted side's list of golden sets.
    """
    task = pairing.pair(manifest, contract, policy, vectors, jobs)
    task = with_goldens(task, manifest, vectors, jobs, sets)
    released = pairing_prior.pairs(manifest, contract, policy, vectors, jobs, prior)
    return task.model_copy(update={"pairs": [*task.pairs, *released]})


def files_of(value: object) -> Iterator[str]:
    """Yield the key of every file that a task, or a part of one, reads values from."""
    if isinstance(value, Slice):
        yield value.file
    elif isinstance(value, BaseModel):
        for _, part in value:
            yield from files_of(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from files_of(part)
