"""Speed of one session: warm inferences of one golden set, what starting it cost, the calibration kernel."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np

from sandbox.cases import Runner
from sandbox.messages import clip, text_of
from sandbox.tensors import BlobReader

MAX_SAMPLES: Final = 1000
KERNEL: Final = "matmul-float32-192/1"
"""The calibration kernel and its revision: the product of two float32 matrices, by numpy on one thread."""
_SIDE: Final = 192
_ONE_CALL: Final = "part of session: onnxruntime does it inside one call and tells its parts only to its profiler"
_libraries: list[float] = []


def note_libraries(seconds: float) -> None:
    """Keep what importing and warming the libraries took; the warm parent says it once, before any fork."""
    _libraries[:] = [seconds * 1000]


def kernel(samples: int) -> dict[str, Any]:
    """Return the ``kernel`` frame's body: ``samples`` timed products after two that are not; ms each."""
    generator = np.random.Generator(np.random.PCG64(1))
    left, right = (generator.random((_SIDE, _SIDE), np.float32) for _ in range(2))
    out = np.empty_like(left)

    def once() -> None:
        np.matmul(left, right, out=out)

    once()
    once()
    walls, _ = _timed(once, samples, seconds=1.0)
    return {"name": KERNEL, "wall_ms": walls}


def timing(
    runner: Runner,
    reader: BlobReader,
    sets: Sequence[dict[str, Any]],
    ask: dict[str, Any],
    cold: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the ``timing`` frame's body.

    ``ask`` is the order's: at most ``samples`` inferences in at most ``seconds`` together, of the golden set
    ``set``, or where that is empty of the one with the most bytes of input, the first of several: two runs of one
    bundle time the same set, whatever else the machine does. A set that failed is not timed.
    """
    wanted = str(ask.get("set") or "")
    item = largest(sets, [name for name in runner.warm_ms if wanted in {"", name}])
    if item is None:
        return {"set": clip(wanted), "note": "no golden set ran to its end", "cold": cold}
    name = str(item["name"])
    try:
        prepared = runner.prepared(item, reader)
    except Exception as error:  # noqa: BLE001 - a set that ran a moment ago; whatever it is, it is only told
        return {"set": clip(name), "note": text_of(f"{type(error).__name__}: {error}"), "cold": cold}
    body = {
        "set": clip(name),
        "batch": prepared.batch,
        "shapes": {clip(key): list(shape) for key, shape in prepared.shapes.items()},
        "warmups": runner.runs_of[name],
        "cold": cold,
    }
    samples = min(int(ask.get("samples", 0)), MAX_SAMPLES)
    try:
        walls, cpu = _timed(prepared.infer, samples, float(ask.get("seconds", 0.0)), first=runner.warm_ms[name])
    except Exception as error:  # noqa: BLE001 - onnxruntime's own types; the goldens are judged by themselves
        return body | {"note": text_of(f"{type(error).__name__}: {error}")}
    return body | {"wall_ms": walls, "cpu_ms": cpu}


def largest(sets: Sequence[dict[str, Any]], names: Collection[str]) -> dict[str, Any] | None:
    """Return the set with the most bytes of input of those named, the first of several; None without one."""
    named = [one for one in sets if str(one["name"]) in names]
    return max(named, key=lambda one: _nbytes(one["inputs"]), default=None)


def _nbytes(value: Any) -> int:
    """Return the bytes of all tensors in references as the order gives them."""
    if isinstance(value, list):
        return sum(_nbytes(item) for item in value)
    if isinstance(value, dict):
        return int(value.get("nbytes") or 0) + sum(_nbytes(item) for item in value.values())
    return 0


def _timed(call: Callable[[], Any], samples: int, seconds: float, first: float = 0.0) -> tuple[list[float], float]:
    """Return the wall clock of each call and the processor time of all, in ms.

    None begins that would not end within ``seconds``, as far as the last one tells; ``first`` is what one call
    is known to take, in ms.
    """
    walls: list[float] = []
    collecting = gc.isenabled()  # a warm parent collects nothing while it warms up
    gc.disable()  # a collection inside one sample is the interpreter's time, not the model's
    try:
        cpu, started = time.process_time(), time.perf_counter()
        last, now = first / 1000, started
        while len(walls) < samples and now - started + last <= seconds:
            before = time.perf_counter()
            call()
            now = time.perf_counter()
            last = now - before
            walls.append(round(last * 1000, 6))
        return walls, round((time.process_time() - cpu) * 1000, 6)
    finally:
        if collecting:
            gc.enable()


def cold_phases(*, hash_ms: float, session_ms: float, first_ms: float | None) -> list[dict[str, Any]]:
    """Return what starting the model cost, in the order in which it happens; None with the reason for the rest."""
    loaded = "in the warm parent, once for all jobs: imports, and a whole run of a built-in model"
    inside = dict.fromkeys(("parse", "optimise", "provider-start", "prepack", "compile"), _ONE_CALL)
    first = "" if first_ms is not None else "no golden set ran"
    return [
        _phase("library-load", _libraries[0] if _libraries else None, loaded),
        _phase("read-and-digest", hash_ms, ""),
        *(_phase(name, None, reason) for name, reason in inside.items()),
        _phase("session", session_ms, "parse, optimise, provider start, prepack and compile together"),
        _phase("cache", None, "no compiled or optimised artifact is kept between runs"),
        _phase("first-run", first_ms, first),
    ]


def _phase(name: str, ms: float | None, reason: str) -> dict[str, Any]:
    return {"name": name, "ms": None if ms is None else round(ms, 6), "reason": reason}
