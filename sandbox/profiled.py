"""Inferences under onnxruntime's profiler: the file that it writes, parsed where it was written, in the job.

The job's root is read-only; this job alone has a small private directory that it may write to, and the file in it
is as hostile as the model. Lines are parsed one by one, so that a cut file gives what it holds.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sandbox.cases import Runner
from sandbox.messages import SCRATCH_BYTES, clip, text_of
from sandbox.tensors import BlobReader
from sandbox.timing import largest

MAX_SEGMENTS: Final = 1024
MAX_OPERATORS: Final = 1024
MAX_NODES: Final = 512
MAX_LINE: Final = 1 << 16
EVENT_BYTES: Final = 1600
"""What one event takes in the file, with room for shapes (measured: 900 to 1,100)."""


@dataclass(frozen=True, slots=True)
class Event:
    """One node that ran: microseconds from the session's start, own time without what ran inside it."""

    start: int
    took: int
    own: int
    provider: str
    op_type: str
    name: str = ""


def runs_that_fit(wanted: int, nodes: int) -> int:
    """Return how many inferences of a model of ``nodes`` nodes the profiler's file has room for, one at least."""
    return max(1, min(wanted, SCRATCH_BYTES // 2 // (max(1, nodes) * EVENT_BYTES)))


def profiled(
    session: Any,
    runner: Runner,
    reader: BlobReader,
    sets: Sequence[dict[str, Any]],
    ask: dict[str, Any],
    *,
    nodes: int,
) -> dict[str, Any]:
    """Run the set with the most bytes of input under the profiler; return the ``profiled`` frame's body.

    ``ask`` is the order's: at most ``runs`` inferences in at most ``seconds``; with ``named``, times are told node
    by node too. ``nodes`` is how many one inference has.
    """
    item = largest(sets, runner.runs_of)
    if item is None:
        return {"note": "no golden set ran to its end"}
    try:
        prepared = runner.prepared(item, reader)
        before = sum(runner.runs_of.values())
        started, done = time.perf_counter(), 0
        for _ in range(runs_that_fit(int(ask["runs"]), nodes)):
            prepared.infer()
            done += 1
            if time.perf_counter() - started > float(ask["seconds"]):
                break
        path = session.end_profiling()
    except Exception as error:  # noqa: BLE001 - onnxruntime's own types; the goldens are judged by themselves
        return {"note": text_of(f"{type(error).__name__}: {error}")}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return told(file, skip=before, runs=done, named=bool(ask.get("named")))
    except OSError as error:
        return {"note": f"the profiler's file cannot be read: {error.strerror}"}


def told(lines: Iterable[str], *, skip: int, runs: int, named: bool = False) -> dict[str, Any]:
    """Return the frame's body for the lines of a profile: ``runs`` inferences after ``skip`` that do not count."""
    sessions: dict[str, int] = {}
    inferences: list[list[dict[str, Any]]] = []
    nodes: list[dict[str, Any]] = []
    for event in _events(lines):
        if event.get("cat") == "Session":
            name, took = str(event.get("name")), event.get("dur")
            if name.startswith("model_loading"):
                name = "model_loading"
            if isinstance(took, int):
                sessions.setdefault(name, took)
            if name == "model_run":
                inferences.append(nodes)
                nodes = []
        elif event.get("cat") == "Node" and str(event.get("name", "")).endswith("_kernel_time"):
            nodes.append(event)
    counted = [ran for one in inferences[skip : skip + runs] if (ran := _own(one))]
    body: dict[str, Any] = {
        "runs": len(counted),
        "loading_ms": _ms(sessions.get("model_loading")),
        "initialising_ms": _ms(sessions.get("session_initialization")),
    }
    if len(counted) < runs:
        body["note"] = f"the profiler's file holds {len(counted)} of {runs} inferences"
    if not counted:
        return body
    return body | _summed(counted) | ({"named": _named(counted)} if named else {})


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        text = line.strip().rstrip(",")
        if not text.startswith("{") or len(text) > MAX_LINE:
            continue
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            continue  # the last line of a cut file
        if isinstance(event, dict):
            yield event


def _own(events: Sequence[dict[str, Any]]) -> list[Event]:
    """Return the nodes of one inference in the order in which they began, each with its own time.

    A Loop's event covers those of its body: their time is taken off, since they may be another provider's.
    """
    found: list[tuple[int, int, str, str, str]] = []
    for event in events:
        start, took, more = event.get("ts"), event.get("dur"), event.get("args")
        if isinstance(start, int) and isinstance(took, int) and isinstance(more, dict) and took >= 0:
            name = str(event.get("name", "")).removesuffix("_kernel_time")
            found.append((start, took, str(more.get("provider", "")), str(more.get("op_name", "")), name))
    found.sort(key=lambda one: (one[0], -one[1]))
    own = [took for _, took, _, _, _ in found]
    around: list[int] = []
    for index, (start, took, _, _, _) in enumerate(found):
        while around and start >= found[around[-1]][0] + found[around[-1]][1]:
            around.pop()
        if around and start + took <= found[around[-1]][0] + found[around[-1]][1]:
            own[around[-1]] = max(0, own[around[-1]] - took)
        around.append(index)
    return [Event(one[0], one[1], own[index], one[2], one[3], one[4]) for index, one in enumerate(found)]


def _summed(inferences: Sequence[Sequence[Event]]) -> dict[str, Any]:
    one = inferences[-1]
    segments: list[dict[str, Any]] = []
    for event in one:
        name = clip(event.op_type, 200)
        if segments and segments[-1]["provider"] == clip(event.provider, 200):
            segments[-1]["nodes"] += 1
            segments[-1]["last"] = name
        else:
            segments.append({"provider": clip(event.provider, 200), "nodes": 1, "first": name, "last": name})
    by_provider: dict[str, int] = {}
    by_operator: dict[tuple[str, str], list[int]] = {}
    for inference in inferences:
        for event in inference:
            by_provider[clip(event.provider, 200)] = by_provider.get(clip(event.provider, 200), 0) + event.own
            row = by_operator.setdefault((clip(event.provider, 200), clip(event.op_type, 200)), [0, 0])
            row[0] += 1
            row[1] += event.own
    count = len(inferences)
    medians = _medians(inferences, lambda one: (clip(one.provider, 200), clip(one.op_type, 200)))
    rows = sorted(by_operator.items(), key=lambda item: (-item[1][1], item[0]))[:MAX_OPERATORS]
    return {
        "segments": segments[:MAX_SEGMENTS],
        "segment_count": len(segments),
        "ms": {name: _ms(us, count) for name, us in sorted(by_provider.items())[:64]},
        "memcpy": sum(event.op_type.startswith("Memcpy") for event in one),
        "operators": [
            {
                "provider": provider,
                "op_type": name,
                "nodes": nodes // count,
                "ms": _ms(us, count),
                "median_ms": round(medians[provider, name] / 1000, 6),
            }
            for (provider, name), (nodes, us) in rows
        ],
    }


def _named(inferences: Sequence[Sequence[Event]]) -> list[dict[str, Any]]:
    """Return the nodes that took most time, by name, operator and provider. A node without a name is left out."""
    found = _medians(
        inferences, lambda one: (clip(one.name, 200), clip(one.op_type, 200), clip(one.provider, 200))
    )
    rows = sorted((item for item in found.items() if item[0][0]), key=lambda item: (-item[1], item[0]))[:MAX_NODES]
    return [
        {"name": name, "op_type": op_type, "provider": provider, "ms": round(us / 1000, 6)}
        for (name, op_type, provider), us in rows
    ]


def _medians(
    inferences: Sequence[Sequence[Event]], key: Callable[[Event], tuple[str, ...]]
) -> dict[tuple[str, ...], float]:
    """Return by key the own time in one inference in microseconds: the median, which no interruption moves."""
    found: dict[tuple[str, ...], list[int]] = {}
    for at, inference in enumerate(inferences):
        for event in inference:
            found.setdefault(key(event), [0] * len(inferences))[at] += event.own
    return {name: statistics.median(each) for name, each in found.items()}


def _ms(us: int | None, count: int = 1) -> float | None:
    return None if us is None else round(us / 1000 / count, 6)
