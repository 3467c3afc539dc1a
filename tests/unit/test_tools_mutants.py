"""The corpus' mutants: each agrees with itself and breaks one thing, and only the right finding counts as seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from examples.bundle_text import toml_text, write_set
from tools import corpus_mutants
from tools.corpus_mutants import Bundle, Result, UnsuitedError

pytestmark = pytest.mark.unit

X = np.array([[1, 2, 3]], np.float32)


def bundle(path: Path, *outputs: str, fixed: bool = True) -> Bundle:
    """A bundle whose outputs are x and -x, x being used in a branch of an If too."""
    path.mkdir()
    inner = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["i"])],
        "branch",
        [],
        [helper.make_tensor_value_info("i", TensorProto.FLOAT, [1, 3])],
    )
    nodes = [
        helper.make_node("If", ["yes"], ["same"], then_branch=inner, else_branch=inner),
        helper.make_node("Neg", ["x"], ["turned"]),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in outputs]
    weights = [numpy_helper.from_array(np.array(True), "yes")]
    graph = helper.make_graph(nodes, "g", ports, results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (path / "model.onnx").write_bytes(model.SerializeToString())
    values = {"same": X, "turned": -X}
    write_set(path / "test_data_set_0", {"x": X}.items(), [(name, values[name]) for name in outputs])
    told = [
        {
            "name": name,
            "dtype": "float32",
            "shape": [1, 3 if fixed else "?"],
            "tolerance": {"rtol": 0.01, "atol": 0.5},
        }
        for name in outputs
    ]
    entry = {
        "name": "main",
        "file": "model.onnx",
        "ir_version": 8,
        "opsets": {"ai.onnx": 13},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 3]}],
        "outputs": told,
        "vectors": [{"sets": ["test_data_set_*"]}],
    }
    document = {"schema": 1, "bundle": {"id": "corpus/one", "version": "1"}, "models": [entry]}
    (path / "bundle.toml").write_text(toml_text(document))
    return Bundle(path)


def agrees(given: Bundle) -> bool:
    """Whether file, manifest and goldens agree, by a plain run."""
    spec = given.document["models"][0]
    session = onnxruntime.InferenceSession(given.home / "model.onnx", providers=["CPUExecutionProvider"])
    place = given.sets()[0]
    feeds = {one["name"]: numpy_helper.to_array(onnx.load_tensor(place / "input_0.pb")) for one in spec["inputs"]}
    same = [value.name for value in session.get_outputs()] == [one["name"] for one in spec["outputs"]]
    same &= all(feeds[one["name"]].dtype.name == one["dtype"] for one in spec["inputs"])
    for number, got in enumerate(session.run(None, feeds)):
        same &= np.array_equal(got, numpy_helper.to_array(onnx.load_tensor(place / f"output_{number}.pb")))
    return bool(same)


def test_a_golden_value_is_moved_by_ten_tolerances_and_its_place_is_known(tmp_path: Path) -> None:
    given = bundle(tmp_path / "b", "turned")
    corpus_mutants.golden_value(given)
    moved = numpy_helper.to_array(onnx.load_tensor(given.home / "test_data_set_0" / "output_0.pb"))
    assert given.wanted == ("test_data_set_0", "turned", [0, 1])
    np.testing.assert_allclose(moved, [[-1, -2 + 10 * (0.5 + 0.01 * 2), -3]])


@pytest.mark.parametrize("name", ["outputs-swapped", "dtype-changed"])
def test_a_mutant_agrees_with_itself_and_not_with_the_contract(name: str, tmp_path: Path) -> None:
    given = bundle(tmp_path / "b", "same", "turned")
    before = corpus_mutants.contract(given)
    corpus_mutants.MUTANTS[name][0](given)
    assert agrees(given)
    assert corpus_mutants.contract(given) != before


def test_labels_change_places_where_the_width_is_fixed(tmp_path: Path) -> None:
    given = bundle(tmp_path / "b", "same")
    assert corpus_mutants.label(given)
    corpus_mutants.labels_reordered(given)
    assert given.document["models"][0]["outputs"][0]["labels"] == ["class 1", "class 0", "class 2"]
    free = bundle(tmp_path / "c", "same", fixed=False)
    assert not corpus_mutants.label(free)
    with pytest.raises(UnsuitedError):
        corpus_mutants.labels_reordered(free)


def test_a_size_that_the_file_leaves_open_is_not_for_the_contract_to_fix(tmp_path: Path) -> None:
    (model,) = corpus_mutants.contract(bundle(tmp_path / "b", "same"))["models"]
    assert model["inputs"][0]["shape"] == [1, "?"]


@pytest.mark.parametrize(
    ("finding", "jobs", "right"),
    [
        ({}, ["inspect"], True),
        ({}, ["inspect", "run"], False),
        ({"severity": "hold"}, ["inspect"], False),
        ({"code": "schema/input-renamed"}, ["inspect"], False),
    ],
)
def test_only_a_rejection_under_the_right_code_before_any_inference_counts(
    finding: dict[str, Any], jobs: list[str], right: bool, tmp_path: Path
) -> None:
    one = {"code": "schema/dtype-changed", "severity": "reject", "where": "x", "message": "m"} | finding
    report = {"verdict": "rejected", "findings": [one], "resources": {"jobs": [{"kind": kind} for kind in jobs]}}
    judged = corpus_mutants._judged("p", "dtype-changed", "schema/dtype-changed", Bundle(tmp_path), report)
    assert judged.right is right


def test_a_golden_that_is_rejected_at_another_element_does_not_count(tmp_path: Path) -> None:
    shows = {"set": "test_data_set_0", "output": "y", "index": [0, 2]}
    one = {"code": "parity/mismatch", "severity": "reject", "where": "x", "message": "m", "evidence": shows}
    report = {"verdict": "rejected", "findings": [one], "resources": {"jobs": []}}
    for index, right in (([0, 2], True), ([0, 1], False)):
        given = Bundle(tmp_path, ("test_data_set_0", "y", index))
        judged = corpus_mutants._judged("p", "golden-value", "parity/mismatch", given, report)
        assert judged.right is right


def test_the_table_has_a_row_for_each_bundle_and_marks_what_is_wrong() -> None:
    rows = [
        Result("a", "control", "accepted", "", True),
        Result("a", "golden-value", "accepted", "", False),
        Result("a", "outputs-swapped", "not made", "one output", True),
    ]
    text = corpus_mutants.table(rows)
    assert all(word in text for word in ("accepted WRONG", "(one output)"))
