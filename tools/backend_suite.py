"""Write the ONNX backend suite out as directories, and run it directly in plain onnxruntime.

``python tools/backend_suite.py OUT`` writes ``OUT/<kind>/<name>/{model.onnx,test_data_set_0/…}``: 1,884
node cases, the wheel's 140 simple, pytorch-converted and pytorch-operator cases and 9 light networks.
``--direct FILE.jsonl`` runs every case in worker processes and writes ``{path, outcome, detail}``. With
onnxruntime 1.32 and ``--no-packed``: 1,787 pass, 159 fail to load, 63 to run, 24 differ. Without, two- and
four-bit inputs and outputs are copied through the memory of an ``OrtValue``, as acceptd does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests
from rich.progress import Progress, track

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.workers import run_all

WHEEL_KINDS: Final = ("simple", "pytorch-converted", "pytorch-operator")
DEFAULT_TOLERANCE: Final = (1e-3, 1e-7)
EXPECTED_CASES: Final = 2033  # onnx 1.23.2
MARKER: Final = "suite.json"


def encode(value: Any, kind: onnx.TypeProto, name: str) -> bytes:
    """Return a golden file's bytes, the protobuf type chosen by the graph's declared type."""
    if isinstance(value, onnx.TensorProto):
        proto: Any = value
    elif kind.HasField("sequence_type"):
        proto = numpy_helper.from_list(value, name)
    elif kind.HasField("optional_type"):
        proto = numpy_helper.from_optional(value, name)
    else:
        proto = numpy_helper.from_array(np.asarray(value), name)
    data: bytes = proto.SerializeToString()
    return data


def _write_set(directory: Path, graph: onnx.GraphProto, inputs: Iterable[Any], outputs: Iterable[Any]) -> None:
    directory.mkdir()
    for kind, declared, values in (("input", graph.input, inputs), ("output", graph.output, outputs)):
        for index, (info, value) in enumerate(zip(declared, values, strict=False)):
            (directory / f"{kind}_{index}.pb").write_bytes(encode(value, info.type, info.name))


def _write_tolerance(directory: Path, rtol: float, atol: float) -> None:
    if (rtol, atol) != DEFAULT_TOLERANCE:
        (directory / "data.json").write_text(json.dumps({"rtol": rtol, "atol": atol}) + "\n")


def write_node_case(case: Any, directory: Path) -> None:
    """Write one case that onnx builds in memory."""
    (directory / "model.onnx").write_bytes(case.model.SerializeToString())
    _write_tolerance(directory, case.rtol, case.atol)
    for index, (inputs, outputs) in enumerate(case.data_sets):
        _write_set(directory / f"test_data_set_{index}", case.model.graph, inputs, outputs)


def ramp(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the input that onnx's runner makes for light networks: 0, 1/n, 2/n, … in float32."""
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def write_light_case(case: Any, directory: Path) -> None:
    """Write one light network: the wheel's model and expected output, the runner's own dummy input."""
    source = Path(DATA_DIR) / "light" / Path(case.url).name
    shutil.copyfile(source, directory / "model.onnx")
    _write_tolerance(directory, case.rtol, case.atol)
    graph = onnx.load(str(source)).graph
    weights = {tensor.name for tensor in graph.initializer}
    target = directory / "test_data_set_0"
    target.mkdir()
    inputs = [value for value in graph.input if value.name not in weights]
    for index, value in enumerate(inputs):
        dims = value.type.tensor_type.shape.dim
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims)
        (target / f"input_{index}.pb").write_bytes(numpy_helper.from_array(ramp(shape)).SerializeToString())
    for index in range(len(graph.output)):
        shutil.copyfile(source.with_name(f"{source.stem}_output_{index}.pb"), target / f"output_{index}.pb")


def _cases() -> Iterator[tuple[str, Any]]:
    for kind in ("node", *WHEEL_KINDS):
        for case in sorted(load_model_tests(kind=kind), key=lambda case: str(case.name)):
            yield kind, case
    for case in sorted(load_model_tests(kind="real"), key=lambda case: str(case.name)):
        yield "light", case


def write_suite(out: Path) -> int:
    """Write all cases below ``out`` and return their number; nothing is written again for the same onnx."""
    wanted = {"onnx": onnx.__version__}
    marker = out / MARKER
    if marker.is_file() and (done := json.loads(marker.read_text())).get("onnx") == wanted["onnx"]:
        return int(done["cases"])
    marker.unlink(missing_ok=True)
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # node cases overflow and divide by zero on purpose
        for kind, case in track(list(_cases()), description="writing cases"):
            directory = out / kind / case.name
            shutil.rmtree(directory, ignore_errors=True)
            if kind in WHEEL_KINDS:
                shutil.copytree(case.model_dir, directory, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
            else:
                directory.mkdir(parents=True)
                (write_node_case if kind == "node" else write_light_case)(case, directory)
            count += 1
    marker.write_text(json.dumps({**wanted, "cases": count}) + "\n")
    return count


def direct(out: Path, target: Path, workers: int, seconds: float, *, packed: bool = True) -> Counter[str]:
    """Run every case below ``out`` in plain onnxruntime; write one JSON line each; return the outcomes."""
    cases = [path.parent for path in sorted(out.glob("*/*/model.onnx"))]
    lines: list[dict[str, str]] = []
    tasks = [{"case": str(case.resolve()), "packed": packed} for case in cases]
    with Progress() as progress:
        bar = progress.add_task("running directly", total=len(cases))
        for task, answer in run_all("direct", tasks, workers=workers, seconds=seconds):
            if "died" in answer:
                stage = "run" if answer["stage"] == "run" else "load"
                detail = f"worker died: {answer['died']} at {answer['stage']}"
                outcome = {"outcome": stage, "detail": detail}
            else:
                outcome = answer
            path = Path(task["case"]).relative_to(out.resolve()).as_posix()
            lines.append({"path": path, **outcome})
            progress.advance(bar)
    lines.sort(key=lambda line: line["path"])
    target.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Counter(line["outcome"] for line in lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the suite, and run it directly where asked."""
    parser = argparse.ArgumentParser(
        description="Write out the ONNX backend suite and run it in plain onnxruntime."
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--direct", type=Path, metavar="FILE.jsonl", help="run every case and write the outcomes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=120, help="deadline of one stage of one case")
    parser.add_argument("--no-packed", action="store_true", help="do not feed two- and four-bit types by memory")
    given = parser.parse_args(arguments)
    count = write_suite(given.out)
    print(f"{given.out}: {count} cases, onnx {onnx.__version__}")
    if count != EXPECTED_CASES:
        print(f"note: onnx 1.23.2 has {EXPECTED_CASES} cases")
    if given.direct:
        outcomes = direct(given.out, given.direct, given.workers, given.seconds, packed=not given.no_packed)
        print(f"{given.direct}: " + ", ".join(f"{n} {outcome}" for outcome, n in outcomes.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
