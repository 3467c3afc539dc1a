"""The inspect job over models that must be accepted: no problem, and facts as they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper

from sandbox import inspect
from sandbox.inspect import functions, ranges, trees
from tests import static_world as world

pytestmark = pytest.mark.unit


def clean(found: world.Recorder) -> None:
    assert found.refused is None, found.refused
    assert found.codes() == set()
    assert found.order == ["wire", "facts", "structure", "checker", "shapes"]
    assert found.frames["checker"]["ok"], found.frames["checker"]
    assert found.frames["shapes"]["ok"], found.frames["shapes"]


def evidence_classifier() -> onnx.ModelProto:
    """The classifier of the design's fixture."""
    weight = np.array([[1.5, 0, -4], [1.5, 0, -1], [2.5, 0, -0.5], [-1, 0.5, 4.5]], np.float32)
    nodes = [
        helper.make_node("MatMul", ["features", "weight"], ["weighted"]),
        helper.make_node("Add", ["weighted", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    return world.model(
        nodes,
        inputs=[world.value("features", ["batch", 4])],
        outputs=[world.value("probabilities", ["batch", 3])],
        initializer=[onnx.numpy_helper.from_array(weight, "weight"), world.weight("bias", (3,), bytes(12))],
        imports=[("", 13)],
    )


def test_the_classifiers_facts(tmp_path: Path) -> None:
    found = world.inspected(tmp_path, evidence_classifier())
    clean(found)
    facts = found.frames["facts"]
    assert (facts["ir_version"], facts["opsets"], facts["nodes"], facts["scopes"]) == (8, {"ai.onnx": 13}, 3, 1)
    assert (facts["initializers"], facts["initializer_bytes"], facts["external_count"]) == (2, 60, 0)
    assert [(use["op_type"], use["count"], use["where"]) for use in facts["operators"]] == [
        ("MatMul", 1, "graph/node[0] MatMul"),
        ("Add", 1, "graph/node[1] Add"),
        ("Softmax", 1, "graph/node[2] Softmax"),
    ]
    assert facts["inputs"] == [
        {
            "name": "features",
            "kind": "tensor",
            "dtype": "float32",
            "shape": ["batch", 4],
            "overridable": False,
            "detail": "",
        }
    ]
    assert [(item["name"], item["shape"]) for item in facts["outputs"]] == [("probabilities", ["batch", 3])]


def test_what_real_models_do_is_no_problem(tmp_path: Path) -> None:
    """``:`` in names, a dimension ``?``, an output named by a JSON string, nine imports, metadata, 1,800 nodes."""
    output = '{"name": "probabilities",\n "labels": ["a"]}'
    nodes = [
        helper.make_node("Identity", [f"serving:{i}"], [f"serving:{i + 1}" if i < 1799 else output])
        for i in range(1800)
    ]
    imports = [
        ("", 18),
        ("ai.onnx.ml", 3),
        ("com.microsoft", 1),
        ("Paddle", 1),
        ("com.microsoft.nchwc", 1),
        ("ai.onnx.training", 1),
        ("ai.onnx.preview.training", 1),
        ("com.microsoft.experimental", 1),
        ("org.pytorch.aten", 1),
    ]
    built = world.model(
        nodes,
        inputs=[world.value("serving:0", ["?", None, "very long " * 80])],
        outputs=[world.value(output, ["?", None, "very long " * 80])],
        imports=imports,
    )
    helper.set_model_props(built, {"author": "someone", "notes": "x" * 10_000})
    found = world.inspected(tmp_path, built)
    clean(found)
    facts = found.frames["facts"]
    assert facts["inputs"][0]["shape"][:2] == ["?", "?"]
    assert facts["outputs"][0]["name"] == output
    assert facts["unused_domains"] == sorted(name for name, _ in imports if name)


def test_shadowed_name_is_at_most_its_own_code(tmp_path: Path) -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "b", [], [world.value("t")])
    nodes = [
        helper.make_node("Identity", ["x"], ["t"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    built = world.model(nodes, inputs=[world.value("x"), world.value("c", [], TensorProto.BOOL)])
    found = world.inspected(tmp_path, built)
    assert found.codes() == {"structure/shadowed-name"}
    assert found.problem("structure/shadowed-name")["where"] == "graph/node[1] If/else_branch"
    assert found.frames["facts"]["scopes"] == 3


def test_functions_that_call_each_other_in_reason(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    inner = helper.make_function("local", "In", ["p"], ["q"], [helper.make_node("Relu", ["p"], ["q"])], imports)
    calls = [
        helper.make_node("In", ["p"], ["t"], domain="local"),
        helper.make_node("In", ["t"], ["q"], domain="local"),
    ]
    outer = helper.make_function("local", "Out", ["p"], ["q"], calls, imports)
    found = world.inspected(
        tmp_path, world.model([helper.make_node("Out", ["x"], ["y"], domain="local")], functions=[outer, inner])
    )
    clean(found)
    assert found.frames["facts"]["functions"] == ["local::Out", "local::In"]


def test_types_other_than_tensors_in_words(tmp_path: Path) -> None:
    kinds = {
        "sequence(map(int64,float32))": helper.make_sequence_type_proto(
            helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        ),
        "optional(float16)": helper.make_optional_type_proto(
            helper.make_tensor_type_proto(TensorProto.FLOAT16, [2])
        ),
        "bfloat16": helper.make_sparse_tensor_type_proto(TensorProto.BFLOAT16, [3]),
        "unknown": onnx.TypeProto(),
    }
    inputs = [helper.make_value_info(f"i{index}", kind) for index, kind in enumerate(kinds.values())]
    built = world.model(inputs=[world.value("x", [2, "n"]), *inputs])
    facts = world.inspected(tmp_path, built).frames["facts"]
    described = [(item["kind"], item["dtype"], item["shape"], item["detail"]) for item in facts["inputs"]]
    assert described == [
        ("tensor", "float32", [2, "n"], ""),
        ("sequence", "float32", None, "sequence(map(int64,float32))"),
        ("optional", "float16", [2], "optional(float16)"),
        ("sparse_tensor", "bfloat16", [3], "bfloat16"),
        ("unknown", "undefined", None, "unknown"),
    ]


def test_same_import_twice_only_warns(tmp_path: Path) -> None:
    found = world.inspected(tmp_path, world.model(imports=[("", 18), ("com.microsoft", 1), ("", 18)]))
    assert found.codes() == {"structure/repeated-domain"}


def test_checker_and_inference_report_what_they_say(tmp_path: Path) -> None:
    found = world.inspected(tmp_path, world.model([helper.make_node("Nonsense", ["x"], ["y"])]))
    assert found.frames["checker"] == {**found.frames["checker"], "ok": False, "skipped": ""}
    assert "Nonsense" in found.frames["checker"]["message"]
    found = world.inspected(tmp_path, world.model(outputs=[world.value("y", [77, 2])]))
    assert found.frames["shapes"]["ok"] is False
    assert found.frames["shapes"]["message"]


def test_weights_are_looked_through_once_and_no_native_code_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    given: list[int] = []
    look, check, infer = ranges.look, onnx.checker.check_model, onnx.shape_inference.infer_shapes
    monkeypatch.setattr(ranges, "look", lambda dtype, raw: looked.append(len(raw)) or look(dtype, raw))
    monkeypatch.setattr(onnx.checker, "check_model", lambda raw: given.append(len(raw)) or check(raw))
    monkeypatch.setattr(
        onnx.shape_inference, "infer_shapes", lambda raw, **more: given.append(len(raw)) or infer(raw, **more)
    )
    inner = TensorProto(name="e", data_type=TensorProto.FLOAT, dims=[50_000])
    built = world.model(
        [
            helper.make_node("Add", ["x", "w"], ["s"]),
            helper.make_node("Add", ["s", "e"], ["t"]),
            helper.make_node("Add", ["t", "e2"], ["y"]),
        ],
        initializer=[
            world.weight("w", (50_000,), bytes(200_000)),
            world.external(inner, location="w.bin", offset="0", length="200000"),
            world.external(
                TensorProto(name="e2", data_type=1, dims=[50_000]), location="w.bin", offset="0", length="200000"
            ),
        ],
        inputs=[world.value("x", [50_000])],
        outputs=[world.value("y", [50_000])],
    )
    found = world.inspected(tmp_path, built, files={"w.bin": np.ones(50_000, "<f4").tobytes()})
    clean(found)
    assert sum(looked) == 400_000
    assert len(given) == 2
    assert max(given) < 1000
    assert found.frames["facts"]["weights"] == [
        {
            "dtype": "float32", "tensors": 3, "read": 2, "elements": 150_000, "least": 0.0, "greatest": 1.0,
            "nan": 0, "infinite": 0,
        }
    ]  # fmt: skip


def test_every_int_and_four_bit_type_has_its_bytes(tmp_path: Path) -> None:
    tensors = [
        helper.make_tensor(f"t{dtype}", dtype, [3], [0, 1, 1])
        for dtype in helper.get_all_tensor_dtypes()
        if dtype not in {TensorProto.UNDEFINED, TensorProto.STRING}
    ]
    tensors.append(helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"\xff"]))
    tensors.append(TensorProto(name="i4", data_type=TensorProto.INT4, dims=[3], raw_data=b"12"))
    tensors.append(TensorProto(name="u2", data_type=TensorProto.UINT2, dims=[5], raw_data=b"12"))
    tensors.append(TensorProto(name="none", data_type=TensorProto.FLOAT, dims=[1 << 62, 0]))
    found = world.inspected(tmp_path, world.model(initializer=tensors))
    assert found.codes() == set()


def test_longest_path_over_shared_children_is_that_of_a_plain_recursion() -> None:
    random = np.random.default_rng(5)
    for count in (1, 2, 40, 200):
        parents = np.repeat(np.arange(count), 2)
        children = np.array([min(count - 1, p + 1 + random.integers(0, 5)) for p in parents])
        inner = children > parents
        edges: dict[int, list[int]] = {}
        for parent, child in zip(parents[inner].tolist(), children[inner].tolist(), strict=True):
            edges.setdefault(parent, []).append(child)
        depth = [1] * count
        for node in reversed(range(count)):
            depth[node] = 1 + max((depth[child] for child in edges.get(node, ())), default=0)
        assert trees.longest_path(count, parents[inner], children[inner]) == max(depth)


def test_preload_needs_no_file_and_leaves_nothing_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    inspect.preload()
    assert set(os.listdir("/proc/self/fd")) == before


def test_every_operator_of_onnx_s_whole_history_is_a_built_in_name() -> None:
    history = {(one.domain or "ai.onnx", one.name) for one in onnx.defs.get_all_schemas_with_history()}
    assert history == functions.BUILT_IN
    assert ("ai.onnx", "Upsample") in history  # deprecated long ago
