"""The wire walk: its schema is onnx's own, its counts are right, its places found, its copies faithful."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from onnx import TensorProto, helper

from sandbox import wire, wire_result, wire_schema, wire_tensor
from sandbox.inspect import stubs
from sandbox.wire_places import places
from tests import static_world as world

pytestmark = pytest.mark.unit

KINDS = {
    FieldDescriptor.TYPE_INT32: {"int32"}, FieldDescriptor.TYPE_INT64: {"int"},
    FieldDescriptor.TYPE_UINT64: {"int"}, FieldDescriptor.TYPE_FLOAT: {"float"},
    FieldDescriptor.TYPE_DOUBLE: {"double"},
    FieldDescriptor.TYPE_STRING: {"string", "doc", "text"}, FieldDescriptor.TYPE_BYTES: {"bytes"},
}  # fmt: skip
ALIASES = {
    "TensorType": ("TypeProto.Tensor", "TypeProto.SparseTensor"),
    "Holder": ("TypeProto.Sequence", "TypeProto.Optional"), "MapType": ("TypeProto.Map",),
    "Opaque": ("TypeProto.Opaque",), "Shape": ("TensorShapeProto",), "Dimension": ("TensorShapeProto.Dimension",),
    "Segment": ("TensorProto.Segment",), "TensorAnnotation": ("TensorAnnotation",),
}  # fmt: skip


def descriptors() -> dict[str, Descriptor]:
    """Every message of onnx.proto by its name without the package."""
    found: dict[str, Descriptor] = {}
    work = list(onnx.ModelProto.DESCRIPTOR.file.message_types_by_name.values())
    while work:
        item = work.pop()
        found[item.full_name.removeprefix("onnx.")] = item
        work += item.nested_types
    return found


def test_schema_is_that_of_onnx() -> None:
    known = descriptors()
    covered = set()
    for message, fields in wire_schema.FIELDS.items():
        for name in ALIASES.get(message, (f"{message}Proto",)):
            covered.add(name)
            theirs = known[name].fields_by_number
            assert set(theirs) == set(fields), name
            for number, (kind, field, repeats) in fields.items():
                other = theirs[number]
                assert repeats == other.is_repeated, (name, field)
                if other.type == FieldDescriptor.TYPE_MESSAGE:
                    target = other.message_type.full_name.removeprefix("onnx.")
                    assert target in ALIASES.get(kind, (f"{kind}Proto",)), (name, field)
                elif other.type == FieldDescriptor.TYPE_ENUM:
                    values = [value.number for value in other.enum_type.values]
                    assert sorted(values) == list(range(len(values))), (name, field)
                    assert kind == f"enum:{max(values)}", (name, field)
                else:
                    assert kind in KINDS[other.type], (name, field)
                if name not in ("TypeProto.SparseTensor", "TypeProto.Optional"):
                    assert field == other.name
    assert covered == set(known)


def nested() -> onnx.ModelProto:
    """An If whose branches hold a Constant and another If, one local function, one value info, metadata."""
    inner = helper.make_node(
        "If", ["c"], ["t"], then_branch=branch("t1", 1.0), else_branch=branch("t2", 2.0), name="inner"
    )
    outer = helper.make_node(
        "If", ["c"], ["y"], name="outer", then_branch=branch("a", 3.0),
        else_branch=helper.make_graph([inner], "e", [], [world.value("t")]),
    )  # fmt: skip
    function = helper.make_function(
        "local", "F", ["p"], ["q"], [helper.make_node("Relu", ["p"], ["q"])], [helper.make_opsetid("", 18)]
    )
    built = world.model(
        [outer, helper.make_node("F", ["y"], ["z"], domain="local")],
        inputs=[world.value("c", [], TensorProto.BOOL)], outputs=[world.value("z")], functions=[function],
        initializer=[world.weight("big", (2048,), bytes(8192)), world.weight("small")],
    )  # fmt: skip
    helper.set_model_props(built, {"author": "someone"})
    return built


def branch(name: str, number: float) -> onnx.GraphProto:
    constant = helper.make_node(
        "Constant", [], [name], value=helper.make_tensor("", TensorProto.FLOAT, [1], [number])
    )
    return helper.make_graph([constant], name, [], [world.value(name)])


def test_counts_over_all_scopes() -> None:
    raw = nested().SerializeToString()
    walk = wire.walk(raw, len(raw), 100)
    frame = wire.frame(raw, walk)
    assert walk.notes == []
    expected = {"graphs": 5, "nodes": 7, "initializers": 2, "functions": 1, "ir_version": 8, "bytes": len(raw)}
    assert {key: frame[key] for key in expected} == expected
    assert frame["unknown_fields"] == frame["unknown_bytes"] == 0
    assert frame["metadata_bytes"] == len("author") + len("someone") + 4
    assert walk.depth == 13  # the innermost output's type, shape and dimension
    assert walk.initializer_bytes == 8192 + 4


def test_places_name_node_attribute_and_index() -> None:
    raw = nested().SerializeToString()
    constant = raw.index(b"t2")
    name = raw.index(b"inner")
    found = places(raw, len(raw), [constant, name, 0, len(raw) + 5])
    assert found[constant].startswith(
        "graph/node[0] If/else_branch/node[0] If/else_branch/node[0] Constant/output[0]"
    )
    assert found[name].startswith("graph/node[0] If/else_branch/node[0] If/name")
    assert found[0] == "ir_version"
    assert found[len(raw) + 5] == f"byte {len(raw) + 5}"


def test_copy_without_values_has_the_same_shapes_and_small_values() -> None:
    built = nested()
    raw = built.SerializeToString()
    walk = wire.walk(raw, len(raw), 100)
    small = stubs.without_values(raw, walk)
    assert len(small) < len(raw) - 8000
    assert wire.walk(small, len(small), 100).fatal is None
    built.graph.initializer[0].ClearField("raw_data")
    assert onnx.ModelProto.FromString(small) == built


def test_model_without_large_values_is_copied_as_it_is() -> None:
    raw = world.model().SerializeToString()
    assert stubs.without_values(raw, wire.walk(raw, len(raw), 100)) == raw


def test_packed_and_unpacked_numbers_are_both_read() -> None:
    walk = wire.Walk(0)
    for form in (b"\x25\0\0\x80?", b"\x22\x04\0\0\x80?"):
        tensor = b"\x08\x01\x10\x01" + form + b"\x42\x01w"
        record = wire_tensor.read(tensor, 0, len(tensor), walk.note, lambda *_: None)
        assert record.value_bytes == {4: 4}
        assert record.elements == 1
    assert walk.notes == []


@pytest.mark.parametrize("count", [1, 1000])
def test_repeated_attributes_and_plain_nodes_count_like_others(count: int) -> None:
    nodes = [
        helper.make_node("Softmax", [f"v{i}"], [f"v{i + 1}"], axis=i % 3, name="ü" if i % 7 == 0 else f"n{i}")
        for i in range(count)
    ]
    raw = world.model(nodes, inputs=[world.value("v0")], outputs=[world.value(f"v{count}")]).SerializeToString()
    walk = wire.walk(raw, len(raw), 100)
    assert walk.notes == []
    assert walk.nodes == count
    assert walk.depth == 7


def test_problems_are_capped_and_counted(tmp_path: Path) -> None:
    raw = world.model().SerializeToString() + world.field_bytes(99, b"x") * 500
    found = world.inspected(tmp_path, raw)
    unknown = [item for item in found.frames["wire"]["problems"] if item["code"] == "wire/unknown-field"]
    assert len(unknown) == wire_result.MAX_PER_CODE
    assert unknown[-1]["message"].endswith("(one of 500)")
    assert found.frames["wire"]["unknown_fields"] == 500
