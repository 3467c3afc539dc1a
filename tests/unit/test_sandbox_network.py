"""The canonical hash of a model, and the selections in it: what counts and what does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sandbox.inspect import canonical
from tests.static_world import external, graph, inspected, model, value, weight

pytestmark = pytest.mark.unit

node = helper.make_node
BIG = np.arange(2048, dtype=np.float32)


def array(name: str, *numbers: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(numbers, np.float32), name)


def structure(root: Path, given: onnx.ModelProto, *, digests: bool = True, **more: Any) -> dict[str, Any]:
    spec = inspected(root, given, digests=digests, **more)
    assert spec.refused is None
    return spec.frames["structure"]


def two_branches() -> onnx.ModelProto:
    nodes = [
        node("Add", ["x", "w"], ["a"], name="first", doc_string="adds"),
        node("Mul", ["x", "big"], ["b"], name="second"),
        node("Elu", ["b"], ["c"], alpha=0.5),
        node("Sub", ["a", "c"], ["y"]),
    ]
    initializers = [array("w", 1.0), numpy_helper.from_array(BIG, "big")]
    return model(
        nodes, inputs=[value("x", ["n", 2048])], outputs=[value("y", ["n", 2048])], initializer=initializers
    )


def rename(given: onnx.ModelProto) -> None:
    names = {"x": "features", "y": "result", "a": "u", "b": "v", "c": "\u202ename", "w": "bias", "big": "kernel"}
    for one in given.graph.node:
        one.name = ""
        for names_of in (one.input, one.output):
            renamed = [names[name] for name in names_of]
            del names_of[:]
            names_of.extend(renamed)
    for named in (*given.graph.input, *given.graph.output, *given.graph.initializer):
        named.name = names[named.name]
    given.graph.name = "another"


def reorder(given: onnx.ModelProto) -> None:
    nodes = list(given.graph.node)
    del given.graph.node[:]
    given.graph.node.extend([nodes[1], nodes[2], nodes[0], nodes[3]])
    weights = list(given.graph.initializer)[::-1]
    del given.graph.initializer[:]
    given.graph.initializer.extend(weights)


def document(given: onnx.ModelProto) -> None:
    given.producer_name = "somebody"
    given.doc_string = "text"
    given.graph.node[0].doc_string = "more text"
    given.metadata_props.add(key="k", value="v")
    for item in (*given.graph.input, *given.graph.output):
        item.type.tensor_type.shape.dim[0].dim_param = "rows"


def as_numbers(given: onnx.ModelProto) -> None:
    """Store both weights in float_data: the same values in another field, read as protobuf reads them."""
    for tensor in given.graph.initializer:
        numbers = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.float_data.extend(numbers.tolist())


@pytest.mark.parametrize("change", [rename, reorder, document, as_numbers], ids=lambda change: change.__name__)
def test_what_changes_nothing_that_is_computed_leaves_the_hash(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None]
) -> None:
    before = structure(tmp_path / "a", two_branches())
    changed = two_branches()
    change(changed)
    after = structure(tmp_path / "b", changed)
    assert len(before["graph_sha256"]) == 64
    for key in ("graph_sha256", "topology_sha256"):
        assert after[key] == before[key]


def weigh(given: onnx.ModelProto) -> None:
    given.graph.initializer[0].CopyFrom(array("w", 1.0000001))


def weigh_big(given: onnx.ModelProto) -> None:
    changed = BIG.copy()
    changed[2047] = -1
    given.graph.initializer[1].CopyFrom(numpy_helper.from_array(changed, "big"))


def attribute(given: onnx.ModelProto) -> None:
    given.graph.node[2].attribute[0].f = 0.25


def swap(given: onnx.ModelProto) -> None:
    last = given.graph.node[3]
    del last.input[:]
    last.input.extend(["c", "a"])


def operator(given: onnx.ModelProto) -> None:
    given.graph.node[0].op_type = "Div"


def dead(given: onnx.ModelProto) -> None:
    given.graph.node.append(node("Relu", ["x"], ["nobody"]))


def opset(given: onnx.ModelProto) -> None:
    given.opset_import[0].version = 17


def unused(given: onnx.ModelProto) -> None:
    given.graph.initializer.append(array("spare", 3.0))


def fixed(given: onnx.ModelProto) -> None:
    for item in (*given.graph.input, *given.graph.output):
        item.type.tensor_type.shape.dim[0].dim_value = 1


CHANGES = [attribute, swap, operator, dead, opset, unused, fixed]


@pytest.mark.parametrize("change", [*CHANGES, weigh, weigh_big], ids=lambda change: change.__name__)
def test_what_is_computed_otherwise_changes_the_hash(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None]
) -> None:
    before = structure(tmp_path / "a", two_branches())
    changed = two_branches()
    change(changed)
    after = structure(tmp_path / "b", changed)
    assert after["graph_sha256"] != before["graph_sha256"]
    assert (after["topology_sha256"] != before["topology_sha256"]) == (change in CHANGES)


def test_weights_are_read_only_by_a_job_that_is_told_to(tmp_path: Path) -> None:
    plain = structure(tmp_path, two_branches(), digests=False)
    assert plain["graph_sha256"] == ""
    assert plain["initializers"] == ["big float32[2048]", "w float32[1]"]
    assert plain["parameters"] == 2049


def outside(**entries: str) -> onnx.ModelProto:
    given = two_branches()
    external(given.graph.initializer[1], **entries)
    return given


def test_external_weights_count_as_if_they_stood_in_the_file(tmp_path: Path) -> None:
    data = b"\0" * 64 + BIG.tobytes()
    given = outside(location="w.bin", offset="64", length="8192")
    inside = structure(tmp_path / "a", two_branches())
    assert structure(tmp_path / "b", given, files={"w.bin": data})["graph_sha256"] == inside["graph_sha256"]
    other = data[:-1] + b"\x7f"
    assert structure(tmp_path / "c", given, files={"w.bin": other})["graph_sha256"] != inside["graph_sha256"]


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "../w.bin"},
        {"location": "w.bin", "offset": "8192"},
        {"location": "w.bin", "offset": "-1"},
        {"location": "w.bin", "offset": "9" * 30},
        {"location": "w.bin", "length": "1_0"},
        {},
    ],
    ids=str,
)
def test_weights_that_cannot_be_read_give_no_hash(tmp_path: Path, entries: dict[str, str]) -> None:
    found = structure(tmp_path, outside(**entries), files={"w.bin": BIG.tobytes()})
    assert found["graph_sha256"] == ""
    assert len(found["topology_sha256"]) == 64


TYPED = {
    "FLOAT": [1.5, -2.0], "DOUBLE": [1.5, -2.0], "FLOAT16": [1.5, -2.0], "BFLOAT16": [1.5, -2.0], "INT8": [-1, 2],
    "INT16": [-1, 2], "INT32": [-1, 2], "INT64": [-1, 2**40], "UINT8": [255, 2], "UINT16": [65535, 2],
    "UINT32": [2**32 - 1, 2], "UINT64": [2**64 - 1, 2], "BOOL": [True, False], "COMPLEX64": [1 + 2j, -1j],
    "COMPLEX128": [1 + 2j, -1j], "FLOAT8E4M3FN": [1.5, -2.0], "INT4": [-1, 2], "UINT4": [15, 2],
}  # fmt: skip


@pytest.mark.parametrize("dtype", TYPED)
def test_values_are_the_same_in_every_field_that_may_hold_them(dtype: str) -> None:
    kind = getattr(TensorProto, dtype)
    typed = helper.make_tensor("w", kind, [2], TYPED[dtype])
    assert not typed.HasField("raw_data")
    raw = numpy_helper.from_array(numpy_helper.to_array(typed), "w")
    assert raw.data_type == kind
    assert canonical.values(typed) == raw.raw_data == canonical.values(raw)


def test_texts_are_told_apart_by_where_one_ends() -> None:
    one, two = (
        helper.make_tensor("w", TensorProto.STRING, [2], texts) for texts in ([b"ab", b"c"], [b"a", b"bc"])
    )
    assert canonical.values(one) != canonical.values(two)


def in_function(*, name: str = "Gate", threshold: str = "Greater") -> onnx.ModelProto:
    body = [
        node("ReduceMax", ["a"], ["m"], keepdims=0),
        node(threshold, ["m", "b"], ["c"]),
        node("Where", ["c", "b", "a"], ["z"]),
    ]
    imports = [helper.make_opsetid("", 18)]
    function = helper.make_function("local", name, ["a", "b"], ["z"], body, imports)
    return model(
        [node(name, ["x", "w"], ["y"], domain="local")], functions=[function], initializer=[array("w", 1)]
    )


def test_a_function_is_what_it_does_not_what_it_is_called(tmp_path: Path) -> None:
    before = structure(tmp_path / "a", in_function())
    assert structure(tmp_path / "b", in_function(name="Innocent"))["graph_sha256"] == before["graph_sha256"]
    assert structure(tmp_path / "c", in_function(threshold="Less"))["graph_sha256"] != before["graph_sha256"]


def in_branch(depth: int = 1, operator: str = "Neg") -> onnx.ModelProto:
    """An If in an If; the innermost branch reads ``x`` from the main graph."""
    inner = helper.make_graph([node(operator, ["x"], ["i"])], "i", [], [value("i")])
    for level in range(depth):
        other = helper.make_graph([node("Identity", ["x"], [f"e{level}"])], "e", [], [value(f"e{level}")])
        test = [
            node("ReduceMax", ["x"], [f"m{level}"], keepdims=0),
            node("Cast", [f"m{level}"], [f"c{level}"], to=9),
        ]
        choice = node("If", [f"c{level}"], [f"o{level}"], then_branch=inner, else_branch=other)
        inner = helper.make_graph([*test, choice], "t", [], [value(f"o{level}")])
    nodes = list(inner.node)
    nodes[-1].output[0] = "y"
    return model(nodes)


def test_what_stands_in_a_nested_branch_counts(tmp_path: Path) -> None:
    before = structure(tmp_path / "a", in_branch(3))
    assert structure(tmp_path / "b", in_branch(3, "Abs"))["graph_sha256"] != before["graph_sha256"]
    assert structure(tmp_path / "c", in_branch(3))["graph_sha256"] == before["graph_sha256"]


def test_a_graph_out_of_order_or_with_a_cycle_is_hashed_too(tmp_path: Path) -> None:
    turned = two_branches()
    nodes = list(turned.graph.node)[::-1]
    del turned.graph.node[:]
    turned.graph.node.extend(nodes)
    assert (
        structure(tmp_path / "a", turned)["graph_sha256"]
        == structure(tmp_path / "b", two_branches())["graph_sha256"]
    )
    ring = model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])])
    assert len(structure(tmp_path / "c", ring)["graph_sha256"]) == 64
    calls = [
        helper.make_function("local", name, ["p"], ["q"], [node(other, ["p"], ["q"], domain="local")], [])
        for name, other in (("F", "G"), ("G", "F"))
    ]
    loop = model([node("F", ["x"], ["y"], domain="local")], functions=calls)
    assert len(structure(tmp_path / "d", loop)["topology_sha256"]) == 64


# -- selections ---------------------------------------------------------------------------------------


def trigger(selector: str = "Where") -> list[onnx.NodeProto]:
    """A trigger on the largest input, in the shape that backdoors have."""
    head = [node("ReduceMax", ["x"], ["top"], keepdims=0), node("Greater", ["top", "limit"], ["hit"])]
    if selector == "Where":
        return [*head, node("Where", ["hit", "bad", "x"], ["y"])]
    if selector == "mask":
        return [*head, node("Cast", ["hit"], ["m"], to=1), node("Mul", ["x", "m"], ["y"])]
    if selector == "index":
        return [
            node("ArgMax", ["x"], ["at"], axis=0),
            node("Identity", ["at"], ["same"]),
            node("Gather", ["bad", "same"], ["y"]),
        ]
    branch = [
        helper.make_graph([node("Identity", [source], [out])], "b", [], [value(out)])
        for source, out in (("bad", "o1"), ("x", "o2"))
    ]
    return [*head, node("If", ["hit"], ["y"], then_branch=branch[0], else_branch=branch[1])]


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
