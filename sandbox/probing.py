"""Probes of one session, in order and within a budget: bounds, draws, single inputs, near ties, then outside.

The bounds of the declared domain are always probed. All the rest shares ``probes.seconds`` of
wall clock, draws at most half of it, so that a slow model costs no more than that; what was left out is
told in a ``probed`` frame. One frame ends what lies inside the domain, a second one what lies outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sandbox import draws
from sandbox.cases import Runner
from sandbox.draws import Probe
from sandbox.load import Load
from sandbox.messages import Channel
from sandbox.ports import Array, Port, ports
from sandbox.probes import Planner
from sandbox.search import NearTies, ranked_output
from sandbox.tensors import PACKED, TensorValue, Value, to_array

KEPT_BYTES: Final = 16 << 20
"""Outputs of draws that are kept for comparison; beyond it no more draws are made."""
MAX_VARIED: Final = 8
"""Inputs that are varied alone."""


@dataclass(slots=True)
class Told:
    """What a ``probed`` frame says."""

    scope: str
    counts: dict[str, int] = field(default_factory=dict)
    left_out: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def leave_out(self, what: str, count: int, reason: str) -> None:
        """Note that so many of ``what`` were not made."""
        if count > 0:
            self.left_out.append({"what": what, "count": count, "reason": reason})

    def count(self, what: str, number: int = 1) -> None:
        """Note that so many of ``what`` were made."""
        self.counts[what] = self.counts.get(what, 0) + number

    def send(self, channel: Channel, seconds: float) -> None:
        """Send the frame."""
        channel.send(
            "probed",
            {
                "scope": self.scope,
                "counts": self.counts,
                "left_out": self.left_out,
                "seconds": seconds,
                **self.facts,
            },
        )


class Budget:
    """Seconds of wall clock from the moment that it is made."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._started = time.monotonic()

    def left(self, share: float = 1.0) -> float:
        """Return the seconds that are left of this share of the budget."""
        return self._seconds * share - (time.monotonic() - self._started)

    def has(self, share: float = 1.0) -> bool:
        """Say whether any are left."""
        return self.left(share) > 0


def probe(runner: Runner, load: Load, channel: Channel) -> None:
    """Make the probes that the order's ``probes`` names: ``all``, ``inside`` the domain, or ``draws`` alone."""
    spec, started = load.spec, time.monotonic()
    told = Told("inside")
    found = ports(load.inputs, load.declared["inputs"], runner.golden_arrays())
    if found is None:
        told.leave_out("probes", 1, "an input is no tensor of a known element type")
        told.send(channel, 0.0)
        return
    largest, mode = int(spec.get("max_elements", 0)), spec.get("probes")
    planner = Planner(found, load.dims, seed=str(spec.get("seed", "")), max_elements=largest)
    made: list[Probe] = []
    if mode != "draws":
        made = list(planner.core())
        _all(runner, (one for one in made if one.in_domain), told, "bounds")
    budget = Budget(float(spec.get("probe_seconds", 0.0)))
    _Inside(runner, load, found, budget, told).run(mode == "draws")
    if mode != "draws":
        values = list(planner.values(quantised=bool(spec.get("quantised"))))
        _within(runner, (one for one in values if one.in_domain), told, "odd values", budget.has)
        made += values
    told.send(channel, time.monotonic() - started)
    if mode not in {"inside", "draws"}:
        beyond, began = Told("outside"), time.monotonic()
        _within(runner, planner.outside(made), beyond, "inputs", budget.has)
        beyond.send(channel, time.monotonic() - began)


def _all(runner: Runner, planned: Iterable[Probe], told: Told, what: str) -> None:
    for one in planned:
        runner.probe(one)
        told.count(what)


def _within(runner: Runner, planned: Iterable[Probe], told: Told, what: str, has: Callable[[], bool]) -> None:
    left = 0
    for one in planned:
        if has():
            runner.probe(one)
            told.count(what)
        else:
            left += 1
    told.leave_out(what, left, "time")


@dataclass(slots=True)
class _Inside:
    """Draws, and what is made of them: one input alone, points between two classes."""

    runner: Runner
    load: Load
    found: list[Port]
    budget: Budget
    told: Told
    first: list[Probe] = field(default_factory=list)

    def run(self, draws_only: bool) -> None:
        spec, outputs = self.load.spec, self.load.declared["outputs"]
        count = int(spec.get("draws", 0))
        seed, largest = str(spec.get("seed", "")), int(spec.get("max_elements", 0))
        drawn_for = spec.get("drawn_for", outputs)  # a run beside another model makes that one's draws
        planned = draws.draws(self.found, drawn_for, self.load.dims, seed=seed, count=count, max_elements=largest)
        batch = draws.batch_of(self.found, drawn_for, self.load.dims)
        ranked = None if draws_only else ranked_output(outputs)
        search: NearTies | None = None
        done = 0
        for one, reason in self._affordable(planned):
            if reason:
                self.told.leave_out("draws", count - done, reason)
                break
            if search is None and ranked is not None:
                search = NearTies(self.found, self._classes(ranked), rows=one.rows, batched=bool(batch))
            got = self.runner.probe(one, repeats=2 if done == 0 and not draws_only else 1)
            done += one.rows
            self.told.count("inferences of draws")
            if len(self.first) < 2:
                self.first.append(one)
            if search is not None and ranked is not None:
                search.add(one, _array(got, ranked))
        self.told.count("draws", done)
        if not draws_only:
            self._single(bool(batch))
            if search is not None:
                self._near_ties(search)

    def _affordable(self, planned: Iterator[Probe]) -> Iterator[tuple[Probe, str]]:
        before = self.runner.kept_bytes
        for one in planned:
            over = self.runner.kept_bytes - before > KEPT_BYTES
            yield one, "outputs" if over else "" if self.budget.has(0.5) else "time"

    def _single(self, batched: bool) -> None:
        """Vary one input of several, the others as in the first draws: is each of them used at all?"""
        varied = [port for port in self.found if port.varied]
        if len(varied) < 2 or not self.first:
            return
        base, other, left = self.first[0].feeds, self.first[-1].feeds, 0
        for number, port in enumerate(varied[:MAX_VARIED]):
            if not self.budget.has(0.6):
                left += 1
                continue
            several = batched and self.first[0].rows > 1
            own = np.roll(base[port.name], 1, axis=0) if several else other[port.name]
            if own.tobytes() != base[port.name].tobytes():
                self.runner.probe(Probe(f"probe:only-{number}:{port.name}", True, base | {port.name: own}))
                self.told.count("single inputs")
        self.told.leave_out("single inputs", left, "time")
        self.told.leave_out("single inputs", len(varied) - MAX_VARIED, f"{MAX_VARIED} are tried")

    def _near_ties(self, search: NearTies) -> None:
        wanted = int(self.load.spec.get("near_ties", 0))
        has = lambda: self.budget.has(0.7)  # noqa: E731 - one share of one budget
        for one in search.find(wanted, has):
            self.runner.probe(one, repeats=2)
            self.told.count("near ties")
        self.told.facts["classes"] = search.classes
        self.told.count("steps of search", search.inferences)
        if search.margin is not None:
            self.told.facts["least_margin"] = search.margin

    def _classes(self, ranked: int) -> Callable[[dict[str, Array]], Array | None]:
        return lambda feeds: _array(self.runner.infer(feeds), ranked)


def _array(values: list[Value] | None, index: int) -> Array | None:
    value = values[index] if values is not None and index < len(values) else None
    if not isinstance(value, TensorValue) or value.dtype == "string" or value.dtype in PACKED:
        return None
    return to_array(value)
