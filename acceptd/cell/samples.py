"""What the watcher keeps of a job's memory over time: a bounded number of samples, the peak among them. Pure."""

from __future__ import annotations

from typing import Final

MOST: Final = 256
"""Samples that a record holds at most, whatever the length of the job."""


class Samples:
    """Memory by time. Beyond :data:`MOST` neighbours are joined, of which the larger stays as it was measured."""

    def __init__(self) -> None:
        self._kept: list[tuple[float, int]] = []
        self._stride = 1
        self._in_last = 0

    def add(self, seconds: float, used: int) -> None:
        """Take one sample: seconds since the start, bytes of anonymous memory."""
        if self._kept and self._in_last < self._stride:
            self._kept[-1] = _larger(self._kept[-1], (seconds, used))
            self._in_last += 1
            return
        if len(self._kept) == MOST:
            pairs = zip(self._kept[::2], self._kept[1::2], strict=True)
            self._kept = [_larger(*pair) for pair in pairs]
            self._stride *= 2
        self._kept.append((seconds, used))
        self._in_last = 1

    def kept(self) -> list[tuple[float, int]]:
        """Return what was kept, in the order of time."""
        return list(self._kept)


def _larger(first: tuple[float, int], second: tuple[float, int]) -> tuple[float, int]:
    return second if second[1] > first[1] else first
