"""Selections in a model: every place where the input decides what is computed, found with its way."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.network_world import array, in_branch, in_function, node, structure, trigger
from tests.static_world import graph, model, value, weight

pytestmark = pytest.mark.unit


def selections(root: Path, nodes: list[onnx.NodeProto], **more: Any) -> list[dict[str, Any]]:
    more.setdefault("initializer", [array("limit", 5.0), array("bad", 9.0)])
    found = structure(root, model(nodes, **more), digests=False)
    assert found["selection_shapes"] == len(found["selections"])
    return list(found["selections"])


@pytest.mark.parametrize(
    ("selector", "op_type", "path"),
    [
        ("Where", "Where", ["ReduceMax", "Greater", "Where"]),
        ("If", "If", ["ReduceMax", "Greater", "If"]),
        ("mask", "Cast", ["ReduceMax", "Greater", "Cast"]),
        ("index", "Gather", ["ArgMax", "Identity", "Gather"]),
    ],
)
def test_a_trigger_is_found_with_the_way_from_the_input(
    tmp_path: Path, selector: str, op_type: str, path: list[str]
) -> None:
    (found,) = selections(tmp_path, trigger(selector))
    assert (found["op_type"], found["driven"], found["input"], found["path"]) == (op_type, "input", "x", path)
    assert found["places"][0]["where"] == f"graph/node[2] {op_type}"


def test_a_choice_that_no_input_decides_is_told_apart(tmp_path: Path) -> None:
    nodes = [node("Greater", ["limit", "bad"], ["c"]), node("Where", ["c", "bad", "x"], ["y"])]
    (found,) = selections(tmp_path, nodes)
    assert (found["driven"], found["input"], found["path"]) == ("none", "", [])
    # Where a name leads nowhere, nothing is promised.
    (found,) = selections(tmp_path / "b", [node("Where", ["lost", "bad", "x"], ["y"])])
    assert found["driven"] == "unknown"


def test_a_selection_hidden_in_a_function_is_found_from_its_call(tmp_path: Path) -> None:
    (found,) = structure(tmp_path, in_function())["selections"]
    assert (found["driven"], found["input"]) == ("input", "x")
    assert found["path"] == ["ReduceMax", "Greater", "Where"]
    assert found["places"][0]["where"] == "functions[0] Gate/node[2] Where"


def test_a_condition_that_a_function_returns_is_followed(tmp_path: Path) -> None:
    body = [node("ReduceMax", ["a"], ["m"], keepdims=0), node("Greater", ["m", "b"], ["c"])]
    function = helper.make_function("local", "Test", ["a", "b"], ["c"], body, [helper.make_opsetid("", 18)])
    call = node("Test", ["x", "limit"], ["hit"], domain="local")
    for selector in ([node("Where", ["hit", "bad", "x"], ["y"])], [node("Cast", ["hit"], ["y"], to=1)]):
        (found,) = selections(tmp_path / selector[0].op_type, [call, *selector], functions=[function])
        assert found["driven"] == "input"
        assert found["path"][0] == "ReduceMax"


def test_a_selection_in_a_nested_branch_is_found_with_its_place(tmp_path: Path) -> None:
    found = structure(tmp_path, in_branch(3))["selections"]
    places = [place["where"] for shape in found for place in shape["places"]]
    assert len(places) == 3
    assert any(place.count("then_branch") == 2 and place.endswith("node[2] If") for place in places)
    assert {shape["driven"] for shape in found} == {"input"}


def test_an_attribute_of_a_type_that_is_a_lie_hides_no_branch(tmp_path: Path) -> None:
    hidden = helper.make_graph(trigger(), "g", [], [value("y")], [array("limit", 5.0), array("bad", 9.0)])
    cover = node("Relu", ["x"], ["y"])
    cover.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT).g.CopyFrom(hidden)
    found = structure(tmp_path, model([cover]))["selections"]
    assert [place["where"] for shape in found for place in shape["places"]] == [
        "graph/node[0] Relu/alpha/node[2] Where"
    ]


def test_selections_of_one_kind_are_one_line_and_the_lines_are_capped(tmp_path: Path) -> None:
    many = [node("Where", ["hit", "bad", "x"], [f"o{index}"]) for index in range(40)]
    nodes = [*trigger()[:2], *many, node("Identity", ["o0"], ["y"])]
    (found,) = selections(tmp_path, nodes)
    assert found["count"] == 40
    assert len(found["places"]) == 16
    ways = ("Abs", "Neg", "Relu", "Exp", "Sign", "Ceil", "Floor", "Sqrt", "Elu", "Erf", "Log", "Round")
    tests = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
    different = []
    for at, ((first, second), test) in enumerate(itertools.product(itertools.combinations(ways, 2), tests)):
        different += [node(first, ["x"], [f"p{at}"]), node(second, [f"p{at}"], [f"q{at}"])]
        different += [node(test, [f"q{at}", "limit"], [f"s{at}"])]
        different.append(node("Where", [f"s{at}", "bad", "x"], [f"t{at}"]))
    different.append(node("Identity", ["x"], ["y"]))
    weights = [array("limit", 5.0), array("bad", 9.0)]
    whole = structure(tmp_path / "b", model(different, initializer=weights), digests=False)
    assert (len(whole["selections"]), whole["selection_shapes"]) == (256, 330)


def test_hostile_names_come_out_as_text(tmp_path: Path) -> None:
    names = ("\u202egood", "\x1b[2Jx", "a\nb\0c", "n" * 5000)
    given = model(
        [node("Sum", ["x", *names], ["y"])], initializer=[array(name, 1.0) for name in names[:2]]
        + [weight(name) for name in names[2:]],
    )  # fmt: skip
    found = structure(tmp_path, given)
    assert found["initializer_count"] == 4
    assert all(len(line) < 256 for line in found["initializers"])
    assert any(line.startswith("\u202egood") for line in found["initializers"])  # escaped by whoever shows it
    raw = model([node("Add", ["x", "QQQQ"], ["y"])], initializer=[weight("QQQQ")]).SerializeToString()
    broken = structure(tmp_path / "b", onnx.ModelProto.FromString(raw.replace(b"QQQQ", b"Q\xff\xfeQ")))
    assert broken["initializers"] == ["Q\\xff\\xfeQ float32[1]"]


def test_an_attribute_whose_name_is_no_utf8_is_hashed_with_its_tensor(tmp_path: Path) -> None:
    """Found by mutating bytes: upb hands such a name out as bytes, and takes none back."""

    def constant(name: bytes, number: float) -> onnx.ModelProto:
        given = model([node("Constant", [], ["y"], QQQQ=array("t", number))])
        return onnx.ModelProto.FromString(given.SerializeToString().replace(b"QQQQ", name))

    cases = [(b"a\xf2bc", 1.0), (b"a\xf2bd", 1.0), (b"a\xf2bc", 2.0)]
    found = [structure(tmp_path / str(at), constant(*case)) for at, case in enumerate(cases)]
    assert len({one["graph_sha256"] for one in found}) == 3
    assert len({one["topology_sha256"] for one in found}) == 2


def test_the_input_of_a_loop_body_is_driven_by_what_the_loop_gets(tmp_path: Path) -> None:
    body = graph(
        [node("Greater", ["state", "limit"], ["hit"]), node("Where", ["hit", "bad", "state"], ["next"]),
         node("Identity", ["go"], ["on"])],
        inputs=[value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("state")],
        outputs=[value("on", [], TensorProto.BOOL), value("next")],
    )  # fmt: skip
    found = selections(tmp_path, [node("Loop", ["", "", "x"], ["y"], body=body)])
    where = next(shape for shape in found if shape["op_type"] == "Where")
    assert (where["driven"], where["input"], where["path"]) == ("input", "x", ["Greater", "Where"])
