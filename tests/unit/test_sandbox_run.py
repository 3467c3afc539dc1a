"""The run job: cases, repeats, matching, kinds of values, checks of outputs, placement, schema."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from acceptd.evidence import Named, TensorRef, VectorSet
from acceptd.judge.goldens import fed
from acceptd.policy.manifest import InputSpec, ModelSpec
from sandbox import cases, placement, run, session, values
from sandbox.messages import TYPES, RefusedError
from sandbox.tensors import ELEMENTS, MapValue, OptionalValue, SequenceValue, tensor_of, to_array, unpack_strings
from tests.run_world import (
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


def identity(dtype: int, opset: int = 21) -> bytes:
    node = helper.make_node("Identity", ["x"], ["y"])
    return model_bytes([node], [tensor_info("x", dtype, ["n"])], [tensor_info("y", dtype, ["n"])], opset=opset)


def value_model(kind: Any, op: str = "Identity", opset: int = 16) -> bytes:
    node = helper.make_node(op, ["x"], ["y"])
    return model_bytes(
        [node], [helper.make_value_info("x", kind)], [helper.make_value_info("y", kind)], opset=opset
    )


def run_golden(root: Path, raw: bytes, inputs: list[Any], **changes: Any) -> tuple[Any, int]:
    """Run one golden set through both bodies; return (recorder, outputs blob)."""
    types = changes.pop("types", {})
    frame, blob, _ = decode(root, write_set(root, "set", inputs, [FIRST]), types=types)
    return execute(spec_of(root, raw, sets=frame["sets"], **changes), blob)


def test_the_classifier_gives_the_published_probabilities(tmp_path: Path) -> None:
    channel, outputs = run_golden(tmp_path, classifier(), [FIRST], declared=declared(), dims=BATCH)
    first, second = channel.all("case")
    assert (first["set"], first["repeat"], second["repeat"]) == ("set", 0, 1)
    assert (first["batch"], first["finite"], first["problems"]) == (1, True, [])
    for case in (first, second):
        (named,) = case["outputs"]
        assert named["name"] == "probabilities"
        np.testing.assert_allclose(to_array(fetch(outputs, named)), EXPECTED, rtol=0, atol=1e-6)
    assert first["outputs"][0]["value"]["offset"] != second["outputs"][0]["value"]["offset"]


def test_frames_come_in_the_grammar_of_the_messages(tmp_path: Path) -> None:
    channel, _ = run_golden(tmp_path, classifier(), [FIRST], declared=declared(), dims=BATCH, probes=True)
    kinds = [kind for kind, _ in channel.frames]
    grammar = [item.rstrip("*") for item in TYPES["run"]][1:-1]
    position = 0
    for kind in kinds:
        while grammar[position] != kind:
            position += 1
    assert (grammar[position], grammar[position + 1 :]) == ("probed", ["profiled"])
    assert kinds.count("schema") == kinds.count("placement") == 1


def test_the_schema_is_the_runtimes_own(tmp_path: Path) -> None:
    channel, _ = execute(spec_of(tmp_path, classifier()))
    (schema,) = channel.all("schema")
    assert schema["inputs"] == [
        {
            "name": "features",
            "kind": "tensor",
            "dtype": "float32",
            "shape": ["batch", 4],
            "overridable": False,
            "detail": "",
        }
    ]
    assert schema["providers"] == ["CPUExecutionProvider"]
    assert schema["runtime"]["onnxruntime"]
    assert schema["load_ms"] > 0


def test_an_initializer_that_is_an_input_is_marked_overridable(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones(1, np.float32), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    inputs = [tensor_info("w", FLOAT, [1]), tensor_info("x", FLOAT, [1])]
    raw = model_bytes([node], inputs, [tensor_info("y", FLOAT, [1])], [weight])
    channel, outputs = run_golden(tmp_path, raw, [np.full(1, 5, np.float32)])
    (schema,) = channel.all("schema")
    assert [(value["name"], value["overridable"]) for value in schema["inputs"]] == [("x", False), ("w", True)]
    assert to_array(fetch(outputs, channel.all("case")[0]["outputs"][0])).tolist() == [6]


def test_placement_counts_nodes_by_provider(tmp_path: Path) -> None:
    channel, _ = execute(spec_of(tmp_path, classifier(), optimised=False))
    (frame,) = channel.all("placement")
    assert {(row["provider"], row["op_type"], row["count"]) for row in frame["nodes"]} == {
        ("CPUExecutionProvider", name, 1) for name in ("MatMul", "Add", "Softmax")
    }


def test_placement_says_when_the_runtime_cannot() -> None:
    class Silent:
        def get_provider_graph_assignment_info(self) -> list[Any]:
            raise RuntimeError("not recorded")

    told = placement.placement(Silent())
    assert {key: told[key] for key in ("nodes", "available", "note")} == {
        "nodes": [],
        "available": False,
        "note": "not recorded",
    }
    assert told["used_cpu_fallback"] is None


def test_without_optimisation_goldens_run_once_and_nothing_is_probed(tmp_path: Path) -> None:
    channel, _ = run_golden(tmp_path, classifier(), [FIRST], optimised=False, probes=True)
    assert [case["set"] for case in channel.all("case")] == ["set"]


def test_probes_come_after_goldens_and_keep_outputs_only_in_domain(tmp_path: Path) -> None:
    channel, _ = run_golden(tmp_path, classifier(), [FIRST], declared=declared(), dims=BATCH, probes=True)
    found = channel.all("case")
    assert [case["set"] for case in found[:2]] == ["set", "set"]
    probes = {case["set"]: case for case in found[2:]}
    assert probes["probe:zeros"]["in_domain"]
    assert probes["probe:zeros"]["outputs"]
    assert probes["probe:dim-max:batch"]["batch"] == 32
    assert not probes["probe:nan"]["in_domain"]
    assert probes["probe:nan"].get("outputs", []) == []
    assert probes["probe:nan"]["finite"] is False
    assert probes["probe:dim-over:batch"].get("error", "") == ""  # the runtime accepts 33; the loader must not
    assert all(case["problems"] == [] for case in found)


@pytest.mark.parametrize(
    "name", [n for n, e in ELEMENTS.items() if n not in {"string", "float4e2m1"} and "complex" not in n]
)
def test_every_element_type_passes_through(tmp_path: Path, name: str) -> None:
    number, floats = ELEMENTS[name].number, name not in {"bfloat16"}
    if floats and (not ELEMENTS[name].native):
        node = helper.make_node("Cast", ["x"], ["y"], to=number)
        raw = model_bytes([node], [tensor_info("x", FLOAT, ["n"])], [tensor_info("y", number, ["n"])], opset=25)
        channel, outputs = run_golden(tmp_path, raw, [np.array([1, 1, 0.5, 1, 1], np.float32)])
    else:
        channel, outputs = run_golden(tmp_path, identity(number), [np.array([1, 0, 1], ELEMENTS[name].array)])
    case = channel.all("case")[0]
    assert case.get("error", "") == ""
    value = fetch(outputs, case["outputs"][0])
    assert value.dtype == name
    assert case["finite"] is (True if ELEMENTS[name].floating else None)


@pytest.mark.parametrize("name", ["bfloat16", "float8e4m3fn", "float8e5m2", "int4", "uint4", "int2", "uint2"])
def test_types_that_numpy_cannot_say_are_fed(tmp_path: Path, name: str) -> None:
    number = ELEMENTS[name].number
    node = helper.make_node("Cast", ["x"], ["y"], to=FLOAT)
    raw = model_bytes([node], [tensor_info("x", number, ["n"])], [tensor_info("y", FLOAT, ["n"])], opset=25)
    golden = helper.make_tensor("", number, [5], [1, 0, 1, 0, 1])
    channel, outputs = run_golden(tmp_path, raw, [golden])
    value = fetch(outputs, channel.all("case")[0]["outputs"][0])
    assert to_array(value).tolist() == [1, 0, 1, 0, 1]


def test_strings_scalars_and_zero_size_tensors(tmp_path: Path) -> None:
    channel, outputs = run_golden(tmp_path, identity(TensorProto.STRING), [np.array(["ä", ""], object)])
    value = fetch(outputs, channel.all("case")[0]["outputs"][0])
    assert unpack_strings(value.data, 2) == ["ä".encode(), b""]
    for number, array in enumerate([np.array(3.5, np.float32), np.zeros((0, 2), np.float32)]):
        root = tmp_path / str(number)
        root.mkdir()
        raw = value_model(helper.make_tensor_type_proto(FLOAT, None))
        channel, outputs = run_golden(root, raw, [array])
        assert channel.all("case")[0]["outputs"][0]["value"]["shape"] == list(array.shape)


def test_text_that_is_not_utf8_is_an_error_of_the_case(tmp_path: Path) -> None:
    bad = TensorProto(data_type=8, dims=[1], string_data=[b"\xff"])
    channel, _ = run_golden(tmp_path, identity(TensorProto.STRING), [bad])
    assert "UnicodeDecodeError" in channel.all("case")[0]["error"]


def test_sequences_and_optionals_in_and_out(tmp_path: Path) -> None:
    tensor = helper.make_tensor_type_proto(FLOAT, None)
    one = numpy_helper.from_array(FIRST)
    messages = {
        "sequence": (
            helper.make_sequence_type_proto(tensor),
            onnx.SequenceProto(elem_type=1, tensor_values=[one]),
        ),
        "optional": (helper.make_optional_type_proto(tensor), onnx.OptionalProto(elem_type=1, tensor_value=one)),
        "absent": (helper.make_optional_type_proto(tensor), onnx.OptionalProto(elem_type=1)),
    }
    found = {}
    for name, (kind, message) in messages.items():
        root = tmp_path / name
        root.mkdir()
        wanted = "sequence" if name == "sequence" else "optional"
        types = {"main": {"inputs": [{"name": "x", "kind": wanted, "dtype": "float32"}], "outputs": []}}
        channel, outputs = run_golden(root, value_model(kind), [message], types=types, probes=True)
        assert channel.all("schema")[0]["inputs"][0]["kind"] == wanted
        assert all(not case["set"].startswith("probe:") for case in channel.all("case"))
        found[name] = fetch(outputs, channel.all("case")[0]["outputs"][0])
    assert isinstance(found["sequence"], SequenceValue)
    assert isinstance(found["optional"], OptionalValue)
    assert found["absent"] == OptionalValue(None)


@pytest.mark.parametrize("textual", [False, True])
def test_zipmap_gives_a_sequence_of_maps(tmp_path: Path, textual: bool) -> None:
    labels: dict[str, Any] = {"classlabels_strings": ["no", "yes"]} if textual else {"classlabels_int64s": [3, 7]}
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)
    key = TensorProto.STRING if textual else TensorProto.INT64
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, None))
    output = helper.make_value_info("y", helper.make_sequence_type_proto(kind))
    raw = model_bytes([node], [tensor_info("x", FLOAT, ["n", 2])], [output])
    channel, outputs = run_golden(tmp_path, raw, [np.array([[0.25, 0.75]], np.float32)])
    words = "string" if textual else "int64"
    assert channel.all("schema")[0]["outputs"][0]["detail"] == f"sequence(map({words},float32))"
    value = fetch(outputs, channel.all("case")[0]["outputs"][0])
    assert isinstance(value, SequenceValue)
    (item,) = value.items
    assert isinstance(item, MapValue)
    assert to_array(item.values).tolist() == [0.25, 0.75]
    assert (unpack_strings(item.keys.data, 2) if textual else to_array(item.keys).tolist()) == (
        [b"no", b"yes"] if textual else [3, 7]
    )


def test_a_set_that_feeds_too_little_says_which_input(tmp_path: Path) -> None:
    channel, _ = run_golden(tmp_path, classifier(), [])
    case = channel.all("case")[0]
    assert case["problems"][0]["code"] == "run/unfed-input"
    assert case["problems"][0]["where"] == "features"
    assert case["error"]


def test_a_wrong_dtype_is_an_error_of_the_case_and_the_run_goes_on(tmp_path: Path) -> None:
    good, bad = (
        write_set(tmp_path, "b", [FIRST], [FIRST]),
        write_set(tmp_path, "a", [FIRST.astype(np.float64)], [FIRST]),
    )
    frame, blob, _ = decode(tmp_path, bad, good)
    channel, _ = execute(spec_of(tmp_path, classifier(), sets=frame["sets"], repeats=1), blob)
    first, second = channel.all("case")
    assert "INVALID_ARGUMENT" in first["error"]
    assert second.get("error", "") == ""


def test_a_reference_beyond_the_blob_is_an_error_of_the_case(tmp_path: Path) -> None:
    ref = {"kind": "tensor", "dtype": "float32", "shape": [1, 4], "offset": 4096, "nbytes": 16}
    channel, _ = execute(
        spec_of(tmp_path, classifier(), sets=[{"name": "s", "inputs": [{"name": "", "value": ref}]}])
    )
    (case,) = channel.all("case")
    assert case["problems"][0]["code"] == "run/unknown-input"


def match_names(*names: str) -> tuple[dict[str, Any], list[str]]:
    one = tensor_of(FIRST, "float32")
    feed, problems = cases.match([(name, one) for name in names], ["a", "b"], ["w"])
    return feed, [problem["code"] for problem in problems]


def test_matching_by_name_and_by_position() -> None:
    assert (list(match_names("b", "a")[0]), match_names("b", "a")[1]) == (["b", "a"], [])
    assert (list(match_names("", "")[0]), match_names("", "")[1]) == (["a", "b"], [])
    assert match_names("old", "b")[1] == ["run/name-ignored"]
    assert match_names("", "", "")[1] == ["run/unknown-input"]
    assert match_names("", "b")[1] == match_names("a", "")[1] == []
    assert match_names("b", "")[1] == ["run/name-ignored"], "the second value would go by the same name"
    assert list(match_names("w", "b")[0]) == ["w", "b"]
    assert match_names("a", "b", "w")[1] == ["run/overridden-initializer"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_judge_assigns_inputs_as_the_run_does(count: int) -> None:
    """Shapes and ranges are held against the input that a value really feeds."""
    ports = [InputSpec(name=name, dtype="float32") for name in ("a", "b")]
    model = ModelSpec(name="main", file="m.onnx", inputs=ports)
    for names in itertools.product(("a", "b", "", "x"), repeat=count):
        if len({name for name in names if name}) < len([name for name in names if name]):
            continue  # the vectors job leaves such a set out
        refs = [TensorRef(dtype="float32", shape=[number], offset=0, nbytes=0) for number in range(count)]
        given = [Named(name=name, value=ref) for name, ref in zip(names, refs, strict=True)]
        golden = VectorSet(name="s", model="main", inputs=given, expected=[])
        ran, _ = cases.match(list(zip(names, range(count), strict=True)), ["a", "b"], [])  # type: ignore[arg-type]
        assert {spec.name: value.shape[0] for spec, value in fed(golden, model)} == ran, names


def test_an_output_of_another_shape_than_the_model_declares(tmp_path: Path) -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    inputs = [tensor_info("x", FLOAT, ["n"]), tensor_info("s", TensorProto.INT64, [1])]
    raw = model_bytes([node], inputs, [tensor_info("y", FLOAT, [77])])
    channel, _ = run_golden(tmp_path, raw, [np.zeros(3, np.float32), np.array([3])])
    assert [problem["code"] for problem in channel.all("case")[0]["problems"]] == ["run/output-shape"]


def test_finiteness_looks_into_every_kind_of_value() -> None:
    bad, whole = tensor_of(np.array([np.inf], np.float16), "float16"), tensor_of(np.array([1]), "int64")
    assert values.all_finite([SequenceValue((OptionalValue(bad),))]) is False
    assert values.all_finite([MapValue(whole, tensor_of(np.array([1.0]), "float64"))]) is True
    assert values.all_finite([whole]) is None


def test_a_sequence_beside_a_bfloat16_output_cannot_be_expressed(tmp_path: Path) -> None:
    nodes = [helper.make_node("SequenceAt", ["s", "i"], ["t"]), helper.make_node("Cast", ["t"], ["y"], to=16)]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    inputs = [helper.make_value_info("s", kind), tensor_info("i", TensorProto.INT64, [])]
    raw = model_bytes(nodes, inputs, [tensor_info("y", 16, None)])
    sequence = onnx.SequenceProto(elem_type=1, tensor_values=[numpy_helper.from_array(FIRST)])
    types = {"main": {"inputs": [{"name": "s", "kind": "sequence", "dtype": "float32"}], "outputs": []}}
    channel, _ = run_golden(tmp_path, raw, [sequence, np.array(0)], types=types)
    assert channel.all("case")[0]["problems"][0]["code"] == "run/unexpressible-type"


def test_outputs_beyond_the_blobs_cap_end_the_job(tmp_path: Path) -> None:
    frame, blob, _ = decode(tmp_path, write_set(tmp_path, "set", [FIRST], [FIRST]))
    spec = spec_of(tmp_path, classifier(), sets=frame["sets"])
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(RefusedError) as caught:
        run.body({"kind": "run", "spec": spec}, _Quiet(), {"inputs": blob, "outputs": full.fileno()})
    assert (caught.value.code, caught.value.where) == ("resources/output-limit", "set")


class _Quiet:
    def send(self, frame_type: str, body: dict[str, Any]) -> None: ...

    def data(self, payload: bytes | memoryview) -> None: ...


def test_a_full_blob_costs_a_probe_only_its_outputs(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, classifier(), declared=declared(), dims=BATCH, probes=True)
    seen: list[dict[str, Any]] = []

    class Keep(_Quiet):
        def send(self, frame_type: str, body: dict[str, Any]) -> None:
            if frame_type == "case":
                seen.append(body)

    with open("/dev/full", "wb", buffering=0) as full:
        run.body({"kind": "run", "spec": spec}, Keep(), {"inputs": full.fileno(), "outputs": full.fileno()})
    assert seen
    assert all(case["outputs"] == [] for case in seen if case["in_domain"])


def test_preload_touches_everything_without_an_error() -> None:
    run.preload()
    assert session.runtime_facts()["locale"]


def test_a_provider_that_the_session_left_out_is_refused_unless_the_fallback_is_allowed() -> None:
    planned, taken = ["OpenVINOExecutionProvider", session.CPU], [session.CPU]
    session.check_taken(planned, planned, {})
    session.check_taken(planned, taken, {"allow_cpu_fallback": True})
    with pytest.raises(RefusedError) as caught:
        session.check_taken(planned, taken, {})
    assert (caught.value.code, caught.value.where) == ("load/provider-unavailable", "OpenVINOExecutionProvider")


def test_an_element_type_that_an_older_onnxruntime_does_not_know_is_unexpressible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raising(message: str) -> None:
        def refuse(*_: Any) -> None:
            raise RuntimeError(message)

        monkeypatch.setattr(values.ort.OrtValue, "ortvalue_from_shape_and_type", refuse)

    value = values.TensorValue("float8e8m0", (1,), b"\0")
    raising("tensor type 24 is not supported")
    with pytest.raises(values.UnexpressibleError, match="float8e8m0"):
        values.to_runtime(value, as_ort=True)
    raising("Failed to allocate memory")  # memory is another matter
    with pytest.raises(RuntimeError, match="allocate"):
        values.to_runtime(value, as_ort=True)
