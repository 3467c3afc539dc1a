"""Models that are valid protobuf and that the checker passes, or never ends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests import static_world as world

pytestmark = pytest.mark.hostile


def function(name: str, nodes: list[onnx.NodeProto], domain: str = "local", **more: Any) -> onnx.FunctionProto:
    """Return a function from ``p`` to ``q``."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_function(domain, name, ["p"], ["q"], nodes, imports, **more)


def call(name: str, source: str = "p", target: str = "q", domain: str = "local", **more: Any) -> onnx.NodeProto:
    """Return a call of a local function."""
    return helper.make_node(name, [source], [target], domain=domain, **more)


def calling(name: str, functions: list[onnx.FunctionProto], **more: Any) -> onnx.ModelProto:
    """Return a model that calls one function."""
    return world.model([call(name, "x", "y", **more)], functions=functions)


def skipped(found: world.Recorder) -> None:
    """Neither checker nor shape inference may see the model."""
    assert found.order == ["wire", "facts", "structure", "checker", "shapes"]
    assert found.frames["checker"]["skipped"]
    assert found.frames["shapes"]["skipped"]


def in_branch(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return an If with the node in both branches."""
    branch = helper.make_graph([node], "b", [], [world.value(node.output[0])])
    return helper.make_node("If", ["p"], ["q"], then_branch=branch, else_branch=branch)


RECURSIVE = {
    "directly": [function("F", [call("F")])],
    "through-another": [function("F", [call("G")]), function("G", [call("F")])],
    "through-an-if": [function("F", [in_branch(call("F"))])],
}


@pytest.mark.parametrize("name", RECURSIVE)
def test_recursive_function(tmp_path: Path, name: str) -> None:
    found = world.inspected(tmp_path, calling("F", RECURSIVE[name]))
    assert "structure/function-recursion" in found.codes()
    skipped(found)


@pytest.mark.parametrize("depth", [30, 2000])
def test_exponential_function_expansion_is_counted_not_walked(tmp_path: Path, depth: int) -> None:
    functions = [
        function(f"F{i}", [call(f"F{i + 1}", "p", "t"), call(f"F{i + 1}", "t", "q")]) for i in range(depth)
    ]
    functions.append(function(f"F{depth}", [helper.make_node("Relu", ["p"], ["q"])]))
    found = world.inspected(tmp_path, calling("F0", functions))
    assert "structure/function-expansion" in found.codes()
    skipped(found)


def test_expansion_without_any_node_is_counted_too(tmp_path: Path) -> None:
    functions = [function(f"F{i}", [call(f"F{i + 1}"), call(f"F{i + 1}")]) for i in range(20)]
    functions.append(function("F20", []))
    assert "structure/function-expansion" in world.inspected(tmp_path, calling("F0", functions)).codes()


@pytest.mark.parametrize(("domain", "name"), [("", "Relu"), ("com.microsoft", "Gelu"), ("ai.onnx.ml", "Scaler")])
def test_function_named_like_a_built_in(tmp_path: Path, domain: str, name: str) -> None:
    body = [helper.make_node("Tanh", ["p"], ["q"])]
    found = world.inspected(tmp_path, calling(name, [function(name, body, domain)], domain=domain))
    assert "structure/function-shadows-operator" in found.codes()


def test_function_defined_twice(tmp_path: Path) -> None:
    twice = [function("F", [helper.make_node(op, ["p"], ["q"])]) for op in ("Relu", "Tanh")]
    found = world.inspected(tmp_path, calling("F", twice))
    assert "structure/duplicate-function" in found.codes()
    skipped(found)


@pytest.mark.parametrize("where", ["graph", "branch", "function", "reference", "default"])
def test_einsum_with_two_ellipses_skips_shape_inference(tmp_path: Path, where: str) -> None:
    einsum = helper.make_node("Einsum", ["p"], ["q"], equation="...i...->i")
    if where == "graph":
        built = world.model([helper.make_node("Einsum", ["x"], ["y"], equation="a,...i...")])
    elif where == "branch":
        node = in_branch(einsum)
        node.input[0], node.output[0] = "x", "y"
        built = world.model([node])
    elif where == "function":
        built = calling("F", [function("F", [einsum])])
    else:
        einsum.attribute[0].CopyFrom(onnx.AttributeProto(name="equation", type=3, ref_attr_name="eq"))
        bad = helper.make_attribute("eq", "......")
        declared: dict[str, Any] = {"attribute_protos": [bad]} if where == "default" else {"attributes": ["eq"]}
        built = calling("F", [function("F", [einsum], **declared)])
        if where == "reference":
            built.graph.node[0].attribute.append(bad)
    found = world.inspected(tmp_path, built)
    assert "structure/einsum-ellipsis" in found.codes()
    assert found.frames["shapes"]["skipped"]


def test_one_ellipsis_in_each_term_is_fine(tmp_path: Path) -> None:
    node = helper.make_node("Einsum", ["x", "x"], ["y"], equation="...i,...i->...")
    found = world.inspected(tmp_path, world.model([node], outputs=[world.value("y", [])]))
    assert found.codes() == set()
    assert found.frames["shapes"]["ok"]


def chain(depth: int, *, loop: bool = False) -> onnx.NodeProto:
    """Return a tree ensemble that is one chain of branches; ``loop`` leads its end to its middle."""
    count = depth
    yes = [*range(1, count), 0]
    modes = ["BRANCH_LEQ"] * (count - 1) + ["BRANCH_LEQ" if loop else "LEAF"]
    if loop:
        yes[-1] = count // 2
    return helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=[0] * count, nodes_nodeids=list(range(count)), nodes_featureids=[0] * count,
        nodes_values=[0.0] * count, nodes_modes=modes, nodes_truenodeids=yes, nodes_falsenodeids=yes,
        target_treeids=[0], target_nodeids=[count - 1], target_ids=[0], target_weights=[1.0],
    )  # fmt: skip


def indexed_chain(depth: int) -> onnx.NodeProto:
    """Return an ai.onnx.ml 5 TreeEnsemble that is one chain."""
    yes = [*range(1, depth), 0]
    return helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", tree_roots=[0],
        nodes_featureids=[0] * depth, nodes_truenodeids=yes, nodes_falsenodeids=[0] * depth,
        nodes_trueleafs=[0] * (depth - 1) + [1], nodes_falseleafs=[1] * depth,
    )  # fmt: skip


def tree_model(node: onnx.NodeProto) -> onnx.ModelProto:
    return world.model([node], imports=[("", 18), ("ai.onnx.ml", 3)])


def test_tree_deeper_than_the_runtimes_stack(tmp_path: Path) -> None:
    for node in (chain(10_001), indexed_chain(10_001)):
        assert "structure/tree-depth" in world.inspected(tmp_path, tree_model(node)).codes()
    for node in (chain(10_000), indexed_chain(10_000)):
        assert (
            not {"structure/tree-depth", "structure/tree-cycle"}
            & world.inspected(tmp_path, tree_model(node)).codes()
        )


def test_tree_with_a_cycle_and_tree_with_shared_children(tmp_path: Path) -> None:
    assert "structure/tree-cycle" in world.inspected(tmp_path, tree_model(chain(100, loop=True))).codes()
    shared = chain(100)  # true and false lead to one child, as LightGBM's set membership does
    assert "structure/tree-cycle" not in world.inspected(tmp_path, tree_model(shared)).codes()


def two_values() -> onnx.TensorProto:
    """Return a tensor with raw and typed data, which differ."""
    tensor = world.weight("t")
    tensor.float_data.append(2.0)
    return tensor


def test_two_value_fields_also_where_the_checker_does_not_look(tmp_path: Path) -> None:
    body = [helper.make_node("Constant", [], ["q"], value=two_values())]
    in_default = function("F", [helper.make_node("Relu", ["p"], ["q"])])
    in_default.attribute_proto.append(helper.make_attribute("d", two_values()))
    for built in (
        calling("F", [function("F", body)]),
        world.with_weight(two_values()),
        calling("F", [in_default]),
    ):
        found = world.inspected(tmp_path, built)
        assert "structure/tensor-two-values" in found.codes()
    onnx.checker.check_model(built, full_check=True)  # the control: the checker passes the last one
    skipped(found)


TENSORS = {
    "short": (world.weight(dims=(2,)), "structure/tensor-bytes"),
    "long": (world.weight(raw=bytes(8)), "structure/tensor-bytes"),
    "none": (TensorProto(name="w", data_type=1, dims=[1]), "structure/tensor-bytes"),
    "zero-elements-with-data": (world.weight(dims=(0,)), "structure/tensor-bytes"),
    "negative": (world.weight(dims=(-1, -1)), "structure/tensor-dims"),
    "overflow": (world.weight(dims=(1 << 62, 8)), "structure/tensor-dims"),
    "undefined": (TensorProto(name="w", data_type=0, dims=[1], raw_data=b"1234"), "structure/tensor-dtype"),
    "unknown": (TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1234"), "structure/tensor-dtype"),
    "strings-raw": (TensorProto(name="w", data_type=8, dims=[1], raw_data=b"1234"), "structure/tensor-bytes"),
    "strings-few": (TensorProto(name="w", data_type=8, dims=[2], string_data=[b"a"]), "structure/tensor-bytes"),
    "floats-few": (TensorProto(name="w", data_type=1, dims=[2], float_data=[1.0]), "structure/tensor-bytes"),
    "int4": (TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], raw_data=b"1"), "structure/tensor-bytes"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensor_that_disagrees_with_itself(tmp_path: Path, name: str) -> None:
    tensor, code = TENSORS[name]
    found = world.inspected(tmp_path, world.with_weight(tensor))
    assert code in found.codes()
    assert found.problem(code)["where"].startswith("graph/initializer[0] w")


@pytest.mark.parametrize(
    "imports", [[("", 12), ("ai.onnx", 13)], [("", 12), ("", 13)], [("ai.onnx", 18), ("", 18)]]
)
def test_domain_imported_twice(tmp_path: Path, imports: list[tuple[str, int]]) -> None:
    assert "structure/duplicate-domain" in world.inspected(tmp_path, world.model(imports=imports)).codes()


def test_names_doubled_shadowed_and_unsafe(tmp_path: Path) -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    assert "structure/duplicate-name" in world.inspected(tmp_path, world.model([relu, relu])).codes()
    doubled = world.model(initializer=[world.weight(), world.weight()])
    assert "structure/duplicate-name" in world.inspected(tmp_path, doubled).codes()
    onto_input = world.model([helper.make_node("Relu", ["x"], ["x"])], outputs=[world.value("x")])
    assert "structure/duplicate-name" in world.inspected(tmp_path, onto_input).codes()
    for name in ("y\0z", "y\u202ez", "y\u200b", "y\x1b[2J"):
        built = world.model([helper.make_node("Relu", ["x"], [name])], outputs=[world.value(name)])
        assert "structure/unsafe-name" in world.inspected(tmp_path, built).codes()


def test_weight_that_a_caller_may_replace_and_training_parts(tmp_path: Path) -> None:
    built = world.with_weight(world.weight())
    built.graph.input.append(world.value("w"))
    found = world.inspected(tmp_path, built)
    assert found.codes() == {"structure/overridable-initializer"}
    assert [item["overridable"] for item in found.frames["facts"]["inputs"]] == [False, True]
    built.ir_version = 3  # where every initializer had to be an input
    found = world.inspected(tmp_path, built)
    assert "structure/overridable-initializer" not in found.codes()
    built = world.model()
    built.training_info.add().initialization.name = "t"
    assert "structure/training-info" in world.inspected(tmp_path, built).codes()
    assert (
        "structure/unseeded-random"
        in world.inspected(tmp_path, world.model([helper.make_node("RandomNormalLike", ["x"], ["y"])])).codes()
    )


def test_metadata_of_many_bytes(tmp_path: Path) -> None:
    built = world.model()
    helper.set_model_props(built, {"k": "v" * 5000})
    assert world.inspected(tmp_path, built, limits={"metadata_bytes": 6000}).codes() == set()
    assert world.inspected(tmp_path, built, limits={"metadata_bytes": 4000}).codes() == {
        "structure/metadata-too-large"
    }
    built = world.model()
    built.graph.node[0].doc_string = "d" * 40_000
    assert world.inspected(tmp_path, built, limits={"metadata_bytes": 4000}).codes() == {
        "structure/metadata-too-large"
    }


def test_model_without_a_graph(tmp_path: Path) -> None:
    found = world.inspected(tmp_path, b"\x08\x08\x42\x02\x10\x12")
    assert found.codes() == {"structure/no-graph"}
    skipped(found)


def test_graph_hidden_in_an_attribute_that_says_it_is_an_int(tmp_path: Path) -> None:
    hidden = helper.make_graph([helper.make_node("Evil", [], ["e"], domain="evil")], "h", [], [])
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.append(onnx.AttributeProto(name="a", type=onnx.AttributeProto.INT, i=1, g=hidden))
    found = world.inspected(tmp_path, world.model([node]))
    uses = {(use["domain"], use["op_type"]): use["where"] for use in found.frames["facts"]["operators"]}
    assert uses["evil", "Evil"] == "graph/node[0] Relu/a/node[0] Evil"


def test_pads_output_is_bounded_although_another_value_is_larger(tmp_path: Path) -> None:
    """Two of the family: Pad in the main graph, and one in a branch of an If."""
    from onnx import TensorProto, helper

    def pad(name: str, size: int) -> list[onnx.NodeProto]:
        pads = helper.make_tensor(f"{name}_pads", TensorProto.INT64, [2], [0, size])
        one = helper.make_tensor(f"{name}_one", TensorProto.FLOAT, [1], [1.0])
        return [
            helper.make_node("Constant", [], [f"{name}_p"], value=pads),
            helper.make_node("Constant", [], [f"{name}_o"], value=one),
            helper.make_node("Pad", [f"{name}_o", f"{name}_p"], [name]),
        ]

    def sizes(nodes: list[onnx.NodeProto]) -> dict[str, tuple[int, str]]:
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        rows = world.inspected(tmp_path, model).frames["facts"]["cost"]["by_operator"]
        return {row["op_type"]: (row["bytes"], row["where"]) for row in rows}

    shape = helper.make_tensor("s", TensorProto.INT64, [1], [5000])
    large = [
        helper.make_node("Constant", [], ["shape"], value=shape),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
    ]
    found = sizes([*large, *pad("y", 999)])
    assert (found["ConstantOfShape"][0], found["Pad"][0]) == (20_000, 4_000)
    then, other = (
        helper.make_graph(pad(f"out{size}", size), f"b{size}", [], [
            helper.make_tensor_value_info(f"out{size}", TensorProto.FLOAT, None)])
        for size in (9, 1999)
    )  # fmt: skip
    nested = sizes([helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)])
    assert nested["Pad"][0] == 8_000
    assert "b1999" in nested["Pad"][1] or "else" in nested["Pad"][1]
