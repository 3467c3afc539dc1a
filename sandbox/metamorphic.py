"""Relations that must hold between inferences of one model, whatever its right answers are.

They are tried in the second process, after its goldens, on sessions as the profile asks for them (optimised), one
session alive at a time, since each maps the weights anew:

- one session meets the smallest, the largest, an odd and again the smallest batch (``meta:min``, ``meta:max``,
  ``meta:odd``, ``meta:min-again``), and what memory it holds afterwards is noted; fresh sessions meet the largest
  and the odd one first (``meta:max-fresh``, ``meta:odd-fresh``);
- the first draws again, in a process that ran nothing before (``meta:draws``; without draws the first golden,
  ``meta:golden``), the same rows each in a call of its own (``meta:single``), moved on by one place
  (``meta:order``), and with another number of threads (``meta:threads``);
- 2 and 4 calls at once on one session (``meta:concurrent-2``, ``-4``), against the same calls one after the
  other (``meta:single``, or ``meta:calls`` where rows are no calls of their own).

Where weights are many, the order bounds the sessions, or has them leave weights where they lie (``packed``): then
they are not the first process's, and no case of theirs stands for it (``meta:base`` in place of ``meta:draws`` and
``meta:golden``).

Outputs go to the blob; the trusted comparer holds them against each other. Where several calls make one case, each
output is the sequence of theirs. Everything is bound by seconds of wall clock; what did not fit is told.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import resource
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sandbox import draws
from sandbox.cases import Runner
from sandbox.draws import Probe
from sandbox.load import Load, another
from sandbox.messages import Channel, RefusedError, text_of
from sandbox.ports import Array, Port, ports, stretch
from sandbox.probing import KEPT_BYTES, Budget, Told
from sandbox.session import is_memory_error
from sandbox.tensors import Value

CALLS: Final = 4
"""The most calls at once."""
ROUNDS: Final = 2
"""How often each thread calls; its last outputs count."""
SIZE_ELEMENTS: Final = 1 << 18
"""Elements of all inputs of the largest batch that is tried."""
NO_THREAD: Final = "can't start new thread"
"""What Python says when the limits leave no room for one."""
SESSIONS: Final = "sessions"
BYTES: Final = "probes.packed_bytes"
"""Why something is left out for the bytes of weights it would rearrange."""
_ODD: Final = (7, 5, 3)
_SHARE: Final = 0.8
"""Calls at once may be expected to take this share of the memory limit."""


class _MallInfo(ctypes.Structure):
    """mallinfo2(3): of its ten sizes the fifth are bytes in mappings, the eighth bytes in use elsewhere."""

    _fields_ = (
        ("before", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("between", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("after", ctypes.c_size_t * 2),
    )


def held_bytes() -> int | None:
    """Return the bytes that the C library's allocator has handed out (mallinfo2(3)); None where it cannot say."""
    try:
        call = ctypes.CDLL(None).mallinfo2
    except AttributeError:  # glibc before 2.33
        return None
    call.restype = _MallInfo
    info = call()
    return int(info.uordblks) + int(info.hblkhd)


def peak_bytes() -> int:
    """Return the largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def relate(runner: Runner, load: Load, channel: Channel, baseline: int) -> None:
    """Try all relations on ``load``'s model and send their cases and one ``probed`` frame.

    ``baseline`` are the bytes that were resident before the model was loaded. The session of ``runner``
    is given up on the way: its outputs on the first draws are taken first.
    """
    started, seconds = time.monotonic(), float(load.spec["relations"]["seconds"])
    told, row_s = Told("relations"), 0.0
    slowest = max(load.load_ms, runner.first_ms or 0.0) / 1000
    found = ports(load.inputs, load.declared["inputs"], runner.golden_arrays())
    base = _base(found, runner, load) if found is not None else None
    if found is None or base is None:
        told.leave_out("relations", 1, "no input can be made of what is declared and no golden feeds all inputs")
    elif slowest > seconds:
        told.leave_out("relations", 1, f"loading the model or its first inference takes {slowest:.1f} s")
    elif not load.spec["relations"]["sessions"]:
        told.leave_out("relations", 1, BYTES)
    else:
        if base.kind == "draws":
            runner.probe(base.probes[0])
            row_s = (time.monotonic() - started) / max(base.rows, 1)
        runner.release()
        load.session = None
        _Relations(runner, load, found, base, Budget(seconds), told, baseline, row_s=row_s).run()
    told.send(channel, time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _Base:
    """Inputs that the relations start from. ``batch`` names the dimension whose entries are rows of their own."""

    kind: str
    probes: list[Probe]
    batch: str
    rows: int


def _base(found: Sequence[Port], runner: Runner, load: Load) -> _Base | None:
    spec, outputs = load.spec, load.declared["outputs"]
    planned = draws.draws(
        found,
        outputs,
        load.dims,
        seed=str(spec.get("seed", "")),
        count=int(spec.get("draws", 0)),
        max_elements=int(spec.get("max_elements", 0)),
    )
    first = list(itertools.islice(planned, CALLS))
    if first:
        return _Base("draws", first, draws.batch_of(found, outputs, load.dims), first[0].rows)
    golden = runner.golden_arrays()
    if not golden or set(golden) != {port.name for port in found}:
        return None
    batch = draws.batch_of(found, outputs, load.dims, carriers=found)
    rows = next((array.shape[0] for array in golden.values()), 1) if batch else 1
    return _Base("golden", [Probe("", True, golden, rows)], batch, rows)


@dataclass(slots=True)
class _Relations:
    """One pass over the relations of one model."""

    runner: Runner
    load: Load
    found: list[Port]
    base: _Base
    budget: Budget
    told: Told
    baseline: int
    open_s: float = 0.0
    row_s: float = 0.0
    sizes: list[int] = field(default_factory=list)

    def run(self) -> None:
        firsts = [self.load.dims.get(str(port.shape[0])) for port in self.found if port.shape]
        if not self.base.batch and any(one is not None and one["max"] > 1 for one in firsts):
            self.told.leave_out("rows and orders", 1, "no first dimension is that of inputs and outputs alike")
        sizes = self._sizes()
        used = self._open("a session")
        if used is None:
            return
        if sizes:
            self._sequence(used, sizes)
        packed = bool(self.load.spec.get("packed", True))
        if not packed:
            self.told.leave_out("a fresh process", 1, BYTES)
        name = self.base.kind if packed else "base"
        self._tell(used, f"meta:{name}", self.base.probes[0].feeds, self.base.rows)
        self._calls(used)
        used.release()
        self._threads()
        for name, size in list(sizes.items())[1:]:
            fresh = self._open(f"a fresh session for {name}")
            if fresh is not None:
                self._tell(fresh, f"meta:{name}-fresh", self._feed(size), size)
                fresh.release()

    def _open(self, what: str, threads: int = 0) -> Runner | None:
        """Return a runner on a new session, or None where time, memory or bytes of weights do not allow it."""
        reason = "time" if self.budget.left() < self.open_s else ""
        if not reason and self.told.counts.get(SESSIONS, 0) >= int(self.load.spec["relations"]["sessions"]):
            reason = BYTES
        if reason:
            self.told.leave_out(what, 1, reason)
            return None
        began = time.monotonic()
        try:
            made = another(self.load, threads=threads)
        except RefusedError as error:
            if error.code == "resources/memory-limit":
                self.told.leave_out(what, 1, "memory")
            else:
                self.runner.failed(f"meta:{what}", error.message)
            return None
        self.open_s = max(self.open_s, time.monotonic() - began)
        self.told.count(SESSIONS)
        return self.runner.on(made)

    def _sizes(self) -> dict[str, int]:
        """Return the batch sizes to try by name; empty where there is one only."""
        if not self.base.batch:
            return {}
        limits = self.load.dims[self.base.batch]
        one = sum(array.size for array in self.base.probes[0].feeds.values()) / max(self.base.rows, 1)
        most = min(int(self.load.spec.get("max_elements", 0)), SIZE_ELEMENTS)
        least = max(limits["min"], 1)
        largest = max(min(limits["max"], math.floor(most / max(one, 1))), least)
        odd = next((size for size in _ODD if least < size < largest), 0)
        sizes = {"min": least, "max": largest, "odd": odd}
        return {name: size for name, size in sizes.items() if size} if largest > least else {}

    def _feed(self, size: int) -> dict[str, Array]:
        """Return the base's inputs with so many rows."""
        feeds: dict[str, Array] = {}
        for port in self.found:
            array = self.base.probes[0].feeds[port.name]
            batched = port.shape[:1] == (self.base.batch,)
            made = stretch(array, (size, *array.shape[1:])) if batched else array
            feeds[port.name] = array if made is None else made
        return feeds

    def _tell(self, runner: Runner, name: str, feeds: dict[str, Array], rows: int) -> list[Value] | None:
        """Run one case, if there is time for so many rows and room for its outputs."""
        if self.budget.left() < self.row_s * rows:
            self.told.leave_out(name, 1, "time")
            return None
        if runner.kept_bytes > KEPT_BYTES:
            self.told.leave_out(name, 1, "outputs")
            return None
        began = time.monotonic()
        found = runner.probe(Probe(name, True, feeds, rows))
        self.row_s = (time.monotonic() - began) / max(rows, 1)
        self.told.count("inferences")
        return found

    def _sequence(self, runner: Runner, sizes: dict[str, int]) -> None:
        before: int | None = None
        for name, size in [*sizes.items(), ("min-again", sizes["min"])]:
            self.sizes.append(size)
            self._tell(runner, f"meta:{name}", self._feed(size), size)
            before = held_bytes() if before is None else before
        after = held_bytes()
        self.told.facts["sizes"] = self.sizes
        if before is not None and after is not None:
            self.told.facts["retained_bytes"] = after - before

    def _threads(self) -> None:
        own = int(self.load.profile.get("intra_op_threads", 1))
        other = 2 if own == 1 else 1
        if int(self.load.spec["relations"]["threads"]) < max(own, other):
            self.told.leave_out("threads", 1, "limits.threads")
            return
        runner = self._open("a session with other threads", threads=other)
        if runner is not None:
            self._tell(runner, "meta:threads", self.base.probes[0].feeds, self.base.rows)
            runner.release()

    def _calls(self, runner: Runner) -> None:
        """Rows alone, rows in another order, and calls at once."""
        name, feeds = self._singles()
        rows = self._block() if name == "meta:single" else self.base.rows
        if self.budget.left() < self.row_s * rows * len(feeds):
            self.told.leave_out(name, 1, "time")
            return
        alone = [runner.infer(one) for one in feeds]
        self.told.count("inferences", len(feeds))
        if any(one is None for one in alone):
            runner.failed(name, "a call of its own failed where the batch did not")
            return
        runner.several(name, [one for one in alone if one is not None])
        if name == "meta:single":
            moved = {
                port.name: np.roll(self.base.probes[0].feeds[port.name], 1, axis=0)
                if port.shape[:1] == (self.base.batch,)
                else self.base.probes[0].feeds[port.name]
                for port in self.found
            }
            self._tell(runner, "meta:order", moved, self.base.rows)
        for calls in (2, CALLS):
            self._together(runner, (feeds * CALLS)[:calls], rows)

    def _block(self) -> int:
        """Return as few rows as a call may have."""
        return max(self.load.dims[self.base.batch]["min"], 1)

    def _singles(self) -> tuple[str, list[dict[str, Array]]]:
        """Return calls of their own: blocks of as few rows as are declared, else different draws."""
        if not self.base.batch:
            return "meta:calls", [one.feeds for one in self.base.probes]
        block = self._block()
        count = min(CALLS, self.base.rows // block)
        if count < 2:
            return "meta:calls", [one.feeds for one in self.base.probes]
        first = self.base.probes[0].feeds
        cut = [
            {
                port.name: first[port.name][at * block : (at + 1) * block]
                if port.shape[:1] == (self.base.batch,)
                else first[port.name]
                for port in self.found
            }
            for at in range(count)
        ]
        return "meta:single", cut

    def _together(self, runner: Runner, feeds: list[dict[str, Array]], rows: int) -> None:
        calls = len(feeds)
        name = f"meta:concurrent-{calls}"
        reason = self._no_room(calls, rows)
        if reason:
            self.told.leave_out(name, 1, reason)
            return
        got, errors = _at_once(runner, feeds)
        self.told.count("inferences", calls * ROUNDS)
        if errors and is_memory_error(errors[0]):
            self.told.leave_out(name, 1, "memory")
        elif errors and NO_THREAD in str(errors[0]):
            self.told.leave_out(name, 1, "no thread to be had")
        elif errors:
            runner.failed(name, f"{type(errors[0]).__name__}: {errors[0]}")
        else:
            self.told.facts["concurrent"] = calls
            runner.several(name, got)

    def _no_room(self, calls: int, rows: int) -> str:
        spec = self.load.spec["relations"]
        if calls + 1 > int(spec["threads"]):
            return "limits.threads"
        if self.budget.left() < self.row_s * rows * calls * ROUNDS:
            return "time"
        held = held_bytes() or 0
        expected = held + calls * max(peak_bytes() - self.baseline - held, 0)
        return "memory" if expected > _SHARE * int(spec["memory_bytes"]) else ""


def _at_once(runner: Runner, feeds: Sequence[dict[str, Array]]) -> tuple[list[list[Value]], list[Exception]]:
    """Call one session from a thread for each feed, all started together."""
    got: list[list[Value]] = [[] for _ in feeds]
    errors: list[Exception] = []
    gate = threading.Barrier(len(feeds))

    def call(index: int) -> None:
        try:
            gate.wait()
            for _ in range(ROUNDS):
                got[index] = runner.attempt(feeds[index])
        except Exception as error:  # noqa: BLE001 - onnxruntime raises a type of its own for each status
            errors.append(RuntimeError(text_of(str(error))))

    threads = [threading.Thread(target=call, args=(index,), daemon=True) for index in range(len(feeds))]
    started = []
    try:
        for one in threads:
            one.start()
            started.append(one)
    except RuntimeError as error:  # no thread to be had: the others must not wait for it
        errors.insert(0, error)
        gate.abort()
    for one in started:
        one.join()
    return got, errors
