"""A bundle with 1.5 GiB of external data: the whole acceptance beside copy, sha256 and a bare load and run.

Usage: python -m bench.large [--gib 1.5] [--pairs 3] [--place DIR]

Both sides in turn (A B A B) on the same files, the page cache warm for both. The bare side copies the
bundle, hashes the copy, and loads and runs it in a cold python: what somebody would do without acceptd.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from examples.bundle_text import toml_text

WIDTH = 4096
LAYER = WIDTH * WIDTH * 4
"""Bytes of one layer's weights."""
COLD = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, {"x": numpy.ones((1, 4096), numpy.float32)})
"""


def build(place: Path, layers: int) -> None:
    """Write a bundle: a chain of MatMul and Relu over random weights, its golden from a float32 numpy oracle."""
    place.mkdir(parents=True)
    random = np.random.default_rng(7)
    nodes, initializers = [], []
    value = np.full((1, WIDTH), 0.5, np.float32)
    expected = value
    name = "x"
    with (place / "weights.bin").open("wb") as file:
        for number in range(layers):
            weight = random.uniform(-1, 1, (WIDTH, WIDTH)).astype(np.float32)
            weight *= np.float32(np.sqrt(6 / WIDTH))  # keeps the variance through Relu (He et al. 2015)
            file.write(weight.tobytes())
            tensor = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=weight.shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in (("location", "weights.bin"), ("offset", number * LAYER), ("length", LAYER)):
                tensor.external_data.add(key=key, value=str(text))
            initializers.append(tensor)
            nodes.append(helper.make_node("MatMul", [name, f"w{number}"], [f"m{number}"]))
            nodes.append(helper.make_node("Relu", [f"m{number}"], [f"r{number}"]))
            name = f"r{number}"
            expected = np.maximum(expected @ weight, 0)
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, ["batch", WIDTH]) for port in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], initializers)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    (place / "model.onnx").write_bytes(model.SerializeToString())
    (place / "test_data_set_0").mkdir()
    for file_name, array, port in (("input_0.pb", value, "x"), ("output_0.pb", expected, "y")):
        tensor = numpy_helper.from_array(array, port)
        (place / "test_data_set_0" / file_name).write_bytes(tensor.SerializeToString())
    (place / "bundle.toml").write_text(toml_text(_manifest()))
    onnx.checker.check_model(str(place / "model.onnx"))


def _manifest() -> dict[str, Any]:
    def port(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "dtype": "float32", "shape": ["batch", WIDTH], **more}

    tolerance = {"rtol": 1e-3, "atol": 1e-4}
    model = {
        "name": "main",
        "file": "model.onnx",
        "inputs": [port("x", range=[0.0, 1.0])],
        "outputs": [port("y", kind="values", tolerance=tolerance)],
        "vectors": [{"sets": ["test_data_set_*"], "origin": "float32 numpy"}],
    }
    bundle = {"id": "bench/large", "version": "1.0.0", "license": "Apache-2.0"}
    return {"schema": 1, "bundle": bundle, "dims": {"batch": {"min": 1, "max": 8}}, "models": [model]}


def bare(bundle: Path, place: Path) -> dict[str, float]:
    """Copy, hash the copy, load and run it; return the seconds of each."""
    start = time.perf_counter()
    shutil.copytree(bundle, place)
    copied = time.perf_counter()
    for path in place.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                hashlib.file_digest(file, "sha256")
    hashed = time.perf_counter()
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", COLD, str(place / "model.onnx")], check=True, env=environment)
    ended = time.perf_counter()
    shutil.rmtree(place)
    parts = {"copy": copied - start, "sha256": hashed - copied, "load_and_run": ended - hashed}
    return parts | {"whole": ended - start}


def accepted(bundle: Path) -> dict[str, float]:
    """Judge the bundle with ``acceptd check``; return its seconds, and those of each stage."""
    command = [sys.executable, "-m", "acceptd", "check", str(bundle), "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    whole = time.perf_counter() - start
    report = json.loads(done.stdout)
    if report["verdict"] != "accepted":
        raise SystemExit(f"{report['verdict']}: {report['reason']}")
    return {stage: spent / 1000 for stage, spent in report["timings_ms"].items()} | {"whole": whole}


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--place", type=Path, help="a directory on the disk that is meant")
    chosen = parser.parse_args()
    if chosen.place is not None:
        chosen.place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir=chosen.place) as name:
        bundle = Path(name) / "bundle"
        build(bundle, max(1, round(chosen.gib * (1 << 30) / LAYER)))
        pairs = []
        for _ in range(chosen.pairs):
            one = bare(bundle, Path(name) / "copy")
            pairs.append((one, accepted(bundle)))
            print(f"  {one['whole']:.1f} s bare, {pairs[-1][1]['whole']:.1f} s acceptd", file=sys.stderr)
        size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    sides = {"bare_s": [one for one, _ in pairs], "acceptd_s": [two for _, two in pairs]}
    result: dict[str, Any] = {"machine": platform.platform(), "bytes": size}
    for side, rows in sides.items():
        result[side] = {key: round(statistics.median(row.get(key, 0.0) for row in rows), 2) for key in rows[0]}
    ratios = [two["whole"] / one["whole"] for one, two in pairs]
    result |= {"ratio": round(statistics.median(ratios), 2), "ratios": [round(ratio, 2) for ratio in ratios]}
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
