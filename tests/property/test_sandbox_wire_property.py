"""The wire walk over any bytes: it always ends with a result, and what it passes protobuf reads the same."""

from __future__ import annotations

import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from sandbox import wire
from sandbox.inspect import stubs
from sandbox.wire_places import places
from sandbox.wire_schema import FUNCTIONS, GRAPHS, INITIALIZERS, NODES
from tests import static_world as world

pytestmark = pytest.mark.property


def sample() -> bytes:
    """Return a model with most kinds of fields."""
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["t"], name="n", doc_string="d")], "b", [], [])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        helper.make_node("Op", ["y"], ["z"], domain="local", ints=[1, 2, 300], floats=[1.0], strings=["ü"], f=2.5),
        helper.make_node(
            "Constant", [], ["k"], value=helper.make_tensor("t", TensorProto.INT64, [2], [1, 1 << 40])
        ),
    ]
    function = helper.make_function("local", "Op", ["p"], ["q"], [helper.make_node("Relu", ["p"], ["q"])], [])
    built = world.model(nodes, initializer=[world.weight("w", (2000,), bytes(8000))], functions=[function])
    helper.set_model_props(built, {"k": "v"})
    return bytes(built.SerializeToString())


MODEL = sample()


def check(raw: bytes) -> None:
    """The walk ends; every note has a place; without a note protobuf agrees on all counts."""
    walk = wire.walk(raw, len(raw), 100)
    assert set(places(raw, len(raw), [offset for _, offset, _ in walk.notes])) == {note[1] for note in walk.notes}
    if walk.notes:
        return
    model = onnx.ModelProto.FromString(raw)  # must not raise DecodeError
    assert model.SerializeToString() == onnx.ModelProto.FromString(model.SerializeToString()).SerializeToString()
    graphs = nodes = initializers = 0
    work = [model.graph] if model.HasField("graph") else []
    work += [
        graph
        for info in model.training_info
        for graph in (info.initialization, info.algorithm)
        if graph.ByteSize()
    ]
    bodies = [*work, *model.functions]
    while bodies:
        item = bodies.pop()
        if isinstance(item, onnx.GraphProto):
            graphs += 1
            initializers += len(item.initializer) + len(item.sparse_initializer)
        else:
            bodies += [a.g for a in item.attribute_proto if a.HasField("g")]
            bodies += [graph for a in item.attribute_proto for graph in a.graphs]
        nodes += len(item.node)
        for node in item.node:
            bodies += [a.g for a in node.attribute if a.HasField("g")]
            bodies += [graph for a in node.attribute for graph in a.graphs]
    assert walk.counts[NODES] == nodes
    assert walk.counts[INITIALIZERS] == initializers
    assert walk.counts[FUNCTIONS] == len(model.functions)
    assert walk.counts[GRAPHS] >= graphs
    small = stubs.without_values(raw, walk)
    assert len(onnx.ModelProto.FromString(small).graph.node) == len(model.graph.node)


def test_the_sample_itself_has_no_notes() -> None:
    assert wire.walk(MODEL, len(MODEL), 100).notes == []
    check(MODEL)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    check(raw)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(MODEL) - 1), st.binary(min_size=1, max_size=4), st.booleans())
def test_a_model_with_bytes_changed_or_inserted(position: int, patch: bytes, insert: bool) -> None:
    check(MODEL[:position] + patch + MODEL[position + (0 if insert else len(patch)) :])


@settings(max_examples=200, deadline=None)
@given(st.integers(1, len(MODEL) - 1))
def test_a_model_cut_short_is_refused_or_whole_at_a_field(length: int) -> None:
    raw = MODEL[:length]
    walk = wire.walk(raw, length, 100)
    try:
        onnx.ModelProto.FromString(raw)
    except DecodeError:
        assert walk.fatal is not None
        assert walk.fatal[0] in {"wire/truncated", "wire/malformed"}
    else:
        assert walk.fatal is None


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 200), st.integers(0, 7), st.binary(max_size=40))
def test_a_field_put_into_a_node_is_counted_like_anywhere_else(number: int, wire_type: int, body: bytes) -> None:
    node = b"\x0a\x01x\x12\x01y\x22\x04Relu"
    extra = world.varint(number << 3 | wire_type) + (world.varint(len(body)) if wire_type == 2 else b"") + body
    for message in (node + extra, extra + node):
        check(b"\x08\x08" + world.field_bytes(7, world.field_bytes(1, node) + world.field_bytes(1, message)))
