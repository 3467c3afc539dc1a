"""Whether an inference takes longer than the current release's, from runs of both in turn. Pure.

The first round are the two runs that also gave outputs, side by side with others; it can only raise the
suspicion. Then both are timed in alternating jobs, alone. Durations are the jobs' word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from acceptd.evidence import JobRecord
from acceptd.judge.beside import Beside
from acceptd.judge.distribution import Outcome, Ratio, alternating, quantile
from acceptd.judge.performance import warm_samples
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import Policy
from acceptd.policy.regression import Limits

WHAT: Final = "inference, median"


@dataclass(frozen=True, slots=True)
class Latency:
    """Medians in ms, their ratio with its lower bound, and what it shows against ``limit``."""

    outcome: Outcome
    limit: float
    rounds: int
    release: float | None = None
    now: float | None = None
    value: float | None = None
    low: float | None = None


def suspected(records: Sequence[JobRecord], how: Beside, policy: Policy) -> bool:
    """Say whether the first round looks slower than the limit, so that it is worth timing both in turn."""
    first = _first(records, how.model)
    limit = how.limits(policy).latency_ratio
    if first is None or limit is None:
        return False
    return _held([first], limit, policy).outcome == "unclear"


def latency(model: ModelSpec, jobs: Sequence[JobRecord], limits: Limits, policy: Policy) -> Latency | None:
    """Return what all rounds show; None where no limit is set or nothing was timed."""
    first = _first(jobs, model.name)
    limit = limits.latency_ratio
    if first is None or limit is None or not all(first):
        return None
    turns = _turns(jobs, model.name)
    rounds = turns or [first]
    found = _held(rounds, limit, policy)
    older = quantile([ms for _, old in rounds for ms in old], 0.5)
    newer = quantile([ms for new, _ in rounds for ms in new], 0.5)
    return Latency(found.outcome, limit, len(rounds), older, newer, found.value, found.low)


def _held(rounds: Sequence[tuple[Sequence[float], Sequence[float]]], limit: float, policy: Policy) -> Ratio:
    """Hold the rounds against the limit; a few more microseconds of a small model are no matter."""
    found = alternating(rounds, limit, policy.performance.least_samples)
    if found.value is None or found.outcome == "within":
        return found
    older, newer = ([ms for one in rounds for ms in one[side]] for side in (1, 0))
    small = quantile(newer, 0.5) - quantile(older, 0.5) <= policy.regression.latency_slack_ms
    return replace(found, outcome="within") if small else found


def _first(jobs: Sequence[JobRecord], model: str) -> tuple[list[float], list[float]] | None:
    own = [job for job in jobs if job.kind == "run" and job.model == model and job.ending == "done"]
    now = next((job for job in reversed(own) if job.variant == ""), None)
    older = next((job for job in reversed(own) if job.variant == "prior"), None)
    return (warm_samples(now), warm_samples(older)) if now is not None and older is not None else None


def _turns(jobs: Sequence[JobRecord], model: str) -> list[tuple[list[float], list[float]]]:
    """Return the rounds in which the release was timed directly before the submission."""
    own = [job for job in jobs if job.kind == "run" and job.model == model]
    turns = [
        (one, other) for one, other in pairwise(own) if (one.variant, other.variant) == ("timed-prior", "timed")
    ]
    return [
        (warm_samples(other), warm_samples(one))
        for one, other in turns
        if one.ending == other.ending == "done" and warm_samples(one) and warm_samples(other)
    ]
