"""The wire walk over any bytes: it always ends with a result, and what it passes protobuf reads the same.

The oracle is that of the fuzz target: every count, the IR version, the opset imports, each external record
and the copies for protobuf are compared with protobuf's own reading.
"""

from __future__ import annotations

import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from fuzz.wire import check
from sandbox import wire
from tests import model_strategies as strategies
from tests import static_world as world

pytestmark = pytest.mark.property
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
CHEAP = settings(deadline=None, suppress_health_check=SLOW)
FORMS = (
    b"\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f", b"\x80" * 4 + b"\x10",
    b"\x81\x80\x80\x80\x00",
)  # fmt: skip
"""Padded, the largest, one of more than 64 bits, one of 33 bits, a length of five bytes."""


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
    weights = [world.weight("w", (2000,), bytes(8000)), world.external(world.weight("e"), location="e.bin")]
    built = world.model(nodes, initializer=weights, functions=[function])
    helper.set_model_props(built, {"k": "v"})
    return bytes(built.SerializeToString())


MODEL = sample()


def test_the_sample_itself_has_no_notes() -> None:
    assert wire.walk(MODEL, len(MODEL), 100).notes == []
    check(MODEL)


@settings(CHEAP, max_examples=50)
@given(strategies.models())
def test_a_valid_model_is_counted_as_protobuf_counts_it(model: onnx.ModelProto) -> None:
    raw = model.SerializeToString()
    check(raw)
    walk = wire.walk(raw, len(raw), 100)
    assert walk.fatal is None
    assert {code for code, _, _ in walk.notes} <= {"structure/unsafe-name", "structure/look-alike-name"}


@settings(CHEAP, max_examples=30)
@given(strategies.models(), st.data())
def test_a_valid_model_with_bytes_changed(model: onnx.ModelProto, data: st.DataObject) -> None:
    raw = bytearray(model.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(raw))


@settings(CHEAP, max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    check(raw)


@settings(CHEAP, max_examples=300)
@given(st.integers(0, len(MODEL) - 1), st.binary(min_size=1, max_size=4), st.booleans())
def test_a_model_with_bytes_changed_or_inserted(position: int, patch: bytes, insert: bool) -> None:
    check(MODEL[:position] + patch + MODEL[position + (0 if insert else len(patch)) :])


@settings(CHEAP, max_examples=200)
@given(st.integers(1, len(MODEL) - 1))
def test_a_model_cut_short_is_refused_or_whole_at_a_field(length: int) -> None:
    raw = MODEL[:length]
    check(raw)
    walk = wire.walk(raw, length, 100)
    try:
        onnx.ModelProto.FromString(raw)
    except DecodeError:
        assert walk.fatal is not None
        assert walk.fatal[0] in {"wire/truncated", "wire/malformed"}
    else:
        assert walk.fatal is None


@settings(CHEAP, max_examples=300)
@given(st.integers(1, 200), st.integers(0, 7), st.binary(max_size=40))
def test_a_field_put_into_a_node_is_counted_like_anywhere_else(number: int, wire_type: int, body: bytes) -> None:
    node = b"\x0a\x01x\x12\x01y\x22\x04Relu"
    extra = world.varint(number << 3 | wire_type) + (world.varint(len(body)) if wire_type == 2 else b"") + body
    for message in (node + extra, extra + node):
        graph = world.field_bytes(1, node) + world.field_bytes(1, message)
        check(b"\x08\x08" + world.field_bytes(7, graph))
        check(b"\x08\x08" + world.field_bytes(25, world.field_bytes(7, node) + world.field_bytes(7, message)))


@settings(CHEAP, max_examples=200)
@given(st.integers(1, 30), st.binary(max_size=40))
def test_numbers_at_the_edges_of_their_forms_are_read_as_protobuf_reads_them(number: int, tail: bytes) -> None:
    for form in (
        b"\x80\x00",
        b"\xff" * 9 + b"\x01",
        b"\xff" * 9 + b"\x7f",
        b"\x80" * 4 + b"\x10",
        b"\x81\x80\x80\x80\x00",
    ):
        check(b"\x08\x08" + world.varint(number << 3) + form + tail)
        check(b"\x08\x08" + world.varint(number << 3 | 2) + form + tail)
        check(b"\x08\x08" + form + tail)
        tensor = world.varint(number << 3) + form
        check(b"\x08\x08" + world.field_bytes(7, world.field_bytes(5, tensor)))
        check(b"\x08\x08" + world.field_bytes(7, world.field_bytes(5, world.field_bytes(number, form + tail))))
