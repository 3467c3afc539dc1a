"""Judge each real model of the corpus once as it is and once for each way to break it; print what was said.

``python -m tools.corpus_mutants .cache/corpus`` reads the bundles that ``make corpus`` built. Each gets a contract
that agrees with it. A mutant agrees with itself (file, manifest, goldens), so that the contract alone differs; but
for the changed golden value, which nothing agrees with. Exit 1 where a control is not accepted, or a mutant not
rejected as it should be.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acceptd import local
from acceptd.config import CHECKOUT
from acceptd.rules import load_rules
from examples.bundle_text import toml_text

FACTOR: Final = 10
"""How many tolerances a changed golden value lies off."""
_OTHER: Final = {
    "float32": TensorProto.DOUBLE, "float64": TensorProto.FLOAT, "float16": TensorProto.FLOAT,
    "int64": TensorProto.INT32, "int32": TensorProto.INT64, "bool": TensorProto.UINT8,
}  # fmt: skip
_MOST_LABELS: Final = 4096


class UnsuitedError(Exception):
    """This mutant cannot be made of this model; the argument says why."""


@dataclass(frozen=True)
class Result:
    """One bundle as it was judged. ``said`` is the finding that counts; ``right``: that is what was wanted."""

    path: str
    mutant: str
    verdict: str
    said: str
    right: bool


@dataclass
class Bundle:
    """A copy of a bundle that may be changed; ``wanted`` is the element of a golden that was."""

    home: Path
    wanted: tuple[str, str, list[int]] | None = None

    @property
    def document(self) -> dict[str, Any]:
        return tomllib.loads((self.home / "bundle.toml").read_text("utf-8"))

    def write(self, document: dict[str, Any]) -> None:
        """Write the manifest."""
        (self.home / "bundle.toml").write_text(toml_text(document), "utf-8")

    def model(self) -> Any:
        """Return the model; external data stays where it is."""
        return onnx.load(self.home / "model.onnx", load_external_data=False)

    def sets(self) -> list[Path]:
        """Return the golden sets."""
        return sorted(path for path in self.home.glob("test_data_set_*") if list(path.glob("output_*.pb")))


def tensor(path: Path) -> Any:
    """Return the tensor in a golden file."""
    return onnx.load_tensor(str(path))


def label(bundle: Bundle) -> bool:
    """Give the first output labels where the goldens show a width; say whether there is one."""
    document = bundle.document
    output = document["models"][0]["outputs"][0]
    dims = tensor(bundle.sets()[0] / "output_0.pb").dims
    width = int(dims[-1]) if dims else 0
    fixed = bool(output["shape"]) and output["shape"][-1] == width
    if not fixed or not 2 <= width <= _MOST_LABELS:
        return False
    output["labels"] = [f"class {number}" for number in range(width)]
    bundle.write(document)
    return True


def contract(bundle: Bundle) -> dict[str, Any]:
    """Return the contract that agrees with manifest and file in everything.

    A size that the manifest fixes and the file leaves open is not for the contract to fix.
    """
    document = bundle.document
    given = {one.name: one.type.tensor_type.shape.dim for one in bundle.model().graph.input}
    for one in document["models"][0]["inputs"]:
        pairs = zip(one["shape"], given[one["name"]], strict=True)
        one["shape"] = ["?" if isinstance(dim, int) and not real.dim_value else dim for dim, real in pairs]
    models = [
        {
            "name": model["name"],
            "ir_version": model["ir_version"],
            "opsets": model["opsets"],
            "inputs": model["inputs"],
            "outputs": [{key: one[key] for key in one if key != "tolerance"} for one in model["outputs"]],
        }
        for model in document["models"]
    ]
    return {"schema": 1, "id": document["bundle"]["id"], "dims": document.get("dims", {}), "models": models}


def golden_value(bundle: Bundle) -> None:
    """Move one expected value by ten tolerances: of the first output that has a finite number."""
    for number, output in enumerate(bundle.document["models"][0]["outputs"]):
        path = bundle.sets()[0] / f"output_{number}.pb"
        old = tensor(path)
        values = numpy_helper.to_array(old).copy()
        if values.dtype.kind not in "fiu" or not values.size:
            continue
        usable = np.flatnonzero(np.isfinite(values.reshape(-1)))
        if not usable.size:
            continue
        at = np.unravel_index(int(usable[usable.size // 2]), values.shape)
        allowed = output["tolerance"]["atol"] + output["tolerance"]["rtol"] * abs(float(values[at]))
        values[at] += FACTOR * allowed if values.dtype.kind == "f" else max(1, round(FACTOR * allowed))
        path.write_bytes(numpy_helper.from_array(values, old.name).SerializeToString())
        bundle.wanted = (path.parent.name, output["name"], [int(axis) for axis in at])
        return
    raise UnsuitedError("no golden has a finite number")


def outputs_swapped(bundle: Bundle) -> None:
    """Let the first two outputs change places in file, manifest and goldens."""
    document = bundle.document
    outputs = document["models"][0]["outputs"]
    if len(outputs) < 2:
        raise UnsuitedError("one output")
    outputs[0], outputs[1] = outputs[1], outputs[0]
    bundle.write(document)
    model = bundle.model()
    order = [*reversed(model.graph.output[:2]), *model.graph.output[2:]]
    del model.graph.output[:]
    model.graph.output.extend(order)
    (bundle.home / "model.onnx").write_bytes(model.SerializeToString())
    for place in bundle.sets():
        first, second = place / "output_0.pb", place / "output_1.pb"
        one, other = first.read_bytes(), second.read_bytes()
        first.write_bytes(other)
        second.write_bytes(one)


def labels_reordered(bundle: Bundle) -> None:
    """Let two labels change places in the manifest."""
    document = bundle.document
    labels = document["models"][0]["outputs"][0].get("labels")
    if not labels:
        raise UnsuitedError("the first output has no fixed width")
    labels[0], labels[1] = labels[1], labels[0]
    bundle.write(document)


def dtype_changed(bundle: Bundle) -> None:
    """Let the first input have another element type in file, manifest and goldens: a Cast brings it back."""
    document = bundle.document
    spec = document["models"][0]["inputs"][0]
    other = _OTHER.get(spec["dtype"])
    if other is None:
        raise UnsuitedError(f"no other type for {spec['dtype']}")
    name, array = spec["name"], np.dtype(helper.tensor_dtype_to_np_dtype(other))
    spec["dtype"] = array.name
    bundle.write(document)
    model = bundle.model()
    given = next(one for one in model.graph.input if one.name == name)
    before = given.type.tensor_type.elem_type
    given.type.tensor_type.elem_type = other
    inner = f"{name}/as-before"
    _renamed(model.graph, name, inner)
    cast = helper.make_node("Cast", [name], [inner], name="as-before", to=before)
    nodes = [cast, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    (bundle.home / "model.onnx").write_bytes(model.SerializeToString())
    for place in bundle.sets():
        path = place / "input_0.pb"
        old = tensor(path)
        made = numpy_helper.from_array(numpy_helper.to_array(old).astype(array), old.name)
        path.write_bytes(made.SerializeToString())


def _renamed(graph: Any, name: str, other: str) -> None:
    for node in graph.node:
        for index, used in enumerate(node.input):
            if used == name:
                node.input[index] = other
        for attribute in node.attribute:
            for inner in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                _renamed(inner, name, other)


MUTANTS: Final[dict[str, tuple[Callable[[Bundle], None], str]]] = {
    "golden-value": (golden_value, "parity/mismatch"),
    "outputs-swapped": (outputs_swapped, "schema/outputs-reordered"),
    "labels-reordered": (labels_reordered, "schema/labels-reordered"),
    "dtype-changed": (dtype_changed, "schema/dtype-changed"),
}
"""Name to how it is made, and the code of the finding that has to reject it."""


def _judged(path: str, mutant: str, code: str, bundle: Bundle, report: dict[str, Any]) -> Result:
    verdict, findings = report.get("verdict", "error"), report.get("findings", [])
    if not code:
        said = findings[0] if findings and verdict != "accepted" else None
        words = f"{said['code']} at {said['where']}: {said['message']}" if said else ""
        return Result(path, mutant, verdict, words, verdict == "accepted")
    found = next((one for one in findings if one["code"] == code and one["severity"] == "reject"), None)
    if found is None:
        words = "; ".join(f"{one['code']} at {one['where']}" for one in findings[:3])
        return Result(path, mutant, verdict, f"not {code}: {words}", False)
    right = verdict == "rejected"
    if bundle.wanted is not None:
        name, output, index = bundle.wanted
        shows = found["evidence"]
        right &= (shows["set"], shows["output"], shows["index"]) == (name, output, index[:16])
    else:
        right &= all(job["kind"] != "run" for job in report["resources"]["jobs"])
    return Result(path, mutant, verdict, f"{code} at {found['where']}: {found['message']}", bool(right))


def judge(place: local.Bench, source: Path, path: str, contracts: Path, room: Path) -> Iterator[Result]:
    """Judge one bundle and all its mutants; yield a result for each, those that cannot be made too."""
    base = Bundle(room / "control")
    shutil.copytree(source, base.home)
    if not base.sets():
        yield Result(path, "control", "", "the bundle has no golden set", False)
        return
    label(base)
    document = base.document
    team, _, name = document["bundle"]["id"].partition("/")
    (contracts / team).mkdir(exist_ok=True)
    (contracts / team / f"{name}.toml").write_text(toml_text(contract(base)), "utf-8")
    made: dict[Path, tuple[str, str, Bundle]] = {base.home: ("control", "", base)}
    for mutant, (change, code) in MUTANTS.items():
        bundle = Bundle(room / mutant)
        shutil.copytree(base.home, bundle.home)
        try:
            change(bundle)
        except UnsuitedError as error:
            yield Result(path, mutant, "not made", str(error), True)
        else:
            made[bundle.home] = (mutant, code, bundle)
    found: list[Result] = []

    def done(case: Path, report: dict[str, Any]) -> None:
        mutant, code, bundle = made[case]
        found.append(_judged(path, mutant, code, bundle, report))

    local.check_many(place, list(made), done=done)
    yield from found


def table(results: list[Result]) -> str:
    """Return a row for each bundle: its control's verdict, and of each mutant the verdict or why there is none."""
    names = ["control", *MUTANTS]
    by = {(one.path, one.mutant): one for one in results}
    lines = [f"{'bundle':50}" + "".join(f"{name:18}" for name in names)]
    for path in dict.fromkeys(one.path for one in results):
        cells = []
        for name in names:
            one = by.get((path, name))
            word = "" if one is None else f"({one.said[:14]})" if one.verdict == "not made" else one.verdict
            cells.append(word + ("" if one is None or one.right else " WRONG"))
        lines.append(f"{path:50}" + "".join(f"{cell:18}" for cell in cells))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Judge all bundles; exit 1 when one was not judged as it should be, 2 when there is none."""
    parser = argparse.ArgumentParser(description="Judge the corpus, and mutants of each of its bundles.")
    parser.add_argument("out", type=Path, help="where tools.corpus put its bundles")
    parser.add_argument("only", nargs="*", help="paths of bundles below OUT/bundles; all otherwise")
    parser.add_argument("--jsonl", type=Path, help="write a line for each judgement")
    given = parser.parse_args(arguments)
    bundles = given.out / "bundles"
    cases = [
        one for one in local.find_cases(bundles) if not given.only or str(one.relative_to(bundles)) in given.only
    ]
    if not cases:
        print(f"corpus_mutants: no bundle below {bundles}: run make corpus", file=sys.stderr)
        return 2
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="corpus-mutants-") as home:
        policies = Path(home, "policies")
        shutil.copytree(CHECKOUT / "policies", policies)
        with local.bench(load_rules(policies, "default", []), cores=2, suite=True) as place:
            for case in cases:
                room = Path(home, "room")
                room.mkdir()
                path = case.relative_to(bundles).as_posix()
                for result in judge(place, case, path, policies / "contracts", room):
                    results.append(result)
                    print(f"{path}: {result.mutant}: {result.verdict} {result.said[:200]}", file=sys.stderr)
                shutil.rmtree(room)
    if given.jsonl:
        given.jsonl.write_text("".join(json.dumps(asdict(one)) + "\n" for one in results), "utf-8")
    print(table(results))
    counts = Counter((one.mutant, one.verdict) for one in results)
    for mutant in ["control", *MUTANTS]:
        told = ", ".join(f"{number} {verdict}" for (name, verdict), number in counts.items() if name == mutant)
        print(f"{mutant:18}{told}")
    wrong = [one for one in results if not one.right]
    for one in wrong:
        print(f"WRONG {one.path}: {one.mutant}: {one.verdict}: {one.said}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
