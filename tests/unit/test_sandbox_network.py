"""The canonical hash of a model, and the selections in it: what counts and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sandbox.inspect import canonical
from tests.network_world import BIG, array, in_branch, in_function, node, structure, two_branches
from tests.static_world import external, model

pytestmark = pytest.mark.unit


def rename(given: onnx.ModelProto) -> None:
    names = {"x": "features", "y": "result", "a": "u", "b": "v", "c": "\u202ename", "w": "bias", "big": "kernel"}
    for one in given.graph.node:
        one.name = ""
        for names_of in (one.input, one.output):
            renamed = [names[name] for name in names_of]
            del names_of[:]
            names_of.extend(renamed)
    for named in (*given.graph.input, *given.graph.output, *given.graph.initializer):
        named.name = names[named.name]
    given.graph.name = "another"


def reorder(given: onnx.ModelProto) -> None:
    nodes = list(given.graph.node)
    del given.graph.node[:]
    given.graph.node.extend([nodes[1], nodes[2], nodes[0], nodes[3]])
    weights = list(given.graph.initializer)[::-1]
    del given.graph.initializer[:]
    given.graph.initializer.extend(weights)


def document(given: onnx.ModelProto) -> None:
    given.producer_name = "somebody"
    given.doc_string = "text"
    given.graph.node[0].doc_string = "more text"
    given.metadata_props.add(key="k", value="v")
    for item in (*given.graph.input, *given.graph.output):
        item.type.tensor_type.shape.dim[0].dim_param = "rows"


def as_numbers(given: onnx.ModelProto) -> None:
    """Store both weights in float_data: the same values in another field, read as protobuf reads them."""
    for tensor in given.graph.initializer:
        numbers = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.float_data.extend(numbers.tolist())


@pytest.mark.parametrize("change", [rename, reorder, document, as_numbers], ids=lambda change: change.__name__)
def test_what_changes_nothing_that_is_computed_leaves_the_hash(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None]
) -> None:
    before = structure(tmp_path / "a", two_branches())
    changed = two_branches()
    change(changed)
    after = structure(tmp_path / "b", changed)
    assert len(before["graph_sha256"]) == 64
    for key in ("graph_sha256", "topology_sha256"):
        assert after[key] == before[key]


def weigh(given: onnx.ModelProto) -> None:
    given.graph.initializer[0].CopyFrom(array("w", 1.0000001))


def weigh_big(given: onnx.ModelProto) -> None:
    changed = BIG.copy()
    changed[2047] = -1
    given.graph.initializer[1].CopyFrom(numpy_helper.from_array(changed, "big"))


def attribute(given: onnx.ModelProto) -> None:
    given.graph.node[2].attribute[0].f = 0.25


def swap(given: onnx.ModelProto) -> None:
    last = given.graph.node[3]
    del last.input[:]
    last.input.extend(["c", "a"])


def operator(given: onnx.ModelProto) -> None:
    given.graph.node[0].op_type = "Div"


def dead(given: onnx.ModelProto) -> None:
    given.graph.node.append(node("Relu", ["x"], ["nobody"]))


def opset(given: onnx.ModelProto) -> None:
    given.opset_import[0].version = 17


def unused(given: onnx.ModelProto) -> None:
    given.graph.initializer.append(array("spare", 3.0))


def fixed(given: onnx.ModelProto) -> None:
    for item in (*given.graph.input, *given.graph.output):
        item.type.tensor_type.shape.dim[0].dim_value = 1


CHANGES = [attribute, swap, operator, dead, opset, unused, fixed]


@pytest.mark.parametrize("change", [*CHANGES, weigh, weigh_big], ids=lambda change: change.__name__)
def test_what_is_computed_otherwise_changes_the_hash(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None]
) -> None:
    before = structure(tmp_path / "a", two_branches())
    changed = two_branches()
    change(changed)
    after = structure(tmp_path / "b", changed)
    assert after["graph_sha256"] != before["graph_sha256"]
    assert (after["topology_sha256"] != before["topology_sha256"]) == (change in CHANGES)


def test_weights_are_read_only_by_a_job_that_is_told_to(tmp_path: Path) -> None:
    plain = structure(tmp_path, two_branches(), digests=False)
    assert plain["graph_sha256"] == ""
    assert plain["initializers"] == ["big float32[2048]", "w float32[1]"]
    assert plain["parameters"] == 2049


def outside(**entries: str) -> onnx.ModelProto:
    given = two_branches()
    external(given.graph.initializer[1], **entries)
    return given


def test_external_weights_count_as_if_they_stood_in_the_file(tmp_path: Path) -> None:
    data = b"\0" * 64 + BIG.tobytes()
    given = outside(location="w.bin", offset="64", length="8192")
    inside = structure(tmp_path / "a", two_branches())
    assert structure(tmp_path / "b", given, files={"w.bin": data})["graph_sha256"] == inside["graph_sha256"]
    other = data[:-1] + b"\x7f"
    assert structure(tmp_path / "c", given, files={"w.bin": other})["graph_sha256"] != inside["graph_sha256"]


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "../w.bin"},
        {"location": "w.bin", "offset": "8192"},
        {"location": "w.bin", "offset": "-1"},
        {"location": "w.bin", "offset": "9" * 30},
        {"location": "w.bin", "length": "1_0"},
        {},
    ],
    ids=str,
)
def test_weights_that_cannot_be_read_give_no_hash(tmp_path: Path, entries: dict[str, str]) -> None:
    found = structure(tmp_path, outside(**entries), files={"w.bin": BIG.tobytes()})
    assert found["graph_sha256"] == ""
    assert len(found["topology_sha256"]) == 64


TYPED = {
    "FLOAT": [1.5, -2.0], "DOUBLE": [1.5, -2.0], "FLOAT16": [1.5, -2.0], "BFLOAT16": [1.5, -2.0], "INT8": [-1, 2],
    "INT16": [-1, 2], "INT32": [-1, 2], "INT64": [-1, 2**40], "UINT8": [255, 2], "UINT16": [65535, 2],
    "UINT32": [2**32 - 1, 2], "UINT64": [2**64 - 1, 2], "BOOL": [True, False], "COMPLEX64": [1 + 2j, -1j],
    "COMPLEX128": [1 + 2j, -1j], "FLOAT8E4M3FN": [1.5, -2.0], "INT4": [-1, 2], "UINT4": [15, 2],
}  # fmt: skip


@pytest.mark.parametrize("dtype", TYPED)
def test_values_are_the_same_in_every_field_that_may_hold_them(dtype: str) -> None:
    kind = getattr(TensorProto, dtype)
    typed = helper.make_tensor("w", kind, [2], TYPED[dtype])
    assert not typed.HasField("raw_data")
    raw = numpy_helper.from_array(numpy_helper.to_array(typed), "w")
    assert raw.data_type == kind
    assert canonical.values(typed) == raw.raw_data == canonical.values(raw)


def test_texts_are_told_apart_by_where_one_ends() -> None:
    one, two = (
        helper.make_tensor("w", TensorProto.STRING, [2], texts) for texts in ([b"ab", b"c"], [b"a", b"bc"])
    )
    assert canonical.values(one) != canonical.values(two)


def test_a_function_is_what_it_does_not_what_it_is_called(tmp_path: Path) -> None:
    before = structure(tmp_path / "a", in_function())
    assert structure(tmp_path / "b", in_function(name="Innocent"))["graph_sha256"] == before["graph_sha256"]
    assert structure(tmp_path / "c", in_function(threshold="Less"))["graph_sha256"] != before["graph_sha256"]


def test_what_stands_in_a_nested_branch_counts(tmp_path: Path) -> None:
    before = structure(tmp_path / "a", in_branch(3))
    assert structure(tmp_path / "b", in_branch(3, "Abs"))["graph_sha256"] != before["graph_sha256"]
    assert structure(tmp_path / "c", in_branch(3))["graph_sha256"] == before["graph_sha256"]


def test_a_graph_out_of_order_or_with_a_cycle_is_hashed_too(tmp_path: Path) -> None:
    turned = two_branches()
    nodes = list(turned.graph.node)[::-1]
    del turned.graph.node[:]
    turned.graph.node.extend(nodes)
    assert (
        structure(tmp_path / "a", turned)["graph_sha256"]
        == structure(tmp_path / "b", two_branches())["graph_sha256"]
    )
    ring = model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])])
    assert len(structure(tmp_path / "c", ring)["graph_sha256"]) == 64
    calls = [
        helper.make_function("local", name, ["p"], ["q"], [node(other, ["p"], ["q"], domain="local")], [])
        for name, other in (("F", "G"), ("G", "F"))
    ]
    loop = model([node("F", ["x"], ["y"], domain="local")], functions=calls)
    assert len(structure(tmp_path / "d", loop)["topology_sha256"]) == 64
