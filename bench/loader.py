"""The loader beside what it cannot do without: hash the model (and what is pinned), import onnxruntime, open it.

Both run in fresh interpreters, in turn (A B A B …) in one run. Three pairs: a release without pins; one that
pins every library that a process maps, against the same hashes; and a second session in the same process,
where the digests of libraries are known. The target is a ratio at p50 (design, section 10: 1.1).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from acceptd.release.model import SessionOptions
from bench import figures
from bench.figures import ROOT
from bench.submission import environment
from examples.bundle_text import toml_text
from tests.release_world import MODEL, World

LOADER = """
import json, sys, time
from acceptd.loader import open_release
state, now = sys.argv[1], float(sys.argv[2])
def opened():
    start = time.perf_counter()
    release = open_release(state, "mosaic/evidence-disposition", keys=state + "/keyring.json", now=lambda: now)
    release.session()
    return time.perf_counter() - start
print(json.dumps([opened(), opened()]))
"""
BARE = """
import hashlib, json, sys, time
files, libraries = json.loads(sys.argv[1])
def digests(paths):
    for path in paths:
        with open(path, "rb") as file:
            hashlib.file_digest(file, "sha256")
def opened(paths):
    start = time.perf_counter()
    digests(paths)
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    onnxruntime.InferenceSession(files[0], options, providers=["CPUExecutionProvider"])
    return time.perf_counter() - start
print(json.dumps([opened(files + libraries), opened(files)]))
"""
MAPPED = (
    LOADER
    + """
from acceptd.runtime.libraries import digests, mapped
print(json.dumps([[one.path, one.sha256] for one in digests(mapped(open("/proc/self/maps").read()))]))
"""
)


def model(megabytes: int) -> bytes:
    """Return a model with so many MiB of weights."""
    rows = megabytes << 8
    weight = np.random.default_rng(1).standard_normal((1024, rows), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "weighty",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1024])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, rows])],
        [numpy_helper.from_array(weight, "w")],
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    return bytes(made.SerializeToString())


def manifest(rows: int) -> dict[str, Any]:
    """Return the manifest of :func:`model`."""
    given = {"name": "x", "dtype": "float32", "shape": [1, 1024]}
    output = {"name": "y", "dtype": "float32", "shape": [1, rows]}
    table = {"name": "main", "file": "model.onnx", "inputs": [given], "outputs": [output]}
    return {"schema": 1, "bundle": {"id": MODEL, "version": "1.0.0"}, "models": [table]}


def process(script: str, *words: str) -> list[Any]:
    """Return the JSON lines of one fresh interpreter."""
    command = [sys.executable, "-c", script, *words]
    paths = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment() | paths, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def world(home: Path, megabytes: int, options: SessionOptions) -> World:
    """Return a state with the model released under ``options``."""
    home.mkdir()
    made = World(home)
    document = manifest(megabytes << 8)
    files = {"model.onnx": model(megabytes), "bundle.toml": toml_text(document).encode()}
    made.promote(made.accepted(files=files, manifest=document), options=options)
    return made


def compare(made: World, rounds: int, title: str, libraries: Sequence[str] = ()) -> list[figures.Line]:
    """Run both sides in turn; return a line for a first and for a second session."""
    release = made.open()
    files = [str(release.file(file.path)) for file in release.files]
    files.sort(key=lambda path: not path.endswith(".onnx"))
    order = json.dumps([files, list(libraries)])
    pairs = []
    for _ in range(rounds + 1):
        bare = process(BARE, order)[0]
        pairs.append((process(LOADER, str(made.state), str(made.now))[0], bare))
    lines = []
    for at, name in enumerate(("first", "second")):
        loader, bare = ([side[at] * 1000 for side in sides] for sides in zip(*pairs[1:], strict=True))
        lines.append(
            figures.against(
                f"pins/{title}/{name}", f"loader, {title}, {name} session of a process", loader,
                "the same hashes and a bare session", bare, bound=1.1, source="design",
            )
        )  # fmt: skip
    return lines


def measure(rounds: int, megabytes: int) -> list[figures.Line]:
    """Measure without and with pins in a throw-away place."""
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir="/var/tmp") as name:
        loose = world(Path(name) / "loose", megabytes, SessionOptions())
        mapped = process(MAPPED, str(loose.state), str(loose.now))[1]
        pins = {Path(path).name: sha256 for path, sha256 in mapped}
        pinned = world(Path(name) / "pinned", megabytes, SessionOptions(libraries=pins))
        try:
            lines = compare(loose, rounds, f"{megabytes} MiB without pins")
            title = f"{megabytes} MiB, {len(pins)} libraries pinned"
            return lines + compare(pinned, rounds, title, [path for path, _ in mapped])
        finally:
            loose.close()
            pinned.close()


def main() -> int:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 256])
    given = parser.parse_args()
    return figures.save("loader", [line for size in given.megabytes for line in measure(given.rounds, size)])


if __name__ == "__main__":
    sys.exit(main())
