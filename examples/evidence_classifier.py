"""The evidence classifier: a 309-byte model, its float64 oracle, and the bundle that carries both.

``features`` float32 [batch, 4] -> MatMul -> Add -> Softmax -> ``probabilities`` float32 [batch, 3],
labels accept, review, reject. Run it to get a bundle that acceptd accepts::

    python examples/evidence_classifier.py evidence-1.4.0 --version 1.4.0
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.bundle_text import Array, lock, toml_text, write_set

Oracle = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]
Evidence = tuple[int, int, int, int]

MODEL_ID: Final = "mosaic/evidence-disposition"
LABELS: Final = ("accept", "review", "reject")
WEIGHT: Final = ((1.5, 0.0, -4.0), (1.5, 0.0, -1.0), (2.5, 0.0, -0.5), (-1.0, 0.5, 4.5))
BIAS: Final = (-1.0, 0.5, 0.0)
FOURTH_LABEL: Final = "escalate"
FOURTH_COLUMN: Final = (0.25, -0.25, 0.5, 0.75)
FOURTH_BIAS: Final = 0.25
MAX_BATCH: Final = 32
BASIS_POINTS: Final = 10_000
AGREEMENTS: Final = 4
PREPROCESSING: Final = (
    "confidence, coverage, anomaly: integers 0..10000, divided by 10000; agreements: integer 0..4, "
    "divided by 4; order confidence, coverage, agreements, anomaly; float32\n"
)
NUMPY: Final[dict[str, type[np.floating[Any]]]] = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
}
ONNX: Final = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
}
ATOL: Final = {"float32": 1e-6, "float64": 1e-6, "float16": 2e-3}


@dataclass(frozen=True)
class Published:
    """One published point: integer evidence, float32 probabilities (atol 1e-6) and the label."""

    evidence: Evidence
    probabilities: tuple[float, float, float]
    label: str


PUBLISHED: Final = (
    Published((9000, 8000, 3, 1000), (0.9408883, 0.058663875, 0.00044790408), "accept"),
    Published((1000, 2000, 0, 9000), (0.0068346667, 0.075339735, 0.9178256), "reject"),
    Published((9001, 8000, 3, 1000), (0.94089675, 0.05865562, 0.00044766194), "accept"),
    Published((0, 0, 0, 0), (0.121951655, 0.5465494, 0.33149895), "review"),
    Published((10_000, 10_000, 4, 10_000), (0.9147507, 0.07508731, 0.010161963), "accept"),
)


@dataclass(frozen=True)
class Variant:
    """One build of the classifier; the default is the published one, each field a way to drift from it."""

    bias: tuple[float, ...] = BIAS
    weight: tuple[tuple[float, ...], ...] = WEIGHT
    batch: str | int = "batch"
    dtype: str = "float32"
    input_name: str = "features"
    output_name: str = "probabilities"
    outputs: tuple[str, ...] = ("probabilities",)  # also "logits"; the order is the graph's
    attention_mask: bool = False  # a second required input [batch, 4], multiplied with the features
    wide: bool = False  # a fourth column, label "escalate"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the output's columns."""
        return (*LABELS, FOURTH_LABEL) if self.wide else LABELS

    def parameters(self) -> tuple[Oracle, Oracle]:
        """Return weight [4, n] and bias [n] as float64."""
        weight, bias = np.array(self.weight, np.float64), np.array(self.bias, np.float64)
        if self.wide:
            weight = np.column_stack([weight, np.array(FOURTH_COLUMN, np.float64)])
            bias = np.append(bias, FOURTH_BIAS)
        return weight, bias

    def name_of(self, output: str) -> str:
        """Return the graph's name of ``probabilities`` or ``logits``."""
        return self.output_name if output == "probabilities" else output


DRIFTS: Final[dict[str, Variant]] = {
    "other-bias": Variant(bias=(-0.75, 0.5, 0.0)),
    "renamed-input": Variant(input_name="evidence"),
    "float64": Variant(dtype="float64"),
    "float16": Variant(dtype="float16"),
    "width-4": Variant(wide=True),
    "extra-input": Variant(attention_mask=True),
    "static": Variant(batch=1),
    "renamed-output": Variant(output_name="scores"),
    "two-outputs": Variant(outputs=("probabilities", "logits")),
    "reordered-outputs": Variant(outputs=("logits", "probabilities")),
    "zero-weights": Variant(bias=(0.0, 0.0, 0.0), weight=((0.0, 0.0, 0.0),) * 4),
}


def features_from_evidence(confidence: int, coverage: int, agreements: int, anomaly: int) -> Features:
    """Return float32 [1, 4] of integer evidence: basis points 0 to 10,000, agreements 0 to 4.

    Raises ValueError for anything else before a tensor exists.
    """
    limits = {
        "confidence": BASIS_POINTS,
        "coverage": BASIS_POINTS,
        "agreements": AGREEMENTS,
        "anomaly": BASIS_POINTS,
    }
    given = {"confidence": confidence, "coverage": coverage, "agreements": agreements, "anomaly": anomaly}
    for name, value in given.items():
        if type(value) is not int or not 0 <= value <= limits[name]:
            raise ValueError(f"{name} must be an integer from 0 to {limits[name]}, not {value!r}")
    return np.array([[given[name] / limits[name] for name in limits]], np.float32)


def build_model(variant: Variant = Variant()) -> bytes:
    """Return the serialized model: IR 8, ai.onnx 13; 309 bytes with ``batch``, 299 with a static 1."""
    element, numpy_type = ONNX[variant.dtype], NUMPY[variant.dtype]
    weight, bias = variant.parameters()
    features = variant.input_name
    inputs = [helper.make_tensor_value_info(features, element, [variant.batch, 4])]
    nodes = []
    if variant.attention_mask:
        inputs.append(helper.make_tensor_value_info("attention_mask", element, [variant.batch, 4]))
        nodes.append(helper.make_node("Mul", [features, "attention_mask"], ["masked"]))
        features = "masked"
    nodes += [
        helper.make_node("MatMul", [features, "weight"], ["weighted"]),
        helper.make_node("Add", ["weighted", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], [variant.output_name], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "evidence",
        inputs,
        [
            helper.make_tensor_value_info(variant.name_of(output), element, [variant.batch, len(bias)])
            for output in variant.outputs
        ],
        [
            numpy_helper.from_array(weight.astype(numpy_type), "weight"),
            numpy_helper.from_array(bias.astype(numpy_type), "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def oracle(
    features: Array,
    variant: Variant = Variant(),
    mask: Array | None = None,
) -> dict[str, Oracle]:
    """Return ``logits`` and ``probabilities`` [batch, n] in float64, computed without any ONNX code.

    softmax(z) = exp(z - max z) / sum exp(z - max z), row by row.
    """
    weight, bias = variant.parameters()
    rows = np.asarray(features, np.float64)
    if mask is not None:
        rows = rows * np.asarray(mask, np.float64)
    logits: Oracle = rows @ weight + bias
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return {"logits": logits, "probabilities": powers / powers.sum(axis=1, keepdims=True)}


def label(probabilities: Array, labels: tuple[str, ...] = LABELS) -> str:
    """Return the label of one row; on a tie the lowest index wins."""
    return labels[int(np.argmax(probabilities))]


def golden_inputs(variant: Variant, count: int) -> list[Features]:
    """Return ``count`` inputs: the published points one by one, then seeded batches of 2, 32, 2, … rows."""
    inputs = [features_from_evidence(*point.evidence) for point in PUBLISHED][:count]
    generator = np.random.default_rng(20)
    for index in range(count - len(inputs)):
        rows = variant.batch if isinstance(variant.batch, int) else (2, MAX_BATCH)[index % 2]
        points = generator.integers(
            0, [BASIS_POINTS + 1, BASIS_POINTS + 1, AGREEMENTS + 1, BASIS_POINTS + 1], (rows, 4)
        )
        inputs.append(np.concatenate([features_from_evidence(*(int(v) for v in point)) for point in points]))
    return inputs


def manifest(
    variant: Variant = Variant(),
    *,
    version: str = "1.4.0",
    model_id: str = MODEL_ID,
    file: str = "model.onnx",
    sets: str = "test_data_set_*",
    origin: str = "float64 numpy oracle",
) -> dict[str, Any]:
    """Return the content of ``bundle.toml`` that fits ``variant``, without the lock."""
    shape: list[str | int] = [variant.batch]
    inputs: list[dict[str, Any]] = [
        {"name": variant.input_name, "dtype": variant.dtype, "shape": [*shape, 4], "range": [0.0, 1.0]}
    ]
    if variant.attention_mask:
        inputs.append(
            {"name": "attention_mask", "dtype": variant.dtype, "shape": [*shape, 4], "range": [0.0, 1.0]}
        )
    outputs: list[dict[str, Any]] = [
        {
            "name": variant.name_of(output),
            "dtype": variant.dtype,
            "shape": [*shape, len(variant.labels)],
            "kind": output,
            "labels": list(variant.labels),
            "tolerance": {
                "rtol": 0.0,
                "atol": ATOL[variant.dtype] * (10 if output == "logits" else 1),
                "top1": 1.0,
            },
        }
        for output in variant.outputs
    ]
    weight, bias = variant.parameters()
    return {
        "schema": 1,
        "bundle": {
            "id": model_id,
            "version": version,
            "license": "Apache-2.0",
            "purpose": "routes evidence to accept, review or reject",
            "prohibited_uses": ["automated denial without review"],
        },
        "dims": {str(variant.batch): {"min": 1, "max": MAX_BATCH}} if isinstance(variant.batch, str) else {},
        "models": [
            {
                "name": "main",
                "file": file,
                "ir_version": 8,
                "opsets": {"ai.onnx": 13},
                "inputs": inputs,
                "outputs": outputs,
                "vectors": [{"sets": [sets], "origin": origin}],
            }
        ],
        "preprocessing": {"version": "3", "sha256": hashlib.sha256(PREPROCESSING.encode()).hexdigest()},
        "labels": {"schema_version": "2"},
        "export": {
            "framework": f"numpy {np.__version__}",
            "exporter": {"name": "onnx.helper", "version": onnx.__version__},
            "checkpoint": {"sha256": hashlib.sha256(weight.tobytes() + bias.tobytes()).hexdigest()},
            "code_revision": "examples/evidence_classifier.py",
            "dataset_lineage": [{"name": "none: the weights are written by hand"}],
            "parity": {
                "compared": "a float64 numpy oracle with the ONNX file in onnxruntime, at the published points",
                "result": "passed",
                "rtol": 0.0,
                "atol": ATOL[variant.dtype],
                "samples": len(PUBLISHED),
            },
            "tested_hardware": ["x86-64 CPU"],
            "quality": [{"metric": "published points reproduced", "value": 1.0, "dataset": "published points"}],
            "redistribution": "permitted under the licence of the bundle",
            "layers": 2,
        },
    }


def write_goldens(
    directory: Path,
    variant: Variant = Variant(),
    *,
    count: int = 7,
    named: bool = True,
) -> None:
    """Write ``test_data_set_0`` to ``_<count-1>``: expected is the oracle rounded to the dtype."""
    kind = NUMPY[variant.dtype]
    for index, features in enumerate(golden_inputs(variant, count)):
        inputs: list[tuple[str, Array]] = [(variant.input_name, features.astype(kind))]
        mask = None
        if variant.attention_mask:
            mask = np.ones_like(features)
            mask[:, index % 4] = 0.5
            inputs.append(("attention_mask", mask.astype(kind)))
        # What the model sees is the rounded feature, so the oracle starts from there.
        expected = oracle(inputs[0][1], variant, mask)
        outputs = [(variant.name_of(output), expected[output].astype(kind)) for output in variant.outputs]
        if not named:
            inputs, outputs = [("", value) for _, value in inputs], [("", value) for _, value in outputs]
        write_set(directory / f"test_data_set_{index}", inputs, outputs)


def write_bundle(
    directory: Path,
    *,
    version: str = "1.4.0",
    bias: tuple[float, ...] | None = None,
    variant: Variant = Variant(),
    declared: Variant | None = None,
    model_id: str = MODEL_ID,
    sets: int = 7,
    named: bool = True,
    locked: bool = False,
) -> Path:
    """Write a whole bundle below ``directory`` and return it.

    ``declared`` makes the manifest of another variant: the right file with the wrong manifest.
    ``locked`` adds the ``[files]`` lock. Two calls with the same arguments write the same bytes.
    """
    if bias is not None:
        variant = replace(variant, bias=bias)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "model.onnx").write_bytes(build_model(variant))
    write_goldens(directory, variant, count=sets, named=named)
    document = manifest(declared or variant, version=version, model_id=model_id)
    if locked:
        document["files"] = lock(directory)
    (directory / "bundle.toml").write_text(toml_text(document), encoding="utf-8")
    return directory


def main(arguments: list[str] | None = None) -> int:
    """Write one bundle as the command line says."""
    parser = argparse.ArgumentParser(description="Write the evidence classifier as a bundle.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--version", default="1.4.0")
    parser.add_argument("--id", default=MODEL_ID, help="team/model")
    parser.add_argument("--bias", nargs=3, type=float, metavar=("ACCEPT", "REVIEW", "REJECT"))
    parser.add_argument("--drift", choices=sorted(DRIFTS), help="a variant that no longer fits the contract")
    parser.add_argument("--lock", action="store_true", help="add the [files] lock")
    given = parser.parse_args(arguments)
    variant = DRIFTS[given.drift] if given.drift else Variant()
    bias = tuple(given.bias) if given.bias else None
    path = write_bundle(
        given.directory,
        version=given.version,
        bias=bias,
        variant=variant,
        model_id=given.id,
        locked=given.lock,
    )
    print(f"{path}: {(path / 'model.onnx').stat().st_size} bytes of model, version {given.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
