"""Both modes of the loader beside what it cannot do without (hash the files, make a session), on three sizes.

In one process, warm, both sides in turn (A B A B ...), wall clock and processor time; and in fresh interpreters,
from start to session, where importing onnxruntime is part of both. 300 B is the evidence classifier; 20 MB holds
its weights; 1.5 GiB has them beside it. The target is a ratio of 1.1 (design, section 10). Also what a promotion
takes, p50 and p99. ``python -m bench.loader_modes`` writes ``bench/results/loader_modes.json``.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from acceptd.release.model import SessionOptions
from bench.submission import environment
from examples.bundle_text import toml_text
from examples.evidence_classifier import build_model
from examples.evidence_classifier import manifest as small_manifest
from tests.release_world import MODEL, World

ROOT: Final = Path(__file__).resolve().parent.parent
SIDES: Final = """
import hashlib, json, sys, time
state, now, mode, rounds, side, *files = sys.argv[1:]
def bare():
    for path in files:
        with open(path, "rb") as file:
            hashlib.file_digest(file, "sha256")
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(files[0], options, providers=["CPUExecutionProvider"])
def loader():
    from acceptd.loader import open_release
    release = open_release(state, "mosaic/evidence-disposition", keys=state + "/keyring.json", mode=mode,
                           now=lambda: float(now))
    return release.session()
def timed(what):
    wall, cpu = time.perf_counter(), time.process_time()
    kept = what()
    return [time.perf_counter() - wall, time.process_time() - cpu]
if side == "both":
    bare(), loader()
    print(json.dumps([[timed(bare), timed(loader)] for _ in range(int(rounds))]))
else:
    {"bare": bare, "loader": loader}[side]()
"""


def weighty(megabytes: int, *, outside: bool) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files and the manifest of a model with so many MiB of weights, in it or beside it."""
    rows = megabytes << 8
    tensor = numpy_helper.from_array(np.ones((1024, rows), np.float32), "w")
    files: dict[str, bytes] = {}
    if outside:
        files["weights.bin"] = bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("length", str(megabytes << 20))):
            tensor.external_data.add(key=key, value=value)
    given, out = ("x", [1, 1024]), ("y", [1, rows])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "weighty",
        [helper.make_tensor_value_info(given[0], TensorProto.FLOAT, given[1])],
        [helper.make_tensor_value_info(out[0], TensorProto.FLOAT, out[1])],
        [tensor],
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    table = {
        "name": "main",
        "file": "model.onnx",
        "inputs": [{"name": given[0], "dtype": "float32", "shape": given[1]}],
        "outputs": [{"name": out[0], "dtype": "float32", "shape": out[1]}],
    }
    document = {"schema": 1, "bundle": {"id": MODEL, "version": "1.0.0"}, "models": [table]}
    return {"model.onnx": bytes(made.SerializeToString()), **files}, document


def bundle(size: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return files and manifest of one of the three sizes."""
    if size == "300B":
        files, document = {"model.onnx": build_model()}, small_manifest()
    else:
        files, document = weighty({"20MB": 19, "1.5GiB": 1536}[size], outside=size == "1.5GiB")
    return {**files, "bundle.toml": toml_text(document).encode()}, document


def run(words: list[str]) -> tuple[str, float]:
    """Return what a fresh interpreter prints, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", SIDES, *words]
    done = subprocess.run(
        command, env=environment() | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(made: World, mode: str, rounds: int, cold: int) -> dict[str, Any]:
    """Return medians in ms and of the paired ratios."""
    release = made.open()
    files = sorted((str(release.file(file.path)) for file in release.files), key=lambda one: one[-5:] != ".onnx")
    words = [str(made.state), str(made.now), mode, str(rounds)]
    pairs = json.loads(run([*words, "both", *files])[0])
    found: dict[str, Any] = {}
    for at, name in enumerate(("wall", "cpu")):
        bare, loader = ([pair[side][at] * 1000 for pair in pairs] for side in (0, 1))
        found[f"warm_{name}"] = summary(bare, loader)
    fresh = [[run([*words, side, *files])[1] * 1000 for side in ("bare", "loader")] for _ in range(cold)]
    found["fresh_cpu"] = summary([one for one, _ in fresh], [one for _, one in fresh])
    return found


def summary(bare: list[float], loader: list[float]) -> dict[str, float]:
    """Return medians of both sides, and of their paired ratios."""
    return {
        "bare_ms": round(statistics.median(bare), 2),
        "loader_ms": round(statistics.median(loader), 2),
        "ratio": round(statistics.median(b / a for a, b in zip(bare, loader, strict=True)), 3),
    }


def promotions(home: Path, count: int) -> dict[str, float]:
    """Return what a promotion takes in ms, from the accepted verdict until loaders can see it."""
    made = World(home)
    taken = []
    for number in range(count):
        accepted = made.accepted(f"{number}.0.0")
        start = time.perf_counter()
        made.promote(accepted)
        taken.append((time.perf_counter() - start) * 1000)
    made.close()
    at = statistics.quantiles(taken, n=100, method="inclusive")
    return {"count": count, "p50_ms": round(at[49], 2), "p99_ms": round(at[98], 2)}


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=["300B", "20MB", "1.5GiB"], default=["300B", "20MB"])
    parser.add_argument("--rounds", type=int, default=0, help="pairs; 0: as many as the size is worth")
    parser.add_argument("--promotions", type=int, default=200)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir="/var/tmp") as name:
        for size in given.sizes:
            home = Path(name) / size
            home.mkdir()
            made = World(home)
            files, document = bundle(size)
            made.promote(made.accepted(files=files, manifest=document), options=SessionOptions())
            del files
            rounds = given.rounds or {"300B": 100, "20MB": 20, "1.5GiB": 3}[size]
            for mode in ("mapped", "memory"):
                row = found[f"{size} {mode}"] = compare(made, mode, rounds, min(rounds, 9))
                for what, figures in row.items():
                    print(
                        f"{size:7} {mode:7} {what:10} loader {figures['loader_ms']:9.2f} ms   "
                        f"bare {figures['bare_ms']:9.2f} ms   ratio {figures['ratio']:.2f}"
                    )
            made.close()
        if given.promotions:
            place = Path(name) / "promotions"
            place.mkdir()
            found["promotion"] = promotions(place, given.promotions)
            print(f"promotion: p50 {found['promotion']['p50_ms']} ms, p99 {found['promotion']['p99_ms']} ms")
    folder = ROOT / "bench" / "results"
    folder.mkdir(exist_ok=True)
    (folder / "loader_modes.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
