"""Both processes of one model's run in this process, what they gave compared, and what the judge makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from acceptd.compare.blob import Blob
from acceptd.compare.parts import outputs_key
from acceptd.compare.relations import Relations
from acceptd.compare.service import compare
from acceptd.compare.task import CompareTask
from acceptd.evidence import Case, Facts, JobRecord, OutputStats, Probed
from acceptd.judge import relations
from acceptd.judge.finding import Finding
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy
from sandbox import run
from sandbox.tensors import BlobWriter, tensor_of
from tests.run_world import Recorder, blob, model_bytes, spec_of, tensor_info

ROOMY = {"seconds": 600.0, "threads": 8, "memory_bytes": 2 << 30, "sessions": 4}
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Related:
    """What came out: statistics, findings, and the two records."""

    rows: list[OutputStats]
    findings: list[Finding]
    main: JobRecord
    second: JobRecord

    @property
    def codes(self) -> dict[str, str]:
        """Severity by code."""
        return {one.code: one.severity for one in self.findings}

    def told(self, scope: str) -> Probed:
        """Return the frame of one scope."""
        return next(one for record in (self.main, self.second) for one in record.probed if one.scope == scope)


def graph(nodes: list[Any], width: int = 3, batch: int | str = "batch", extra: tuple[str, ...] = ()) -> bytes:
    """A model from float ``x`` (and ``extra`` inputs) [batch, width] to ``y`` [batch, width]."""
    inputs = [tensor_info(name, TensorProto.FLOAT, [batch, width]) for name in ("x", *extra)]
    return model_bytes(nodes, inputs, [tensor_info("y", TensorProto.FLOAT, [batch, width])], opset=17)


def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs, outputs, **attributes)


def related(
    root: Path,
    raw: bytes,
    *,
    inputs: tuple[str, ...] = ("x",),
    shape: tuple[int | str, ...] = ("batch", 3),
    answered: tuple[int | str, ...] | None = None,
    dims: dict[str, dict[str, int]] | None = None,
    kind: str = "values",
    limits: tuple[float, float] | None = (-1.0, 1.0),
    facts: Facts | None = None,
    rows_interact: bool = False,
    room: dict[str, Any] | None = None,
    packed: bool = True,
    **changes: Any,
) -> Related:
    """Run a model as its profile says and in the second process, and judge the relations."""
    model = {
        "name": "main",
        "file": "model.onnx",
        "inputs": [{"name": name, "dtype": "float32", "shape": list(shape)} for name in inputs],
        "outputs": [{"name": "y", "dtype": "float32", "shape": list(answered or shape), "kind": kind}],
        "rows_interact": rows_interact,
    }
    for spec in model["inputs"]:  # type: ignore[attr-defined]
        spec["range"] = list(limits) if limits else None
    sizes = {"batch": {"min": 1, "max": 32}} if dims is None else dims
    manifest = Manifest.model_validate(
        {"schema": 1, "bundle": {"id": "a/b", "version": "1"}, "dims": sizes, "models": [model]}
    )
    golden = np.linspace(-1, 1, int(np.prod([2 if isinstance(one, str) else one for one in shape])))
    golden = golden.reshape([2 if isinstance(one, str) else one for one in shape]).astype(np.float32)
    records, blobs = [], {}
    for optimised in (True, False):
        fed, given, channel = blob(), blob(), Recorder()
        writer = BlobWriter(fed)
        named = [{"name": name, "value": writer.store(tensor_of(golden, "float32"))} for name in inputs]
        order = spec_of(
            root,
            raw,
            declared=model,
            dims=sizes,
            optimised=optimised,
            sets=[{"name": "golden", "inputs": named}],
            probes="inside",
            relations=None if optimised else ROOMY | (room or {}),
            packed=optimised or packed,
            **changes,
        )
        run.body({"kind": "run", "spec": order}, channel, {"inputs": fed, "outputs": given})
        variant = "" if optimised else "unoptimised"
        blobs[outputs_key("main", variant)] = Blob(given)
        records.append(
            JobRecord(
                kind="run",
                model="main",
                variant="" if optimised else "unoptimised",
                ending="done",
                cases=[Case.model_validate(one) for one in channel.all("case")],
                probed=[Probed.model_validate(one) for one in channel.all("probed")],
            )
        )
    main, second = records
    pairs = list(Relations(manifest, manifest.models[0], None, Policy(), [], main, second).pairs())
    rows = compare(CompareTask(pairs=pairs), blobs).outputs
    known = {"main": facts} if facts is not None else {}
    found = [*relations.comparisons(manifest, rows, known, None, Policy())]
    for record in records:
        found += relations.told(manifest, manifest.models[0], record)
        found += [
            one for case in record.cases if case.set.startswith("meta:") for one in relations.cases(record, case)
        ]
    return Related(rows, found, main, second)
