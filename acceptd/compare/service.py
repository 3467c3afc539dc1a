"""One task to statistics, and the loop that serves tasks from a socket."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping

from pydantic import ValidationError

from acceptd.compare import nested, protocol, ranges
from acceptd.compare.blob import Blob, MalformedError
from acceptd.compare.insensitive import insensitive
from acceptd.compare.quality import quality
from acceptd.compare.tally import Tally
from acceptd.compare.task import CompareTask, Pair
from acceptd.compare.values import DiffersError
from acceptd.evidence import InputStats, MapRef, OutputStats, SequenceRef, Statistics, TensorRef, ValueRef

BUDGET = 8
"""How often the bytes of all files together may be referred to: golden, repeat, unoptimised and sensitivity."""


def compare(task: CompareTask, blobs: Mapping[str, Blob]) -> Statistics:
    """Return the statistics of a task. Hostile values never raise: they make an output not comparable."""
    left = BUDGET * (sum(blob.size for blob in blobs.values()) + (1 << 20))
    outputs = []
    for pair in task.pairs:
        # Honest values do not overlap; references that do would have one byte read without end.
        left -= _bytes(pair.expected.value) + (_bytes(pair.got.value) if pair.got is not None else 0)
        outputs.append(_pair(pair, blobs) if left >= 0 else _stats(pair, None, "malformed"))
    same = []
    for group in task.groups:
        left -= sum(_bytes(part.value) for one in group.samples for part in (one.output, *(one.inputs or ())))
        if left < 0:
            break
        try:
            if insensitive(group, blobs):
                same.append(f"{group.model}: {group.output}")
        except MalformedError:
            continue  # the same values are in a pair, where they count
    inputs = []
    for one in task.inputs:
        left -= _bytes(one.value.value)
        lost = InputStats(set=one.set, model=one.model, input=one.input, comparable=False)
        inputs.append(ranges.measure(one, blobs) if left >= 0 else lost)
    for row in task.labelled:
        left -= sum(_bytes(part.value) for part in (row.got, row.labels, row.slices) if part is not None)
    answers = quality(task.labelled, blobs) if left >= 0 else []
    return Statistics(outputs=outputs, insensitive=same, problems=task.problems, inputs=inputs, quality=answers)


def _bytes(value: ValueRef | None) -> int:
    if isinstance(value, TensorRef):
        return value.nbytes
    if isinstance(value, SequenceRef):
        return sum(map(_bytes, value.items))
    if isinstance(value, MapRef):
        return value.keys.nbytes + value.values.nbytes
    return _bytes(value.value) if value is not None else 0


def _pair(pair: Pair, blobs: Mapping[str, Blob]) -> OutputStats:
    if pair.got is None:
        return _stats(pair, None, "missing")
    tally = Tally(pair.rtol, pair.atol)
    try:
        nested.compare(pair.expected, pair.got, blobs, pair.kind, tally)
    except DiffersError as error:
        return _stats(pair, None, str(error))
    except (MalformedError, RecursionError):
        return _stats(pair, None, "malformed")
    return _stats(pair, tally, "")


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def _stats(pair: Pair, tally: Tally | None, note: str) -> OutputStats:
    told = tally if tally is not None else Tally(pair.rtol, pair.atol)
    return OutputStats(
        set=pair.set,
        model=pair.model,
        output=pair.output,
        against=pair.against,
        comparable=tally is not None,
        note=note,
        n=told.n,
        exceeding=told.exceeding,
        max_abs=_number(told.max_abs),
        max_rel=_number(told.max_rel),
        rtol=pair.rtol,
        atol=pair.atol,
        worst_index=told.worst_index,
        worst_expected=told.worst_expected,
        worst_got=told.worst_got,
        top1_total=told.top1_total,
        top1_mismatches=told.top1_mismatches,
        range_violations=told.range_violations,
        non_finite=told.non_finite,
        bit_exact=tally is not None and told.bit_exact,
    )


def serve(sock: socket.socket) -> None:
    """Answer requests until the other side closes the socket."""
    while True:
        try:
            message, descriptors = protocol.receive(sock)
        except protocol.ClosedError:
            return
        try:
            reply = answer(message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        protocol.send(sock, reply)


def answer(message: dict[str, object], descriptors: list[int]) -> dict[str, object]:
    """Return the reply to one request: ``{"id", "statistics"}``, ``{"id", "pong"}`` or ``{"id", "error"}``."""
    number = message.get("id")
    if message.get("ping"):
        return {"id": number, "pong": True}
    names = message.get("files")
    if not isinstance(names, list) or len(names) != len(descriptors):
        return {"id": number, "error": "names and descriptors do not match"}
    try:
        task = CompareTask.model_validate(message.get("task"))
    except (ValidationError, RecursionError) as error:
        return {"id": number, "error": f"not a task: {str(error)[:400]}"}
    blobs = {str(name): Blob(descriptor) for name, descriptor in zip(names, descriptors, strict=True)}
    return {"id": number, "statistics": compare(task, blobs).model_dump(mode="json")}
