"""What a daemon and everything below it holds at one moment, and what grew between two."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from acceptd.cell import launcher
from acceptd.cell.supply import ROOMS
from acceptd.daemon import HOUSEKEEPING_SECONDS

TICK: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
LASTING: Final = ("daemon", "warm parent", "comparer", "sealer")
"""Processes that outlive a submission: theirs is the memory that may not grow."""
_LOOK_SECONDS: Final = 0.5
_STILL: Final = 6
_MOST_LOOKS: Final = 120
_CONNECTION: Final = "ledger.sqlite3"
MOST_CONNECTIONS: Final = 48
"""Descriptors of the database: its pool of eight connections grows as threads ask at once, three files for
each, and so may one that only reads; it stays then."""
MOST_GROWTH: Final = 24 << 20
"""Bytes that the median of a process's own memory may be larger in the last quarter of the verdicts than in the
second (the first is the warm-up): more than a median swings, far less than a leak of 4 KiB a drop in 10,000."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process: what it is, whose child, what it holds. Bytes, and processor time in seconds."""

    pid: int
    parent: int
    role: str
    resident: int
    spent: float
    """Its own, and that of its children whose end it waited for."""


@dataclass(slots=True)
class Sample:
    """The daemon and everything below it after so many verdicts."""

    verdicts: int
    dropped: int
    queue: int
    """Submissions that wait in the daemon's memory."""
    waiting: int
    """Drops without a verdict, wherever they wait."""
    held: dict[str, int]
    """Memory of its own of the largest process of each role that lasts, by role. Bytes. Anonymous: no pages of
    files, which the kernel takes and gives as it likes."""
    together: int
    """All processes; pages that they share count for each. Bytes."""
    processes: dict[str, int]
    descriptors: int
    """Of the daemon."""
    threads: int
    sealed: int
    """Submissions whose sealed copy is there."""
    temporary: int
    """Names in the state's own directory for temporary files."""
    log_bytes: int
    """Of the database's write-ahead log."""


def table(root: int | None = None) -> dict[int, Process]:
    """Return every process of this host that can be read; with ``root`` only it and its descendants.

    Called thousands of times beside the work that is measured: what nobody asked about is read once, and shortly.
    """
    found: dict[int, tuple[int, str, int, float]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = _read(f"/proc/{name}/stat")
            comm, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            spent = sum(int(word) for word in rest[11:15]) / TICK
            found[int(name)] = (int(rest[1]), comm, int(rest[21]) * PAGE, spent)
    if root is not None:
        found = {pid: found[pid] for pid in _below(root, {pid: one[0] for pid, one in found.items()})}
    outer = {pid for pid, (_, comm, _, _) in found.items() if comm == "bwrap"}
    every = {}
    for pid, (above, comm, resident, spent) in found.items():
        with contextlib.suppress(OSError):
            words = _read(f"/proc/{pid}/cmdline").split("\0")
            every[pid] = Process(pid, above, _role(words, comm, above in outer), resident, spent)
    return every


def _anonymous(pid: int) -> int:
    """Return the bytes of a process's own pages that are in memory (proc_pid_statm(5)); 0 where it has ended."""
    try:
        _, resident, shared, *_ = _read(f"/proc/{pid}/statm").split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * PAGE


def _read(place: str) -> str:
    fd = os.open(place, os.O_RDONLY)
    try:
        return os.read(fd, 65536).decode("utf-8", "replace")
    finally:
        os.close(fd)


def _below(root: int, parents: Mapping[int, int]) -> list[int]:
    """Return ``root`` and all its descendants, of the parent of each process."""
    children = collections.defaultdict(list)
    for pid, above in parents.items():
        children[above].append(pid)
    found, rest = [], [root]
    while rest:
        pid = rest.pop()
        if pid in parents:
            found.append(pid)
            rest += children[pid]
    return found


def _role(words: Sequence[str], comm: str, below_outer: bool) -> str:
    if comm == "bwrap":
        return "outer wall"
    if "sandbox.parent" in words:
        return "warm parent" if below_outer else "job"
    for part, role in (("acceptd.compare", "comparer"), ("sealer", "sealer"), ("daemon", "daemon")):
        if any(part in word for word in words):
            return role
    return "other"


def below(root: int, every: dict[int, Process]) -> list[Process]:
    """Return ``root`` and all its descendants."""
    return [every[pid] for pid in _below(root, {pid: one.parent for pid, one in every.items()})]


def spent(root: int) -> float:
    """Return the processor time, in seconds, of ``root``, everything below it, and the dead that were waited for.

    Too little where some of them died and nobody waited: :mod:`tests.load.processor` counts those too.
    """
    return sum(one.spent for one in below(root, table(root)))


def take(root: int, state: Path, verdicts: int, dropped: int) -> Sample:
    """Return what ``root``, a daemon that works on ``state``, and its descendants hold now."""
    those = below(root, table(root))
    held: dict[str, int] = {}
    for one in those:
        role = "daemon" if one.pid == root else one.role
        if role in LASTING:
            held[role] = max(held.get(role, 0), _anonymous(one.pid))
    return Sample(
        verdicts=verdicts,
        dropped=dropped,
        queue=_queue(state),
        waiting=dropped - verdicts,
        held=held,
        together=sum(one.resident for one in those),
        processes=dict(collections.Counter(one.role for one in those if one.pid != root)),
        descriptors=_count(f"/proc/{root}/fd"),
        threads=_count(f"/proc/{root}/task"),
        sealed=_count(state / "sealed"),
        temporary=_count(state / "tmp"),
        log_bytes=_size(state / "ledger.sqlite3-wal"),
    )


def _count(place: Path | str) -> int:
    try:
        return len(os.listdir(place))
    except OSError:
        return 0


def _size(place: Path) -> int:
    try:
        return place.stat().st_size
    except OSError:
        return 0


def _queue(state: Path) -> int:
    try:
        shown: dict[str, Any] = json.loads((state / "work.json").read_bytes())
    except (OSError, ValueError):
        return 0
    return int(shown["queue"]["waiting"])


@dataclass(frozen=True, slots=True)
class Rest:
    """What is there while nothing is worked: all of it must be as before when the work is over."""

    descriptors: dict[str, int]
    """Of the daemon, by what they lead to."""
    threads: int
    processes: dict[str, int]
    mounts: int
    shared: list[str]
    """Names in shared memory."""


def rest(root: int, quiet: Callable[[], bool], shared: Path) -> Rest:
    """Return what is there once spare rooms and parents have settled: when it has not changed for a while.

    Not before the daemon's housekeeping came round, which sees to the spares.
    """
    seen: list[Rest] = []
    due = time.monotonic() + HOUSEKEEPING_SECONDS + 2
    while len(seen) < _MOST_LOOKS and (
        time.monotonic() < due or not quiet() or any(one != seen[-1] for one in seen[-_STILL:])
    ):
        time.sleep(_LOOK_SECONDS)  # a spare parent needs its second, and nothing says when it is there
        those = [one for one in below(root, table(root)) if one.pid != root]
        seen.append(
            Rest(
                descriptors=_open(root),
                threads=_count(f"/proc/{root}/task"),
                processes=dict(sorted(collections.Counter(one.role for one in those).items())),
                mounts=len(Path(f"/proc/{root}/mountinfo").read_text().splitlines()),
                shared=_own(shared),
            )
        )
    return seen[-1]


def _own(place: Path) -> list[str]:
    """Return the names there that are ours or a job's: without a namespace of its own it is the whole host's."""
    found, users = [], {os.geteuid(), launcher.cell_ids()[0]}
    for one in os.scandir(place):
        with contextlib.suppress(OSError):
            if one.stat(follow_symlinks=False).st_uid in users:
                found.append(one.name)
    return sorted(found)


def _open(pid: int) -> dict[str, int]:
    """Return how many descriptors of a process lead to each place; the database's files are one."""
    found: collections.Counter[str] = collections.Counter()
    for one in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            place = os.readlink(f"/proc/{pid}/fd/{one}")
            name = place.rpartition("/")[2] if place.startswith("/") else place.partition(":")[0]
            found[_CONNECTION if name.startswith(_CONNECTION) else name] += 1
    return dict(sorted(found.items()))


def more(before: Rest, after: Rest, lanes: int = 1) -> list[str]:
    """Return a line for each thing that there is more of than before.

    A lane makes its helpers (processes that last, each with a socket and rooms) when it first needs them:
    ``lanes`` of each role may have come, and a spare.
    """
    come = sum(max(0, after.processes.get(role, 0) - before.processes.get(role, 0)) for role in LASTING)
    rooms = ROOMS * max(0, after.processes.get("warm parent", 0) - before.processes.get("warm parent", 0))
    may = dict.fromkeys(LASTING[1:], lanes) | {"warm parent": lanes + 1, "outer wall": 2 * (lanes + 1)}
    found = [
        f"{name} of the daemon at rest: {getattr(before, name)} before, {getattr(after, name)} after"
        for name in ("threads", "mounts")
        if getattr(after, name) > getattr(before, name)
    ]
    found += [
        f"descriptors at rest of {place}: {before.descriptors.get(place, 0)} before, {number} after"
        for place, number in after.descriptors.items()
        if number > (MOST_CONNECTIONS if place == _CONNECTION else before.descriptors.get(place, 0) + come)
    ]
    found += [
        f"processes at rest, {role}: {before.processes.get(role, 0)} before, {number} after"
        for role, number in after.processes.items()
        if number > max(may.get(role, 0), before.processes.get(role, 0) + (2 * rooms if role == "job" else 0))
    ]
    return found + [f"left in shared memory: {name}" for name in after.shared if name not in before.shared]


@dataclass(slots=True)
class Growth:
    """How the memory of one role went. Bytes."""

    role: str
    first: int
    """Median of the second quarter of the verdicts."""
    last: int
    """Median of the last quarter."""
    most: int
    slope: float
    """Least squares from the second quarter on: bytes a verdict."""
    samples: int = field(default=0)

    @property
    def too_much(self) -> bool:
        """Whether it is more than what is stated."""
        return self.last - self.first > MOST_GROWTH


def growth(series: Sequence[Sample], role: str) -> Growth | None:
    """Return how a role's memory went; None where there are too few samples to say so."""
    points = [(one.verdicts, one.held[role]) for one in series if role in one.held]
    if len(points) < 8:
        return None
    end = points[-1][0]
    first = [size for at, size in points if end / 4 <= at < end / 2]
    last = [size for at, size in points if at >= end * 3 / 4]
    warm = [(at, size) for at, size in points if at >= end / 4]
    if not first or not last or len({at for at, _ in warm}) < 2:
        return None
    slope = statistics.linear_regression([at for at, _ in warm], [size for _, size in warm]).slope
    return Growth(
        role, int(statistics.median(first)), int(statistics.median(last)), max(size for _, size in points),
        round(slope, 1), len(points),
    )  # fmt: skip
