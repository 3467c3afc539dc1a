"""Wire bytes put into chosen places of a model, and a model that has every place: for the Wire group's attacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto, helper

from examples import evidence_classifier as classifier
from tests.static_world import field_bytes, varint

Path = tuple[tuple[int, int], ...]
"""Field number and index of each message on the way from the model."""

MODEL: Path = ()
GRAPH: Path = ((7, 0),)
NODE: Path = (*GRAPH, (1, 0))
FUNCTION: Path = ((25, 0),)
FUNCTION_NODE: Path = (*FUNCTION, (7, 0))
DEFAULT: Path = (*FUNCTION, (11, 0))
BRANCH: Path = (*FUNCTION, (7, 1), (5, 0), (6, 0))
BRANCH_NODE: Path = (*BRANCH, (1, 0))
TENSOR: Path = (*GRAPH, (5, 0))
SPARSE: Path = (*GRAPH, (15, 0), (1, 0))
ATTRIBUTE_TENSOR: Path = (*FUNCTION, (7, 2), (5, 0), (5, 0))
DIMENSION: Path = (*GRAPH, (11, 0), (2, 0), (1, 0), (2, 0), (1, 0))
IMPORT: Path = ((8, 0),)
FUNCTION_IMPORT: Path = (*FUNCTION, (9, 0))
METADATA: Path = ((14, 0),)
NODE_METADATA: Path = (*FUNCTION_NODE, (9, 0))
TRAINING: Path = ((20, 0),)

PLACES: dict[Path, str] = {
    GRAPH: "graph", NODE: "graph/node[0]", FUNCTION: "functions[0]", FUNCTION_NODE: "functions[0] F/node[0]",
    DEFAULT: "functions[0] F/d", BRANCH: "functions[0] F/node[1] If/else_branch",
    BRANCH_NODE: "functions[0] F/node[1] If/else_branch/node[0]", TENSOR: "graph/initializer[0]",
    SPARSE: "graph/sparse_initializer[0]", ATTRIBUTE_TENSOR: "functions[0] F/node[2] Constant/value",
    DIMENSION: "graph/input[0]", IMPORT: "opset_import[0]", FUNCTION_IMPORT: "functions[0] F/opset_import[0]",
    METADATA: "metadata_props[0]", NODE_METADATA: "functions[0] F/node[0] Relu/metadata_props[0]",
    TRAINING: "training_info[0]", MODEL: "",
}  # fmt: skip
"""What a finding about something in the place must say."""


def rich(change: Callable[[Any], object] | None = None) -> bytes:
    """Return the good classifier with a function, a branch in it, defaults, a sparse tensor, metadata."""
    proto = onnx.ModelProto.FromString(classifier.build_model())
    branch = helper.make_graph(
        [helper.make_node("Neg", ["p"], ["t"])], "b", [], [helper.make_tensor_value_info("t", 1, None)]
    )
    constant = helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])
    nodes = [
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("If", ["c"], ["q"], else_branch=branch, then_branch=branch),
        helper.make_node("Constant", [], ["k"], value=constant),
    ]
    nodes[0].metadata_props.add(key="pkg", value="a")
    function = helper.make_function("local", "F", ["p", "c"], ["q"], nodes, [helper.make_opsetid("", 13)])
    function.attribute_proto.append(helper.make_attribute("d", 1))
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.metadata_props.add(key="author", value="someone")
    indices = helper.make_tensor("", TensorProto.INT64, [1], [3])
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0])
    proto.graph.sparse_initializer.append(onnx.SparseTensorProto(values=values, indices=indices, dims=[9]))
    if change is not None:
        change(proto)
    return bytes(proto.SerializeToString())


def edit(raw: bytes, path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Return the message with ``change`` applied to the message at ``path``; lengths around fit again."""
    if not path:
        return change(raw)
    (wanted, index), *rest = path
    pos = 0
    while pos < len(raw):
        start = pos
        tag, pos = read(raw, pos)
        if tag & 7 == 2:
            length, begin = read(raw, pos)
            pos = begin + length
            if tag >> 3 == wanted:
                if index == 0:
                    return raw[:start] + field_bytes(wanted, edit(raw[begin:pos], tuple(rest), change)) + raw[pos:]
                index -= 1
        elif tag & 7 == 0:
            pos = read(raw, pos)[1]
        else:
            pos += 4 if tag & 7 == 5 else 8
    raise LookupError(f"no field {wanted}")


def read(raw: bytes, pos: int) -> tuple[int, int]:
    """Return (number, next position) of a well-formed varint."""
    value = shift = 0
    while True:
        value |= (raw[pos] & 0x7F) << shift
        pos += 1
        if raw[pos - 1] < 0x80:
            return value, pos
        shift += 7


def put(path: Path, extra: bytes, base: bytes | None = None) -> bytes:
    """Return the rich model with ``extra`` at the end of the message at ``path``."""
    return edit(rich() if base is None else base, path, lambda body: body + extra)


def number(field: int, value: int) -> bytes:
    """Return a varint field; negative as int64."""
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def text(field: int, value: str) -> bytes:
    """Return a string field."""
    return field_bytes(field, value.encode())
