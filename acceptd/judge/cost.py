"""What a model costs by arithmetic over the shapes in its file, held against the policy's limits. Pure.

A trip count alone never rejects: real models carry 2**63 - 1 and end by their condition. Only what is
certain to be allocated or repeated does.
"""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import Cost, Facts
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.model_facts import SATURATED
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import Policy


def cost(model: ModelSpec, facts: Facts, policy: Policy) -> Iterator[Finding]:
    """Yield the findings of one model."""
    if facts.cost is None:
        return
    budget = policy.limits.memory_bytes
    largest = facts.cost.largest
    if largest is not None and largest.bytes > budget:
        message = f"{largest.op_type} makes {_amount(largest.bytes)} bytes; a run may use {budget}"
        shows = {"bytes": largest.bytes, "limit": budget}
        yield make("cost/allocation", "inspect", f"{model.file}: {largest.where}", message, shows)
    elif facts.cost.peak_bytes > budget:
        message = f"{_amount(facts.cost.peak_bytes)} bytes are alive at once; a run may use {budget}"
        shows = {"bytes": facts.cost.peak_bytes, "limit": budget}
        yield make("cost/peak-memory", "inspect", model.file, message, shows)
    yield from _repetitions(model, facts.cost, policy.limits.repetitions)


def _repetitions(model: ModelSpec, found: Cost, limit: int) -> Iterator[Finding]:
    told = False
    for trip in found.trips:
        if trip.certain and trip.steps is not None and trip.steps > limit:
            told = True
            message = (
                f"{trip.op_type} repeats {_amount(trip.trips or 0)} times ({_amount(trip.steps)} steps); the "
            )
            message += f"policy allows {limit} steps"
            shows = {"trips": trip.trips, "steps": trip.steps, "bytes": trip.bytes, "limit": limit}
            yield make("cost/repetition", "inspect", f"{model.file}: {trip.where}", message, shows)
    if not told and found.steps > limit:
        message = f"{_amount(found.steps)} nodes run, with all repetitions; the policy allows {limit}"
        yield make("cost/repetition", "inspect", model.file, message, {"steps": found.steps, "limit": limit})


def _amount(number: int) -> str:
    return "more than 4 * 10^18" if number >= SATURATED else str(number)
