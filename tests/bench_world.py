"""A place to judge bundles in without a daemon: what tests of the real rooms stand on."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from acceptd import local
from acceptd.config import CHECKOUT
from acceptd.rules import Rules, load_rules
from examples import evidence_classifier as classifier
from examples.bundle_text import Array, toml_text, write_set

TIGHT = (
    "limits.run_cpu_seconds=2",
    "limits.inspect_cpu_seconds=5",
    "limits.memory_bytes=402653184",
    # The tests share the machine with one another: what decides is the time that was computed, not the clock's.
    "limits.wall_factor=20",
)
"""Limits under which a hostile model ends soon, and an honest small one never notices."""
CUDA = """schema = 1
name = "{name}"
providers = ["CUDAExecutionProvider"]
allow_cpu_fallback = {fallback}
"""


@dataclass(frozen=True)
class Desk:
    """One warm cell; each check may go by other rules. ``policies`` is a private copy."""

    bench: local.Bench
    policies: Path

    def rules(self, *overrides: str, policy: str = "default") -> Rules:
        """Return a policy with ``--set`` overrides."""
        return load_rules(self.policies, policy, [*TIGHT, *overrides])

    def check(self, path: Path, *overrides: str, policy: str = "default") -> dict[str, Any]:
        """Judge one bundle and return the report."""
        return local.check_one(replace(self.bench, rules=self.rules(*overrides, policy=policy)), path)


@contextmanager
def desk(home: Path, *, contract: bool = False) -> Iterator[Desk]:
    """Yield a desk; ``contract`` puts the classifier's example contract in force. CUDA profiles are there."""
    policies = home / "policies"
    shutil.copytree(CHECKOUT / "policies", policies)
    for name, fallback in (("cuda", "false"), ("cuda-or-cpu", "true")):
        (policies / "profiles" / f"{name}.toml").write_text(CUDA.format(name=name, fallback=fallback))
    if contract:
        file = policies / "contracts" / "mosaic" / "evidence-disposition.toml"
        shutil.copyfile(file.with_name(file.name + ".example"), file)
    with local.bench(load_rules(policies, "default", list(TIGHT)), cores=2, suite=True) as made:
        yield Desk(made, policies)


def rewrite(bundle: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the manifest of a written bundle; return the bundle."""
    file = bundle / "bundle.toml"
    document = tomllib.loads(file.read_text("utf-8"))
    change(document)
    file.write_text(toml_text(document), "utf-8")
    return bundle


def write_model(
    path: Path,
    raw: bytes,
    sets: list[tuple[dict[str, Array], dict[str, Array]]],
    *,
    dims: dict[str, dict[str, int]] | None = None,
    **table: Any,
) -> Path:
    """Write a bundle of any model. ``table`` is its ``[[models]]`` entry: inputs, outputs and so on."""
    path.mkdir(parents=True)
    (path / "model.onnx").write_bytes(raw)
    for index, (inputs, outputs) in enumerate(sets):
        write_set(path / f"test_data_set_{index}", inputs.items(), outputs.items())
    vectors = [{"sets": ["test_data_set_*"], "origin": "written by hand"}]
    model = {"name": "main", "file": "model.onnx", **table, "vectors": vectors}
    document = {
        "schema": 1,
        "bundle": {"id": "mosaic/trial", "version": "1.0.0"},
        "dims": dims or {},
        "models": [model],
    }
    (path / "bundle.toml").write_text(toml_text(document), "utf-8")
    return path


def build(
    nodes: list[Any],
    inputs: dict[str, tuple[int, list[int | str]]],
    outputs: dict[str, tuple[int, list[int | str]]],
    weights: dict[str, Array] | None = None,
    *,
    opset: int = 13,
) -> bytes:
    """Return a model of IR version 8."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *one) for name, one in inputs.items()],
        [helper.make_tensor_value_info(name, *one) for name, one in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(model.SerializeToString(deterministic=True))


def table_model(rows: Array, width: int | str) -> bytes:
    """Return a model that looks its answer up: int64 ``row`` [batch] -> ``probabilities`` = rows[row], exactly."""
    return build(
        [helper.make_node("Gather", ["table", "row"], ["probabilities"])],
        {"row": (TensorProto.INT64, ["batch"])},
        {"probabilities": (TensorProto.FLOAT, ["batch", width])},
        {"table": rows},
    )


def write_table(path: Path, *rows: tuple[float, ...], atol: float = 1e-6, width: int | str = 3) -> Path:
    """Write a bundle whose model gives exactly ``rows`` as probabilities of three labels, and says so truly."""
    table = np.array(rows, np.float32)
    sets = [
        ({"row": np.array([index], np.int64)}, {"probabilities": table[index : index + 1]})
        for index in range(len(rows))
    ]
    output = {
        "name": "probabilities",
        "dtype": "float32",
        "shape": ["batch", 3],
        "kind": "probabilities",
        "labels": list(classifier.LABELS),
        "tolerance": {"rtol": 0.0, "atol": atol, "top1": 1.0},
    }
    given = {"name": "row", "dtype": "int64", "shape": ["batch"], "range": [0.0, len(rows) - 1.0]}
    return write_model(
        path,
        table_model(table, width),
        sets,
        dims={"batch": {"min": 1, "max": 4}},
        inputs=[given],
        outputs=[output],
    )
