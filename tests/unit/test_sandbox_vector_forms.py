"""Golden files in their other forms: .npz, tolerances of data.json and config.txt, smoke sets, labels, slices."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from sandbox import golden_files, tolerances
from sandbox.tensors import (
    ELEMENTS,
    to_array,
    unpack_strings,
)
from tests.run_world import decode, fetch, write_set
from tests.vectors_world import ONES, codes, npz, npz_set

pytestmark = pytest.mark.unit


def test_npz_keys_are_names(tmp_path: Path) -> None:
    frame, inputs, _ = decode(tmp_path, npz_set(tmp_path, {"b:0": ONES, "a": np.array(["é"])}, {"y": ONES}))
    first, second = frame["sets"][0]["inputs"]
    assert (first["name"], second["name"]) == ("b:0", "a")
    assert unpack_strings(fetch(inputs, second).data, 1) == ["é".encode()]


def test_npz_raw_elements_take_the_declared_type(tmp_path: Path) -> None:
    array = np.array([1, 2], ELEMENTS["bfloat16"].array)
    types = {"main": {"inputs": [{"name": "x", "kind": "tensor", "dtype": "bfloat16"}], "outputs": []}}
    order = npz_set(tmp_path, {"x": array.view("V2")}, {"y": ONES})
    frame, inputs, _ = decode(tmp_path, order, types=types)
    assert (to_array(fetch(inputs, frame["sets"][0]["inputs"][0])) == array).all()


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"a": 1}], object),
        np.array(["2026-01-01"], "M8[D]"),
        np.zeros(1, [("a", "i4")]),
        np.zeros(2, "V2"),
    ],
    ids=["pickle", "date", "record", "raw without a declared type"],
)
def test_npz_elements_that_onnx_does_not_have_leave_the_set_out(tmp_path: Path, array: Any) -> None:
    frame, _, _ = decode(tmp_path, npz_set(tmp_path, {"x": array}, {"y": ONES}))
    assert codes(frame)[-1] == "vectors/undecodable"
    assert set(codes(frame)[:-1]) <= {"payload/pickle"}
    assert frame["sets"] == []


def test_npz_that_is_no_zip_or_holds_other_files(tmp_path: Path) -> None:
    order = npz_set(tmp_path, {"x": ONES}, {"y": ONES})
    (tmp_path / "inputs.npz").write_bytes(b"PK\3\4 nothing")
    assert codes(decode(tmp_path, order)[0]) == ["vectors/undecodable"]
    with zipfile.ZipFile(tmp_path / "inputs.npz", "w") as archive:
        archive.writestr("x.txt", "text")
    assert codes(decode(tmp_path, order)[0]) == ["vectors/undecodable"]


def test_npy_with_bytes_left_over_is_refused() -> None:
    stream = io.BytesIO()
    np.save(stream, ONES)
    with pytest.raises(ValueError, match="left over"):
        golden_files.npy_array(stream.getvalue() + b"x")


def test_the_model_zoos_legacy_npz(tmp_path: Path) -> None:
    name = npz(tmp_path / "test_data_0.npz", inputs=np.stack([ONES, ONES * 3]), outputs=np.stack([ONES]))
    order = {"model": "main", "name": name, "format": "npz", "inputs": name, "outputs": name}
    frame, inputs, _ = decode(tmp_path, order)
    (found,) = frame["sets"]
    assert [named["name"] for named in found["inputs"]] == ["", ""]
    assert (to_array(fetch(inputs, found["inputs"][1])) == 3).all()
    assert len(found["expected"]) == 1


def test_tolerances_of_data_json(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"rtol": 0.01, "atol": 0}')
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], [ONES]), data_json="data.json")
    assert (frame["sets"][0]["rtol"], frame["sets"][0]["atol"]) == (0.01, 0.0)


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"rtol": NaN}', '{"atol": -1}', '{"rtol": true}', '{"rtol": "1"}', "[" * 60_000, "1" * 70_000],
)
def test_a_data_json_that_cannot_be_meant_is_a_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "data.json").write_text(text)
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], [ONES]), data_json="data.json")
    assert codes(frame) == ["vectors/tolerance-invalid"]
    assert frame["sets"][0]["rtol"] is None


CONFIGS = {
    "relative_per_sample_tolerance:0.02\nper_sample_tolerance: 1e-4\r\n": (0.02, 1e-4),
    "# a note\n\npost_processing:true\nper_sample_tolerance:3": (None, 3.0),
    "an asset of that name: nothing about tolerances": (None, None),
}


@pytest.mark.parametrize("text", CONFIGS)
def test_tolerances_of_onnx_test_runners_config(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.txt").write_text(text)
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], [ONES]), config_txt="config.txt")
    assert codes(frame) == []
    assert (frame["sets"][0]["rtol"], frame["sets"][0]["atol"]) == CONFIGS[text]


def test_data_json_comes_before_config_txt(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"rtol": 0.01}')
    (tmp_path / "config.txt").write_text("relative_per_sample_tolerance:0.5\nper_sample_tolerance:0.25")
    order = write_set(tmp_path, "set", [ONES], [ONES])
    frame, _, _ = decode(tmp_path, order, data_json="data.json", config_txt="config.txt")
    assert (frame["sets"][0]["rtol"], frame["sets"][0]["atol"]) == (0.01, 0.25)


@pytest.mark.parametrize("number", ["inf", "nan", "-1", "1e999", "0x10", "much"])
def test_a_tolerance_in_config_txt_that_cannot_be_meant_is_a_problem(number: str, tmp_path: Path) -> None:
    (tmp_path / "config.txt").write_text(f"per_sample_tolerance:{number}")
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], [ONES]), config_txt="config.txt")
    assert codes(frame) == ["vectors/tolerance-invalid"]


def test_huge_integer_tolerance_is_a_problem() -> None:
    with pytest.raises(ValueError, match="atol"):
        tolerances.of_json(json.dumps({"atol": 10**400}).encode())


def test_a_set_without_expected_values_is_kept_and_said(tmp_path: Path) -> None:
    frame, _, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], []))
    assert codes(frame) == ["vectors/smoke-only"]
    assert frame["sets"][0]["expected"] == []


def test_a_set_that_was_ordered_as_smoke_is_kept_without_a_word(tmp_path: Path) -> None:
    frame, inputs, _ = decode(tmp_path, write_set(tmp_path, "set", [ONES], []) | {"smoke": True})
    assert frame["problems"] == []
    assert (to_array(fetch(inputs, frame["sets"][0]["inputs"][0])) == 1).all()
    np.savez(tmp_path / "inputs.npz", x=ONES)
    order = {"model": "main", "name": "n", "format": "npz", "inputs": "inputs.npz", "outputs": "", "smoke": True}
    frame, _, _ = decode(tmp_path, order)
    assert [named["name"] for named in frame["sets"][0]["inputs"]] == ["x"]


def test_the_model_zoos_form_with_inputs_alone_is_a_smoke_set(tmp_path: Path) -> None:
    np.savez(tmp_path / "test_data_0.npz", inputs=ONES[None])
    path = "test_data_0.npz"
    order = {"model": "main", "name": path, "format": "npz", "inputs": path, "outputs": path}
    frame, _, _ = decode(tmp_path, order)
    assert codes(frame) == ["vectors/smoke-only"]
    assert len(frame["sets"][0]["inputs"]) == 1


def labelled_set(root: Path, labels: Any, slices: str = "", suffix: str = "txt") -> dict[str, Any]:
    order = write_set(root, "set", [ONES], [ONES])
    if isinstance(labels, bytes):
        (root / "set" / "labels.npy").write_bytes(labels)
    else:
        np.save(root / "set" / "labels.npy", labels)
    order["labels"] = "set/labels.npy"
    if slices:
        (root / "set" / f"slices.{suffix}").write_text(slices, "utf-8")
        order["slices"] = f"set/slices.{suffix}"
    return order


@pytest.mark.parametrize(("text", "suffix"), [("day\nnächtlich\n", "txt"), ('["day", "nächtlich"]', "json")])
def test_labels_and_slices_lie_beside_the_expected_values(text: str, suffix: str, tmp_path: Path) -> None:
    order = labelled_set(tmp_path, np.array([[2], [0]], ">i2"), text, suffix)
    frame, inputs, expected = decode(tmp_path, order)
    assert frame["problems"] == []
    (found,) = frame["sets"]
    assert to_array(fetch(expected, {"value": found["labels"]})).tolist() == [2, 0]
    names = fetch(expected, {"value": found["slices"]})
    assert unpack_strings(names.data, 2) == [b"day", "nächtlich".encode()]
    assert os.fstat(inputs).st_size == ONES.nbytes, "nothing of them lies where a run reads"


def test_labels_of_a_tensor_proto(tmp_path: Path) -> None:
    order = write_set(tmp_path, "set", [ONES], [ONES]) | {"labels": "set/labels.pb"}
    message = helper.make_tensor("labels", TensorProto.UINT8, [2], [1, 0])
    (tmp_path / "set" / "labels.pb").write_bytes(message.SerializeToString())
    frame, _, expected = decode(tmp_path, order)
    assert to_array(fetch(expected, {"value": frame["sets"][0]["labels"]})).tolist() == [1, 0]


BAD_LABELS: dict[str, Any] = {
    "floats": np.array([0.0, 1.0]),
    "booleans": np.array([True, False]),
    "negative": np.array([-1, 0]),
    "huge": np.array([2**63], np.uint64),
    "text": np.array(["a"]),
    "pickled": np.array([{"a": 1}], object),
    "no array": b"PK\x03\x04",
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_labels_that_are_no_classes_are_a_problem_and_the_golden_stays(name: str, tmp_path: Path) -> None:
    frame, _, _ = decode(tmp_path, labelled_set(tmp_path, BAD_LABELS[name]))
    assert "vectors/labels-invalid" in codes(frame)
    assert frame["sets"][0].get("labels") is None
    assert len(frame["sets"][0]["expected"]) == 1


@pytest.mark.parametrize("text", ["{}", "[1]", '["a", ""]', "[" * 50_000, '["a\\u0000"]', '["' + "a" * 300 + '"]'])
def test_slices_that_are_no_names_are_a_problem(text: str, tmp_path: Path) -> None:
    frame, _, _ = decode(tmp_path, labelled_set(tmp_path, np.array([0, 1]), text, "json"))
    assert codes(frame) == ["vectors/labels-invalid"]
    assert frame["sets"][0]["labels"] is not None
