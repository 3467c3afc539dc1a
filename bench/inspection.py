"""The wire walk beside a cold onnx.checker, the phases of an inspect job, with ``--large`` also 2 GiB and floods.

Walk and checker take turns (A B A B …) in one run, so that a drifting machine hits both alike; the target
is a ratio of wall time (0.5, issue 4). ``--large`` (``make bench-large``) runs each walk in a process of its
own, counts its CPU seconds and samples its anonymous memory; the files are sparse. Ends 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from onnx import TensorProto, helper

from bench import figures
from bench.figures import ROOT
from sandbox import inspect, wire
from sandbox.inspect.job import PROTOBUF_LIMIT, mapped

NODES: Final = 200_000
TARGET: Final = 0.5
CHECKER: Final = "import onnx; onnx.checker.check_model({!r})"
MIB: Final = 1 << 20
MOST_MEMORY: Final = 64 * MIB
"""Anonymous memory that a walk may add, whatever the file."""
MOST_SECONDS: Final = 40.0
"""Of CPU: two gigabytes of varints, each of which has to be seen to be well formed."""


def text(number: int, value: str) -> bytes:
    """Return a short string field."""
    return bytes((number << 3 | 2, len(value))) + value.encode()


def model(node: Callable[[int], bytes]) -> bytes:
    """Return a chain of 200,000 nodes, written by hand: onnx.helper takes longer than all that is measured."""
    value = helper.make_tensor_value_info
    ends = [value("v0", TensorProto.FLOAT, [1])], [value(f"v{NODES}", TensorProto.FLOAT, [1])]
    empty = helper.make_graph([], "g", *ends).SerializeToString()
    nodes = b"".join(field(1, len(body)) + body for body in map(node, range(NODES)))
    imports = text(1, "") + b"\x10\x12"
    return b"\x08\x08" + field(7, len(nodes) + len(empty)) + nodes + empty + field(8, len(imports)) + imports


def _softmax(i: int) -> bytes:
    axis = text(1, "axis") + bytes((0x18, i % 3)) + b"\xa0\x01\x02"
    return (
        text(1, f"v{i}")
        + text(2, f"v{i + 1}")
        + text(3, f"n{i}")
        + text(4, "Softmax")
        + field(5, len(axis))
        + axis
    )


def _exported(i: int) -> bytes:
    metadata = text(1, "pkg.torch.onnx.name_scopes") + text(2, f"['', 'encoder', 'layer_{i}']")
    return _relu(i) + field(9, len(metadata)) + metadata


def _relu(i: int) -> bytes:
    return text(1, f"v{i}") + text(2, f"v{i + 1}") + text(3, f"n{i}") + text(4, "Relu")


FORMS: Final[dict[str, Callable[[int], bytes]]] = {
    "names": _relu, "attributes": _softmax, "metadata in each node": _exported
}  # fmt: skip
"""The first is the target's: 200,000 nodes in 6 MB. The last goes through the walk field by field."""


Pair = tuple[float, float]


class Silent:
    """A channel to nowhere."""

    def send(self, frame_type: str, body: dict[str, Any]) -> None:
        """Drop a frame."""

    def data(self, payload: bytes | memoryview) -> None:
        """Drop bytes."""


def paired(path: Path, rounds: int) -> tuple[list[Pair], list[Pair], list[tuple[str, float]]]:
    """Walk a file in this process and check it in a cold one, in turn; then run the whole job once.

    Returns (wall clock, CPU time) of the walks and of the checkers, in seconds, and the job's phases in ms.
    """
    walks: list[Pair] = []
    checks: list[Pair] = []
    for _ in range(rounds + 1):
        with mapped(path, path.name, PROTOBUF_LIMIT) as buf:
            start, cpu = time.perf_counter(), time.process_time()
            found = wire.walk(buf, len(buf), 100)
            walks.append((time.perf_counter() - start, time.process_time() - cpu))
        if found.nodes != NODES or found.notes:
            raise SystemExit(f"{path.name}: {found.nodes} nodes, {found.notes[:3]}")
        start, cpu = time.perf_counter(), _children()
        subprocess.run([sys.executable, "-c", CHECKER.format(str(path))], check=True)
        checks.append((time.perf_counter() - start, _children() - cpu))
    spec = {"root": str(path.parent), "model": path.name, "files": {}, "present": [], "forbidden": []}
    phases = inspect.body({"spec": spec}, Silent(), {})
    return walks[1:], checks[1:], [(str(name), float(value)) for name, value in phases.items()]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def field(number: int, size: int) -> bytes:
    """Return the tag and length before ``size`` bytes."""
    return _varint(number << 3 | 2) + _varint(size)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _ending(*path: int, head: bytes = b"") -> bytes:
    """Return the beginning of a 2 GiB model whose last field, by the numbers of ``path``, fills the rest.

    All lengths have five bytes, so that each is the rest of the file after it. ``head`` stands before that field.
    """
    begin = b"\x08\x08"
    for number in path[:-1]:
        tag = _varint(number << 3 | 2)
        begin += tag + _varint(PROTOBUF_LIMIT - len(begin) - len(tag) - 5)
    begin += head
    tag = _varint(path[-1] << 3 | 2)
    return begin + tag + _varint(PROTOBUF_LIMIT - len(begin) - len(tag) - 5)


def large() -> Iterator[tuple[str, bytes, bytes, int]]:
    """Yield (name, beginning, what is repeated after it, how often); without the latter, 2 GiB and sparse."""
    left = PROTOBUF_LIMIT - len(_ending(7, 5, 9, head=b"\x10\x02\x08" + bytes(5)))
    yield "one raw tensor", _ending(7, 5, 9, head=b"\x10\x02\x08" + _varint(left)), b"", 0
    yield "one tensor of varints", _ending(7, 5, 7, head=b"\x10\x07"), b"", 0
    yield "one name", _ending(7, 2), b"", 0
    yield "one unknown field", _ending(1000), b"", 0
    yield "a field beyond the end", b"\x08\x08\x3a\xff\xff\xff\xff\x07", b"", 0
    yield "zeros after a model", b"\x08\x08", b"", 0
    weight = b"\x08" + _varint(MIB // 4) + b"\x10\x01" + field(9, MIB) + bytes(MIB)
    weight = field(5, len(weight)) + weight
    yield "1,800 tensors of 1 MiB", field(7, len(weight) * 1800), weight, 1800
    flood = 10_000_000
    for name, empty in (("nodes", b"\x0a\x00"), ("tensors", b"\x2a\x00"), ("value infos", b"\x6a\x00")):
        yield f"20 MB of empty {name}", field(7, 2 * flood), empty, flood
    yield "20 MB of empty entries", b"", b"\x72\x00", flood
    yield "20 MB of empty attributes", field(7, 2 * flood + 5) + field(1, 2 * flood), b"\x2a\x00", flood


def walk_alone(path: Path) -> dict[str, Any]:
    """Walk one file and measure: the work of a process of its own. Memory is what was added to the process."""
    anonymous = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            anonymous.append(_anonymous())

    before = _anonymous()
    watcher = threading.Thread(target=watch)
    watcher.start()
    cpu = time.process_time()
    with mapped(path, path.name, PROTOBUF_LIMIT) as buf:
        found = wire.walk(buf, len(buf), 100)
        wire.frame(buf, found)
    cpu = time.process_time() - cpu
    anonymous.append(_anonymous())
    done.set()
    watcher.join()
    code = found.fatal[0] if found.fatal else sorted({code for code, _, _ in found.notes})
    return {"cpu_s": round(cpu, 2), "added_mib": round((max(anonymous) - before) / MIB, 1), "end": code}


def _anonymous() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0


def measure_large() -> tuple[dict[str, Any], bool]:
    """Walk each large file in a process of its own. Returns (figures, whether all stayed within the bounds)."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir="/var/tmp") as home:
        path = Path(home, "model.onnx")
        for name, begin, unit, times in large():
            with path.open("wb") as file:
                file.write(begin)
                for _ in range(0, times, 100):
                    file.write(unit * 100)
                if not times:
                    file.truncate(PROTOBUF_LIMIT)
            command = [sys.executable, "-m", "bench.inspection", "--alone", str(path)]
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            found[name] = json.loads(done.stdout)
            print(f"{name:28} {path.stat().st_size:>13,} bytes  {found[name]}", flush=True)
    good = all(one["added_mib"] * MIB <= MOST_MEMORY and one["cpu_s"] <= MOST_SECONDS for one in found.values())
    return found, good


def main() -> int:
    """Measure, print, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--alone", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        print(json.dumps(walk_alone(given.alone)))
        return 0
    if given.large:
        found, good = measure_large()
        lines = [
            figures.alone(f"large/{name}", f"wire walk, {name}: memory added", [one["added_mib"]], unit="MiB",
                          bound=MOST_MEMORY / MIB, source="issue 4")
            for name, one in found.items()
        ] + [
            figures.alone(f"large/{name}/cpu", f"wire walk, {name}: processor time", [one["cpu_s"]], unit="s",
                          bound=MOST_SECONDS, source="issue 4")
            for name, one in found.items()
        ]  # fmt: skip
        return max(figures.save("inspection-large", lines, detail=found), 0 if good else 1)
    lines, parts = [], []
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as home:
        for name, node in FORMS.items():
            path = Path(home, "model.onnx")
            path.write_bytes(model(node))
            walks, checks, phases = paired(path, given.rounds)
            for at, clock in enumerate(("wall clock", "processor time")):
                lines.append(
                    figures.against(
                        f"inspection/{name}/{clock}", f"wire walk of {NODES:,} nodes, {name}, {clock}",
                        [one[at] * 1000 for one in walks], "a cold onnx.checker",
                        [one[at] * 1000 for one in checks], bound=None if at else TARGET, source="issue 4",
                    )
                )  # fmt: skip
            parts.append(figures.part(f"inspect job of {NODES:,} nodes, {name}", phases))
            figures.progress(f"inspection: {name}")
    return figures.save("inspection", lines, parts=parts)


if __name__ == "__main__":
    sys.exit(main())
