"""The reference job: what it evaluates, that its draws are the run's, its budget, and what is mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sandbox import evaluator, reference
from sandbox.interface import RuntimeType
from sandbox.messages import TYPES, RefusedError
from sandbox.tensors import (
    ELEMENTS,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    nbytes_of,
    tensor_of,
    to_array,
)
from tests.run_world import (
    Recorder,
    blob,
    classifier,
    declared,
    decode,
    execute,
    fetch,
    model_bytes,
    spec_of,
    tensor_info,
    write_set,
)

pytestmark = pytest.mark.unit

BATCH = {"batch": {"min": 1, "max": 32}}
FIRST = np.array([[0.9, 0.8, 0.75, 0.1]], np.float32)
EXPECTED = np.array([[0.9408883, 0.058663875, 0.00044790408]], np.float32)
FLOAT = TensorProto.FLOAT


def evaluate(spec: dict[str, Any], inputs: int | None = None, **changes: Any) -> tuple[Recorder, int]:
    """Run the ``reference`` body to its end; return (channel, outputs blob)."""
    channel, outputs = Recorder(), blob()
    order = {"kind": "reference", "spec": spec | {"seconds": 600, "probes": True} | changes}
    reference.body(order, channel, {"inputs": blob() if inputs is None else inputs, "outputs": outputs})
    return channel, outputs


def golden(root: Path, raw: bytes, *arrays: Any, **changes: Any) -> tuple[dict[str, Any], int]:
    """Write a model with one golden set; return its order and the blob of inputs."""
    frame, inputs, _ = decode(root, write_set(root, "set", list(arrays), [FIRST]))
    return spec_of(root, raw, sets=frame["sets"], **changes), inputs


def values(channel: Recorder, outputs: int) -> dict[str, np.ndarray[Any, Any]]:
    """The first output of each case, by name."""
    return {
        case["set"]: to_array(fetch(outputs, case["outputs"][0]))
        for case in channel.all("case")
        if case.get("outputs") and case["repeat"] == 0
    }


def test_the_classifier_gives_the_published_probabilities(tmp_path: Path) -> None:
    spec, inputs = golden(tmp_path, classifier(), FIRST, declared=declared(), dims=BATCH)
    channel, outputs = evaluate(spec, inputs)
    assert {kind for kind, _ in channel.frames} == {"case"} <= {one.rstrip("*") for one in TYPES["reference"]}
    np.testing.assert_allclose(values(channel, outputs)["set"], EXPECTED, rtol=0, atol=1e-6)


def test_its_draws_and_bounds_are_those_of_the_run(tmp_path: Path) -> None:
    spec, inputs = golden(tmp_path, classifier(), FIRST, declared=declared(), dims=BATCH)
    ours = values(*evaluate(spec, inputs))
    run = values(*execute(spec | {"probes": True}, inputs))
    assert (
        {"set", "probe:draws-0", "probe:draws-1", "probe:ones", "probe:dim-max:batch"} <= ours.keys() <= run.keys()
    )
    assert sum(ours[f"probe:draws-{number}"].shape[0] for number in range(2)) == 64
    for name, got in ours.items():
        np.testing.assert_allclose(run[name], got, rtol=0, atol=1e-6)
    other = values(*evaluate(spec | {"seed": "01"}, inputs))
    assert np.abs(other["probe:draws-0"] - ours["probe:draws-0"]).max() > 0.01


def test_no_probes_where_none_are_ordered(tmp_path: Path) -> None:
    spec, inputs = golden(tmp_path, classifier(), FIRST, declared=declared(), dims=BATCH)
    assert values(*evaluate(spec, inputs, probes=False)).keys() == {"set"}


def test_beyond_its_seconds_it_begins_nothing(tmp_path: Path) -> None:
    spec, inputs = golden(tmp_path, classifier(), FIRST, declared=declared(), dims=BATCH)
    channel, _ = evaluate(spec, inputs, seconds=0)
    assert channel.frames == []


def test_a_model_that_the_evaluator_cannot_load_is_refused_as_unavailable(tmp_path: Path) -> None:
    table = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
    zipped = helper.make_value_info("y", helper.make_sequence_type_proto(table))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    for raw in (model_bytes([node], [tensor_info("x", FLOAT, [1, 2])], [zipped]), b"\xff" * 40):
        with pytest.raises(RefusedError) as caught:
            evaluate(spec_of(tmp_path, raw))
        assert (caught.value.code, caught.value.where) == ("reference/unavailable", "load")


def test_an_operator_that_raises_is_told_and_not_tried_for_ever(tmp_path: Path) -> None:
    node = helper.make_node("Reshape", ["x", "to"], ["y"])
    raw = model_bytes(
        [node],
        [tensor_info("x", FLOAT, ["batch", 4])],
        [tensor_info("y", FLOAT, [7])],
        [numpy_helper.from_array(np.array([7]), "to")],
    )
    told = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4], "range": [0.0, 1.0]}],
        "outputs": [],
    }
    spec, inputs = golden(tmp_path, raw, FIRST, declared=told, dims={"batch": {"min": 1, "max": 4}})
    channel, _ = evaluate(spec, inputs)
    cases = channel.all("case")
    assert len(cases) == reference.MAX_ERRORS
    assert all("ValueError" in case["error"] and not case.get("outputs") for case in cases)


def test_external_data_is_read_at_its_offset_in_subgraphs_too(tmp_path: Path) -> None:
    def outside(name: str, offset: int) -> Any:
        tensor = TensorProto(name=name, data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "w.bin"), ("offset", str(offset)), ("length", "8")):
            tensor.external_data.add(key=key, value=value)
        return tensor

    (tmp_path / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    inner = helper.make_graph(
        [helper.make_node("Add", ["x", "v"], ["r"])],
        "then",
        [],
        [tensor_info("r", FLOAT, [2])],
        [outside("v", 16)],
    )
    nodes = [
        helper.make_node("If", ["yes"], ["s"], then_branch=inner, else_branch=inner),
        helper.make_node("Add", ["s", "w"], ["y"]),
    ]
    weights = [outside("w", 8), numpy_helper.from_array(np.array(True), "yes")]
    raw = model_bytes(nodes, [tensor_info("x", FLOAT, [2])], [tensor_info("y", FLOAT, [2])], weights)
    spec, inputs = golden(tmp_path, raw, np.array([10, 20], np.float32))
    np.testing.assert_array_equal(values(*evaluate(spec, inputs))["set"], [16, 28])


@pytest.mark.parametrize("name", [name for name in ELEMENTS if name not in {"string", "complex64", "complex128"}])
def test_every_element_type_passes_the_evaluator_unchanged(name: str) -> None:
    element = ELEMENTS[name]
    raw = bytes(range(1, 1 + nbytes_of(element, (3,))))
    if name == "bool":
        raw = b"\x01\x00\x01"
    if element.bits < 8:
        raw = raw[:-1] + bytes([raw[-1] & ((1 << (3 * element.bits % 8 or 8)) - 1)])
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph(
        [node], "g", [tensor_info("x", element.number, [3])], [tensor_info("y", element.number, [3])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    (got,) = evaluator.Evaluator(model).run({"x": TensorValue(name, (3,), raw)})
    assert isinstance(got, TensorValue)
    assert (got.dtype, got.shape, bytes(got.data)) == (name, (3,), raw)


def test_texts_sequences_optionals_and_maps_pass_both_ways() -> None:
    text = tensor_of(np.array([["ä", "b"]], object), "string")
    number = tensor_of(np.array([1.5], np.float32), "float32")
    keys = tensor_of(np.array(["a"], object), "string")
    plain = RuntimeType("tensor", "float32")
    for value, kind in (
        (text, RuntimeType("tensor", "string")),
        (SequenceValue((number, number)), RuntimeType("sequence", "float32", "", plain)),
        (OptionalValue(None), RuntimeType("optional", "float32", "", plain)),
        (OptionalValue(number), RuntimeType("optional", "float32", "", plain)),
        (MapValue(keys, number), RuntimeType("map", "float32", "string", plain)),
    ):
        assert evaluator.from_evaluator(evaluator.to_evaluator(value), kind) == value
    with pytest.raises(evaluator.UnsuitedError):
        evaluator.from_evaluator(None, plain)


def normalising(opset: int, function: bool = False) -> Any:
    """BatchNormalization of [1,2,2], in the main graph or in a function of opset 15 beside it."""
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=0.0)
    weights = [
        numpy_helper.from_array(np.array(pair, np.float32), name)
        for name, pair in (("s", [2, 1]), ("b", [0, 1]), ("m", [1, 0]), ("v", [4, 1]))
    ]
    functions = []
    if function:
        fifteen = [helper.make_opsetid("", 15)]
        functions = [helper.make_function("own", "Norm", list(node.input), ["y"], [node], fifteen)]
        node = helper.make_node("Norm", list(node.input), ["y"], domain="own")
    graph = helper.make_graph(
        [node], "g", [tensor_info("x", FLOAT, [1, 2, 2])], [tensor_info("y", FLOAT, [1, 2, 2])], weights
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=opsets)


BY_HAND = [[[-1, 0], [3, 4]]]
"""scale * (x - mean) / sqrt(variance) + bias of [[0, 1], [2, 3]]."""


def test_batch_normalisation_before_opset_14_tests_and_does_not_train() -> None:
    x = np.array([[[0, 1], [2, 3]]], np.float32)
    (wrong,) = ReferenceEvaluator(normalising(13)).run(None, {"x": x})
    assert np.abs(wrong - BY_HAND).max() > 0.1, "onnx mended it: take it out of sandbox/mended.py"
    for opset in (9, 13, 15):
        (got,) = evaluator.Evaluator(normalising(opset)).run({"x": tensor_of(x, "float32")})
        assert isinstance(got, TensorValue)
        np.testing.assert_allclose(to_array(got), BY_HAND)


def test_a_mended_operator_is_not_used_for_another_opset_inside_a_function() -> None:
    x = tensor_of(np.array([[[0, 1], [2, 3]]], np.float32), "float32")
    (got,) = evaluator.Evaluator(normalising(15, function=True)).run({"x": x})
    assert isinstance(got, TensorValue)
    np.testing.assert_allclose(to_array(got), BY_HAND)
    session = evaluator.Evaluator(normalising(13, function=True))
    try:
        (got,) = session.run({"x": x})
    except NotImplementedError:
        return
    assert isinstance(got, TensorValue)
    np.testing.assert_allclose(to_array(got), BY_HAND)


def test_dequantisation_of_opset_13_is_known() -> None:
    weights = [
        numpy_helper.from_array(np.array(0.5, np.float32), "s"),
        numpy_helper.from_array(np.array(3, np.uint8), "z"),
    ]
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
    graph = helper.make_graph(
        [node], "g", [tensor_info("x", TensorProto.UINT8, [2])], [tensor_info("y", FLOAT, [2])], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    with pytest.raises(RuntimeError, match="No implementation"):
        ReferenceEvaluator(model)
    (got,) = evaluator.Evaluator(model).run({"x": tensor_of(np.array([3, 5], np.uint8), "uint8")})
    assert isinstance(got, TensorValue)
    np.testing.assert_array_equal(to_array(got), [0, 1])


def evaluated(node: Any, opset: int, *arrays: Any) -> Any:
    """Evaluate one node in the mended evaluator; return its first output."""
    names = [name for name in node.input if name]
    ports = [
        tensor_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), list(one.shape))
        for name, one in zip(names, arrays, strict=True)
    ]
    graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info(node.output[0])])
    graph.output[0].type.tensor_type.elem_type = FLOAT
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {name: tensor_of(one, one.dtype.name) for name, one in zip(names, arrays, strict=True)}
    (got,) = evaluator.Evaluator(model).run(feeds)
    assert isinstance(got, TensorValue)
    return to_array(got)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 2, -1])
def test_before_opset_13_a_softmax_takes_all_axes_from_its_axis_on_as_onnxruntime_does(
    name: str, axis: int | None
) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 4)).astype(np.float32)
    node = helper.make_node(name, ["x"], ["y"], **({} if axis is None else {"axis": axis}))
    raw = model_bytes([node], [tensor_info("x", FLOAT, [2, 3, 4])], [tensor_info("y", FLOAT, [2, 3, 4])], opset=11)
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    np.testing.assert_allclose(evaluated(node, 11, x), wanted, rtol=1e-5, atol=1e-6)
    node = helper.make_node(name, ["x"], ["y"], axis=-1)
    np.testing.assert_allclose(evaluated(node, 13, x), evaluated(node, 11, x), rtol=1e-6, atol=1e-7)


def test_an_operator_whose_older_form_the_evaluator_does_not_know_is_refused() -> None:
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"])
    values = np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32), np.zeros(1, np.int64)
    with pytest.raises(NotImplementedError):
        evaluated(node, 11, *values)
    assert evaluated(node, 16, *values).shape == (1, 1, 1, 1)


def test_a_loop_without_a_condition_runs_to_its_count() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [
            tensor_info("i", TensorProto.INT64, []),
            tensor_info("c", TensorProto.BOOL, []),
            tensor_info("v", FLOAT, [1]),
        ],
        [tensor_info("d", TensorProto.BOOL, []), tensor_info("w", FLOAT, [1])],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    got = evaluated(node, 13, np.array(3, np.int64), np.array([1], np.float32))
    np.testing.assert_array_equal(got, [8])


def test_the_preloaded_model_is_evaluated_without_an_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a job nothing can be imported: what the evaluator imports late must be there after the preload."""
    import builtins
    import sys

    reference.preload()
    known = set(sys.modules)
    real = builtins.__import__
    late: list[str] = []

    def watching(name: str, *words: Any, **more: Any) -> Any:
        found = real(name, *words, **more)
        late.extend(set(sys.modules) - known - set(late))
        return found

    monkeypatch.setattr(builtins, "__import__", watching)
    scaler = helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.0], scale=[2.0])
    spec, inputs = golden(
        tmp_path,
        model_bytes([scaler], [tensor_info("x", FLOAT, [1, 4])], [tensor_info("y", FLOAT, [1, 4])]),
        FIRST,
    )
    got = values(*evaluate(spec, inputs))
    assert [name for name in late if name.startswith(("onnx", "numpy"))] == []
    np.testing.assert_array_equal(got["set"], 2 * FIRST)
    assert onnx.__version__
