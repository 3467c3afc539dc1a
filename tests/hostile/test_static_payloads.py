"""Programs, archives, pickles and scripts where a model only has numbers and descriptions, at any byte of it."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sandbox.inspect import bytes as content
from sandbox.inspect import payloads
from tests import static_world as world
from tests.payloads import PAYLOADS, elf, told
from tests.static_world import inspected

pytestmark = pytest.mark.hostile


def model(raw: bytes = b"", **metadata: str) -> onnx.ModelProto:
    """Identity, with an unused weight of ``raw`` bytes."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    weights = [helper.make_tensor("w", TensorProto.UINT8, [len(raw)], raw, raw=True)] if raw else []
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [result], weights)
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    helper.set_model_props(made, metadata)
    return made


def noise(size: int) -> bytes:
    """Return random bytes, the same each time."""
    return np.random.default_rng(size).bytes(size)


@pytest.mark.parametrize("at", [0, 1, 777, (1 << 20) - 3, (1 << 20) + 131_071], ids=str)
@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_at_any_byte_of_an_unused_weight(tmp_path: Path, name: str, at: int) -> None:
    payload, kind = PAYLOADS[name][0](), PAYLOADS[name][1]
    # Kept from running into an argument of the payload's own: a line ends, a base64 text ends.
    hidden = noise(at) + payload + b"\n \0" + noise(300)
    ((found, where, message), *_) = told(inspected(tmp_path, model(hidden)))
    assert found == kind
    assert where.startswith("graph/initializer[0] w")
    raw = (tmp_path / "model.onnx").read_bytes()
    begin = int(message.partition(" byte ")[2].partition(",")[0])
    shown = bytes.fromhex(message.partition("begins ")[2].partition(" (")[0])
    assert raw[begin : begin + 16] == shown, "the place and the first bytes are those of the file"
    assert raw.index(payload[:4]) - 4 <= begin < raw.index(payload) + len(payload)


@pytest.mark.parametrize("before", range(5))
def test_a_mark_across_two_blocks_of_the_pass(before: int) -> None:
    at = content.CHUNK - before
    source = content.BytesSource(noise(at) + elf() + bytes(64))
    scanner = payloads.Scanner(source)
    content.read(source, [scanner])
    assert [(hit.at, hit.what) for hit in scanner.hits] == [(at, "an ELF program")]


def in_body(raw: bytes) -> onnx.ModelProto:
    """Hide it in a constant of a function's body."""
    body = [
        helper.make_node(
            "Constant", [], ["q"], value=helper.make_tensor("c", TensorProto.UINT8, [len(raw)], raw, raw=True)
        )
    ]
    function = helper.make_function("local", "F", ["p"], ["q"], body, [helper.make_opsetid("", 18)])
    return world.model([helper.make_node("F", ["x"], ["y"], domain="local")], functions=[function])


def in_branch(raw: bytes) -> onnx.ModelProto:
    """Hide it in a string attribute of a node in a branch."""
    node = helper.make_node("Constant", [], ["e"], value_string=raw)
    branch = helper.make_graph([node], "b", [], [world.value("e")])
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return world.model([chosen], inputs=[world.value("c", [], TensorProto.BOOL)])


def in_strings(raw: bytes) -> onnx.ModelProto:
    """Hide it in a string tensor."""
    return world.model(
        initializer=[TensorProto(name="s", data_type=TensorProto.STRING, dims=[2], string_data=[b"a", raw])]
    )


def in_typed_data(raw: bytes) -> onnx.ModelProto:
    """Hide it in doubles that are no raw data."""
    padded = raw.ljust((len(raw) + 7) // 8 * 8, b"\0")
    tensor = TensorProto(name="d", data_type=TensorProto.DOUBLE, dims=[len(padded) // 8])
    tensor.double_data.extend(np.frombuffer(padded, np.float64).tolist())
    return world.model(initializer=[tensor])


def in_sparse(raw: bytes) -> onnx.ModelProto:
    """Hide it in the values of a sparse initializer."""
    values = helper.make_tensor("v", TensorProto.UINT8, [len(raw)], raw, raw=True)
    indices = helper.make_tensor("i", TensorProto.INT64, [len(raw)], list(range(len(raw))))
    return world.model(sparse_initializer=[helper.make_sparse_tensor(values, indices, [len(raw)])])


def in_training(raw: bytes) -> onnx.ModelProto:
    """Hide it in a training graph."""
    built = world.model()
    built.training_info.add().algorithm.CopyFrom(
        helper.make_graph([], "t", [], [], [helper.make_tensor("w", TensorProto.UINT8, [len(raw)], raw, raw=True)])
    )
    return built


HIDING = {
    "functions[0] F/node[0] Constant/value": in_body,
    "graph/node[0] If/then_branch/node[0] Constant/value_string": in_branch,
    "graph/initializer[0] s": in_strings,
    "graph/initializer[0] d": in_typed_data,
    "graph/sparse_initializer[0]/values": in_sparse,
    "training_info[0]/algorithm/initializer[0] w": in_training,
}


@pytest.mark.parametrize("place", HIDING)
def test_a_program_in_an_unexpected_place(tmp_path: Path, place: str) -> None:
    found = told(inspected(tmp_path, HIDING[place](b"wxyz" + elf() + bytes(8))))
    places = {(kind, where.partition(", ")[0]) for kind, where, _ in found}
    assert any(kind == "executable" and where.startswith(place) for kind, where in places), found


def test_metadata_and_documentation(tmp_path: Path) -> None:
    hidden = model(note=base64.b64encode(elf()).decode(), plain="ordinary words")
    hidden.doc_string = "#!/bin/sh\nid\n"
    hidden.graph.doc_string = "see below: __import__('os').system('id')"
    hidden.graph.node[0].doc_string = "powershell -enc ZQB2AGkAbAA="
    hidden.graph.node[0].metadata_props.add(key="k", value="/bin/sh -c id")
    found = {
        (kind, where.partition(", ")[0].split(" value")[0]) for kind, where, _ in told(inspected(tmp_path, hidden))
    }
    assert {where.split("/")[0] for kind, where in found if kind == "script"} >= {"doc_string", "graph"}
    assert any(kind == "executable" and where.startswith("metadata_props[0]") for kind, where in found), found


def test_a_url_is_told_and_weighs_nothing(tmp_path: Path) -> None:
    from acceptd.judge.codes import CODES

    found = told(inspected(tmp_path, model(source="see https://models.example.com/a?b=1 for more")))
    assert [(kind, where.startswith("metadata_props[0]")) for kind, where, _ in found] == [("url", True)]
    assert CODES["payload/url"].severity == "info"


def test_a_flood_of_addresses_hides_no_program(tmp_path: Path) -> None:
    found = told(inspected(tmp_path, model(b"https://models.example.com/ " * 5000 + elf() + bytes(64))))
    assert {kind for kind, *_ in found} == {"url", "executable"}


def test_more_marks_than_are_looked_at_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MAX_CANDIDATES", 1000)
    found = told(inspected(tmp_path, model(b"PK\x03\x04" * 1200 + elf() + bytes(64))))
    assert [kind for kind, *_ in found] == ["flood"]


@pytest.mark.parametrize("name", ["elf", "zip", "pickle-0", "pickle-2", "script"])
def test_a_payload_in_external_data_inside_and_outside_the_tensors(tmp_path: Path, name: str) -> None:
    payload, kind = PAYLOADS[name][0](), PAYLOADS[name][1]
    hidden = noise(5001) + payload + b"\n\0"
    data = (hidden + noise(64)).ljust(8192, b"\0") + bytes(100) + payload + b"\n\0" + bytes(500)
    tensor = world.external(world.weight(dims=(2048,)), location="w/weights.bin", offset="0", length="8192")
    found = told(inspected(tmp_path, world.with_weight(tensor), files={"w/weights.bin": data}))
    ours = [(where, message) for one, where, message in found if one == kind]
    assert ours[0][0].startswith("graph/initializer[0] w")
    assert "w/weights.bin, byte 50" in ours[0][1]
    if kind != "script" and kind != "pickle" and kind != "archive":  # what lies close is told once
        assert ours[1][0] == "w/weights.bin, outside all tensors of this model"


def test_weights_and_words_are_no_payload(tmp_path: Path) -> None:
    weights = np.random.default_rng(7).standard_normal(1 << 16).astype(np.float32).tobytes()
    assert told(inspected(tmp_path, model(weights, author="somebody", labels='{"0": "cat"}'))) == []


@pytest.mark.parametrize(
    "mark",
    [
        b"\x7fELF", b"\x7fELF\x02\x01", b"MZ", b"MZ\x90\0", b"PE\0\0", b"PK\x03\x04", b"\x1f\x8b\x08\0",
        b"\xca\xfe\xba\xbe", b"7z\xbc\xaf\x27\x1c", b"\xfd7zXZ\0", b"\x80\x04\x95", b"\x80\x02}",
        b"?\x80\x02]q\0.",
        b"ustar\0", b"cos\n", b"#!/b", b"subprocess", b"\x28\xb5\x2f\xfd", b"BZh9", b"\x93NUMPY", b"http", b"gASV",
    ],
)  # fmt: skip
def test_a_mark_without_evidence_gets_no_name(tmp_path: Path, mark: bytes) -> None:
    for seed in range(4):
        fill = np.random.default_rng(seed).bytes(9000)
        assert told(inspected(tmp_path, model(mark + fill[:5000] + mark + fill))) == []
