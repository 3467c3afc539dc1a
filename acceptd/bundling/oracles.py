"""Asks an oracle in the cell for expected values: onnx's own evaluator, or onnxruntime itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from acceptd.bundling.listing import Listing
from acceptd.bundling.lock import hashed
from acceptd.bundling.look import Seen, ending_of
from acceptd.bundling.origins import REFERENCE, Origin, of_reference, of_runtime
from acceptd.bundling.stage import laid
from acceptd.cell.blobs import Blob, lent
from acceptd.cell.limits import JobLimits, job_limits
from acceptd.errors import UsageError
from acceptd.evidence import Case, JobRecord, Named, VectorSet
from acceptd.local import Bench
from acceptd.oracle import limits as reference_limits
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.report.escape import line

PATIENCE: Final = 20.0
"""Seconds of processor time for all sets of one call: more than in an acceptance, since sets are made once."""
OUT_OF_TIME: Final = "its seconds were over before this set"
_OTHER: Final = "--oracle onnxruntime makes regression sets; --oracle FILE.npz takes expected values of your own"


class SpentError(UsageError):
    """The oracle's job was ended by a limit of the policy, or by nobody knows whom: other inputs take no less."""


@dataclass(frozen=True, slots=True)
class Task:
    """One model of a bundle whose expected values are wanted, and the inputs in their blob."""

    listing: Listing
    manifest: Manifest
    model: ModelSpec
    seen: Seen
    sets: Sequence[VectorSet]
    inputs: Blob


def ask(
    place: Bench, task: Task, oracle: str, outputs: Blob, patience: float = PATIENCE
) -> tuple[list[list[Named]], Origin]:
    """Return for each set the values that ``oracle`` computed, which lie in ``outputs``, and what they prove.

    ``patience``: seconds that the evaluator gets at least, whatever the policy says.
    Raises UsageError with what the oracle said where it cannot compute one of them, or the file that is missing.
    """
    task.seen.whole()
    external = [path for path in task.seen.external if task.listing.has(path)]
    alone = Listing(task.listing.root, {task.model.file: task.listing.files[task.model.file]})
    [file] = hashed(alone)
    spec: dict[str, Any] = {
        "model": task.model.file,
        "declared": task.model.model_dump(mode="json"),
        "dims": {name: bounds.model_dump() for name, bounds in task.manifest.dims.items()},
        "sets": [
            {"name": one.name, "inputs": [item.model_dump(mode="json") for item in one.inputs]}
            for one in task.sets
        ],
        "max_elements": place.rules.policy.probes.max_elements,
        "probes": False,
        "draws": 0,
        "seed": "0",
    }
    rules = place.rules
    if oracle == REFERENCE:
        patient = max(rules.policy.reference.seconds, patience)
        table = rules.policy.reference.model_copy(update={"seconds": patient})
        limits = reference_limits(rules.policy.model_copy(update={"reference": table}))
        spec |= {"seconds": patient}
        record = _run(place, "reference", task, external, spec, outputs, limits)
        origin = of_reference(place.tools.cell.versions().get("onnx", ""))
    else:
        mapped = sum((task.listing.root / path).stat().st_size for path in external)
        spec |= {"sha256": file.sha256, "size": file.size, "external": external, "near_ties": 0, "inferred": False}
        spec |= {"profile": rules.profile.model_dump(mode="json", by_alias=True), "probe_seconds": 1.0}
        spec |= {"quantised": False, "optimised": True, "repeats": 1}
        limits = job_limits("run", rules.policy.limits, mapped_bytes=mapped)
        record = _run(place, "run", task, external, spec, outputs, limits)
        origin = of_runtime(place.tools.cell.told(rules.profile).versions().get("onnxruntime", ""))
    return _values(record, task.sets, oracle), origin


def _run(
    place: Bench,
    kind: str,
    task: Task,
    external: Sequence[str],
    spec: dict[str, Any],
    outputs: Blob,
    limits: JobLimits,
) -> JobRecord:
    paths = [task.model.file, *external]
    with (
        laid(place, task.listing.root, paths) as stage,
        lent({"inputs": task.inputs.reader(), "outputs": outputs.writer()}) as blobs,
    ):
        return place.tools.cell.run(
            kind,
            files={path: f"{stage}/{path}" for path in paths},
            spec=spec,
            limits=limits,
            required_walls=place.rules.policy.required_walls,
            blobs=blobs,
            model=task.model.name,
            profile=place.rules.profile if kind == "run" else None,
            proc_fd=bool(external) and kind == "run",
        )


def _values(record: JobRecord, sets: Sequence[VectorSet], oracle: str) -> list[list[Named]]:
    what = "onnx's reference evaluator" if oracle == REFERENCE else "onnxruntime"
    cases: dict[str, Case] = {}
    for case in record.cases:
        cases.setdefault(case.set, case)
    found = []
    for one in sets:
        told = cases.get(one.name)
        if told is None or told.error:
            if told is not None:
                why = line(told.error, 300)
            elif record.ending == "done":
                why = f"{OUT_OF_TIME}; try fewer sets, or smaller ones"
            else:
                why = ending_of(record)
            spent = told is None and record.ending in {"limit", "lost"}
            kind = SpentError if spent else UsageError
            raise kind(f"{what} cannot compute {line(one.name, 80)}: {why}", remedy=_OTHER)
        found.append(list(told.outputs))
    return found
