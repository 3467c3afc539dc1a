"""Golden sets are made of values that fit, written as ONNX's own files, and named with an honest origin."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acceptd.bundling import fits, origins, vectors
from acceptd.bundling.propose import propose
from acceptd.bundling.render import manifest_text
from acceptd.bundling.vectors_text import WANTED, table, with_table
from acceptd.errors import UsageError
from acceptd.evidence import Named, VectorSet
from acceptd.judge.golden_sets import shown_by
from acceptd.policy.manifest import Manifest
from acceptd.values import SequenceRef, TensorRef
from sandbox import making, protos
from sandbox.tensors import (
    ELEMENTS,
    BlobReader,
    BlobWriter,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    Value,
    nbytes_of,
    tensor_of,
    to_array,
)
from tests.judge_world import a_manifest
from tests.unit.test_bundle_propose import Looked, Seen, facts, value
from tests.unit.test_contract_propose import HOSTILE

pytestmark = pytest.mark.unit


def tensor(name: str, dtype: str, *shape: int) -> Named:
    return Named(name=name, value=TensorRef(dtype=dtype, shape=list(shape), offset=0, nbytes=0))


def fault(*values: Named, side: str = "inputs", bound: dict[str, int] | None = None) -> str:
    manifest = a_manifest()
    specs = getattr(manifest.models[0], side)
    given = fits.in_order(values, specs)
    return fits.fault(
        given, getattr(manifest.models[0], side), manifest, side[:-1], {} if bound is None else bound
    )


def test_what_does_not_fit_is_said_in_one_line_with_what_was_expected() -> None:
    assert fault(tensor("features", "float32", 3, 4)) == ""
    assert fault(tensor("", "float32", 3, 4)) == ""
    for given, why in (
        (tensor("features", "float64", 3, 4), "is float64 [3, 4], expected float32 [batch, 4]"),
        (tensor("features", "float32", 3, 5), "expected float32 [batch, 4]: axis 1 is declared 4, it has 5"),
        (tensor("features", "float32", 4), "declared is rank 2, it has rank 1"),
        (tensor("features", "float32", 99, 4), "axis 0 (batch) is 99, outside 1 to 32"),
        (tensor("other", "float32", 3, 4), "there is no input 'other'; expected features float32 [batch, 4]"),
        (Named(name="features", value=SequenceRef(items=[])), "is a sequence, expected is a tensor"),
    ):
        assert why in fault(given)
        assert "\n" not in fault(given)
    assert "'features' is missing" in fault()
    assert "\x1b" not in fault(tensor("\x1b]0;x\x07\n", "float32", 1))


def test_a_named_dimension_is_one_size_in_inputs_and_outputs() -> None:
    bound: dict[str, int] = {}
    assert fault(tensor("features", "float32", 3, 4), bound=bound) == ""
    assert "elsewhere in the same run batch is 3" in fault(
        tensor("probabilities", "float32", 2, 3), side="outputs", bound=bound
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"dtype": "int64", "range": None}, "without a declared range"),
        ({"dtype": "string", "range": None}, "no random values"),
        ({"shape": None}, "no declared shape"),
        ({"shape": ["?", 4]}, "of no known size"),
    ],
)
def test_random_inputs_are_refused_where_they_would_be_made_up(more: dict[str, Any], why: str) -> None:
    manifest = a_manifest(lambda given: given["models"][0]["inputs"][0].update(more))
    assert why in fits.not_drawable(manifest.models[0], manifest)
    assert fits.not_drawable(a_manifest().models[0], a_manifest()) == ""


def test_every_origin_says_no_more_than_its_values_prove() -> None:
    assert shown_by(origins.of_reference("1.23.2").text) == "parity"
    assert "do not show" in origins.of_reference("1.23.2").proves
    runtime = origins.of_runtime("1.32.0")
    assert shown_by(runtime.text) == "regression"
    assert "regression only" in runtime.proves
    for text in ("onnxruntime 1.30", "ORT 1.2", "OnnxRuntime of last week"):
        assert "regression only" in origins.of_caller(text).proves
    assert "as you say" in origins.of_caller("torch 2.13 float32").proves


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "--from FILE.npz or --random N"),
        ({"random": 1, "inputs": (Path("a.npz"),)}, "--from FILE.npz or --random N"),
        ({"random": 65}, "more than 64 sets"),
        ({"random": 1, "oracle": "torch"}, "torch is no oracle"),
        ({"random": 1, "origin": "x"}, "of your own"),
        ({"inputs": (Path("a.npz"),), "expected": (Path("b.npz"),)}, "where these expected values come from"),
        ({"random": 1, "expected": (Path("b.npz"),), "origin": "x"}, "1 files of expected values for 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_cell_starts(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        vectors.Wanted(**given).checked()


MODELS = (
    'schema = 1\n\n[[models]]\nname = "a"\n\n[[models.inputs]]\nname = "x"\n\n# second\n[[models]]\nname = "b"\n'
)
END = "\n# where from\n[export]\nlayers = 3\n"


@pytest.mark.parametrize(("model", "other"), [(0, 1), (1, 0)])
def test_a_table_comes_to_its_own_model_and_comments_stay_with_theirs(model: int, other: int) -> None:
    for text in (MODELS, MODELS + END, (MODELS + END).replace("\n", "\r\n")):
        made = with_table(text, table(["s"], "hand", ["told"]), model)
        read = tomllib.loads(made)
        assert read["models"][model]["vectors"] == [{"sets": ["s"], "origin": "hand"}]
        assert "vectors" not in read["models"][other]
        assert "# second\r\n[[models]]" in made or "# second\n[[models]]" in made
        assert made.count("\n") in {made.count("\r\n"), made.count("\n") if "\r" not in made else -1}
        again = tomllib.loads(with_table(made, table(["t"], "hand", []), model))
        assert [one["sets"] for one in again["models"][model]["vectors"]] == [["s"], ["t"]]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_origin_or_set_stays_a_text(name: str) -> None:
    read = tomllib.loads(with_table(MODELS, table([name], name, []), 0))
    assert read["models"][0]["vectors"] == [{"sets": [name], "origin": name}]


def test_what_init_wanted_is_gone_when_it_is_done() -> None:
    looked = Looked((Seen("model.onnx", facts([value("x", ["n", 4])], [value("y", ["n", 3])])),))
    text = manifest_text(propose(looked))
    assert WANTED in text
    made = with_table(text, table(["s"], "hand", []), 0)
    assert WANTED not in made
    assert Manifest.model_validate(tomllib.loads(made)).models[0].vectors[0].sets == ["s"]


FLOATS = tensor_of(np.array([[1.5, -2.0]], np.float32), "float32")
TEXTS = tensor_of(np.array(["ä", ""], object), "string")
VALUES: list[Value] = [
    *(
        TensorValue(one.name, (3,), bytes([1] * nbytes_of(one, (3,))))
        for one in ELEMENTS.values()
        if one.name != "string"
    ),
    FLOATS,
    TEXTS,
    SequenceValue((FLOATS, FLOATS)),
    SequenceValue(()),
    OptionalValue(FLOATS),
    OptionalValue(SequenceValue((TEXTS,))),
    MapValue(tensor_of(np.array([3, 1]), "int64"), tensor_of(np.array([0.5, 1.0], np.float32), "float32")),
    MapValue(TEXTS, tensor_of(np.array([7, 8]), "int64")),
    MapValue(tensor_of(np.array([3, 1]), "int64"), TEXTS),
]


@pytest.mark.parametrize("given", VALUES, ids=lambda given: getattr(given, "dtype", type(given).__name__))
def test_every_kind_of_value_reads_back_from_the_file_that_is_made_of_it(given: Value) -> None:
    kind = type(given).__name__.removesuffix("Value").lower()
    name, found = protos.decode(making.encoded(given, "näme\n").SerializeToString(), kind)
    assert name == "näme\n"
    assert _plain(found) == _plain(given)


def _plain(given: Value | None) -> Any:
    if isinstance(given, TensorValue):
        return given.dtype, tuple(given.shape), bytes(given.data)
    if isinstance(given, SequenceValue):
        return [_plain(item) for item in given.items]
    if isinstance(given, OptionalValue):
        return ("optional", _plain(given.value))
    return None if given is None else (_plain(given.keys), _plain(given.values))


SPEC = {
    "model": "main",
    "declared": [
        {"name": "x", "type": "tensor", "dtype": "float32", "shape": ["n", 4], "range": [2.0, 3.0]},
        {"name": "ids", "type": "tensor", "dtype": "int64", "shape": ["n"], "range": [0, 9]},
        {"name": "free", "type": "tensor", "dtype": "float16", "shape": ["n", "k"], "range": None},
        {"name": "mask", "type": "tensor", "dtype": "bool", "shape": [], "range": None},
    ],
    "dims": {"n": {"min": 0, "max": 5}, "k": {"min": 2, "max": 2}},
    "count": 9,
    "seed": "ab12",
    "max_elements": 1000,
}


def drawn(**more: Any) -> list[dict[str, np.ndarray[Any, Any]]]:
    blob = os.memfd_create("test")
    try:
        sets = making.random_sets(SPEC | more, {"inputs": blob})
        assert all(VectorSet.model_validate(one) for one in sets)
        reader = BlobReader(blob)
        found = []
        for one in sets:
            values = {named["name"]: reader.fetch(named["value"]) for named in one["inputs"]}
            found.append(
                {name: to_array(given) for name, given in values.items() if isinstance(given, TensorValue)}
            )
        return found
    finally:
        os.close(blob)


def test_random_inputs_are_inside_what_is_declared_at_both_ends_and_the_same_for_one_seed() -> None:
    first = drawn()
    assert [one["x"].shape[0] for one in first[:2]] == [1, 5]
    for one in first:
        assert one["x"].shape == (one["ids"].shape[0], 4)
        assert one["free"].shape[1] == 2
        assert 2.0 <= one["x"].min() <= one["x"].max() <= 3.0
        assert 0 <= one["ids"].min() <= one["ids"].max() <= 9
        assert np.abs(one["free"]).max() <= 1
    assert set(np.unique(first[7]["x"])) <= {2.0, 3.0}
    again, shorter, other = drawn(), drawn(count=2), drawn(seed="ab13")
    assert all((a["x"] == b["x"]).all() for a, b in zip(first, again, strict=True))
    assert all((a["x"] == b["x"]).all() for a, b in zip(first, shorter, strict=False))
    assert not (first[0]["x"] == other[0]["x"]).all()


def test_a_set_that_would_be_too_large_is_made_at_the_least_sizes() -> None:
    assert [one["x"].shape[0] for one in drawn(max_elements=20)][:2] == [1, 1]


def test_the_files_of_a_set_lie_one_after_another_in_the_blob() -> None:
    inputs, files = os.memfd_create("in"), os.memfd_create("files")
    try:
        ref = {"name": "x", "value": BlobWriter(inputs).store(FLOATS)}
        sets = [{"name": "s", "inputs": [ref], "expected": [ref | {"name": "y"}, ref]}]
        blobs = {"inputs": inputs, "expected": inputs, "files": files}
        [made] = making.files({"model": "main", "sets": sets}, blobs)
        assert [one["name"] for one in made["expected"]] == ["output_0.pb", "output_1.pb"]
        reader = BlobReader(files)
        for one, name in zip([*made["inputs"], *made["expected"]], ("x", "y", "x"), strict=True):
            data = reader.read(one["value"]["offset"], one["value"]["nbytes"])
            assert protos.decode(bytes(data), "tensor")[0] == name
    finally:
        os.close(inputs)
        os.close(files)
