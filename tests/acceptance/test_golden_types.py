"""Every kind of golden value that onnxruntime takes, through the real jobs: right passes, wrong does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from examples.bundle_text import toml_text
from sandbox.tensors import ELEMENTS
from tests.bench_world import Desk, desk
from tests.world import codes

pytestmark = pytest.mark.acceptance

FLOAT = TensorProto.FLOAT


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("types")) as made:
        yield made


@dataclass
class Trial:
    """A model with one golden set: values are messages or arrays, ``wrong`` replaces the first expected one."""

    nodes: list[Any]
    inputs: list[tuple[str, Any]]
    """Name and type proto."""
    outputs: list[tuple[str, Any]]
    feeds: list[Any]
    expected: list[Any]
    wrong: Any
    opset: int = 23
    npz: bool = False
    more: dict[str, str] = field(default_factory=dict)


def tensor(dtype: int, shape: list[Any] | None) -> Any:
    return helper.make_tensor_type_proto(dtype, shape)


def side(values: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """What the manifest declares of ports of these types."""
    found = []
    for name, kind in values:
        which = kind.WhichOneof("value").removesuffix("_type")
        inner = kind
        while inner.WhichOneof("value") in {"sequence_type", "optional_type"}:
            inner = getattr(inner, inner.WhichOneof("value")).elem_type
        port: dict[str, Any] = {"name": name, "type": which}
        if inner.WhichOneof("value") == "map_type":
            port["key_dtype"] = word(inner.map_type.key_type)
            inner = inner.map_type.value_type
        port["dtype"] = word(inner.tensor_type.elem_type)
        if which == "tensor":
            port["shape"] = [dim.dim_value for dim in kind.tensor_type.shape.dim]
        found.append(port)
    return found


def word(number: int) -> str:
    return next(name for name, element in ELEMENTS.items() if element.number == number)


def write(bundle: Path, trial: Trial, *, wrong: bool = False) -> Path:
    graph = helper.make_graph(
        trial.nodes,
        "g",
        [helper.make_value_info(name, kind) for name, kind in trial.inputs],
        [helper.make_value_info(name, kind) for name, kind in trial.outputs],
    )
    opsets = [helper.make_opsetid("", trial.opset), helper.make_opsetid("ai.onnx.ml", 3)]
    folder = bundle / "test_data_set_0"
    folder.mkdir(parents=True)
    (bundle / "model.onnx").write_bytes(
        helper.make_model(graph, ir_version=11, opset_imports=opsets).SerializeToString()
    )
    expected = [trial.wrong, *trial.expected[1:]] if wrong else trial.expected
    if trial.npz:
        for name, ports, values in (("inputs", trial.inputs, trial.feeds), ("outputs", trial.outputs, expected)):
            np.savez(folder / f"{name}.npz", **dict(zip([port for port, _ in ports], values, strict=True)))
    else:
        for name, values in (("input", trial.feeds), ("output", expected)):
            for number, value in enumerate(values):
                message = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
                (folder / f"{name}_{number}.pb").write_bytes(message.SerializeToString())
    model = {"name": "main", "file": "model.onnx", "inputs": side(trial.inputs), "outputs": side(trial.outputs)}
    model["vectors"] = [{"sets": ["test_data_set_*"], "origin": "written by hand"}]
    document = {"schema": 1, "bundle": {"id": "mosaic/types", "version": "1.0.0"}, "models": [model]}
    (bundle / "bundle.toml").write_text(toml_text(document))
    return bundle


def copies(values: dict[str, np.ndarray[Any, Any]], *, npz: bool) -> Trial:
    """A model that gives each value as it is."""
    numbers = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in values.items()}
    kinds = {name: tensor(numbers[name], list(value.shape)) for name, value in values.items()}
    wrong = next(iter(values.values())).copy()
    wrong.reshape(-1)[-1] = wrong.reshape(-1)[0]
    return Trial(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in values],
        list(kinds.items()),
        [(f"{name}_out", kind) for name, kind in kinds.items()],
        list(values.values()),
        list(values.values()),
        wrong,
        npz=npz,
    )


NATIVE = (
    "float32",
    "float64",
    "float16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
)
SMALL = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def natives(*, npz: bool) -> Trial:
    values = {name: np.array([[0, 1], [2, 3]], name) for name in NATIVE}
    values["bool"] = np.array([True, False])
    values["scalar"] = np.array(7.5, np.float32)
    values["empty"] = np.zeros((0, 3), np.float32)
    values["text"] = np.array(["ä", "", "b\nc"], "U" if npz else object)
    trial = copies({name: value for name, value in values.items() if name != "text"}, npz=npz)
    kind = tensor(TensorProto.STRING, [3])
    trial.nodes.append(helper.make_node("Identity", ["text"], ["text_out"]))
    trial.inputs.append(("text", kind))
    trial.outputs.append(("text_out", kind))
    trial.feeds.append(values["text"])
    trial.expected.append(values["text"])
    return trial


def small_floats(*, npz: bool) -> Trial:
    return copies({name: np.array([0.5, -2, 1], getattr(ml_dtypes, name)) for name in SMALL}, npz=npz)


def texts() -> Trial:
    kind = tensor(TensorProto.STRING, [2])
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    both = [np.array(["x", "é"], object), np.array(["1", ""], object)]
    expected, wrong = np.array(["x1", "é"], object), np.array(["x1", "e"], object)
    return Trial([node], [("a", kind), ("b", kind)], [("y", kind)], both, [expected], wrong)


ONE, TWO = np.array([1.0, 2.0], np.float32), np.array([3.0], np.float32)


def listed(*arrays: np.ndarray[Any, Any]) -> Any:
    tensors = [numpy_helper.from_array(array) for array in arrays]
    return onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR, tensor_values=tensors)


def sequences() -> Trial:
    kind = helper.make_sequence_type_proto(tensor(FLOAT, None))
    node = helper.make_node("SequenceInsert", ["s", "t"], ["y"])
    inputs = [("s", kind), ("t", tensor(FLOAT, [1]))]
    return Trial([node], inputs, [("y", kind)], [listed(ONE), TWO], [listed(ONE, TWO)], listed(ONE, TWO + 1))


def optionals(*, absent: bool) -> Trial:
    kind = helper.make_optional_type_proto(tensor(FLOAT, [2]))
    node = helper.make_node("OptionalHasElement", ["o"], ["y"])
    given = onnx.OptionalProto(elem_type=onnx.OptionalProto.TENSOR)
    if not absent:
        given.tensor_value.CopyFrom(numpy_helper.from_array(ONE))
    outputs = [("y", tensor(TensorProto.BOOL, []))]
    return Trial([node], [("o", kind)], outputs, [given], [np.array(not absent)], np.array(absent))


def entries(keys: list[int], *values: float) -> Any:
    proto = onnx.MapProto(key_type=TensorProto.INT64, keys=keys)
    proto.values.elem_type = onnx.SequenceProto.TENSOR
    proto.values.tensor_values.extend(numpy_helper.from_array(np.array(value, np.float32)) for value in values)
    return proto


def map_in() -> Trial:
    kind = helper.make_map_type_proto(TensorProto.INT64, tensor(FLOAT, None))
    node = helper.make_node(
        "CastMap", ["m"], ["y"], domain="ai.onnx.ml", cast_to="TO_FLOAT", map_form="SPARSE", max_map=4
    )
    expected = np.array([[0, 5, 0, 7]], np.float32)
    outputs = [("y", tensor(FLOAT, [1, 4]))]
    return Trial([node], [("m", kind)], outputs, [entries([3, 1], 7, 5)], [expected], expected + 1)


def map_out() -> Trial:
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, tensor(FLOAT, None)))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 7])

    def rows(*values: float) -> Any:
        return onnx.SequenceProto(elem_type=onnx.SequenceProto.MAP, map_values=[entries([7, 3], *values)])

    given = np.array([[0.25, 0.75]], np.float32)
    return Trial(
        [node], [("x", tensor(FLOAT, [1, 2]))], [("y", kind)], [given], [rows(0.75, 0.25)], rows(0.75, 0.5)
    )


TRIALS: dict[str, Callable[[], Trial]] = {
    "native types, scalars, empty and text, pb": lambda: natives(npz=False),
    "native types, scalars, empty and text, npz": lambda: natives(npz=True),
    "bfloat16 and float8, pb": lambda: small_floats(npz=False),
    "bfloat16 and float8, npz": lambda: small_floats(npz=True),
    "text": texts,
    "sequence": sequences,
    "optional": lambda: optionals(absent=False),
    "absent optional": lambda: optionals(absent=True),
    "map in": map_in,
    "map out": map_out,
}


TOLD = ("severity.vectors/insensitive=info", "severity.vectors/output-unchecked=info")
"""An output without an element is as good as unchecked; here it is there on purpose."""


@pytest.mark.parametrize("name", TRIALS)
def test_a_golden_of_each_kind_is_read_run_and_compared(name: str, place: Desk, tmp_path: Path) -> None:
    report = place.check(write(tmp_path / "right", TRIALS[name]()), *TOLD)
    assert report["verdict"] == "accepted", report["findings"]
    rows = [row for row in report["parity"] if row["against"] == "golden"]
    assert len(rows) == len(TRIALS[name]().outputs)
    assert all(row["comparable"] and not row["exceeding"] for row in rows)
    report = place.check(write(tmp_path / "wrong", TRIALS[name](), wrong=True), *TOLD)
    assert (report["verdict"], codes(report, "reject")) == ("rejected", {"parity/mismatch"}), report["findings"]
