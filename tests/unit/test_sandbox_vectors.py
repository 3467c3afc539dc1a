"""Golden files: layouts, kinds, positions, and everything that makes a set undecodable."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sandbox import vectors
from sandbox.messages import RefusedError
from sandbox.tensors import (
    ELEMENTS,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    to_array,
    unpack_strings,
)
from tests.run_world import Recorder, blob, decode, fetch, write_set
from tests.vectors_world import ONES, codes, npz_set

pytestmark = pytest.mark.unit


def kinds(*values: str) -> dict[str, Any]:
    """Declared types of inputs by kind; one float32 tensor as output."""
    inputs = [{"name": f"x{number}", "kind": kind, "dtype": ""} for number, kind in enumerate(values)]
    return {"main": {"inputs": inputs, "outputs": [{"name": "y", "kind": "tensor", "dtype": "float32"}]}}


def one_input(root: Path, message: Any, kind: str = "tensor") -> Any:
    """Decode one golden input and return its value."""
    frame, inputs, _ = decode(root, write_set(root, "set", [message], [ONES]), types=kinds(kind))
    assert frame["problems"] == []
    return fetch(inputs, frame["sets"][0]["inputs"][0])


def refused_input(root: Path, message: Any, kind: str = "tensor") -> str:
    """Decode one bad golden input; the set must be left out. Returns the problem's text."""
    frame, _, _ = decode(root, write_set(root, "set", [message], [ONES]), types=kinds(kind))
    assert frame["sets"] == []
    (problem,) = frame["problems"]
    assert problem["code"] == "vectors/undecodable"
    assert problem["where"] == "set/input_0.pb"
    return str(problem["message"])


def test_inputs_and_expected_values_part_ways(tmp_path: Path) -> None:
    frame, inputs, expected = decode(tmp_path, write_set(tmp_path, "set", [ONES], [ONES * 2]))
    (found,) = frame["sets"]
    assert (to_array(fetch(inputs, found["inputs"][0])) == 1).all()
    assert (to_array(fetch(expected, found["expected"][0])) == 2).all()


def test_sets_lie_one_after_the_other_in_the_blobs(tmp_path: Path) -> None:
    sets = [write_set(tmp_path, f"set{n}", [np.full(2, n, np.float32)], [ONES]) for n in range(3)]
    frame, inputs, _ = decode(tmp_path, *sets)
    offsets = [found["inputs"][0]["value"]["offset"] for found in frame["sets"]]
    assert offsets == [0, 8, 16]
    assert [to_array(fetch(inputs, found["inputs"][0]))[0] for found in frame["sets"]] == [0, 1, 2]


def test_positions_are_numeric(tmp_path: Path) -> None:
    order = write_set(tmp_path, "set", [np.full(1, n, np.int64) for n in range(12)], [ONES])
    order["files"].sort()
    frame, inputs, _ = decode(tmp_path, order)
    values = [int(to_array(fetch(inputs, named))[0]) for named in frame["sets"][0]["inputs"]]
    assert values == list(range(12))


@pytest.mark.parametrize("missing", ["input_0.pb", "input_1.pb", "output_0.pb"])
def test_a_gap_leaves_the_set_out(tmp_path: Path, missing: str) -> None:
    order = write_set(tmp_path, "set", [ONES, ONES, ONES], [ONES, ONES])
    order["files"].remove(f"set/{missing}")
    frame, _, _ = decode(tmp_path, order, write_set(tmp_path, "good", [ONES], [ONES]))
    assert codes(frame) == ["vectors/gap"]
    assert [found["name"] for found in frame["sets"]] == ["good"]


@pytest.mark.parametrize("name", ["input_00.pb", "input_1_.pb", "input_x.pb", "output_1e1.pb"])
def test_a_number_written_otherwise_is_a_gap(tmp_path: Path, name: str) -> None:
    order = write_set(tmp_path, "set", [ONES], [ONES])
    (tmp_path / "set" / name).write_bytes(b"")
    order["files"].append(f"set/{name}")
    frame, _, _ = decode(tmp_path, order)
    assert codes(frame) == ["vectors/gap"]


def test_names_inside_the_files_are_passed_on(tmp_path: Path) -> None:
    named = numpy_helper.from_array(ONES, "a:0")
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [named, ONES], [ONES]))
    assert [value["name"] for value in frame["sets"][0]["inputs"]] == ["a:0", ""]


def test_two_values_of_one_name_leave_the_set_out(tmp_path: Path) -> None:
    named = numpy_helper.from_array(ONES, "a")
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [named, named], [ONES]))
    assert codes(frame) == ["vectors/duplicate-name"]


@pytest.mark.parametrize("name", [name for name, element in ELEMENTS.items() if element.array is not None])
def test_every_element_type_from_raw_data(tmp_path: Path, name: str) -> None:
    array = np.array([1, 2, 1]).astype(ELEMENTS[name].array)
    value = one_input(tmp_path, array)
    assert value.dtype == name
    assert (to_array(value) == array).all()


@pytest.mark.parametrize("name", [name for name, element in ELEMENTS.items() if not name.startswith("float8e8")])
def test_typed_fields_give_the_same_bytes_as_raw_data(tmp_path: Path, name: str) -> None:
    number = ELEMENTS[name].number
    items: list[Any] = ["a", "b", "c"] if name == "string" else [1, 0, 1]
    typed = helper.make_tensor("", number, [3], items)
    value = one_input(tmp_path, typed)
    assert value.dtype == name
    if name != "string":
        assert bytes(value.data) == numpy_helper.from_array(numpy_helper.to_array(typed)).raw_data


def test_string_tensors_keep_any_bytes(tmp_path: Path) -> None:
    message = TensorProto(data_type=TensorProto.STRING, dims=[2], string_data=[b"\xff", b""])
    value = one_input(tmp_path, message)
    assert unpack_strings(value.data, 2) == [b"\xff", b""]


def test_sequence_optional_and_map(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(ONES)
    inner = onnx.SequenceProto(elem_type=1, tensor_values=[tensor, tensor])
    sequence = one_input(tmp_path, inner, "sequence")
    assert isinstance(sequence, SequenceValue)
    assert len(sequence.items) == 2
    (tmp_path / "a").mkdir()
    present = one_input(tmp_path / "a", onnx.OptionalProto(elem_type=1, tensor_value=tensor), "optional")
    assert isinstance(present, OptionalValue)
    assert isinstance(present.value, TensorValue)
    (tmp_path / "b").mkdir()
    absent = one_input(tmp_path / "b", onnx.OptionalProto(elem_type=1), "optional")
    assert absent == OptionalValue(None)
    (tmp_path / "c").mkdir()
    assert one_input(tmp_path / "c", onnx.SequenceProto(elem_type=1), "sequence") == SequenceValue(())


@pytest.mark.parametrize("textual", [False, True])
def test_a_sequence_of_maps_as_zipmap_gives_it(tmp_path: Path, textual: bool) -> None:
    values = [
        numpy_helper.from_array(np.array(0.25, np.float32)),
        numpy_helper.from_array(np.array([0.75], np.float32)),
    ]
    pairs: dict[str, Any] = {"string_keys": [b"no", b"yes"]} if textual else {"keys": [3, 7]}
    one = onnx.MapProto(
        key_type=TensorProto.STRING if textual else TensorProto.INT64,
        values=onnx.SequenceProto(elem_type=1, tensor_values=values),
        **pairs,
    )
    value = one_input(tmp_path, onnx.SequenceProto(elem_type=4, map_values=[one]), "sequence")
    (item,) = value.items
    assert isinstance(item, MapValue)
    assert to_array(item.values).tolist() == [0.25, 0.75]
    if textual:
        assert unpack_strings(item.keys.data, 2) == [b"no", b"yes"]
    else:
        assert to_array(item.keys).tolist() == [3, 7]


def test_the_kind_is_guessed_where_none_is_declared(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(ONES)
    values = [tensor, onnx.SequenceProto(elem_type=1, tensor_values=[tensor])]
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", values, [ONES]))
    assert [named["value"]["kind"] for named in frame["sets"][0]["inputs"]] == ["tensor", "sequence"]


BAD_TENSORS: dict[str, tuple[Any, str]] = {
    "empty file": (b"", "element type 0"),
    "cut short": (numpy_helper.from_array(ONES).SerializeToString()[:-3], "TensorProto"),
    "text": (b"not protobuf at all", "TensorProto"),
    "undefined element type": (TensorProto(dims=[1], raw_data=b"abcd"), "element type 0"),
    "unknown element type": (TensorProto(data_type=99, dims=[1], raw_data=b"abcd"), "element type 99"),
    "too few bytes": (TensorProto(data_type=1, dims=[2], raw_data=b"abcd"), "4 bytes"),
    "too many bytes": (TensorProto(data_type=1, dims=[1], raw_data=b"abcdefgh"), "8 bytes"),
    "negative dimension": (TensorProto(data_type=1, dims=[-1, -1], raw_data=b"abcd"), "negative"),
    "overflowing dimensions": (TensorProto(data_type=1, dims=[2**40, 2**40], raw_data=b""), "2\\*\\*62"),
    "two value fields": (TensorProto(data_type=1, dims=[1], raw_data=b"abcd", float_data=[1]), "raw_data and"),
    "wrong value field": (TensorProto(data_type=1, dims=[1], int32_data=[1]), "float_data"),
    "too few values": (TensorProto(data_type=1, dims=[2], float_data=[1]), "1 values"),
    "integer out of range": (TensorProto(data_type=3, dims=[1], int32_data=[200]), "outside"),
    "bool of two": (TensorProto(data_type=9, dims=[1], raw_data=b"\2"), "bool"),
    "strings in raw_data": (TensorProto(data_type=8, dims=[1], raw_data=b"a"), "strings"),
    "too few strings": (TensorProto(data_type=8, dims=[2], string_data=[b"a"]), "1 strings"),
    "external data": (TensorProto(data_type=1, dims=[1], data_location=1), "external"),
    "a segment": (
        TensorProto(data_type=1, dims=[1], float_data=[1], segment=TensorProto.Segment(begin=0, end=1)),
        "segment",
    ),
    "rank 65": (TensorProto(data_type=1, dims=[1] * 65, float_data=[1]), "rank"),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_a_bad_tensor_leaves_the_set_out_with_its_place(tmp_path: Path, case: str) -> None:
    message, words = BAD_TENSORS[case]
    text = refused_input(tmp_path, message)
    assert words.replace("\\", "") in text


def _map(**changes: Any) -> Any:
    one = numpy_helper.from_array(np.array(1, np.float32))
    base = {"key_type": 7, "keys": [1], "values": onnx.SequenceProto(elem_type=1, tensor_values=[one])}
    return onnx.MapProto(**(base | changes))


BAD_NESTED: dict[str, tuple[str, Any]] = {
    "elements of another type than said": (
        "sequence", onnx.SequenceProto(elem_type=4, tensor_values=[numpy_helper.from_array(ONES)])),
    "sparse elements": (
        "sequence", onnx.SequenceProto(elem_type=2, sparse_tensor_values=[onnx.SparseTensorProto()])),
    "optional of another type than said": (
        "optional", onnx.OptionalProto(elem_type=3, tensor_value=numpy_helper.from_array(ONES))),
    "a key twice": ("map", _map(keys=[1, 1])),
    "keys without values": ("map", _map(keys=[1, 2])),
    "keys of a floating type": ("map", _map(key_type=1)),
    "keys of two types": ("map", _map(string_keys=[b"a"])),
    "key out of range": ("map", _map(key_type=3, keys=[300])),
    "values that are no single elements": (
        "map", _map(values=onnx.SequenceProto(elem_type=1, tensor_values=[numpy_helper.from_array(ONES)]))),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_NESTED)
def test_a_bad_nested_value_leaves_the_set_out(tmp_path: Path, case: str) -> None:
    kind, message = BAD_NESTED[case]
    refused_input(tmp_path, message, kind)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    order = {"model": "main", "name": "set", "format": "onnx", "files": ["set/input_0.pb", "set/output_0.pb"]}
    frame, _, _ = decode(tmp_path, order)
    assert codes(frame) == ["vectors/undecodable"]


def test_an_empty_set_is_left_out(tmp_path: Path) -> None:
    frame, _, _ = decode(tmp_path, {"model": "main", "name": "set", "format": "onnx", "files": []})
    assert codes(frame) == ["vectors/empty-set"]
    assert frame["sets"] == []


def test_a_golden_of_another_type_than_declared_is_a_problem(tmp_path: Path) -> None:
    types = {"main": {"inputs": [{"name": "x", "kind": "tensor", "dtype": "int64"}], "outputs": []}}
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], [ONES]), types=types)
    assert codes(frame) == ["vectors/type-mismatch"]
    assert frame["problems"][0]["message"] == "the golden is a tensor of float32, declared is a tensor of int64"
    assert len(frame["sets"]) == 1


def test_values_beyond_the_blobs_cap_end_the_job(tmp_path: Path) -> None:
    order = write_set(tmp_path, "set", [ONES], [ONES])
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(RefusedError) as caught:
        vectors.body(
            {"kind": "vectors", "spec": {"root": str(tmp_path), "sets": [order], "types": {}, "data_json": None}},
            Recorder(),
            {"inputs": full.fileno(), "expected": blob()},
        )
    assert caught.value.code == "resources/output-limit"


def test_preload_touches_everything_without_an_error() -> None:
    vectors.preload()


ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\x3e\0\x01\0\0\0" + bytes(40)


def test_a_program_hidden_in_data_json_is_told_beside_its_tolerance(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_bytes(b'{"rtol": 0.01}' + b" " * 9 + ELF)
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], [ONES]), data_json="data.json")
    assert codes(frame) == ["payload/executable", "vectors/tolerance-invalid"]
    assert frame["problems"][0]["where"] == "data.json"


@pytest.mark.parametrize("side", ["input", "output"])
def test_a_pickle_in_the_documentation_of_a_golden_tensor_is_told(tmp_path: Path, side: str) -> None:
    order = write_set(tmp_path, "set", [ONES], [ONES])
    path = tmp_path / "set" / f"{side}_0.pb"
    tensor = onnx.load_tensor(str(path))
    tensor.doc_string = "gASVHQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg" + "=" * 2
    path.write_bytes(tensor.SerializeToString())
    frame, _, _ = decode(tmp_path, order)
    assert codes(frame) == ["payload/pickle"]
    assert frame["problems"][0]["where"] == f"set/{side}_0.pb"


def test_a_program_between_the_members_of_an_npz_is_told(tmp_path: Path) -> None:
    order = npz_set(tmp_path, {"x": ONES}, {"y": ONES})
    path = tmp_path / order["inputs"]
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = ELF
    assert codes(decode(tmp_path, order)[0]) == ["payload/executable"]


def test_no_number_of_other_problems_keeps_a_payload_from_being_told(tmp_path: Path) -> None:
    sets = [write_set(tmp_path, f"s{number}", [ONES], []) for number in range(vectors.MAX_PROBLEMS + 1)]
    last = write_set(tmp_path, "last", [ONES], [ONES])
    path = tmp_path / "last" / "input_0.pb"
    tensor = onnx.load_tensor(str(path))
    tensor.metadata_props.add(key="k", value="f0VMRgIBAQAAAAAAAAAAAAIAPgABAAAA" + "A" * 60)
    path.write_bytes(tensor.SerializeToString())
    assert codes(decode(tmp_path, *sets, last)[0])[0] == "payload/executable"


def test_text_that_a_model_is_fed_may_read_as_a_command(tmp_path: Path) -> None:
    text = np.array(["#!/bin/sh\nos.system('id')\n https://a.example/"])
    assert codes(decode(tmp_path, npz_set(tmp_path, {"x": text}, {"y": ONES}))[0]) == []
