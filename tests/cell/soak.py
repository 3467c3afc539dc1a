"""Many jobs in a row in one cell, a third of them crashing, hanging or bombing: nothing may be left.

``python -m tests.cell.soak 1000`` (``make soak-cell``) prints what was measured, and ends with 1 where
something grew.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from acceptd.cell import escape, launcher
from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable, Policy

BAD = (
    ("ctypes.string_at(0)", "crash"),
    ("while True: pass", "limit or lost"),  # lost: a busy host gave it less than half a core, twice
    (
        "keep = []\nwhile True: keep.append(bytearray(16 << 20))",
        "refused or limit",
    ),  # rlimit, or the watcher first
    ("os.abort()", "crash"),
    ("time.sleep(3600)", "limit"),
    ("while True: os.write(2, b'x' * 65536)", "limit"),
    ("ctypes.CDLL(None).syscall(101, 0, 0, 0, 0)", "crash"),
    ("os.write(3, b'zzzzzzz')", "violation"),
    ("gate = threading.Event()\nwhile True: threading.Thread(target=gate.wait, daemon=True).start()", "refused"),
    ("fds = []\nwhile True: fds.append(os.open('/m/model.onnx', 0))", "refused"),
)
"""What every third job does, and how it must end."""
GOOD = "x = bytearray(8 << 20); note(text=open('/m/model.onnx').read(), size=len(x), pid=os.getpid())"
CLEAN = {"text": "my model", "size": 8 << 20, "pid": 2}
LIMITS = LimitsTable(run_cpu_seconds=1, wall_factor=1, memory_bytes=128 << 20, files=64)


@dataclass(frozen=True, slots=True)
class State:
    """What may leak. Bytes and counts; ``parent`` is the largest process of the cell: a warm parent."""

    descriptors: int
    processes: int
    files: int
    resident: int
    parent: int


def _status(pid: int | str, name: str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name + ":")), 0)


def descendants() -> list[int]:
    """Return the pids below this process."""
    parents = {
        int(path.name): _status(path.name, "PPid") for path in Path("/proc").iterdir() if path.name.isdigit()
    }
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, above in parents.items() if above in found} - found
        grown, found = bool(more), found | more
    return sorted(found - {os.getpid()})


def files_below(sealed: Path) -> int:
    """Return the number of files that a job might have left: in what it was lent, and at the top of shared memory.

    Below that top are directories of other tests, which run beside this one, and files of other users.
    """
    below, users = sum(len(names) for _, _, names in os.walk(sealed)), {os.getuid(), launcher.cell_ids()[0]}
    with os.scandir("/dev/shm") as entries:
        return below + sum(_is_file_of(entry, users) for entry in entries)


def _is_file_of(entry: os.DirEntry[str], users: set[int]) -> bool:
    try:
        return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid in users
    except FileNotFoundError:
        return False


def state(sealed: Path) -> State:
    """Return the state once spare rooms and parents have settled."""
    gc.collect()
    seen: list[int] = []
    while len(seen) < 60 and (len(seen) < 8 or len(set(seen[-8:])) > 1):  # a spare parent needs its second
        time.sleep(0.3)
        seen.append(len(descendants()))
    pids = descendants()
    return State(
        descriptors=len(os.listdir("/proc/self/fd")),
        processes=len(pids),
        files=files_below(sealed),
        resident=_status("self", "VmRSS") * 1024,
        parent=max((_status(pid, "VmRSS") for pid in pids), default=0) * 1024,
    )


def run(cell: Cell, source: str) -> JobRecord:
    """Run one job under short limits."""
    return cell.run(
        "attack",
        files={"model.onnx": "mine/model.onnx"},
        spec={"source": source},
        limits=job_limits("attack", LIMITS),
        required_walls=Policy().required_walls,
    )


def soak(count: int) -> tuple[State, State, list[str], dict[str, object]]:
    """Run ``count`` jobs; return the state after the first few, the one at the end, complaints and figures."""
    problems: list[str] = []
    endings: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="acceptd-soak-", dir="/var/tmp") as name:
        sealed = Path(name)
        escape.lay_out(sealed)
        with Cell(sealed, spare=True, testing=True) as cell:
            for source, _ in (*BAD[:1], *BAD[5:7]):  # caches fill, and a parent has been replaced
                run(cell, source)
            run(cell, GOOD)
            first, start = state(sealed), time.monotonic()
            for number in range(count):
                source, wanted = BAD[number // 3 % len(BAD)] if number % 3 == 1 else (GOOD, "done")
                record = run(cell, source)
                endings[f"{record.ending} {record.cause}".strip()] += 1
                clean = wanted != "done" or [note.facts for note in record.notes] == [CLEAN]
                if record.ending not in wanted.split(" or ") or not clean:
                    problems.append(
                        f"job {number}: {record.ending} {record.cause} {record.message} {record.notes}"
                    )
            spent = time.monotonic() - start
            last = state(sealed)
            replaced = cell.replaced
    left = [pid for pid in descendants() if "bwrap" in _name(pid)]
    if left:
        problems.append(f"processes after close: {left}")
    problems += grown(first, last)
    figures: dict[str, object] = {"jobs": count, "seconds": round(spent, 1), "parents_replaced": replaced}
    return first, last, problems, figures | {"endings": dict(endings.most_common())}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace")
    except OSError:
        return ""


def grown(first: State, last: State) -> list[str]:
    """Return what grew: counts at all, resident sets by more than a tenth."""
    found = [
        f"{name}: {getattr(first, name)} → {getattr(last, name)}"
        for name in ("descriptors", "processes", "files")
        if getattr(last, name) > getattr(first, name)
    ]
    return found + [
        f"{name}: {getattr(first, name)} → {getattr(last, name)} bytes"
        for name in ("resident", "parent")
        if getattr(last, name) > getattr(first, name) * 1.1
    ]


def main() -> int:
    """Run the soak and print its figures."""
    first, last, problems, figures = soak(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    print(json.dumps({**figures, "first": asdict(first), "last": asdict(last), "problems": problems}, indent=1))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
