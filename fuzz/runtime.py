"""What onnxruntime loads, the walk must not tell differently: random mutations of small models, both asked.

``python -m fuzz.runtime --seconds 20``. A third opinion beside upb: onnxruntime brings protobuf's C++ parser.
Workers are processes of their own, because a mutated model may end the runtime (that is the cell's matter, not
a finding here). Ends 1 with the input kept in ``.cache/fuzz/runtime`` when the runtime loaded a model that the
walk calls no protobuf, or that it passes without a note and whose interface the parsed model has otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
BATCH: Final = 400
WORKER: Final = "import sys; from fuzz.runtime import work; work(int(sys.argv[1]), int(sys.argv[2]))"
LOADABLE: Final = frozenset({"plain", "many", "function", "rich", "large"})
"""Seeds that the runtime loads."""
BROKEN: Final = frozenset({"wire/truncated", "wire/malformed"})


def mutate(raw: bytes, chance: random.Random) -> bytes:
    """Return ``raw`` with one to three bytes changed, put in, taken out, or a field of edge form at its end."""
    out = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out))
        how = chance.randrange(5)
        if how == 0:
            out[at] = chance.randrange(256)
        elif how == 1:
            out[at] ^= 1 << chance.randrange(8)
        elif how == 2:
            out[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 3)))
        elif how == 3:
            del out[at : at + chance.randint(1, 2)]
        else:
            number = chance.choice((1, 2, 5, 7, 8, 14, 20, 25, 30))
            form = chance.choice((b"\x80\x00", b"\xff" * 9 + b"\x7f", b"\x81\x80\x80\x80\x00", b"\x00", b"\x01a"))
            out += bytes((number << 3 & 0x7F | chance.choice((0, 2)),)) + form
    return bytes(out)


def disagreement(raw: bytes, inputs: list[str], outputs: list[str]) -> str:
    """Return how the walk, or the model that protobuf parsed, differs from what the runtime loaded; or nothing."""
    import onnx

    from sandbox import wire

    walk = wire.walk(raw, len(raw), 100)
    if walk.fatal:
        return f"the runtime loads what the walk calls {walk.fatal}" if walk.fatal[0] in BROKEN else ""
    if walk.notes:
        return ""  # said already
    model = onnx.ModelProto.FromString(raw)
    weights = {tensor.name for tensor in model.graph.initializer}
    theirs = [one.name for one in model.graph.input if one.name not in weights]
    if (inputs, outputs) != (theirs, [one.name for one in model.graph.output]):
        return f"the runtime has {inputs} to {outputs}, the parsed model {theirs}"
    return ""


def work(seed: int, count: int) -> None:
    """Try ``count`` mutations; print each input's number before it, so that a crash can be skipped."""
    import onnxruntime

    from fuzz.seeds import models

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.load_model_format", "ONNX")
    good = [raw for name, raw in sorted(models().items()) if name in LOADABLE]
    loaded = 0
    for index in range(count):
        raw = mutate(*((chance := random.Random(f"{seed}/{index}")).choice(good), chance)[:2])
        print(f"at {index}", flush=True)
        try:
            session = onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001 - the runtime's own refusals are of many types
            continue
        loaded += 1
        names = [one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()]
        found = disagreement(raw, *names)
        if found:
            keep(raw, found)
    print(f"loaded {loaded}", flush=True)


def keep(raw: bytes, found: str) -> None:
    """Store an input that was told differently, and say so."""
    folder = ROOT / ".cache/fuzz/runtime"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"finding-{hashlib.sha256(raw).hexdigest()[:16]}.onnx"
    file.write_bytes(raw)
    print(f"finding {file}: {found}", flush=True)


def main() -> int:
    """Run batches until the time is over. Returns 1 on a finding, or when no mutation was ever loaded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    options = parser.parse_args()
    seed = options.seed or random.SystemRandom().randrange(1 << 30)
    end = time.monotonic() + options.seconds
    tried = loaded = crashes = findings = 0
    while time.monotonic() < end:
        command = [sys.executable, "-c", WORKER, str(seed), str(BATCH)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
            lines, code = done.stdout.splitlines(), done.returncode
        except subprocess.TimeoutExpired as hung:
            lines, code = (hung.stdout or b"").decode().splitlines(), -1
        tried += sum(line.startswith("at ") for line in lines)
        loaded += sum(int(line.split()[1]) for line in lines if line.startswith("loaded "))
        told = [line for line in lines if line.startswith("finding ")]
        findings += len(told)
        print(*told, sep="\n", end="\n" if told else "")
        if code > 0:
            print(done.stderr[-2000:])
            return 1
        crashes += code < 0
        seed += 1
    print(f"runtime: {tried} mutations, {loaded} loaded, {crashes} batches that the runtime did not survive")
    return 1 if findings or not loaded else 0


if __name__ == "__main__":
    sys.exit(main())
