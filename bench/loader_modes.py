"""Both modes of the loader beside what it cannot do without (hash the files, make a session), on three sizes.

In one process, warm, both sides in turn (A B A B ...), wall clock and processor time; and in fresh interpreters,
from start to session, where importing onnxruntime is part of both. 300 B is the evidence classifier; 20 MB holds
its weights; 1.5 GiB has them beside it. The target is a ratio of 1.1 (design, section 10). Beside it the
floor: the bare side and the two signatures that no loader can leave out, with nothing else looked at. Also what a
promotion takes, p50 and p99.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
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
from bench import figures
from bench.figures import ROOT
from bench.submission import environment
from examples.bundle_text import toml_text
from examples.evidence_classifier import build_model
from examples.evidence_classifier import manifest as small_manifest
from tests.release_world import MODEL, World

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
def floor():
    from base64 import b64decode
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    with open(state + "/keyring.json", "rb") as file:
        keys = {one["key_id"]: b64decode(one["public"]) for one in json.load(file)["keys"]}
    for name in ("channel.json", "000001/release.json"):
        with open(state + "/releases/mosaic/evidence-disposition/production/" + name, "rb") as file:
            envelope = json.load(file)
        kind, payload = envelope["payloadType"].encode(), b64decode(envelope["payload"])
        for one in envelope["signatures"]:
            Ed25519PublicKey.from_public_bytes(keys[one["keyid"]]).verify(
                b64decode(one["sig"]), b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
            )
        json.loads(payload)
    return bare()
def timed(what):
    wall, cpu = time.perf_counter(), time.process_time()
    kept = what()
    return [time.perf_counter() - wall, time.process_time() - cpu]
if side == "both":
    bare(), loader(), floor()
    print(json.dumps([[timed(bare), timed(loader), timed(floor)] for _ in range(int(rounds))]))
else:
    {"bare": bare, "loader": loader, "floor": floor}[side]()
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


def run(words: list[str]) -> tuple[str, float, float]:
    """Return what a fresh interpreter prints, its seconds of wall clock and of processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", SIDES, *words]
    done = subprocess.run(
        command, env=environment() | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(made: World, size: str, mode: str, rounds: int, cold: int) -> list[figures.Line]:
    """Return the lines of one size and mode: fresh interpreters, and one that is warm."""
    release = made.open()
    files = sorted((str(release.file(file.path)) for file in release.files), key=lambda one: one[-5:] != ".onnx")
    words = [str(made.state), str(made.now), mode, str(rounds)]
    pairs = json.loads(run([*words, "both", *files])[0])
    sides = ("bare", "loader", "floor") if mode == "mapped" else ("bare", "loader")
    fresh = [[run([*words, side, *files])[1:] for side in sides] for _ in range(cold)]
    lines = []
    for which, found in (("a fresh interpreter", fresh), ("a warm process", pairs)):
        for at, clock in enumerate(("", ", processor time")):
            bare, loader = ([pair[side][at] * 1000 for pair in found] for side in (0, 1))
            lines.append(
                figures.against(
                    f"loader/{size}/{mode}/{which}{clock}", f"loader, {mode}, {size} in {which}{clock}", loader,
                    "sha256 and a bare session", bare, bound=None if clock else 1.1, source="design",
                )
            )  # fmt: skip
            if mode == "mapped":
                floor = [pair[2][at] * 1000 for pair in found]
                lines.append(
                    figures.against(
                        f"loader-floor/{size}/{which}{clock}", f"two signatures, {size} in {which}{clock}", floor,
                        "sha256 and a bare session", bare, source="design",
                    )
                )  # fmt: skip
    return lines


def promotions(home: Path, count: int) -> list[figures.Line]:
    """Return what a promotion takes, from the accepted verdict until loaders can see it."""
    made = World(home)
    taken = []
    for number in range(count):
        accepted = made.accepted(f"{number}.0.0")
        start = time.perf_counter()
        made.promote(accepted)
        taken.append((time.perf_counter() - start) * 1000)
    made.close()
    at = statistics.quantiles(taken, n=100, method="inclusive")
    return [
        figures.alone("promotion", f"a promotion, p50 of {count}", taken),
        figures.alone("promotion/p99", f"a promotion, p99 of {count}", [at[98]]),
    ]


def main() -> int:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=["300B", "20MB", "1.5GiB"], default=["300B", "20MB"])
    parser.add_argument("--rounds", type=int, default=0, help="pairs; 0: as many as the size is worth")
    parser.add_argument("--promotions", type=int, default=200)
    given = parser.parse_args()
    lines: list[figures.Line] = []
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir="/var/tmp") as name:
        for size in given.sizes:
            home = Path(name) / size
            home.mkdir()
            made = World(home)
            files, document = bundle(size)
            made.promote(made.accepted(files=files, manifest=document), options=SessionOptions())
            del files
            rounds = given.rounds or {"300B": 100, "20MB": 20, "1.5GiB": 4}[size]
            for mode in ("mapped", "memory"):
                lines += compare(made, size, mode, rounds, min(rounds, 9))
                figures.progress(f"loader: {size}, {mode}")
            made.close()
            shutil.rmtree(home)
        if given.promotions:
            place = Path(name) / "promotions"
            place.mkdir()
            lines += promotions(place, given.promotions)
    return figures.save("loader_modes", lines)


if __name__ == "__main__":
    sys.exit(main())
