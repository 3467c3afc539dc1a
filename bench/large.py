"""A bundle with 1.5 GiB of external data: the whole acceptance beside copy, sha256 and a bare load and run.

Both sides in turn (A B A B) on the same files, the page cache warm for both. The bare side copies the
bundle, hashes the copy, and loads and runs it in a cold python: what somebody would do without acceptd.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench import figures
from examples.bundle_text import toml_text

WIDTH = 4096
GIB = 1 << 30
TEAM = "bench"
COLD = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, {"x": numpy.ones((1, int(sys.argv[2])), numpy.float32)})
"""


def build(place: Path, size: int, width: int = WIDTH) -> Path:
    """Write a bundle with about ``size`` bytes of weights; return ``place``.

    A chain of MatMul and Relu over random weights beside the model, its golden from a float32 numpy oracle.
    """
    layer = width * width * 4
    place.mkdir(parents=True)
    random = np.random.default_rng(7)
    nodes, initializers = [], []
    value = np.full((1, width), 0.5, np.float32)
    expected = value
    name = "x"
    with (place / "weights.bin").open("wb") as file:
        for number in range(max(1, round(size / layer))):
            weight = random.random((width, width), np.float32) * np.float32(2) - np.float32(1)
            weight *= np.float32(np.sqrt(6 / width))  # keeps the variance through Relu (He et al. 2015)
            file.write(weight.tobytes())
            tensor = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=weight.shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in (("location", "weights.bin"), ("offset", number * layer), ("length", layer)):
                tensor.external_data.add(key=key, value=str(text))
            initializers.append(tensor)
            nodes.append(helper.make_node("MatMul", [name, f"w{number}"], [f"m{number}"]))
            nodes.append(helper.make_node("Relu", [f"m{number}"], [f"r{number}"]))
            name = f"r{number}"
            expected = np.maximum(expected @ weight, 0)
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, ["batch", width]) for port in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], initializers)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    (place / "model.onnx").write_bytes(model.SerializeToString())
    (place / "test_data_set_0").mkdir()
    for file_name, array, port in (("input_0.pb", value, "x"), ("output_0.pb", expected, "y")):
        tensor = numpy_helper.from_array(array, port)
        (place / "test_data_set_0" / file_name).write_bytes(tensor.SerializeToString())
    (place / "bundle.toml").write_text(toml_text(_manifest(width)))
    return place


def again(bundle: Path, place: Path, version: str) -> Path:
    """Copy a bundle under another version, which makes it another bundle; return ``place``."""
    shutil.copytree(bundle, place)
    text = (place / "bundle.toml").read_text()
    (place / "bundle.toml").write_text(text.replace('version = "1.0.0"', f'version = "{version}"'))
    return place


def _manifest(width: int) -> dict[str, Any]:
    def port(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "dtype": "float32", "shape": ["batch", width], **more}

    tolerance = {"rtol": 1e-3, "atol": 1e-4}
    model = {
        "name": "main",
        "file": "model.onnx",
        "inputs": [port("x", range=[0.0, 1.0])],
        "outputs": [port("y", kind="values", tolerance=tolerance)],
        "vectors": [{"sets": ["test_data_set_*"], "origin": "float32 numpy"}],
    }
    bundle = {"id": f"{TEAM}/large", "version": "1.0.0", "license": "Apache-2.0"}
    return {"schema": 1, "bundle": bundle, "dims": {"batch": {"min": 1, "max": 8}}, "models": [model]}


def bare(bundle: Path, place: Path, width: int = WIDTH) -> dict[str, float]:
    """Copy, hash the copy, load and run it in a cold python; return the seconds of each."""
    start = time.perf_counter()
    shutil.copytree(bundle, place)
    copied = time.perf_counter()
    for path in place.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                hashlib.file_digest(file, "sha256")
    hashed = time.perf_counter()
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-c", COLD, str(place / "model.onnx"), str(width)], check=True, env=environment
    )
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
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1.5)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--place", type=Path, default=Path("/var/tmp"), help="on the disk that is meant")
    chosen = parser.parse_args()
    chosen.place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir=chosen.place) as name:
        bundle = build(Path(name) / "bundle", round(chosen.gib * GIB))
        pairs = []
        for number in range(chosen.pairs):
            one = bare(bundle, Path(name) / "copy")
            pairs.append((one, accepted(bundle)))
            told = f"{one['whole']:.1f} s bare, {pairs[-1][1]['whole']:.1f} s acceptd"
            figures.progress(f"large {number + 1}/{chosen.pairs}: {told}")
    ours, base = [two["whole"] for _, two in pairs], [one["whole"] for one, _ in pairs]
    line = figures.against(
        "large", f"{chosen.gib:g} GiB of external data, whole acceptance by `acceptd check`", ours,
        "copy, sha256, load and run in a cold python", base, unit="s", bound=2.0, source="design",
    )  # fmt: skip
    parts = [
        figures.part(
            f"{chosen.gib:g} GiB, {title}",
            [(key, statistics.median(row.get(key, 0.0) for row in rows)) for key in rows[0] if key != "whole"],
            unit="s",
        )
        for title, rows in (
            ("without acceptd", [one for one, _ in pairs]),
            ("`acceptd check`, stages", [two for _, two in pairs]),
        )
    ]
    return figures.save("large", [line], parts=parts)


if __name__ == "__main__":
    sys.exit(main())
