"""Names that are what they look like, and numbers and texts that are read a megabyte at a time."""

from __future__ import annotations

import pytest
from onnx import helper

from sandbox import wire, wire_read, wire_text
from sandbox.wire_places import places
from sandbox.wire_read import MalformedError
from tests import static_world as world

pytestmark = pytest.mark.unit

REAL = (
    "weight", "层/权重", "вес", "Вход", "Δx", "ΔT", "σ_x", "αβ", "λ1", "x²", "xₜ", "nº", "µm", "ℓ2", "Größe",
    "naïve", "sınıf", "入力１", "ひらがなx", "한국어", "שלום", "مرحبا", "ไทย",
    "emoji😀", '{"a": [1]}', "a\tb\n", "жv",
    "€uro", "Łódź", "вес_w",
)  # fmt: skip
"""Names that somebody may give, of one script or of several."""
DECEIVING = ("wеight", "Ｗeight", "𝐰eight", "Rеlu", "ai.оnnx", "prоbabilities", "ΑttentionA", "ѕоftmax_x")


def notes_on(name: str) -> list[str]:
    raw = name.encode()
    found: list[str] = []
    wire_text.name(raw, 0, len(raw), 0, lambda code, _offset, _message: found.append(code))
    return found


@pytest.mark.parametrize("name", REAL)
def test_a_real_name_never_alarms(name: str) -> None:
    assert notes_on(name) == []


@pytest.mark.parametrize("name", DECEIVING)
def test_a_name_of_mixed_scripts_that_looks_latin_does(name: str) -> None:
    assert notes_on(name) == ["structure/look-alike-name"]


@pytest.mark.parametrize(
    "char", ["\0", "\x1b", "\x7f", "\x85", "\u00ad", "\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0041"]
)
def test_a_name_with_a_character_that_is_not_seen_alarms(char: str) -> None:
    assert notes_on(f"a{char}b") == ["structure/unsafe-name"]


def test_two_names_that_look_the_same_are_told_once_each() -> None:
    assert wire_text.twins(["cop", "сор", "weight", "层"]) == [("сор", "cop")]
    ((one, other),) = wire_text.twins(["é", "e\u0301"])
    assert {one, other} == {"é", "e\u0301"}
    assert wire_text.twins(["入力１", "入力1"]) == [("入力１", "入力1")]
    assert wire_text.twins(["вес", "层", "Δ", "x²", "x2"]) == []


def test_a_long_text_is_read_in_pieces_and_a_letter_may_lie_across_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_text, "CHUNK", 7)
    for text, codes in (("层" * 50, []), ("層" * 50 + "\ud800", ["wire/invalid-utf8"])):
        raw = text.encode("utf-8", "surrogatepass")
        found: list[str] = []
        wire_text.free(raw, 0, len(raw), 0, lambda code, _o, _m, found=found: found.append(code))  # type: ignore[misc]
        assert found == codes
    found = []
    wire_text.free(raw[:149], 0, 149, 0, lambda code, _o, _m: found.append(code))
    assert found == ["wire/invalid-utf8"], "the last letter is cut"


@pytest.mark.parametrize("size", [4, 5, 9, 10, 11, 1 << 20])
def test_packed_numbers_are_counted_and_judged_across_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(wire_read, "CHUNK", size)
    numbers = [0, 1, 127, 128, 1 << 40, (1 << 64) - 1, 5]
    raw = b"".join(map(world.varint, numbers))
    found: list[str] = []

    def note(code: str, _offset: int, _message: str) -> None:
        found.append(code)

    assert wire_read.packed(raw, 0, len(raw), note) == len(numbers)
    assert found == []
    assert wire_read.packed(raw + b"\x81\x00", 0, len(raw) + 2, note) == len(numbers) + 1
    assert wire_read.packed(raw + b"\xff" * 9 + b"\x02", 0, len(raw) + 10, note) == len(numbers) + 1
    assert found == ["wire/overlong-varint", "wire/number-out-of-range"]
    with pytest.raises(MalformedError):
        wire_read.packed(raw + b"\x80" * 10 + b"\x01", 0, len(raw) + 11, note)
    with pytest.raises(MalformedError):
        wire_read.packed(raw + b"\x80", 0, len(raw) + 1, note)


def test_a_place_in_a_node_full_of_nothing_is_found_without_reading_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looking for the operator's name went through ten million empty fields, once a place."""
    calls = 0
    real = wire_read.varint

    def counted(*arguments: object) -> tuple[int, int]:
        nonlocal calls
        calls += 1
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("sandbox.wire_places.varint", counted)
    raw = world.field_bytes(7, world.field_bytes(1, b"\x2a\x00" * 50_000 + world.field_bytes(4, b"Relu")))
    assert places(raw, len(raw), [0, 10])[0] == "graph"
    assert calls < 10_000


def test_plain_nodes_and_walked_ones_count_alike_in_graphs_and_functions() -> None:
    nodes = [
        helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name="层" if i % 5 == 0 else "") for i in range(500)
    ]
    function = helper.make_function("local", "F", ["v0"], ["v500"], nodes, [helper.make_opsetid("", 18)])
    raw = world.model(nodes, functions=[function]).SerializeToString()
    walk = wire.walk(raw, len(raw), 100)
    assert walk.nodes == 1000
    assert walk.notes == []


def test_what_is_a_node_in_a_function_is_none_in_a_graph() -> None:
    node = b"\x0a\x01x\x12\x01y\x22\x04Relu"
    raw = b"\x08\x08" + world.field_bytes(7, world.field_bytes(1, node) * 3 + world.field_bytes(7, node))
    walk = wire.walk(raw, len(raw), 100)
    assert walk.nodes == 3
    assert [code for code, _, _ in walk.notes] == ["wire/unknown-field"]
    raw = b"\x08\x08" + world.field_bytes(25, world.field_bytes(7, node) * 3 + world.field_bytes(1, node))
    walk = wire.walk(raw, len(raw), 100)
    assert walk.nodes == 3, "field 1 of a function is its name"
