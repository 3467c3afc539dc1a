"""Declared against runtime interface, the runtime's spelling of types, and what its errors mean."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox import interface, session

pytestmark = pytest.mark.unit


def bound(shape: list[int | str], actual: list[int]) -> str:
    return interface.bind_dims(shape, actual, {"n": 2}, {"n": {"min": 1, "max": 4}, "m": {"min": 1, "max": 4}})


def test_dimensions_bind_to_one_size() -> None:
    assert bound(["n", "?", 3], [2, 9, 3]) == ""
    assert "elsewhere in this run" in bound(["n"], [3])
    assert "declared is 3" in bound([3], [4])
    assert "rank" in bound([3], [3, 1])
    assert "outside" in bound(["m"], [5])
    assert "elsewhere" in interface.bind_dims(["k", "k"], [1, 2], {}, None)


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("tensor(float)", "float32"),
        ("tensor(double)", "float64"),
        ("seq(map(int64,tensor(float)))", "sequence(map(int64,float32))"),
        ("optional(seq(tensor(string)))", "optional(sequence(string))"),
        ("sparse_tensor(float)", "sparse_tensor(float32)"),
    ],
)
def test_the_runtimes_spelling_of_types(spelling: str, words: str) -> None:
    assert interface.parse(spelling).words() == words


@pytest.mark.parametrize("spelling", ["", "tensor", "tensor(", "nothing(float)", "seq(" * 40 + ")" * 40])
def test_an_unknown_spelling_is_unknown(spelling: str) -> None:
    kind = interface.parse(spelling)
    while kind.item is not None:
        kind = kind.item
    assert kind.kind == "unknown"


INPUT = {"name": "x", "type": "tensor", "dtype": "float32", "shape": ["n", 4]}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, None),
        ({"shape": None}, None),
        ({"shape": [1, 4]}, None),  # narrower than the model: callers are held to it
        ({"name": "renamed"}, "schema/input-names"),
        ({"dtype": "float64"}, "schema/input-dtype"),
        ({"dtype": "float16"}, "schema/input-dtype"),
        ({"type": "sequence"}, "schema/input-dtype"),
        ({"shape": ["n", 3]}, "schema/input-shape"),
        ({"shape": ["n"]}, "schema/input-shape"),
        ({"shape": ["n", "m"]}, "schema/input-shape"),
        ({"shape": ["n", "?"]}, "schema/input-shape"),
        ({"shape": ["n", "four"]}, None),
    ],
)
def test_declared_against_runtime(change: dict[str, Any], code: str | None) -> None:
    real = [interface.runtime_value("x", "tensor(float)", ["n", 4])]
    dims = {"n": {"min": 1, "max": 9}, "four": {"min": 4, "max": 4}, "m": {"min": 1, "max": 4}}
    found = interface.compare("input", [INPUT | change], real, dims)
    assert (found.code if found else None) == code


def test_order_and_count_of_values_are_exact() -> None:
    real = [interface.runtime_value(name, "tensor(float)", [1]) for name in ("a", "b")]
    spec = {"a": INPUT | {"name": "a", "shape": [1]}, "b": INPUT | {"name": "b", "shape": [1]}}
    assert interface.compare("output", [spec["a"], spec["b"]], real, {}) is None
    for wrong in ([spec["b"], spec["a"]], [spec["a"]], []):
        found = interface.compare("output", wrong, real, {})
        assert found is not None
        assert found.code == "schema/output-names"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            type("NotImplemented", (Exception,), {})("Could not find an implementation for X"),
            "load/unsupported-operator",
        ),
        (RuntimeError("Fatal error: x:Foo(-1) is not a registered function/op"), "load/unsupported-operator"),
        (type("InvalidGraph", (Exception,), {})("bad"), "load/invalid-model"),
        (RuntimeError("std::bad_alloc"), "resources/memory-limit"),
        (RuntimeError("Failed to allocate memory for requested buffer of size 4"), "resources/memory-limit"),
        (RuntimeError("anything"), "load/failed"),
    ],
)
def test_errors_of_session_creation_are_classified(error: Exception, code: str) -> None:
    assert session.classify(error)[0] == code


@pytest.mark.parametrize(
    ("installed", "code"),
    [("en_US.UTF-8", "load/failed"), ("en_US.UTF-8 is not installed", "load/locale-missing")],
)
def test_a_missing_locale_is_the_hosts_fault_only_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, installed: str, code: str
) -> None:
    monkeypatch.setitem(session._facts, "locale", installed)
    error = RuntimeError("Failed to construct locale with name:en_US.UTF-8")
    assert session.classify(error)[0] == code


def test_fallback_is_recorded_where_it_is_allowed() -> None:
    profile = {"providers": ["CUDAExecutionProvider"], "allow_cpu_fallback": True}
    providers, note = session.provider_plan(profile, ["CPUExecutionProvider"])
    assert providers == ["CPUExecutionProvider"]
    assert note == (
        "requested_provider=CUDAExecutionProvider selected_provider=CPUExecutionProvider used_cpu_fallback=true"
    )


def test_fixed_session_entries_win_over_the_profile() -> None:
    entries = session.session_entries({"session_entries": {"session.load_model_format": "ORT"}}, [session.CPU])
    assert entries["session.load_model_format"] == "ONNX"
    assert "session.disable_cpu_ep_fallback" not in entries
    assert session.session_entries({}, ["CUDAExecutionProvider"])["session.disable_cpu_ep_fallback"] == "1"
