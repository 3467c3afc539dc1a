"""A whole, flawless submission of the evidence classifier as evidence, for the tests of judge and comparer.

Each test changes one thing and looks at the verdict. Nothing here touches a file or a process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acceptd.evidence import (
    BundleFile,
    Case,
    Check,
    Done,
    Facts,
    JobRecord,
    Named,
    OpsetImport,
    OpUse,
    OutputStats,
    PlacedNode,
    Placement,
    Schema,
    Sealed,
    Statistics,
    Step,
    Structure,
    Submission,
    TensorRef,
    ValueInfo,
    Vectors,
    VectorSet,
    Walls,
    Wire,
)
from acceptd.judge.finding import Judgement
from acceptd.judge.verdict import judge
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest
from acceptd.policy.policy import Policy

NOW = "2026-11-29T15:17:00Z"
SETS = ("test_data_set_0", "test_data_set_1")
WALLS = dict.fromkeys(
    ("namespaces", "root", "network", "landlock", "seccomp", "capabilities", "rlimits", "separate_uid"), "enforced"
)


def manifest_document() -> dict[str, Any]:
    """The manifest of the design, section 4, as JSON data."""
    return {
        "schema": 1,
        "bundle": {"id": "mosaic/evidence-disposition", "version": "1.4.0"},
        "dims": {"batch": {"min": 1, "max": 32}},
        "models": [
            {
                "name": "main",
                "file": "model.onnx",
                "ir_version": 8,
                "opsets": {"ai.onnx": 13},
                "inputs": [
                    {"name": "features", "dtype": "float32", "shape": ["batch", 4], "range": [0.0, 1.0]},
                ],
                "outputs": [
                    {
                        "name": "probabilities",
                        "dtype": "float32",
                        "shape": ["batch", 3],
                        "kind": "probabilities",
                        "labels": ["accept", "review", "reject"],
                        "tolerance": {"rtol": 0.0, "atol": 1e-6, "top1": 1.0},
                    }
                ],
                "vectors": [{"sets": ["test_data_set_*"], "origin": "float64 numpy oracle"}],
            }
        ],
        "preprocessing": {"version": "3", "sha256": "a" * 64},
        "labels": {"schema_version": "2"},
    }


def contract_document() -> dict[str, Any]:
    """The contract that agrees with the manifest in everything."""
    document = manifest_document()
    model = document["models"][0]
    output = {key: value for key, value in model["outputs"][0].items() if key != "tolerance"}
    return {
        "schema": 1,
        "id": "mosaic/evidence-disposition",
        "dims": document["dims"],
        "models": [
            {
                "name": "main",
                "ir_version": 8,
                "opsets": {"ai.onnx": 13},
                "inputs": model["inputs"],
                "outputs": [output],
            }
        ],
        "preprocessing_sha256": "a" * 64,
        "label_schema_version": "2",
        "max_rtol": 0.001,
        "max_atol": 1e-5,
        "ceilings": {"load_ms": 1000.0, "run_ms": 100.0, "peak_memory_bytes": 1 << 28, "model_bytes": 1 << 20},
    }


def a_manifest(change: Callable[[dict[str, Any]], None] | None = None) -> Manifest:
    document = manifest_document()
    if change is not None:
        change(document)
    return Manifest.model_validate(document)


def a_contract(change: Callable[[dict[str, Any]], None] | None = None) -> Contract:
    document = contract_document()
    if change is not None:
        change(document)
    return Contract.model_validate(document)


def sealed(*extra: str, manifest: bool = True) -> Sealed:
    """The inventory of the bundle, with further paths."""
    paths = ["bundle.toml"] if manifest else []
    paths += ["model.onnx"]
    for name in SETS:
        paths += [f"{name}/input_0.pb", f"{name}/output_0.pb"]
    files = [BundleFile(path=path, sha256="0" * 64, size=309) for path in sorted([*paths, *extra])]
    return Sealed(digest="d" * 64, files=files, total_bytes=309 * len(files))


def ref(offset: int = 0, width: int = 3, dtype: str = "float32", batch: int = 1) -> TensorRef:
    return TensorRef(dtype=dtype, shape=[batch, width], offset=offset, nbytes=4 * width * batch)


def value(name: str, width: int, **changes: Any) -> ValueInfo:
    fields: dict[str, Any] = {"name": name, "kind": "tensor", "dtype": "float32", "shape": ["batch", width]}
    return ValueInfo.model_validate(fields | changes)


def facts(**changes: Any) -> Facts:
    fields: dict[str, Any] = {
        "ir_version": 8,
        "opsets": {"ai.onnx": 13},
        "nodes": 3,
        "scopes": 1,
        "operators": [
            OpUse(domain="ai.onnx", op_type=name, count=1, where=f"graph/node[{index}]")
            for index, name in enumerate(("MatMul", "Add", "Softmax"))
        ],
        "initializers": 2,
        "initializer_bytes": 60,
        "inputs": [value("features", 4)],
        "outputs": [value("probabilities", 3)],
    }
    return Facts.model_validate(fields | changes)


def structure(**changes: Any) -> Structure:
    fields: dict[str, Any] = {
        "topology_sha256": "1" * 64,
        "graph_sha256": "",
        "parameters": 15,
        "initializers": ["bias float32[3]", "weight float32[4,3]"],
        "initializer_count": 2,
        "initializers_sha256": "2" * 64,
        "selections": [],
        "selection_shapes": 0,
    }
    return Structure.model_validate(fields | changes)


def record(kind: str, **changes: Any) -> JobRecord:
    walls = Walls.model_validate({"states": {name: "enforced" for name in WALLS if name != "separate_uid"}})
    fields: dict[str, Any] = {"kind": kind, "ending": "done", "stage": "done", "walls": walls, "done": Done()}
    return JobRecord.model_validate(fields | changes)


def wire_of(told: Facts | None) -> Wire:
    """Return the wire form of the model that the facts are about."""
    told = told or facts()
    return Wire(
        bytes=309,
        fields=60,
        depth=6,
        ir_version=told.ir_version,
        graphs=told.scopes,
        nodes=told.nodes,
        initializers=told.initializers,
        opsets=[
            OpsetImport(domain=domain, version=version, where=f"opset_import[{index}]")
            for index, (domain, version) in enumerate(told.opsets.items())
        ],
    )


def inspect(**changes: Any) -> JobRecord:
    fields: dict[str, Any] = {
        "model": "main",
        "wire": wire_of(changes.get("facts")),
        "facts": facts(),
        "structure": structure(),
        "checker": Check(ok=True),
        "shapes": Check(ok=True),
    }
    return record("inspect", **(fields | changes))


def vector_sets(**changes: Any) -> list[VectorSet]:
    return [
        VectorSet.model_validate(
            {
                "name": name,
                "model": "main",
                "inputs": [Named(name="", value=ref(16 * index, 4))],
                "expected": [Named(name="", value=ref(12 * index))],
            }
            | changes
        )
        for index, name in enumerate(SETS)
    ]


def vectors(**changes: Any) -> JobRecord:
    return record("vectors", **({"vectors": Vectors(sets=vector_sets())} | changes))


def golden_cases(repeats: int = 2) -> list[Case]:
    cases = []
    for repeat in range(repeats):
        for name in SETS:
            outputs = [Named(name="probabilities", value=ref(12 * len(cases)))]
            cases.append(Case(set=name, repeat=repeat, outputs=outputs, finite=True, wall_ms=1.0))
    return cases


def run(**changes: Any) -> JobRecord:
    fields: dict[str, Any] = {
        "model": "main",
        "profile": "cpu",
        "steps": [Step(name="receipts")],
        "schema_": Schema(
            inputs=[value("features", 4)],
            outputs=[value("probabilities", 3)],
            providers=["CPUExecutionProvider"],
            load_ms=2.0,
        ),
        "placement": Placement(
            nodes=[PlacedNode(provider="CPUExecutionProvider", domain="ai.onnx", op_type="MatMul", count=3)]
        ),
        "cases": golden_cases(),
    }
    return record("run", **(fields | changes))


def unoptimised(**changes: Any) -> JobRecord:
    return run(**({"variant": "unoptimised", "cases": golden_cases(1)} | changes))


def stats(name: str = SETS[0], **changes: Any) -> OutputStats:
    fields: dict[str, Any] = {
        "set": name,
        "model": "main",
        "output": "probabilities",
        "against": "golden",
        "comparable": True,
        "n": 3,
        "max_abs": 1e-8,
        "max_rel": 1e-8,
        "atol": 1e-6,
        "top1_total": 1,
        "bit_exact": False,
    }
    return OutputStats.model_validate(fields | changes)


def statistics(*rows: OutputStats, **changes: Any) -> Statistics:
    given = {(row.set, row.against) for row in rows}
    usual = [stats(name, against=kind) for name in SETS for kind in ("golden", "repeat", "unoptimised")]
    kept = [row for row in usual if (row.set, row.against) not in given]
    return Statistics.model_validate({"outputs": [*rows, *kept]} | changes)


def submission(jobs: list[JobRecord] | None = None, **changes: Any) -> Submission:
    """A flawless submission; ``jobs`` replace the records of the same kind and variant."""
    usual = [record("manifest", manifest=manifest_document()), inspect(), vectors(), run(), unoptimised()]
    given = {(job.kind, job.variant) for job in jobs or []}
    fields: dict[str, Any] = {
        "id": "s-1",
        "team": "mosaic",
        "sealed": sealed(),
        "jobs": [job for job in usual if (job.kind, job.variant) not in given] + (jobs or []),
        "statistics": statistics(),
        "walls": dict(WALLS),
    }
    return Submission.model_validate(fields | changes)


def verdict(
    given: Submission | None = None,
    *,
    manifest: Manifest | str | None = "usual",
    contract: Contract | None = None,
    policy: Policy | None = None,
    **more: Any,
) -> Judgement:
    one = a_manifest() if isinstance(manifest, str) else manifest
    return judge(one, contract, policy or Policy(), given if given is not None else submission(), NOW, **more)


def codes(judgement: Judgement, *severities: str) -> list[str]:
    """The codes of a judgement, of these severities or of all."""
    return [one.code for one in judgement.findings if not severities or one.severity in severities]
