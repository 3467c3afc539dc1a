"""What may be counted, by one who counts nothing: the library for it is loaded only where figures are wanted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acceptd.acceptance import Outcome
    from acceptd.config import MetricsTable
    from acceptd.housekeeping import Housekeeping
    from acceptd.metrics.node import NodeShown
    from acceptd.rooms import Rooms
    from acceptd.supervisor.pulse import Pulse


class Counting:
    """Hears of what happens. :class:`acceptd.metrics.figures.Figures` counts it."""

    def claimed(self, submission: str) -> None:
        """A drop became ours."""

    def judged(self, submission: str, outcome: Outcome) -> None:
        """A verdict is in the ledger."""

    def promoted(self, submission: str) -> None:
        """A verdict has led to a release."""

    def replaced(self, reason: str) -> None:
        """A warm parent was replaced."""

    def reloaded(self, *, accepted: bool) -> None:
        """A policy was read anew."""

    def failed(self) -> None:
        """acceptd itself could not go on with a submission."""

    def task(self, kind: str, outcome: str) -> None:
        """A task of the fleet ended here."""

    def refused(self, cause: str) -> None:
        """What another node handed over did not count."""

    def cached(self, *, hit: bool) -> None:
        """A task needed a bundle, which was here or had to be fetched."""

    def object_call(self, call: str, seconds: float, *, failed: bool = False) -> None:
        """The object store answered, or failed to."""

    @contextlib.contextmanager
    def shown_node(self, node: NodeShown) -> Iterator[None]:  # noqa: ARG002
        """As :meth:`shown`, for one node of a fleet."""
        yield

    @contextlib.contextmanager
    def shown(self, rooms: Rooms, house: Housekeeping, pulse: Pulse) -> Iterator[None]:  # noqa: ARG002
        """Show the figures meanwhile. Raises ConfigError for an address that cannot be listened at."""
        yield


def counting(table: MetricsTable) -> Counting:
    """Return who counts, as ``[metrics]`` of acceptd.toml wants it."""
    if not table.shown:
        return Counting()
    from acceptd.metrics.figures import Figures

    return Figures(table, time.monotonic)
