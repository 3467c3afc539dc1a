"""Every kind of output through the real rooms: one model that hands its inputs on, its boxes turned around."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.bench_world import Desk, build, desk, write_model
from tests.world import codes

pytestmark = pytest.mark.acceptance

Array = np.ndarray[Any, Any]
FIELDS: dict[str, tuple[int, str, list[Any], dict[str, Any]]] = {
    "boxes": (
        TensorProto.FLOAT,
        "float32",
        ["images", 6, 4],
        {"kind": "boxes", "boxes": {"scores": "scores", "classes": "classes"}},
    ),
    "scores": (TensorProto.FLOAT, "float32", ["images", 6], {}),
    "classes": (TensorProto.INT64, "int64", ["images", 6], {}),
    "vector": (TensorProto.FLOAT, "float32", ["images", 8], {"kind": "embedding", "neighbours": 2}),
    "tokens": (
        TensorProto.INT64,
        "int64",
        ["images", 5],
        {"kind": "sequence", "sequence": {"end": 2, "after": "ignored"}},
    ),
    "wave": (TensorProto.FLOAT, "float32", ["images", 1, 1200], {"kind": "audio"}),
}
TURNED = ("boxes", "scores", "classes")


def model() -> bytes:
    """Identity of every input; what belongs to boxes comes out in the opposite order."""
    constants = [("first", [-1]), ("last", [-100]), ("axis", [1]), ("back", [-1])]
    nodes = [
        helper.make_node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.INT64, [1], value))
        for name, value in constants
    ]
    for name in FIELDS:
        if name in TURNED:
            nodes.append(helper.make_node("Slice", [f"{name}_in", "first", "last", "axis", "back"], [name]))
        else:
            nodes.append(helper.make_node("Identity", [f"{name}_in"], [name]))
    inputs = {f"{name}_in": (code, shape) for name, (code, _, shape, _) in FIELDS.items()}
    return build(nodes, inputs, {name: (code, shape) for name, (code, _, shape, _) in FIELDS.items()})


def fed(seed: int, images: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    corner = random.random((images, 6, 2), np.float32)
    time = np.arange(1200, dtype=np.float32) / 16_000
    return {
        "boxes": np.concatenate([corner, corner + 0.2 + random.random((images, 6, 2), np.float32)], axis=2),
        "scores": random.random((images, 6), np.float32),
        "classes": random.integers(0, 3, (images, 6)),
        "vector": random.normal(size=(images, 8)).astype(np.float32),
        "tokens": np.tile(np.array([7, 8, 2, 5, seed]), (images, 1)),
        "wave": np.stack([np.sin(time * (2000 + 100 * one + seed)) for one in range(images)])[:, None],
    }


def write(path: Path, change: Callable[[dict[str, Array]], object] = lambda expected: None) -> Path:
    """Write the bundle; ``change`` alters what its first golden set expects."""
    sets = []
    for seed in (3, 4):
        inputs = fed(seed, 3)
        expected = {name: value.copy() for name, value in inputs.items()}  # boxes in the order of the inputs
        expected["tokens"][:, 3:] = 0  # padding, after the end
        if seed == 3:
            change(expected)
        sets.append(({f"{name}_in": value for name, value in inputs.items()}, expected))
    return write_model(
        path,
        model(),
        sets,
        dims={"images": {"min": 1, "max": 4}},
        inputs=[
            {"name": f"{name}_in", "dtype": dtype, "shape": shape} for name, (_, dtype, shape, _) in FIELDS.items()
        ],
        outputs=[
            {"name": name, "dtype": dtype, "shape": shape, **more}
            for name, (_, dtype, shape, more) in FIELDS.items()
        ],
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("kinds")) as made:
        yield made


def test_every_kind_is_accepted_with_its_figures_in_the_report(place: Desk, tmp_path: Path) -> None:
    report = place.check(write(tmp_path / "b"))
    assert report["verdict"] == "accepted", report["findings"]
    rows = {row["output"]: row for row in report["parity"] if row["against"] == "golden"}
    assert set(rows) == set(FIELDS)
    assert (rows["boxes"]["boxes"]["matched"], rows["boxes"]["boxes"]["class_share"]) == (18, 1.0)
    assert (rows["vector"]["embedding"]["k"], rows["vector"]["embedding"]["neighbours"]) == (2, 1.0)
    assert (rows["tokens"]["sequence"]["exact"], rows["tokens"]["sequence"]["tokens"]) == (3, 9)
    assert (rows["wave"]["audio"]["channels"], rows["wave"]["audio"]["min_snr_db"]) == (3, "inf")


def set_at(name: str, index: tuple[int, ...], value: float) -> Callable[[dict[str, Array]], object]:
    return lambda expected: expected[name].__setitem__(index, value)


def turned_vector(expected: dict[str, Array]) -> None:
    expected["vector"][1] *= -1


def hiss(expected: dict[str, Array]) -> None:
    expected["wave"][2] *= 1.05


@pytest.mark.parametrize(
    ("change", "output", "code", "index"),
    [
        (set_at("boxes", (1, 2, 0), -50.0), "boxes", "parity/boxes", [1, 2]),
        (set_at("classes", (0, 5), 9), "boxes", "parity/boxes", [0, 5]),
        (set_at("scores", (2, 0), 0.02), "boxes", "parity/boxes", [2, 0]),
        (turned_vector, "vector", "parity/embedding", [1]),
        (set_at("tokens", (2, 1), 9), "tokens", "parity/sequence", [2, 1]),
        (set_at("tokens", (0, 2), 4), "tokens", "parity/sequence", [0, 2]),
        (hiss, "wave", "parity/audio", [2, 0]),
    ],
    ids=["box-moved", "class", "score", "vector", "token", "end", "audio"],
)
def test_one_wrong_thing_is_rejected_by_the_figure_of_its_kind_with_its_place(
    change: Callable[[dict[str, Array]], object],
    output: str,
    code: str,
    index: list[int],
    place: Desk,
    tmp_path: Path,
) -> None:
    report = place.check(write(tmp_path / "b", change))
    assert report["verdict"] == "rejected"
    assert code in codes(report, "reject")
    assert codes(report, "reject") <= {code, "parity/mismatch"}
    shown = next(one["evidence"] for one in report["findings"] if one["code"] == code)
    assert (shown["set"], shown["output"], shown["broken"][0]["index"]) == ("test_data_set_0", output, index)
    assert shown["broken"][0]["expected"] != shown["broken"][0]["got"]
