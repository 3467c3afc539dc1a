"""Models that ask for memory or time without end, told by arithmetic; and counts that pass limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd.evidence import Facts
from acceptd.judge.cost import cost
from acceptd.judge.graph import graph
from acceptd.policy.policy import Policy
from tests import judge_world
from tests import static_world as world
from tests.static_models import branch, constant, function

pytestmark = pytest.mark.hostile

INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
HUGE = 1 << 40
Nodes = list[onnx.NodeProto]


def judged(tmp_path: Path, built: onnx.ModelProto) -> tuple[dict[str, str], dict[str, Any]]:
    """Return code to place of what the default policy says of the facts, and the facts."""
    found = world.inspected(tmp_path, built)
    facts = Facts.model_validate(found.frames["facts"])
    manifest = judge_world.a_manifest()
    findings = [
        *cost(manifest.models[0], facts, Policy()),
        *graph(manifest, manifest.models[0], facts, Policy()),
    ]
    return {one.code: one.where for one in findings}, found.frames["facts"]


def whole(name: str, *values: int) -> onnx.NodeProto:
    return constant(name, np.array(values, np.int64))


def node(op_type: str, *inputs: str, **more: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, list(inputs), ["q"], **more)


ALLOCATIONS: dict[str, Nodes] = {
    "ConstantOfShape": [whole("n", HUGE), node("ConstantOfShape", "n")],
    "Expand": [whole("n", HUGE, 1), node("Expand", "p", "n")],
    "Tile": [whole("n", HUGE), node("Tile", "p", "n")],
    "Pad": [whole("n", 0, HUGE), node("Pad", "p", "n")],
    "Resize": [constant("s", np.array([2.0**40], np.float32)), node("Resize", "p", "", "s")],
    "OneHot": [
        whole("n", HUGE), whole("i", 0), constant("v", np.array([0, 1], np.float32)),
        node("OneHot", "i", "n", "v"),
    ],
    "Range": [
        constant("a", np.array(0)), constant("b", np.array(HUGE)), constant("c", np.array(1)),
        node("Range", "a", "b", "c"),
    ],
    "HannWindow": [constant("n", np.array(HUGE)), node("HannWindow", "n")],
    "RandomNormal": [node("RandomNormal", shape=[HUGE, 4], seed=1.0)],
    "Concat-of-sizes": [
        whole("a", 1 << 20), whole("b", 1 << 20), helper.make_node("Concat", ["a", "b"], ["n"], axis=0),
        node("ConstantOfShape", "n"),
    ],
    **{
        f"{op_type}-of-sizes": [
            whole("a", left), whole("b", right), helper.make_node(op_type, ["a", "b"], ["n"]),
            node("ConstantOfShape", "n"),
        ]
        for op_type, left, right in (("Mul", 1 << 20, 1 << 20), ("Pow", 2, 40), ("Add", HUGE, 1), ("Max", 1, HUGE))
    },
    "Cast-of-a-float": [
        constant("f", np.array([4e12], np.float32)), helper.make_node("Cast", ["f"], ["n"], to=7),
        node("ConstantOfShape", "n"),
    ],
    "ReduceProd-of-sizes": [
        whole("a", 1 << 20, 1 << 20), helper.make_node("ReduceProd", ["a"], ["n"]), node("ConstantOfShape", "n"),
    ],
    "Gather-of-a-size": [
        whole("a", 1, HUGE), whole("i", 1), helper.make_node("Gather", ["a", "i"], ["n"]),
        node("ConstantOfShape", "n"),
    ],
    "Einsum": [
        constant("a", np.zeros(1 << 18, np.float32)), node("Einsum", "a", "a", equation="i, j -> ij"),
    ],
    "RoiAlign": [
        constant("a", np.zeros((1, 1, 2, 2), np.float32)), constant("r", np.zeros((1, 4), np.float32)),
        whole("i", 0), node("RoiAlign", "a", "r", "i", output_height=1 << 18, output_width=1 << 18),
    ],
    "MaxUnpool": [
        constant("a", np.zeros((1, 1, 1, 1), np.float32)), constant("i", np.zeros((1, 1, 1, 1), np.int64)),
        whole("n", 1, 1, 1 << 18, 1 << 18), node("MaxUnpool", "a", "i", "n", kernel_shape=[1, 1]),
    ],
    "ConvTranspose": [
        constant("a", np.zeros((1, 1, 2, 2), np.float32)), constant("w", np.zeros((1, 1, 1, 1), np.float32)),
        node("ConvTranspose", "a", "w", strides=[1 << 18, 1 << 18]),
    ],
    "ConvTranspose-stated": [
        constant("a", np.zeros((1, 1, 2, 2), np.float32)), constant("w", np.zeros((1, 1, 1, 1), np.float32)),
        node("ConvTranspose", "a", "w", output_shape=[1 << 18, 1 << 18]),
    ],
    "CenterCropPad": [
        constant("a", np.zeros((1, 1), np.float32)), whole("n", 1 << 18, 1 << 18), node("CenterCropPad", "a", "n"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_one_value_larger_than_memory_in_the_graph_and_in_a_function(tmp_path: Path, name: str) -> None:
    inner = function("F", ALLOCATIONS[name])
    caller = helper.make_node("F", ["x"], ["y"], domain="local")
    found, _ = judged(tmp_path, world.model([caller], functions=[inner]))
    last = len(ALLOCATIONS[name]) - 1
    op_type = ALLOCATIONS[name][last].op_type
    assert found["cost/allocation"] == f"model.onnx: functions[0] F/node[{last}] {op_type}"
    nodes = [
        onnx.NodeProto.FromString(one.SerializeToString().replace(b"\x01p", b"\x01x")) for one in ALLOCATIONS[name]
    ]
    nodes[last].output[0] = "t"
    inputs = [world.value("x"), world.value("c", [], BOOL)]
    found, _ = judged(tmp_path, world.model([branch(nodes, "t")], inputs=inputs))
    assert found["cost/allocation"].startswith("model.onnx: graph/node[0] If/")


def test_a_free_batch_does_not_hide_an_allocation_and_a_dimension_of_zero_is_none(tmp_path: Path) -> None:
    nodes = [whole("n", 1, HUGE), helper.make_node("Expand", ["x", "n"], ["y"])]
    free = [world.value("x", ["batch", 1])]
    assert "cost/allocation" in judged(tmp_path, world.model(nodes, inputs=free))[0]
    empty = [whole("n", HUGE, 0), helper.make_node("ConstantOfShape", ["n"], ["y"])]
    assert judged(tmp_path, world.model(empty))[0] == {}


def test_a_size_that_a_caller_hands_to_a_function(tmp_path: Path) -> None:
    inner = helper.make_function(
        "local",
        "F",
        ["p"],
        ["q"],
        [helper.make_node("ConstantOfShape", ["p"], ["q"])],
        [helper.make_opsetid("", 18)],
    )
    calls = [helper.make_node("F", ["n"], ["y"], domain="local")]
    small, large = ([whole("n", size), *calls] for size in (4, HUGE))
    assert judged(tmp_path, world.model(small, functions=[inner]))[0] == {}
    found, _ = judged(tmp_path, world.model(large, functions=[inner]))
    assert found["cost/allocation"] == "model.onnx: functions[0] F/node[0] ConstantOfShape"


def test_many_medium_values_that_are_folded_at_load_add_up(tmp_path: Path) -> None:
    nodes: Nodes = []
    for index in range(40):
        nodes += [
            whole(f"n{index}", 100_000_000 + index),
            helper.make_node("ConstantOfShape", [f"n{index}"], [f"b{index}"]),
            helper.make_node("ReduceMax", [f"b{index}"], [f"t{index}"], keepdims=0),
        ]
    nodes.append(helper.make_node("Max", [f"t{index}" for index in range(40)], ["y"]))
    found, facts = judged(tmp_path, world.model(nodes))
    assert found == {"cost/peak-memory": "model.onnx"}
    assert 16_000_000_000 < facts["cost"]["peak_bytes"] < 17_000_000_000


def test_values_that_live_one_after_another_do_not_add_up(tmp_path: Path) -> None:
    """The control: 40 layers of 400 MB each, of which two are alive at once."""
    shape = [100_000_000]
    nodes = [
        helper.make_node("Relu", [f"v{n}" if n else "x"], [f"v{n + 1}" if n < 39 else "y"]) for n in range(40)
    ]
    found, facts = judged(
        tmp_path, world.model(nodes, inputs=[world.value("x", shape)], outputs=[world.value("y", shape)])
    )
    assert found == {}
    assert facts["cost"]["peak_bytes"] == 800_000_000


# -- repetition


def counting(*, computed: bool = False, nodes: Nodes | None = None) -> onnx.GraphProto:
    go_on = helper.make_node(
        "LessOrEqual" if computed else "Identity", ["v", "v"] if computed else ["go"], ["again"]
    )
    return helper.make_graph(
        [go_on, *(nodes or [helper.make_node("Relu", ["v"], ["w"])])], "body",
        [world.value("i", [], INT64), world.value("go", [], BOOL), world.value("v")],
        [world.value("again", [], BOOL), world.value("w")],
    )  # fmt: skip


def loop(body: onnx.GraphProto, trips: int, *names: str, source: str = "x", target: str = "y") -> Nodes:
    most = constant(f"m{target}", np.array(trips))
    return [most, helper.make_node("Loop", [f"m{target}", "", source, *names], [target], body=body)]


def endless_scan(opset: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["s"], ["s2"]), helper.make_node("Identity", ["e"], ["e2"])], "body",
        [world.value("s"), world.value("e", [0])], [world.value("s2"), world.value("e2", [0])],
    )  # fmt: skip
    old = opset < 9
    shape = [1, 1 << 62, 0] if old else [1 << 62, 0]
    empty = TensorProto(name="nothing", data_type=FLOAT, dims=shape)
    inputs = ["", "x", "nothing"] if old else ["x", "nothing"]
    scan = helper.make_node("Scan", inputs, ["y", "z"], body=body, num_scan_inputs=1)
    return world.model([scan], initializer=[empty], imports=[("", opset)])


def nested() -> onnx.ModelProto:
    """Two loops of 2**20 within each other: each is harmless, both together are not."""
    inner = loop(counting(), 1 << 20, source="v", target="w")
    return world.model(loop(counting(nodes=inner), 1 << 20))


def in_a_function() -> onnx.ModelProto:
    inner = function("F", loop(counting(), 1 << 62, source="p", target="q"))
    return world.model([helper.make_node("F", ["x"], ["y"], domain="local")], functions=[inner])


def pooled(kernel: int) -> onnx.ModelProto:
    pads = [kernel // 2] * 4
    pool = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[kernel, kernel], pads=pads)
    return world.model(
        [pool], inputs=[world.value("x", [1, 1, 100, 100])], outputs=[world.value("y", [1, 1, 101, 101])]
    )


def skipping(most: int) -> onnx.ModelProto:
    more = {
        "min_gram_length": 2,
        "max_gram_length": 2,
        "ngram_counts": [0, 0],
        "ngram_indexes": [0],
        "pool_int64s": [1, 2],
    }
    words = helper.make_node("TfIdfVectorizer", ["p"], ["q"], mode="TF", max_skip_count=most, **more)
    inner = function("F", [words])
    caller = helper.make_node("F", ["x"], ["y"], domain="local")
    return world.model([caller], functions=[inner], inputs=[world.value("x", [4], INT64)])


def multiplied() -> onnx.ModelProto:
    """A Loop whose trip count is the square of a constant."""
    nodes = loop(counting(), 1 << 31)
    at = next(index for index, one in enumerate(nodes) if one.op_type == "Loop")
    nodes[at].input[0], trips = "square", nodes[at].input[0]
    nodes.insert(at, helper.make_node("Mul", [trips, trips], ["square"]))
    return world.model(nodes)


REPETITIONS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "loop": (lambda: world.model(loop(counting(), 1 << 62)), "graph/node[1] Loop"),
    "loop-of-a-product": (multiplied, ""),
    "function": (in_a_function, "functions[0] F/node[1] Loop"),
    "nested": (nested, ""),
    "scan": (lambda: endless_scan(18), "graph/node[0] Scan"),
    "scan-8": (lambda: endless_scan(8), "graph/node[0] Scan"),
    "pool": (lambda: pooled(4000), "graph/node[0] AveragePool"),
    "skips": (lambda: skipping(1 << 40), "functions[0] F/node[0] TfIdfVectorizer"),
}


@pytest.mark.parametrize("name", REPETITIONS)
def test_a_repetition_that_nothing_ends(tmp_path: Path, name: str) -> None:
    build, where = REPETITIONS[name]
    found, _ = judged(tmp_path, build())
    assert found["cost/repetition"].startswith(f"model.onnx: {where}" if where else "model.onnx")


def test_a_zero_byte_scan_is_seen_though_it_takes_no_memory(tmp_path: Path) -> None:
    _, facts = judged(tmp_path, endless_scan(18))
    (trip,) = facts["cost"]["trips"]
    assert (trip["trips"], trip["certain"], trip["bytes"]) == (str(1 << 62), True, 4)
    assert facts["cost"]["largest"]["bytes"] < 100


def test_a_trip_count_alone_does_not_reject(tmp_path: Path) -> None:
    """Real SSD-MobileNet carries 2**63 - 1 and ends by its condition; counts from an input are not known."""
    computed = loop(counting(computed=True), 2**63 - 1)
    assert judged(tmp_path, world.model(computed))[0] == {}
    fed = helper.make_node("Loop", ["n", "", "x"], ["y"], body=counting())
    built = world.model([fed], inputs=[world.value("x"), world.value("n", [], INT64)])
    found, facts = judged(tmp_path, built)
    assert found == {}
    assert [(trip["trips"], trip["certain"]) for trip in facts["cost"]["trips"]] == [(None, False)]
    assert judged(tmp_path, world.model(loop(counting(), 1000)))[0] == {}
    assert judged(tmp_path, pooled(7))[0] == {}
    assert judged(tmp_path, skipping(3))[0] == {}


# -- counts


def test_a_node_with_a_hundred_thousand_inputs(tmp_path: Path) -> None:
    wide = helper.make_node("Concat", ["p"] * 100_000, ["q"], axis=0)
    caller = helper.make_node("F", ["x"], ["y"], domain="local")
    found, _ = judged(tmp_path, world.model([caller], functions=[function("F", [wide])]))
    assert found["structure/too-many-node-inputs"] == "model.onnx: functions[0] F/node[0] Concat"
    many = helper.make_node("Split", ["x"], [f"y{n}" for n in range(20_000)])
    assert (
        "structure/too-many-node-inputs" in judged(tmp_path, world.model([many], outputs=[world.value("y0")]))[0]
    )


def test_a_million_nodes_and_a_hundred_thousand_initializers_reach_no_parser(tmp_path: Path) -> None:
    one = world.field_bytes(1, relu_bytes())
    found = world.inspected(tmp_path, b"\x08\x08" + world.field_bytes(7, one * 1_000_000))
    assert (found.order, found.codes()) == (["wire"], {"structure/too-many-nodes"})
    inside = world.field_bytes(25, world.field_bytes(1, b"F") + world.field_bytes(7, relu_bytes()) * 250_000)
    found = world.inspected(tmp_path, b"\x08\x08" + world.field_bytes(7, one) + inside)
    assert (found.order, found.codes()) == (["wire"], {"structure/too-many-nodes"})
    weight = world.field_bytes(5, world.weight().SerializeToString())
    found = world.inspected(tmp_path, b"\x08\x08" + world.field_bytes(7, weight * 100_000))
    assert (found.order, found.codes()) == (["wire"], {"structure/too-many-initializers"})


def relu_bytes() -> bytes:
    made: bytes = helper.make_node("Relu", ["x"], ["y"]).SerializeToString()
    return made


@pytest.mark.parametrize("place", ["graph", "function"])
def test_subgraphs_seventeen_deep(tmp_path: Path, place: str) -> None:
    inner = helper.make_node("Relu", ["x" if place == "graph" else "p"], ["t"])
    for _ in range(17):
        body = helper.make_graph([inner], "b", [], [world.value("t")])
        inner = helper.make_node("If", ["c"], ["t"], then_branch=body, else_branch=onnx.GraphProto(name="e"))
    inner.output[0] = "y" if place == "graph" else "q"
    inputs = [world.value("x"), world.value("c", [], BOOL)]
    if place == "graph":
        built = world.model([inner], inputs=inputs)
    else:
        imports = [helper.make_opsetid("", 18)]
        deep = helper.make_function("local", "F", ["p", "c"], ["q"], [inner], imports)
        built = world.model(
            [helper.make_node("F", ["x", "c"], ["y"], domain="local")], functions=[deep], inputs=inputs
        )
    assert "structure/subgraph-depth" in judged(tmp_path, built)[0]


def test_far_more_nodes_than_the_source_has_layers(tmp_path: Path) -> None:
    def unrolled(count: int, key: str, value: str) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Relu", [f"v{n}" if n else "x"], [f"v{n + 1}" if n < count - 1 else "y"])
            for n in range(count)
        ]
        for one in nodes:
            one.metadata_props.add(key=key, value=value)
        return world.model(nodes)

    scopes = "['', 'layer1', 'relu']"
    found, facts = judged(tmp_path, unrolled(1200, "pkg.torch.onnx.name_scopes", scopes))
    assert facts["module_scopes"] == 1
    assert found == {"structure/node-blow-up": "model.onnx"}
    found, facts = judged(tmp_path, unrolled(1200, "namespace", ": M/layer1: torch.nn.ReLU/relu: aten.relu"))
    assert found == {"structure/node-blow-up": "model.onnx"}
    found, facts = judged(tmp_path, unrolled(1200, "other", "x"))
    assert (found, facts["module_scopes"]) == ({}, None)


def test_thirty_functions_that_call_the_next_twice_have_their_size_in_the_facts(tmp_path: Path) -> None:
    calls = [
        function(f"F{n}", [helper.make_node(f"F{n + 1}", ["p"], ["t"], domain="local"),
                           helper.make_node(f"F{n + 1}", ["t"], ["q"], domain="local")])
        for n in range(30)
    ]  # fmt: skip
    calls.append(function("F30", [helper.make_node("Relu", ["p"], ["q"])]))
    built = world.model([helper.make_node("F0", ["x"], ["y"], domain="local")], functions=calls)
    assert len(built.SerializeToString()) < 4000
    found = world.inspected(tmp_path, built)
    sizes = {one["name"]: (int(one["expanded"]), one["calls"]) for one in found.frames["facts"]["function_facts"]}
    assert sizes["local::F30"] == (1, 2)
    assert sizes["local::F0"] == (2**31 - 2 + 2**30, 1)
    assert "structure/function-expansion" in found.codes()
    assert found.frames["facts"]["cost"]["steps"] > 1 << 30


def test_raw_initializers_are_not_held_against_the_cost(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.zeros((1000, 10), np.float32), "w")
    built = world.model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], initializer=[weight], inputs=[world.value("x", [2, 1000])]
    )
    _, facts = judged(tmp_path, built)
    assert facts["cost"]["peak_bytes"] == 80
