"""Models with exactly one fault each: the evidence classifier with a trap beside its softmax.

The trap's value is multiplied by zero and added to the logits, so a runtime that survived it would
give the published probabilities. onnx.checker passes all but the unknown operator (measured, onnx 1.23).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from examples.bundle_text import Array
from examples.evidence_classifier import BIAS, WEIGHT

INT64_MIN: Final = -(2**63)
ENDLESS: Final = 2**62
FOUR_TERABYTES: Final = 2**40  # float32 elements
TREE_DEPTH: Final = 20_000  # 10,000 is still fine, 20,000 overflows the stack of onnxruntime 1.32
FUNCTION_DEPTH: Final = 30  # 2**30 nodes once expanded; 14 takes 10 s


@dataclass(frozen=True)
class Trap:
    """Nodes that make the float tensor ``trap``, broadcastable to [batch, 3], and what they need."""

    nodes: tuple[Any, ...]
    weights: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, tuple[str, list[int | str]]] = field(default_factory=dict)
    """Further graph inputs: name to (dtype, shape)."""
    opsets: dict[str, int] = field(default_factory=dict)
    functions: tuple[Any, ...] = ()


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    """Return one node."""
    return helper.make_node(op, inputs, outputs, **attributes)


def build(trap: Trap) -> bytes:
    """Return the serialized classifier with ``trap`` in it."""
    constants: dict[str, Array] = {
        "weight": np.array(WEIGHT, np.float32),
        "bias": np.array(BIAS, np.float32),
        "nothing": np.array(0, np.float32),
        **trap.weights,
    }
    graph = helper.make_graph(
        [
            *trap.nodes,
            node("Mul", ["trap", "nothing"], ["silenced"]),
            node("MatMul", ["features", "weight"], ["weighted"]),
            node("Add", ["weighted", "bias"], ["plain"]),
            node("Add", ["plain", "silenced"], ["logits"]),
            node("Softmax", ["logits"], ["probabilities"], axis=-1),
        ],
        "evidence",
        [
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 4]),
            *(
                helper.make_tensor_value_info(name, TensorProto.DataType.Value(dtype.upper()), shape)
                for name, (dtype, shape) in trap.inputs.items()
            ),
        ],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 13)] + [helper.make_opsetid(d, v) for d, v in trap.opsets.items()]
    model = helper.make_model(graph, opset_imports=opsets, functions=trap.functions, ir_version=8)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _whole(*values: int) -> Array:
    return np.array(values, np.int64)


def allocates_at_run() -> Trap:
    """One ConstantOfShape of 4 TB, its shape computed from the input so that nothing is folded at load."""
    return Trap(
        (
            node("ReduceMax", ["features"], ["peak"], keepdims=0),
            node("Mul", ["peak", "nothing"], ["zero"]),
            node("Add", ["zero", "elements"], ["count"]),
            node("Cast", ["count"], ["whole"], to=TensorProto.INT64),
            node("Reshape", ["whole", "one"], ["shape"]),
            node("ConstantOfShape", ["shape"], ["huge"]),
            node("ReduceMax", ["huge"], ["trap"], keepdims=0),
        ),
        {"elements": np.array(FOUR_TERABYTES, np.float32), "one": _whole(1)},
    )


def allocates_in_loop() -> Trap:
    """A Loop that doubles a tensor 62 times: every single step looks harmless."""
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["go_on"]),
            node("Concat", ["carried", "carried"], ["doubled"], axis=0),
        ],
        "doubling",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, ["n"]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("doubled", TensorProto.FLOAT, ["m"]),
        ],
    )
    return Trap(
        (
            node("ReduceMax", ["features"], ["peak"], keepdims=0),
            node("Reshape", ["peak", "one"], ["seed"]),
            node("Loop", ["times", "", "seed"], ["grown"], body=body),
            node("ReduceMax", ["grown"], ["trap"], keepdims=0),
        ),
        {"times": np.array(62, np.int64), "one": _whole(1)},
    )


def allocates_at_load() -> Trap:
    """40 ConstantOfShape of 400 MB: constant folding keeps all 16 GB while the session is created."""
    nodes = [node("ReduceMax", ["features"], ["peak"], keepdims=0)]
    for i in range(40):
        nodes += [
            node("ConstantOfShape", [f"shape_{i}"], [f"block_{i}"]),
            node("Add", [f"block_{i}", "peak"], [f"shifted_{i}"]),
            node("ReduceMax", [f"shifted_{i}"], [f"top_{i}"], keepdims=0),
        ]
    nodes.append(node("Max", [f"top_{i}" for i in range(40)], ["trap"]))
    # Each has a size of its own, or the optimiser would merge them into one.
    return Trap(tuple(nodes), {f"shape_{i}": _whole(100_000_000 + i) for i in range(40)})


def _counting_body(*, computed: bool = False) -> Any:
    """Add nothing to a sum, for ever; ``computed``: the condition to go on is worked out anew, and always true."""
    go_on = node("LessOrEqual", ["sum", "sum"], ["go_on"]) if computed else node("Identity", ["go"], ["go_on"])
    return helper.make_graph(
        [go_on, node("Add", ["sum", "nothing"], ["sum_out"])],
        "counting",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, []),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum_out", TensorProto.FLOAT, []),
        ],
    )


def loops() -> Trap:
    """A Loop of 2**62 with two tiny nodes in its body, which might end by its condition and never does."""
    return Trap(
        (
            node("ReduceMax", ["features"], ["peak"], keepdims=0),
            node("Loop", ["times", "", "peak"], ["trap"], body=_counting_body(computed=True)),
        ),
        {"times": np.array(ENDLESS, np.int64)},
    )


def loops_by_count() -> Trap:
    """The same without any condition: arithmetic alone tells that it never ends."""
    return Trap(
        (
            node("ReduceMax", ["features"], ["peak"], keepdims=0),
            node("Loop", ["times", "", "peak"], ["trap"], body=_counting_body()),
        ),
        {"times": np.array(ENDLESS, np.int64)},
    )


def loops_in_branch() -> Trap:
    """The last Loop inside an If that every non-negative input takes."""
    loop = node("Loop", ["times", "", "peak"], ["looped"], body=_counting_body())
    scalar = helper.make_tensor_value_info
    return Trap(
        (
            node("ReduceMax", ["features"], ["peak"], keepdims=0),
            node("Less", ["peak", "nothing"], ["negative"]),
            node(
                "If", ["negative"], ["trap"],
                then_branch=helper.make_graph(
                    [node("Identity", ["peak"], ["kept"])], "kept", [], [scalar("kept", TensorProto.FLOAT, [])]
                ),
                else_branch=helper.make_graph([loop], "looped", [], [scalar("looped", TensorProto.FLOAT, [])]),
            ),
        ),
        {"times": np.array(ENDLESS, np.int64)},
    )  # fmt: skip


def scans_nothing() -> Trap:
    """A Scan over a tensor of shape [2**62, 0]: no byte of memory, no end of time."""
    body = helper.make_graph(
        [node("Add", ["sum", "nothing"], ["sum_out"]), node("Identity", ["slice"], ["slice_out"])],
        "scanning",
        [
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("slice", TensorProto.FLOAT, [0]),
        ],
        [
            helper.make_tensor_value_info("sum_out", TensorProto.FLOAT, []),
            helper.make_tensor_value_info("slice_out", TensorProto.FLOAT, [0]),
        ],
    )
    return Trap(
        (
            node("ReduceMax", ["features"], ["peak"], keepdims=0),
            node("ConstantOfShape", ["shape"], ["empty"]),
            node("Scan", ["peak", "empty"], ["trap", "scanned"], body=body, num_scan_inputs=1),
        ),
        {"shape": _whole(ENDLESS, 0)},
    )


def divides_at_load() -> Trap:
    """INT64_MIN / -1, both constant: SIGFPE while the session is created."""
    return Trap(
        (
            node("Div", ["dividend", "divisor"], ["quotient"]),
            node("Cast", ["quotient"], ["trap"], to=TensorProto.FLOAT),
        ),
        {"dividend": _whole(INT64_MIN), "divisor": _whole(-1)},
    )


def divides_at_run() -> Trap:
    """The same division with both operands fed: SIGFPE at run."""
    return Trap(
        (
            node("Div", ["dividend", "divisor"], ["quotient"]),
            node("Cast", ["quotient"], ["trap"], to=TensorProto.FLOAT),
        ),
        inputs={"dividend": ("int64", [1]), "divisor": ("int64", [1])},
    )


def two_ellipses() -> Trap:
    """An Einsum term with two ellipses: shape inference and session creation never end."""
    return Trap(
        (
            node("Einsum", ["features"], ["summed"], equation="...i...->i"),
            node("ReduceMax", ["summed"], ["trap"], keepdims=0),
        )
    )


def deep_tree() -> Trap:
    """A tree ensemble that is one chain of 20,000 nodes: stack overflow at session creation."""
    inner = TREE_DEPTH
    count = 2 * inner + 1  # node i branches to i + 1, or to its own leaf inner + 1 + i; node `inner` is a leaf
    ids = list(range(count))
    return Trap(
        (
            node(
                "TreeEnsembleRegressor", ["features"], ["trap"],
                domain="ai.onnx.ml",
                n_targets=1,
                nodes_treeids=[0] * count,
                nodes_nodeids=ids,
                nodes_featureids=[0] * count,
                nodes_modes=["BRANCH_LEQ"] * inner + ["LEAF"] * (inner + 1),
                nodes_values=[0.5] * inner + [0.0] * (inner + 1),
                nodes_truenodeids=[i + 1 for i in range(inner)] + [0] * (inner + 1),
                nodes_falsenodeids=[inner + 1 + i for i in range(inner)] + [0] * (inner + 1),
                target_treeids=[0] * (inner + 1),
                target_nodeids=ids[inner:],
                target_ids=[0] * (inner + 1),
                target_weights=[1.0] * (inner + 1),
            ),
        ),
        opsets={"ai.onnx.ml": 3},
    )  # fmt: skip


def expanding_functions() -> Trap:
    """30 functions, each calling the next twice: 2**30 nodes in 3 KB."""
    domain = "mosaic.blocks"
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(domain, 1)]
    functions = []
    for i in range(FUNCTION_DEPTH):
        inner = (
            [node("Neg", ["x"], ["y"])]
            if i == FUNCTION_DEPTH - 1
            else [
                node(f"block_{i + 1}", ["x"], ["middle"], domain=domain),
                node(f"block_{i + 1}", ["middle"], ["y"], domain=domain),
            ]
        )
        functions.append(helper.make_function(domain, f"block_{i}", ["x"], ["y"], inner, opsets))
    return Trap(
        (
            node("block_0", ["features"], ["expanded"], domain=domain),
            node("ReduceMax", ["expanded"], ["trap"], keepdims=0),
        ),
        opsets={domain: 1},
        functions=tuple(functions),
    )


def unknown_operator() -> Trap:
    """An operator of a domain that no runtime has."""
    return Trap(
        (
            node("Backdoor", ["features"], ["opened"], domain="com.example"),
            node("ReduceMax", ["opened"], ["trap"], keepdims=0),
        ),
        opsets={"com.example": 1},
    )


def rewrite(model: bytes, change: Callable[[Any], None]) -> bytes:
    """Return ``model`` after ``change`` to its ModelProto."""
    proto = onnx.ModelProto.FromString(model)
    change(proto)
    data: bytes = proto.SerializeToString(deterministic=True)
    return data


def externalise(model: bytes, location: str, **entries: str) -> bytes:
    """Return ``model`` with the tensor ``weight`` kept elsewhere; ``entries`` are offset, length and so on."""

    def change(proto: Any) -> None:
        tensor = next(t for t in proto.graph.initializer if t.name == "weight")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            tensor.external_data.add(key=key, value=value)

    return rewrite(model, change)


def answers_from_file(location: str, offset: int) -> bytes:
    """Return a model that reads its answer, float32 [3], out of a file of the bundle."""
    plain = np.zeros(3, np.float32)
    graph = helper.make_graph(
        [
            node("ReduceMax", ["features"], ["peak"], axes=[1], keepdims=1),
            node("Mul", ["peak", "nothing"], ["zero"]),
            node("Add", ["zero", "weight"], ["probabilities"]),
        ],
        "evidence",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(plain, "weight"), numpy_helper.from_array(np.array(0, np.float32), "nothing")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return externalise(model.SerializeToString(), location, offset=str(offset), length=str(plain.nbytes))


def with_ort_mark(model: bytes) -> bytes:
    """Return ``model`` with ``ORTM`` at offset 4, inside its producer name (field 2, six bytes)."""
    return b"\x12\x06ab" + b"ORTM" + model


def flood(model: bytes, size: int = 20_000_000) -> bytes:
    """Return ``model`` followed by ``size`` bytes of empty metadata entries (field 14, no bytes each)."""
    return model + b"\x72\x00" * (size // 2)
