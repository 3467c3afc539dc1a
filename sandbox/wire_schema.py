"""The ONNX messages as the wire walk needs them: field numbers, wire types and what may repeat.

Written down from ``onnx.proto`` (IR 14) instead of taken from protobuf's descriptors, because the
walk runs before protobuf is touched; a test compares the two.
"""

from __future__ import annotations

from typing import Any, Final

# What the walk does with a field. Operations up to LAST_LENGTH are length-delimited.
NAME: Final = 0
"""UTF-8 text by which things are found: names, operators, domains."""
NODE: Final = 1
ATTRIBUTE: Final = 2
MESSAGE: Final = 3
TENSOR: Final = 4
"""A TensorProto: read by :mod:`sandbox.wire_tensor`, which never looks into the values."""
ENTRY: Final = 5
"""A StringStringEntryProto."""
OPSET: Final = 6
"""An OperatorSetIdProto."""
BYTES: Final = 7
DOC: Final = 8
"""UTF-8 text that counts as metadata."""
PACKED_VARINT: Final = 9
PACKED32: Final = 10
PACKED64: Final = 11
LAST_LENGTH: Final = PACKED64
VARINT: Final = 12
VARINT32: Final = 13
"""A number that protobuf cuts to 32 bits."""
ENUM: Final = 14
"""A number of a closed set (proto2): protobuf drops any other, as if the field were not there."""
IR: Final = 15
FIXED32: Final = 16
RUN_VARINT: Final = 17
"""A repeated number that is not packed: one regular expression takes the whole run."""
RUN32: Final = 18
RUN64: Final = 19

Entry = tuple[int, int, Any, int]
"""Operation, bit of a field that may stand once (else 0), the child's table or an enum's largest value, slot."""
Table = dict[int, Entry]
"""Whole tag (field number << 3 | wire type) to entry."""

_SOURCE: Final = """
Model: 1 int ir_version; 2 string producer_name; 3 string producer_version; 4 string domain;
  5 int model_version; 6 doc doc_string; 7 Graph graph; 8 *OperatorSetId opset_import;
  14 *StringStringEntry metadata_props; 20 *TrainingInfo training_info; 25 *Function functions;
  26 *DeviceConfiguration configuration
Graph: 1 *Node node; 2 string name; 5 *Tensor initializer; 10 doc doc_string; 11 *ValueInfo input;
  12 *ValueInfo output; 13 *ValueInfo value_info; 14 *TensorAnnotation quantization_annotation;
  15 *SparseTensor sparse_initializer; 16 *StringStringEntry metadata_props
Node: 1 *string input; 2 *string output; 3 string name; 4 string op_type; 5 *Attribute attribute;
  6 doc doc_string; 7 string domain; 8 string overload; 9 *StringStringEntry metadata_props;
  10 *NodeDeviceConfiguration device_configurations
Attribute: 1 string name; 2 float f; 3 int i; 4 bytes s; 5 Tensor t; 6 Graph g; 7 *float floats;
  8 *int ints; 9 *bytes strings; 10 *Tensor tensors; 11 *Graph graphs; 13 doc doc_string; 14 Type tp;
  15 *Type type_protos; 20 enum:14 type; 21 string ref_attr_name; 22 SparseTensor sparse_tensor;
  23 *SparseTensor sparse_tensors
Tensor: 1 *int dims; 2 int32 data_type; 3 Segment segment; 4 *float float_data; 5 *int32 int32_data;
  6 *bytes string_data; 7 *int int64_data; 8 string name; 9 bytes raw_data; 10 *double double_data;
  11 *int uint64_data; 12 doc doc_string; 13 *StringStringEntry external_data; 14 enum:1 data_location;
  16 *StringStringEntry metadata_props
Segment: 1 int begin; 2 int end
SparseTensor: 1 Tensor values; 2 Tensor indices; 3 *int dims
Function: 1 string name; 4 *string input; 5 *string output; 6 *string attribute; 7 *Node node;
  8 doc doc_string; 9 *OperatorSetId opset_import; 10 string domain; 11 *Attribute attribute_proto;
  12 *ValueInfo value_info; 13 string overload; 14 *StringStringEntry metadata_props
TrainingInfo: 1 Graph initialization; 2 Graph algorithm; 3 *StringStringEntry initialization_binding;
  4 *StringStringEntry update_binding
ValueInfo: 1 string name; 2 Type type; 3 doc doc_string; 4 *StringStringEntry metadata_props
Type: 1@ TensorType tensor_type; 4@ Holder sequence_type; 5@ MapType map_type; 6 string denotation;
  7@ Opaque opaque_type; 8@ TensorType sparse_tensor_type; 9@ Holder optional_type
TensorType: 1 int32 elem_type; 2 Shape shape
Holder: 1 Type elem_type
MapType: 1 int32 key_type; 2 Type value_type
Opaque: 1 string domain; 2 string name
Shape: 1 *Dimension dim
Dimension: 1@ int dim_value; 2@ string dim_param; 3 string denotation
OperatorSetId: 1 string domain; 2 int version
StringStringEntry: 1 string key; 2 text value
TensorAnnotation: 1 string tensor_name; 2 *StringStringEntry quant_parameter_tensor_names
DeviceConfiguration: 1 string name; 2 int32 num_devices; 3 *string device
NodeDeviceConfiguration: 1 string configuration_id; 2 *ShardingSpec sharding_spec; 3 int32 pipeline_stage
ShardingSpec: 1 string tensor_name; 2 *int device; 3 *IntIntListEntry index_to_device_group_map;
  4 *ShardedDim sharded_dim
IntIntListEntry: 1 int key; 2 *int value
ShardedDim: 1 int axis; 2 *SimpleShardedDim simple_sharding
SimpleShardedDim: 1@ int dim_value; 2@ string dim_param; 3 int num_shards
"""

TABLES: Final[dict[str, Table]] = {}
"""Message name to its table."""
FIELDS: Final[dict[str, dict[int, tuple[str, str, bool]]]] = {}
"""Message name to field number to (type, field name, whether it repeats)."""
NAME_OF: Final[dict[int, str]] = {}
"""``id`` of a table to its message's name."""
SLOTS: Final[list[str]] = [""]
"""``Message.field`` of each field that holds messages: the walk counts by its index here."""
SLOT: Final[dict[str, int]] = {}
CHILD: Final[list[str]] = [""]
"""What kind of message a slot counts."""

_TEXTS: Final = {"string": NAME, "text": DOC, "doc": DOC, "bytes": BYTES}
_MESSAGES: Final = {
    "Node": NODE, "Attribute": ATTRIBUTE, "Tensor": TENSOR, "StringStringEntry": ENTRY, "OperatorSetId": OPSET
}  # fmt: skip


def _entries(number: int, kind: str, repeats: bool, bit: int, slot: int, field: str) -> Table:
    once = 0 if repeats else bit
    length, varint, fixed32, fixed64 = number << 3 | 2, number << 3, number << 3 | 5, number << 3 | 1
    if kind in _TEXTS:
        return {length: (_TEXTS[kind], once, None, 0)}
    if kind in TABLES:
        return {length: (_MESSAGES.get(kind, MESSAGE), once, TABLES[kind], slot)}
    base, _, largest = kind.partition(":")
    if not repeats:
        if kind == "float":
            return {fixed32: (FIXED32, once, None, 0)}
        operation = {"int": VARINT, "int32": VARINT32, "enum": ENUM}[base]
        return {varint: (IR if field == "ir_version" else operation, once, int(largest or 0), 0)}
    # Parsers take repeated numbers packed and not packed, whatever the schema says.
    packed, run, tag = {
        "int": (PACKED_VARINT, RUN_VARINT, varint),
        "int32": (PACKED_VARINT, RUN_VARINT, varint),
        "float": (PACKED32, RUN32, fixed32),
        "double": (PACKED64, RUN64, fixed64),
    }[kind]
    return {length: (packed, 0, None, 0), tag: (run, 0, None, 0)}


def _build() -> None:
    joined = _SOURCE.replace("\n  ", " ").strip().splitlines()
    bodies = dict(line.split(": ", 1) for line in joined)
    for name in bodies:
        TABLES[name] = {}
        NAME_OF[id(TABLES[name])] = name
    for name, body in bodies.items():
        FIELDS[name] = {}
        for text in body.split("; "):
            head, kind, field = text.split()
            number, repeats = int(head.rstrip("@")), kind.startswith("*")
            kind = kind.lstrip("*")
            slot = 0
            if kind in bodies:
                slot = SLOT[f"{name}.{field}"] = len(SLOTS)
                SLOTS.append(f"{name}.{field}")
                CHILD.append(kind)
            # The members of a oneof share one bit: the last of them wins, so a second one is a duplicate.
            bit = 1 << 31 if head.endswith("@") else 1 << number
            FIELDS[name][number] = (kind, field, repeats)
            TABLES[name].update(_entries(number, kind, repeats, bit, slot, field))


_build()

NODES: Final = frozenset(SLOT[name] for name in ("Graph.node", "Function.node"))
GRAPHS: Final = frozenset(slot for slot, kind in enumerate(CHILD) if kind == "Graph")
INITIALIZERS: Final = frozenset((SLOT["Graph.initializer"], SLOT["Graph.sparse_initializer"]))
FUNCTIONS: Final = frozenset((SLOT["Model.functions"],))
METADATA: Final = frozenset(slot for slot, name in enumerate(SLOTS) if name.endswith(".metadata_props"))
