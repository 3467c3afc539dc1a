"""Has the cell decode the files that somebody brings, or draw inputs at random; both end in one blob."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from acceptd.bundling.look import ending_of
from acceptd.bundling.oracles import Task
from acceptd.bundling.stage import laid
from acceptd.cell.blobs import Blob, lent
from acceptd.cell.limits import job_limits
from acceptd.errors import UsageError
from acceptd.evidence import JobRecord, VectorSet
from acceptd.intake.paths import shown
from acceptd.local import Bench
from acceptd.report.escape import line

CAST: Final = 'numpy.savez("FILE.npz", NAME=array.astype("float32")) writes arrays by name and type'


def _types(task: Task) -> dict[str, Any]:
    return {
        task.model.name: {
            side: [{"name": spec.name, "kind": spec.type, "dtype": spec.dtype} for spec in specs]
            for side, specs in (("inputs", task.model.inputs), ("outputs", task.model.outputs))
        }
    }


def decoded(
    place: Bench, task: Task, inputs: Sequence[Path], expected: Sequence[Path], blob: Blob
) -> list[VectorSet]:
    """Return the sets of .npz files, ``expected`` beside ``inputs`` where there are some, in that order.

    They come to the job under names of ours. Raises UsageError for one that cannot be read.
    """
    sets, files = [], {}
    for number, path in enumerate(inputs):
        sides = {"inputs": path, "outputs": expected[number] if expected else None}
        one: dict[str, Any] = {"model": task.model.name, "name": f"set-{number}", "format": "npz", "outputs": ""}
        for side, source in sides.items():
            if source is not None:
                one[side] = f"{side}-{number}.npz"
                files[one[side]] = source.resolve()
        sets.append(one if expected else one | {"smoke": True})
    spec = {"sets": sets, "types": _types(task)}
    with (
        laid(place, place.tools.temporary, list(files), files) as stage,
        lent({"inputs": task.inputs.writer(), "expected": blob.writer()}) as blobs,
    ):
        record = vectors_job(place, {path: f"{stage}/{path}" for path in files}, spec, blobs)
    named = {f"set-{number}": path for number, path in enumerate(inputs)}
    found = record.vectors.sets if record.vectors is not None else []
    if len(found) != len(sets):
        problems = record.vectors.problems if record.vectors is not None else []
        why = line(problems[0].message, 300) if problems else ending_of(record)
        missing = next(path for name, path in named.items() if name not in {one.name for one in found})
        raise UsageError(f"{shown(missing.name)} cannot be read: {why}", remedy=CAST)
    return list(found)


def drawn(place: Bench, task: Task, count: int, seed: str) -> list[VectorSet]:
    """Return ``count`` sets of random inputs; the same ``seed`` gives the same ones."""
    spec = {
        "make": "random",
        "model": task.model.name,
        "declared": [one.model_dump(mode="json") for one in task.model.inputs],
        "dims": {name: bounds.model_dump() for name, bounds in task.manifest.dims.items()},
        "count": count,
        "seed": hashlib.sha256(seed.encode("utf-8", "surrogateescape")).hexdigest(),
        "max_elements": place.rules.policy.probes.max_elements,
    }
    with lent({"inputs": task.inputs.writer()}) as blobs:
        record = vectors_job(place, {}, spec, blobs)
    if record.vectors is None:
        raise UsageError(f"no random inputs can be made: {ending_of(record)}", remedy="give --from FILE.npz")
    return list(record.vectors.sets)


def vectors_job(place: Bench, files: dict[str, str], spec: dict[str, Any], blobs: dict[str, int]) -> JobRecord:
    """Run a ``vectors`` job of our own order."""
    return place.tools.cell.run(
        "vectors",
        files=files,
        spec=spec,
        limits=job_limits("vectors", place.rules.policy.limits),
        required_walls=place.rules.policy.required_walls,
        blobs=blobs,
    )
