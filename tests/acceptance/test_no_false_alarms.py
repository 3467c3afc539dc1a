"""What real published models do and what must therefore pass (HOSTILE.md, last group): a model for each habit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from examples import evidence_classifier as classifier
from examples import hostile_models as models
from examples import hostile_writers as writers
from examples.bundle_text import Array
from examples.hostile_models import node
from tests.bench_world import Desk, build, desk, write_model
from tests.world import codes

pytestmark = pytest.mark.acceptance

FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
ROWS = [np.array([[0.25, -1.0, 4.0]], np.float32), np.array([[2.0, 0.5, 0.125]], np.float32)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("habits")) as made:
        yield made


def tensor(
    name: str, dtype: str = "float32", shape: tuple[int | str, ...] = (1, 3), **more: Any
) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape), **more}


def one_to_one(path: Path, nodes: list[Any], answer: Callable[[Array], Array], x: str = "x", y: str = "y") -> Path:
    """Write a float [1, 3] -> float [1, 3] model with two goldens."""
    raw = build(nodes, {x: (FLOAT, [1, 3])}, {y: (FLOAT, [1, 3])})
    sets = [({x: rows}, {y: answer(rows)}) for rows in ROWS]
    return write_model(path, raw, sets, inputs=[tensor(x)], outputs=[tensor(y)])


def counted_loop(path: Path) -> Path:
    """A Loop with trip count 2^63 - 1 that ends by its condition after five turns."""
    body = helper.make_graph(
        [
            node("Add", ["turn", "one"], ["next"]),
            node("Less", ["next", "five"], ["go_on"]),
            node("Add", ["value", "value"], ["doubled"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", INT64, []),
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("value", FLOAT, [1, 3]),
        ],
        [
            helper.make_tensor_value_info("go_on", BOOL, []),
            helper.make_tensor_value_info("doubled", FLOAT, [1, 3]),
        ],
    )
    raw = build(
        [node("Loop", ["most", "", "x"], ["y"], body=body)],
        {"x": (FLOAT, [1, 3])},
        {"y": (FLOAT, [1, 3])},
        {"most": np.array(2**63 - 1), "one": np.array(1), "five": np.array(5)},
    )
    sets = [({"x": rows}, {"y": rows * 32}) for rows in ROWS]
    return write_model(path, raw, sets, inputs=[tensor("x")], outputs=[tensor("y")])


def nested_if(path: Path) -> Path:
    """An If within an If, with a name that the inner graph shadows nowhere but reads from the outer one."""

    def branch(name: str, *nodes: Any) -> Any:
        return helper.make_graph(list(nodes), name, [], [helper.make_tensor_value_info(name, FLOAT, [1, 3])])

    inner = node(
        "If",
        ["small"],
        ["outer"],
        then_branch=branch("a", node("Neg", ["x"], ["a"])),
        else_branch=branch("b", node("Identity", ["x"], ["b"])),
    )
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Less", ["sum", "limit"], ["small"]),
        node("Less", ["limit", "sum"], ["large"]),
        node(
            "If",
            ["large"],
            ["y"],
            then_branch=branch("c", node("Add", ["x", "x"], ["c"])),
            else_branch=branch("outer", inner),
        ),
    ]
    raw = build(nodes, {"x": (FLOAT, [1, 3])}, {"y": (FLOAT, [1, 3])}, {"limit": np.array(3, np.float32)})
    sets = [({"x": ROWS[0]}, {"y": ROWS[0] * 2}), ({"x": ROWS[1]}, {"y": -ROWS[1]})]
    return write_model(path, raw, sets, inputs=[tensor("x")], outputs=[tensor("y")])


def text_and_flags(path: Path) -> Path:
    """String, bool, int32 and scalar inputs beside each other."""
    raw = build(
        [
            node("Equal", ["word", "word_wanted"], ["same"]),
            node("And", ["same", "flag"], ["both"]),
            node("Cast", ["both"], ["as_number"], to=TensorProto.INT32),
            node("Mul", ["as_number", "factor"], ["product"]),
            node("Cast", ["product"], ["product_float"], to=FLOAT),
            node("Add", ["product_float", "offset"], ["y"]),
        ],
        {
            "word": (STRING, ["batch"]),
            "flag": (BOOL, ["batch"]),
            "factor": (TensorProto.INT32, ["batch"]),
            "offset": (FLOAT, []),
        },
        {"y": (FLOAT, ["batch"])},
        {"word_wanted": np.array(["yes"], object)},
        opset=19,
    )
    half = np.array(0.5, np.float32)
    sets = [
        (
            {
                "word": np.array([word], object),
                "flag": np.array([flag]),
                "factor": np.array([7], np.int32),
                "offset": half,
            },
            {"y": np.array([answer], np.float32)},
        )
        for word, flag, answer in (("yes", True, 7.5), ("yes", False, 0.5), ("nö", True, 0.5))
    ]
    inputs = [
        tensor("word", "string", ("batch",)),
        tensor("flag", "bool", ("batch",)),
        tensor("factor", "int32", ("batch",), range=[0.0, 9.0]),
        tensor("offset", shape=()),
    ]
    return write_model(
        path,
        raw,
        sets,
        dims={"batch": {"min": 1, "max": 4}},
        inputs=inputs,
        outputs=[tensor("y", shape=("batch",))],
    )


def unknown_dimensions(path: Path) -> Path:
    """Two different unknown dimensions, both named `?` in file and manifest."""
    raw = build([node("Transpose", ["x"], ["y"])], {"x": (FLOAT, ["?", "?"])}, {"y": (FLOAT, ["?", "?"])})
    sets = [({"x": rows}, {"y": np.ascontiguousarray(rows.T)}) for rows in (*ROWS, np.vstack(ROWS))]
    shape: tuple[int | str, ...] = ("?", "?")
    return write_model(path, raw, sets, inputs=[tensor("x", shape=shape)], outputs=[tensor("y", shape=shape)])


def imported_domains(path: Path) -> Path:
    """The classifier with eight further imported domains that no node uses."""

    def change(proto: Any) -> None:
        for number in range(7):
            proto.opset_import.add(domain=f"com.example.d{number}", version=1)
        proto.opset_import.add(domain="ai.onnx.ml", version=3)

    return writers.plain(path, models.rewrite(classifier.build_model(), change))


def not_a_number_on_zeros(path: Path) -> Path:
    """x / |x|: NaN on an input of zeros, which the declared range holds."""
    raw = build(
        [node("Abs", ["x"], ["size"]), node("Div", ["x", "size"], ["y"])],
        {"x": (FLOAT, [1, 3])},
        {"y": (FLOAT, [1, 3])},
    )
    sets = [({"x": rows}, {"y": np.sign(rows)}) for rows in ROWS]
    return write_model(path, raw, sets, inputs=[tensor("x", range=[-4.0, 4.0])], outputs=[tensor("y")])


def external_in_a_folder(path: Path) -> Path:
    """The weight in a file of a subfolder."""
    raw = models.externalise(classifier.build_model(), "data/weights.bin", offset="0", length="48")
    writers.plain(path, raw)
    (path / "data").mkdir()
    (path / "data" / "weights.bin").write_bytes(np.array(classifier.WEIGHT, np.float32).tobytes())
    return path


HABITS: dict[str, Callable[[Path], Path]] = {
    "loop-that-ends-by-condition": counted_loop,
    "nested-if": nested_if,
    "string-bool-int32-scalar": text_and_flags,
    "question-mark-dimensions": unknown_dimensions,
    "nine-domains-few-used": imported_domains,
    "nan-on-zeros": not_a_number_on_zeros,
    "external-data-in-a-folder": external_in_a_folder,
    "colons-in-names": lambda path: one_to_one(
        path, [node("Neg", ["in:0"], ["block/out:0"])], lambda rows: -rows, "in:0", "block/out:0"
    ),
    "output-name-is-json": lambda path: one_to_one(
        path, [node("Neg", ["x"], ['{"name": ["y", 1]}'])], lambda rows: -rows, y='{"name": ["y", 1]}'
    ),
    "many-nodes": lambda path: one_to_one(
        path,
        [node("Neg", [f"v{n}" if n else "x"], [f"v{n + 1}" if n < 1800 else "y"]) for n in range(1801)],
        lambda rows: -rows,
    ),
}


@pytest.mark.parametrize("name", HABITS)
def test_a_habit_of_real_models_is_accepted(name: str, place: Desk, tmp_path: Path) -> None:
    report = place.check(HABITS[name](tmp_path / "b"))
    assert report["verdict"] == "accepted", report["findings"]
    assert [row for row in report["parity"] if row["against"] == "golden"]
    warned = {"nan-on-zeros": {"behaviour/probe-non-finite"}}.get(name, set())
    assert codes(report, "warn") == warned
