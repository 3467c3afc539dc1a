"""One task to statistics, and the loop that serves tasks from a socket."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from acceptd.compare import labels, nested, protocol, ranges
from acceptd.compare.blob import Blob, MalformedError
from acceptd.compare.embedding import Pool, Room
from acceptd.compare.insensitive import insensitive
from acceptd.compare.kinds import Measures
from acceptd.compare.quality import quality
from acceptd.compare.tally import Tally
from acceptd.compare.task import Companion, CompareTask, Pair, Slice
from acceptd.compare.values import DiffersError
from acceptd.golden_facts import InputStats
from acceptd.kind_facts import CLASSES
from acceptd.statistics_facts import OutputStats, Statistics
from acceptd.values import MapRef, SequenceRef, TensorRef, ValueRef

BUDGET = 24
"""How often the bytes of all files together may be referred to: golden, repeat, unoptimised and sensitivity."""


def compare(task: CompareTask, blobs: Mapping[str, Blob]) -> Statistics:
    """Return the statistics of a task. Hostile values never raise: they make an output not comparable."""
    left = BUDGET * (sum(blob.size for blob in blobs.values()) + (1 << 20))
    pools = Pools()
    made: list[Callable[[], list[OutputStats]]] = []
    for pair in task.pairs:
        # Honest values do not overlap; references that do would have one byte read without end.
        left -= sum(_bytes(one.value) for one in _slices(pair))
        made.append(_pair(pair, blobs, pools) if left >= 0 else partial(_beyond, pair))
    outputs = [row for one in made for row in one()]
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


def _beyond(pair: Pair) -> list[OutputStats]:
    others = (one for one in (pair.how.scores, pair.how.classes) if one is not None and pair.kind == "boxes")
    return [_stats(pair, None, "malformed"), *(_companion(pair, one, None, "malformed") for one in others)]


def _slices(pair: Pair) -> Iterator[Slice]:
    for one in (pair, pair.how.scores, pair.how.classes):
        if one is not None:
            yield one.expected
            if one.got is not None:
                yield one.got


class Pools:
    """Where the rows of embeddings are kept: one pool for each output and what it is compared with."""

    def __init__(self) -> None:
        self._room = Room()
        self._pools: dict[tuple[str, str, str], Pool] = {}

    def of(self, pair: Pair) -> Pool | None:
        """Return the pool of a pair; None where its kind needs none."""
        if pair.kind != "embedding":
            return None
        return self._pools.setdefault((pair.model, pair.output, pair.against), Pool(self._room))


def _bytes(value: ValueRef | None) -> int:
    if isinstance(value, TensorRef):
        return value.nbytes
    if isinstance(value, SequenceRef):
        return sum(map(_bytes, value.items))
    if isinstance(value, MapRef):
        return value.keys.nbytes + value.values.nbytes
    return _bytes(value.value) if value is not None else 0


def _pair(pair: Pair, blobs: Mapping[str, Blob], pools: Pools) -> Callable[[], list[OutputStats]]:
    """Compare one pair; return what makes its rows once all are compared: neighbours lie in other sets."""
    others = [one for one in (pair.how.scores, pair.how.classes) if one is not None and pair.kind == "boxes"]
    if pair.got is None:
        return lambda: [_stats(pair, None, "missing"), *(_companion(pair, one, None, "missing") for one in others)]
    try:
        measures = Measures(pair, pools.of(pair))
    except MalformedError:
        return lambda: _beyond(pair)
    tallies = {
        name: Tally(one.rtol, one.atol)
        for name, one in (("scores", pair.how.scores), ("classes", pair.how.classes))
        if one in others and one is not None and one.got is not None
    }
    note = ""
    counted = None
    try:
        if pair.order is None:
            nested.compare(pair, blobs, measures, tallies)
        else:
            labels.reordered(pair.expected, pair.got, blobs, pair.order, measures.tally)
        if pair.labels:
            counted = labels.count(pair.expected, pair.got, blobs, pair.order, pair.kind)
    except DiffersError as error:
        note = str(error)
    except (MalformedError, RecursionError):
        note = "malformed"

    def rows() -> list[OutputStats]:
        whole = measures if not note else None
        return [
            _stats(pair, whole, note).model_copy(update={"labels": counted if whole else None}),
            *(
                _companion(pair, one, tallies.get(name) if whole else None, note or "missing")
                for name, one in (("scores", pair.how.scores), ("classes", pair.how.classes))
                if one in others and one is not None
            ),
        ]

    return rows if measures.vectors is not None else partial(list, rows())


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def _elements(tally: Tally) -> dict[str, Any]:
    return {
        "n": tally.n,
        "exceeding": tally.exceeding,
        "max_abs": _number(tally.max_abs),
        "max_rel": _number(tally.max_rel),
        "worst_index": tally.worst_index,
        "worst_expected": tally.worst_expected,
        "worst_got": tally.worst_got,
        "non_finite": tally.non_finite,
        "bit_exact": tally.bit_exact,
    }


def _stats(pair: Pair, measures: Measures | None, note: str) -> OutputStats:
    found: dict[str, Any] = {}
    if measures is not None:
        ranked = measures.ranked
        found = _elements(measures.tally) | measures.figures()
        found |= {"range_violations": measures.range_violations}
        if ranked is not None:
            found |= {"top1_total": ranked.rows, "top1_mismatches": ranked.top1_mismatches}
    return OutputStats(
        set=pair.set,
        model=pair.model,
        output=pair.output,
        against=pair.against,
        comparable=measures is not None,
        note=note,
        rtol=pair.rtol,
        atol=pair.atol,
        **found,
    )


def _companion(pair: Pair, one: Companion, tally: Tally | None, note: str) -> OutputStats:
    """Return the row of scores or classes that were compared with their boxes."""
    classes = one is pair.how.classes
    return OutputStats(
        set=pair.set,
        model=pair.model,
        output=one.output,
        against=pair.against,
        comparable=tally is not None,
        note=note if tally is None else (CLASSES if classes else ""),
        rtol=one.rtol,
        atol=one.atol,
        **(_elements(tally) if tally is not None else {}),
    )


def serve(sock: socket.socket) -> None:
    """Answer requests until the other side closes the socket."""
    while True:
        try:
            message, descriptors = protocol.receive(sock)
        except (protocol.ClosedError, ConnectionError):  # reset: it died with a reply unread
            return
        try:
            reply = answer(message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        try:
            protocol.send(sock, reply)
        except ConnectionError:  # whoever asked has died
            return


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
