"""Attacks on the wire form of a model: what parsers differ on, and what exhausts them."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper

from sandbox import inspect, wire_result
from tests import static_world as world

pytestmark = pytest.mark.hostile

GOOD = world.model().SerializeToString()
GRAPH = world.graph([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()


def message_in_message(depth: int) -> bytes:
    """Return a type of sequences of sequences, ``depth`` messages deep, as a model's graph's input."""
    kind = world.field_bytes(1, b"\x08\x01")
    for _ in range(depth):
        kind = world.field_bytes(4, world.field_bytes(1, kind))
    return world.field_bytes(7, world.field_bytes(11, world.field_bytes(2, kind)))


REFUSED = {
    "empty-file": (b"", "wire/empty"),
    "truncated": (GOOD[:-3], "wire/truncated"),
    "truncated-after-tag": (GOOD + b"\x42", "wire/truncated"),
    "trailing-zeros": (GOOD + bytes(64), "wire/trailing-data"),
    "trailing-zeros-then-junk": (GOOD + bytes(64) + b"x", "wire/malformed"),
    "trailing-text": (GOOD + b"<!-- hello -->", "wire/group"),
    "group": (GOOD + b"\x0b\x08\x01\x0c", "wire/group"),
    "wire-type-7": (GOOD + b"\x0f\x01", "wire/malformed"),
    "length-beyond-end": (GOOD + b"\x3a\xff\xff\xff\xff\x0f", "wire/truncated"),
    "length-of-eleven-bytes": (GOOD + b"\x3a" + b"\x80" * 10 + b"\x01", "wire/malformed"),
    "nesting-100": (message_in_message(60), "wire/too-deep"),
    "nesting-10000": (message_in_message(5000), "wire/too-deep"),
    "ort-mark": (b"\x08\x08\x12\x08ORTMORTM" + GOOD, "wire/ort-format"),
    "ort-flatbuffer": (b"\x1c\0\0\0ORTM" + bytes(64), "wire/ort-format"),
    "broken-packed-floats": (
        world.field_bytes(7, world.field_bytes(5, world.field_bytes(4, b"abc"))), "wire/malformed"
    ),
    "packed-int-unterminated": (world.field_bytes(7, world.field_bytes(5, b"\x3a\x02\x01\x80")), "wire/truncated"),
    "packed-int-of-eleven-bytes": (
        world.field_bytes(7, world.field_bytes(5, world.field_bytes(7, b"\x80" * 10 + b"\x01"))), "wire/malformed"
    ),
    "zero-field-in-tensor": (world.field_bytes(7, world.field_bytes(5, b"\0\0")), "wire/malformed"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(40), "wire/"),
    "text": (b"not a model at all, just text", "wire/"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_malformed_wire_is_refused_before_protobuf(tmp_path: Path, name: str) -> None:
    raw, code = REFUSED[name]
    found = world.inspected(tmp_path, raw)
    assert found.order == ["wire"], "facts, checker and shape inference must not see it"
    assert found.refused is not None
    assert found.refused.code.startswith(code)
    assert found.refused.code in {item["code"] for item in found.frames["wire"]["problems"]}


PROBLEMS = {
    "two-graphs": (GOOD + world.field_bytes(7, GRAPH), "wire/duplicate-field"),
    "two-ir-versions": (GOOD + b"\x08\x09", "wire/duplicate-field"),
    "two-models": (GOOD + GOOD, "wire/duplicate-field"),
    "two-graph-names": (
        GOOD[:2] + world.field_bytes(7, GRAPH + world.field_bytes(2, b"other")) + b"\x42\x02\x10\x12",
        "wire/duplicate-field",
    ),
    "hidden-payload": (GOOD + world.field_bytes(1000, bytes(1 << 20)), "wire/unknown-field"),
    "wrong-type-ir-version": (GOOD + world.field_bytes(1, b"x"), "wire/wrong-type"),
    "padded-ir-version": (b"\x08\x88\x00" + GOOD[2:], "wire/overlong-varint"),
    "padded-length": (GOOD + b"\x72\x80\x00", "wire/overlong-varint"),
    "invalid-utf8-name": (GOOD.replace(b"\x0a\x01x", b"\x0a\x01\xff"), "wire/invalid-utf8"),
    "invalid-utf8-metadata": (GOOD + b"\x72\x04\x0a\x02\xc3\x28", "wire/invalid-utf8"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_parsers_differ_on_is_a_problem(tmp_path: Path, name: str) -> None:
    raw, code = PROBLEMS[name]
    found = world.inspected(tmp_path, raw)
    assert code in {item["code"] for item in found.frames["wire"]["problems"]}


def test_duplicate_name_inside_a_plain_node_is_seen(tmp_path: Path) -> None:
    node = b"\x0a\x01x\x12\x01y\x22\x04Relu"
    doubled = node + b"\x22\x04Tanh"
    for first in (node, doubled):  # after a plain node, and as the first
        graph = world.field_bytes(1, first) + world.field_bytes(1, doubled)
        found = world.inspected(tmp_path, b"\x08\x08" + world.field_bytes(7, graph))
        assert found.problem("wire/duplicate-field")["where"] == "graph/node[1] Relu/op_type" or first is doubled


def test_flood_of_empty_messages_ends_by_count_not_by_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wire_result, "MAX_MESSAGES", 10_000)
    flood = b"\x0a\x00" * 20_000
    for raw in (
        world.field_bytes(7, flood),
        world.field_bytes(7, world.field_bytes(1, b"\x2a\x00" * 20_000)),
        b"\x42\x00" * 20_000,
        world.field_bytes(7, world.field_bytes(5, b"\x6a\x00" * 20_000)),
    ):
        found = world.inspected(tmp_path, raw)
        assert found.refused is not None
        assert found.refused.code == "wire/too-many-fields"


def test_flood_of_empty_texts_and_unknown_fields_ends_by_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wire_result, "MAX_FIELDS", 10_000)
    for raw in (
        world.field_bytes(7, world.field_bytes(1, b"\x0a\x00" * 20_000)),
        world.field_bytes(7, world.field_bytes(1, world.field_bytes(5, b"\x4a\x00" * 20_000))),
        world.field_bytes(7, world.field_bytes(5, b"\x32\x00" * 20_000)),
        b"\xfa\x01\x00" * 20_000,
    ):
        found = world.inspected(tmp_path, raw)
        assert found.refused is not None
        assert found.refused.code == "wire/too-many-fields"


def test_limits_on_counts_stop_before_protobuf(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(20)]
    weights = [world.weight(f"w{i}") for i in range(20)]
    built = world.model(nodes, inputs=[world.value("v0")], outputs=[world.value("v20")], initializer=weights)
    for limit, code in (
        ("nodes", "structure/too-many-nodes"),
        ("initializers", "structure/too-many-initializers"),
    ):
        found = world.inspected(tmp_path, built, limits={limit: 19})
        assert found.order == ["wire"]
        assert found.codes() == {code}
        assert world.inspected(tmp_path, built, limits={limit: 20}).codes() == set()
    assert world.inspected(tmp_path, built, limits={"scopes": 0}).codes() == {"structure/too-many-scopes"}
    assert world.inspected(tmp_path, built, limits={"model_bytes": 10}).codes() == {"wire/too-large"}


def test_a_model_that_is_a_directory_or_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").mkdir()
    spec = {"root": str(tmp_path), "model": "model.onnx", "files": {}, "present": [], "forbidden": []}
    assert world.recorded(inspect.body, spec).codes() == {"wire/malformed"}
    assert world.recorded(inspect.body, {**spec, "model": "none.onnx"}).codes() == {"structure/no-graph"}
