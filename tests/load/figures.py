"""What came of a soak: promises that do not hold, and the figures, from what was seen while it ran."""

from __future__ import annotations

import collections
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from acceptd.work.admission import OVERTAKINGS
from tests.fleet.mixed import Piece
from tests.fleet.promises import verified
from tests.load import promises, samples
from tests.load.drops import FLOOD, LONE, Boxes
from tests.load.order import Event, Order, order

SAMPLES: Final = 200
"""That are kept."""


@dataclass
class Soaked:
    """What came of it."""

    seed: int
    drops: int = 0
    wanted: int = 0
    teams: int = 0
    users: int = 0
    parts: int = 0
    families: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=dict)
    unwhole: dict[str, int] = field(default_factory=dict)
    """Verdicts of what was half copied or changed."""
    backlog: int = 0
    queue_limit: int = 0
    lanes: int = 0
    most_waiting: int = 0
    most_queue: int = 0
    processor_s: float = 0.0
    """Of the daemon and of all that it ever started, from the end of the warm-up on."""
    processor_by: str = ""
    per_processor_s: float = 0.0
    harness_s: float = 0.0
    """Processor time of who drops and looks."""
    stopped: str = ""
    """Why not all that was dropped was judged; empty: it was."""
    unjudged: int = 0
    elapsed_s: float = 0.0
    growth: list[samples.Growth] = field(default_factory=list)
    together_most: int = 0
    descriptors_most: int = 0
    threads_most: int = 0
    processes_most: dict[str, int] = field(default_factory=dict)
    sealed_most: int = 0
    log_most: int = 0
    index: float = 0.0
    claimed_after_most: int = 0
    """Verdicts between a whole drop's appearance and its claim: one thread claims for all teams."""
    flood: dict[str, float] = field(default_factory=dict)
    """What drops of the team that floods waited for, in verdicts."""
    others: dict[str, float] = field(default_factory=dict)
    lone: dict[str, float] = field(default_factory=dict)
    state_bytes: dict[str, int] = field(default_factory=dict)
    ledger_bytes_each: int = 0
    host: dict[str, str] = field(default_factory=dict)
    series: list[dict[str, Any]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Seen:
    """What whoever dropped and looked has seen."""

    dropped: Sequence[Piece]
    boxes: Boxes
    series: Sequence[samples.Sample]
    events: Sequence[Event]
    appeared: Mapping[str, int]
    """Verdicts that there were when a whole drop appeared, by its name."""
    lost: Sequence[str]
    """Lines of the log that tell of a fault."""


def look(found: Soaked, state: Path, seen: Seen, queue: int, *, sure: bool) -> None:
    """Complete ``found`` with what is on record, and with a line for each promise that does not hold."""
    found.drops, found.parts = len(seen.dropped), len(seen.boxes.parts)
    found.users = len(set(seen.boxes.uids.values())) or 1
    found.families = dict(collections.Counter(piece.family for piece in seen.dropped))
    book, _ = promises.read(state)
    found.verdicts = dict(collections.Counter(one.verdict for one in book.verdicts))
    unwhole = [f"{one.drop[5:]} {one.verdict}" for one in book.verdicts if one.drop in seen.boxes.whole]
    found.unwhole = dict(sorted(collections.Counter(unwhole).items()))
    found.unjudged = found.drops - len(book.verdicts)
    found.broken += promises.broken(state, seen.dropped, sure=sure, whole=not found.stopped)
    found.broken += promises.other_bytes(state, seen.boxes.whole)
    found.broken += promises.strangers(state, seen.dropped, seen.boxes.uids)
    if not found.stopped:  # what was not judged lies where it was
        found.broken += promises.left(state, seen.boxes.parts)
    found.broken += verified(state)
    found.broken += [f"logged: {line}" for line in seen.lost[:20]]
    found.queue_limit = queue
    _bounds(found, seen.series)
    _turns(found, order(seen.events))
    _claims(found, seen, {one.submission: one.drop for one in book.verdicts})
    _bytes(found, state)
    found.host = {
        "cores": str(os.cpu_count()), "kernel": platform.release(), "python": platform.python_version(),
        "load": " ".join(f"{one:.1f}" for one in os.getloadavg()),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }  # fmt: skip
    found.series = [asdict(one) for one in seen.series[:: 1 + len(seen.series) // SAMPLES]]


def _bounds(found: Soaked, series: Sequence[samples.Sample]) -> None:
    found.lanes = os.cpu_count() or 1
    if not series:
        found.broken.append("nobody looked at it even once")
        return
    found.most_queue = max(one.queue for one in series)
    found.together_most = max(one.together for one in series)
    found.descriptors_most = max(one.descriptors for one in series)
    found.threads_most = max(one.threads for one in series)
    found.sealed_most = max(one.sealed for one in series)
    found.log_most = max(one.log_bytes for one in series)
    for one in series:
        for role, number in one.processes.items():
            found.processes_most[role] = max(found.processes_most.get(role, 0), number)
    if found.most_queue > found.queue_limit + found.lanes:
        found.broken.append(f"{found.most_queue} waited in memory, and {found.queue_limit} may")
    if found.sealed_most > 2 * found.lanes + 1:
        found.broken.append(f"{found.sealed_most} sealed copies at once, for {found.lanes} lanes")
    if found.log_most > promises.MOST_LOG:
        found.broken.append(f"the database's write-ahead log came to {found.log_most} bytes")
    for role in samples.LASTING:
        went = samples.growth(series, role)
        if went is not None:
            found.growth.append(went)
            if went.too_much:
                found.broken.append(f"memory of the {role}: {went.first} bytes, later {went.last}")


def _turns(found: Soaked, told: Order) -> None:
    lanes = found.lanes
    found.index, found.most_waiting = round(told.index, 4), told.most_waiting
    groups = {FLOOD: found.flood, LONE: found.lone}
    for name, those in _grouped(told, groups).items():
        groups.get(name, found.others).update(
            {
                "drops": len(those),
                "passed_most": max(one.passed for one in those),
                "passed_mean": round(sum(one.passed for one in those) / len(those), 1),
                "waiting_mean": round(sum(one.waiting for one in those) / len(those), 1),
            }
        )
    found.broken += [
        f"{one.submission} of {one.team}: {one.passed} verdicts of others came before its own, and "
        f"{one.before} of its own team waited before it"
        for one in told.late(found.teams, OVERTAKINGS, lanes)
    ]
    found.broken += [
        f"{one.submission} of {one.team}: {one.own} of its own team were begun before it, and "
        f"{one.before} had come before it"
        for one in told.overtaken(lanes)
    ]


def _claims(found: Soaked, seen: Seen, names: Mapping[str, str]) -> None:
    """Note how many verdicts came between a drop's appearance and its claim, at most."""
    judged = 0
    for what, submission, _ in seen.events:
        judged += what == "judged"
        appeared = seen.appeared.get(promises.bare(names.get(submission, "")), judged)
        if what == "claimed":
            found.claimed_after_most = max(found.claimed_after_most, judged - appeared)


def _bytes(found: Soaked, state: Path) -> None:
    for name in ("ledger.sqlite3", "store", "releases", "outbox", "quarantine", "inbox", "sealed", "tmp"):
        found.state_bytes[name] = _below(state / name)
    found.ledger_bytes_each = found.state_bytes["ledger.sqlite3"] // max(1, found.drops)


def _grouped(told: Order, apart: Any) -> dict[str, list[Any]]:
    found = collections.defaultdict(list)
    for one in told.waited:
        found[one.team if one.team in apart else ""].append(one)
    return dict(found)


def _below(place: Path) -> int:
    if place.is_file():
        return place.stat().st_size
    return sum(file.lstat().st_size for file in place.rglob("*") if file.is_file() and not file.is_symlink())
