"""Attacks through external data: every location, offset, length and key, in every place a tensor can stand."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests import static_world as world

pytestmark = pytest.mark.hostile

DATA = {"weights.bin": bytes(4096)}


def outside(found: world.Recorder) -> None:
    """The record is not inside, and neither checker nor shape inference saw the model."""
    assert found.refused is None
    assert [record["inside"] for record in found.frames["facts"]["external"]] == [False]
    for phase in ("checker", "shapes"):
        assert found.frames[phase]["ok"] is False
        assert found.frames[phase]["skipped"]


LOCATIONS = {
    "../weights.bin": "path-escape",
    "a/../../weights.bin": "path-escape",
    "a/../weights.bin": "path-escape",
    "/etc/passwd": "path-escape",
    "..\\weights.bin": "path-escape",
    "a\\b": "path-escape",
    "weights.bin\0.safe": "path-escape",
    "C:/weights.bin": "remote-location",
    "c:weights.bin": "remote-location",
    "https://example.com/w": "remote-location",
    "file:///etc/passwd": "remote-location",
    "data:text/plain,x": "remote-location",
    "//host/share": "remote-location",
    "\\\\host\\share": "remote-location",
    "*/_ORT_MEM_ADDR_/*": "memory-marker",
    "": "missing-location",
    "none.bin": "missing-file",
    "WEIGHTS.bin": "missing-file",
    "weights.bin ": "missing-file",
    "model.onnx": "names-forbidden-file",
    "./model.onnx": "names-forbidden-file",
    "bundle.toml": "names-forbidden-file",
    "test_data_set_0/output_0.pb": "names-forbidden-file",
    "test_data_set_0//./output_0.pb": "names-forbidden-file",
    "hidden.bin": "not-visible",
}


@pytest.mark.parametrize("location", LOCATIONS)
def test_location_outside_the_bundle(tmp_path: Path, location: str) -> None:
    files = {**DATA, "test_data_set_0/output_0.pb": bytes(64), "bundle.toml": b"x" * 64, "hidden.bin": bytes(64)}
    built = world.with_weight(world.external(world.weight(), location=location, length="4"))
    found = world.inspected(
        tmp_path, built, files=files, forbidden=("test_data_set_0/output_0.pb",), hidden=("hidden.bin",)
    )
    assert f"external-data/{LOCATIONS[location]}" in found.codes()
    outside(found)


NUMBERS = {
    "-1": "bad-number", "1_6": "bad-number", " 16": "bad-number", "16 ": "bad-number", "0x10": "bad-number",
    "016": "bad-number", "": "bad-number", "four": "bad-number", "1e3": "bad-number", "١٦": "bad-number",
    "16\0": "bad-number", "4093": "out-of-range", "4096": "out-of-range", "9223372036854775808": "out-of-range",
    "9999999999999999999": "out-of-range", "18446744073709551612": "bad-number",
}  # fmt: skip


@pytest.mark.parametrize("offset", NUMBERS)
def test_bad_offset(tmp_path: Path, offset: str) -> None:
    built = world.with_weight(world.external(world.weight(), location="weights.bin", offset=offset, length="4"))
    found = world.inspected(tmp_path, built, files=DATA)
    assert f"external-data/{NUMBERS[offset]}" in found.codes()
    outside(found)


@pytest.mark.parametrize(
    ("length", "code"), [("-4", "bad-number"), ("5000", "out-of-range"), ("8", "length-mismatch")]
)
def test_bad_length(tmp_path: Path, length: str, code: str) -> None:
    built = world.with_weight(world.external(world.weight(), location="weights.bin", length=length))
    found = world.inspected(tmp_path, built, files=DATA)
    assert f"external-data/{code}" in found.codes()


def test_length_left_out_is_what_the_shape_needs(tmp_path: Path) -> None:
    built = world.with_weight(world.external(world.weight(dims=(1025,)), location="weights.bin"))
    assert "external-data/out-of-range" in world.inspected(tmp_path, built, files=DATA).codes()


def test_duplicate_and_unknown_keys(tmp_path: Path) -> None:
    tensor = world.external(world.weight(), location="weights.bin", offset="0")
    tensor.external_data.add(key="offset", value="8")
    found = world.inspected(tmp_path, world.with_weight(tensor), files=DATA)
    assert found.codes() == {"external-data/duplicate-key"}
    outside(found)
    tensor = world.external(world.weight(), location="weights.bin", mystery="1")
    assert "external-data/unknown-key" in world.inspected(tmp_path, world.with_weight(tensor), files=DATA).codes()


def test_entries_without_the_external_mark_and_data_beside_it(tmp_path: Path) -> None:
    tensor = world.weight()
    tensor.external_data.add(key="location", value="weights.bin")
    assert "external-data/inconsistent" in world.inspected(tmp_path, world.with_weight(tensor), files=DATA).codes()
    tensor.data_location = TensorProto.EXTERNAL
    codes = world.inspected(tmp_path, world.with_weight(tensor), files=DATA).codes()
    assert "structure/tensor-two-values" in codes


def escaping() -> onnx.TensorProto:
    """Return a tensor whose data lies outside."""
    return world.external(world.weight("e"), location="../secret", length="4")


def constant(**attribute: Any) -> onnx.NodeProto:
    """Return a node with the given attribute."""
    return helper.make_node("Constant", [], ["e"], **attribute)


def sparse() -> onnx.SparseTensorProto:
    """Return a sparse tensor whose values lie outside."""
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    return helper.make_sparse_tensor(escaping(), indices, [4])


def in_branch() -> onnx.ModelProto:
    """An If that holds the tensor in its branch."""
    branch = helper.make_graph([constant(value=escaping())], "b", [], [world.value("e")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return world.model([node], inputs=[world.value("c", [], TensorProto.BOOL)])


def in_function(*, default: bool) -> onnx.ModelProto:
    """A function that holds the tensor in its body, or as an attribute's default."""
    body = [helper.make_node("Relu", ["p"], ["q"])] if default else [constant(value=escaping())]
    function = helper.make_function("local", "F", ["p"], ["q"], body, [helper.make_opsetid("", 18)])
    if default:
        function.attribute_proto.append(helper.make_attribute("d", escaping()))
    return world.model([helper.make_node("F", ["x"], ["y"], domain="local")], functions=[function])


def in_training() -> onnx.ModelProto:
    """The tensor as an initializer of a training graph."""
    built = world.model()
    built.training_info.add().algorithm.CopyFrom(helper.make_graph([], "t", [], [], [escaping()]))
    return built


PLACES = {
    "graph/node[0] Constant/value": lambda: world.model([constant(value=escaping())]),
    "graph/node[0] Constant/many[1]": lambda: world.model([constant(many=[world.weight(), escaping()])]),
    "graph/node[0] Constant/sparse_value/values": lambda: world.model([constant(sparse_value=sparse())]),
    "graph/sparse_initializer[0]/values": lambda: world.model(sparse_initializer=[sparse()]),
    "graph/node[0] If/else_branch/node[0] Constant/value": in_branch,
    "functions[0] F/node[0] Constant/value": lambda: in_function(default=False),
    "functions[0] F/d": lambda: in_function(default=True),
    "training_info[0]/algorithm/initializer[0] e": in_training,
}


@pytest.mark.parametrize("place", PLACES)
def test_escape_is_found_wherever_a_tensor_stands(tmp_path: Path, place: str) -> None:
    found = world.inspected(tmp_path, PLACES[place]())
    assert found.problem("external-data/path-escape")["where"].startswith(place)


def test_plain_external_data_is_inside_also_in_a_subdirectory(tmp_path: Path) -> None:
    for name, location in (("model.onnx", "weights.bin"), ("sub/model.onnx", "./data/w.bin")):
        checksum = hashlib.sha1(bytes(64)).hexdigest()
        tensor = world.external(world.weight(), location=location, offset="4", length="4", checksum=checksum)
        files = {name.replace("model.onnx", location.removeprefix("./")): bytes(64)}
        found = world.inspected(tmp_path, world.with_weight(tensor), name=name, files=files)
        assert found.codes() == set()
        record = found.frames["facts"]["external"][0]
        assert record["inside"] is True
        assert (record["offset"], record["length"], record["tensor"]) == (4, 4, "w")
        assert found.frames["checker"]["ok"], found.frames["checker"]
        assert found.frames["shapes"]["ok"], found.frames["shapes"]
