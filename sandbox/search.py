"""Low-confidence points and class ties, found by search between draws of different top class.

Between two draws of different top class there is a class boundary: on the straight line from one to the other the
top class changes at least once. Halving, or splitting into as many parts as one inference has rows, closes in on
one change. All points lie between two points of the declared ranges, so they lie inside them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sandbox.draws import Probe
from sandbox.ports import Array, Port

MAX_CLASSES: Final = 16
"""Draws that are kept, one for each top class seen."""
HALVINGS: Final = 15
"""How finely the way from one draw to the other is divided in the end, as a power of two."""
Infer = Callable[[dict[str, Array]], Array | None]
"""Inputs to the one output with classes; None where it cannot be had (then the search ends)."""


def ranked_output(outputs: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the index of the first output whose last axis holds classes, by its declared kind and shape."""
    for index, output in enumerate(outputs):
        shape = output.get("shape") or []
        if output.get("kind") in {"logits", "probabilities"} and shape and shape[-1] != 1:
            return index
    return None


class NearTies:
    """Takes the outputs of draws, then finds points between two of different class."""

    def __init__(self, inputs: Sequence[Port], infer: Infer, *, rows: int, batched: bool) -> None:
        self._ports = [port for port in inputs if port.varied]
        self._names = {port.name for port in self._ports}
        self._batched = batched and rows > 1
        self._rows = rows if self._batched else 1
        self._infer = infer
        self._seen: dict[int, dict[str, Array]] = {}
        self._whole: dict[str, Array] = {}
        self.inferences = 0
        self.margin: float | None = None
        """The least difference between the two top classes that was found."""

    @property
    def classes(self) -> int:
        """Top classes among the draws, at most MAX_CLASSES."""
        return len(self._seen)

    def add(self, probe: Probe, output: Array | None) -> None:
        """Take the output of one inference of draws. What has no classes is left out."""
        if output is None or len(self._seen) >= MAX_CLASSES:
            return
        tops, margins = self._tops(output)
        if not tops.size or (self._batched and tops.size != probe.rows):
            return
        self._least(margins)
        self._whole = self._whole or probe.feeds
        for row, top in enumerate(tops.tolist()):
            if top not in self._seen and len(self._seen) < MAX_CLASSES:
                self._seen[top] = {
                    name: probe.feeds[name][row] if self._batched else probe.feeds[name] for name in self._names
                }

    def find(self, limit: int, may: Callable[[], bool]) -> Iterator[Probe]:
        """Yield up to ``limit`` probes ``probe:tie-N`` at class changes; each step asks ``may`` for leave."""
        for number, (first, second) in enumerate(itertools.pairwise(self._seen)):
            if number >= limit or not may():
                return
            found = self._close_in(first, second, may)
            if found is not None:
                yield Probe(f"probe:tie-{number}", True, found, self._rows)

    def _close_in(self, first: int, second: int, may: Callable[[], bool]) -> dict[str, Array] | None:
        """Return inputs on both sides of a class change (in rows), or the last point that was tried."""
        low, high, feeds = 0.0, 1.0, None
        parts = self._rows + 1
        for _ in range(math.ceil(HALVINGS / math.log2(parts))):
            if not may():
                break
            shares = low + (high - low) * np.arange(1, parts) / parts
            feeds = self._between(first, second, shares)
            output = self._infer(feeds)
            self.inferences += 1
            if output is None:
                return None
            tops, margins = self._tops(output)
            if tops.size != len(shares):
                return None
            self._least(margins)
            changed = np.flatnonzero(tops != first)
            at = int(changed[0]) if changed.size else len(shares)
            low, high = (float(shares[at - 1]) if at else low), (float(shares[at]) if at < len(shares) else high)
        return feeds

    def _between(self, first: int, second: int, shares: Array) -> dict[str, Array]:
        feeds = dict(self._whole)
        for port in self._ports:
            one, other = self._seen[first][port.name], self._seen[second][port.name]
            share = shares.reshape(-1, *(1,) * one.ndim)
            mixed = one.astype(np.float64) * (1 - share) + other.astype(np.float64) * share
            low, high = port.edges()
            mixed = np.clip(np.rint(mixed) if port.whole else mixed, low, high).astype(one.dtype)
            feeds[port.name] = mixed if self._batched else mixed[0]
        return feeds

    def _tops(self, output: Array) -> tuple[Array, Array]:
        """Top class and margin of each row (its first position, where it has several). Empty without classes."""
        none = np.zeros(0, np.int64), np.zeros(0)
        if output.ndim < 1 or output.shape[-1] < 2 or not output.size or output.dtype.kind not in "fV":
            return none
        rows = output.shape[0] if self._batched else 1
        if output.size % (rows * output.shape[-1]):
            return none
        table = output.reshape(rows, -1, output.shape[-1])[:, 0, :].astype(np.float64)
        if not np.isfinite(table).all():
            return none
        two = np.partition(table, -2, axis=1)[:, -2:]
        return table.argmax(axis=1), two[:, 1] - two[:, 0]

    def _least(self, margins: Array) -> None:
        least = float(margins.min())
        self.margin = least if self.margin is None else min(self.margin, least)
