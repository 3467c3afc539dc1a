"""The load order of ``run`` (design, section 5): for each step, it fails closed and nothing later happens.

A recorder stands around every step, around onnxruntime's session and around the body's later parts, so
that a test sees not only what was said but what was done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sandbox import load, run
from sandbox.messages import LOAD_ORDER, RefusedError
from tests.run_world import (
    Recorder,
    blob,
    classifier,
    declared,
    decode,
    model_bytes,
    spec_of,
    tensor_info,
    write_set,
)

pytestmark = pytest.mark.acceptance

FIRST = np.array([[0.9, 0.8, 0.75, 0.1]], np.float32)
BATCH = {"batch": {"min": 1, "max": 32}}


class Witness:
    """Records which steps were entered, which sessions were created and which inferences were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered: list[str] = []
        self.sessions: list[str] = []
        self.later: list[str] = []
        for name in LOAD_ORDER:
            monkeypatch.setitem(load.STEPS, name, self._around(name, load.STEPS[name]))
        real = onnxruntime.InferenceSession

        def created(path: str, *arguments: Any, **named: Any) -> Any:
            self.sessions.append(path)
            return real(path, *arguments, **named)

        monkeypatch.setattr(onnxruntime, "InferenceSession", created)
        for name in ("placement", "_runner", "probe"):
            monkeypatch.setattr(run, name, self._later(name, getattr(run, name)))

    def _around(self, name: str, step: load.Step) -> load.Step:
        def recorded(under_way: load.Load) -> str:
            self.entered.append(name)
            return step(under_way)

        return recorded

    def _later(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any) -> Any:
            self.later.append(name)
            return function(*arguments)

        return recorded


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    return Witness(monkeypatch)


def order(root: Path, raw: bytes | None = None, **changes: Any) -> tuple[dict[str, Any], int]:
    """A whole order that would pass, with a golden and probes; ``changes`` break it."""
    frame, inputs, _ = decode(root, write_set(root, "set", [FIRST], [FIRST]))
    base: dict[str, Any] = {"declared": declared(), "dims": BATCH, "sets": frame["sets"], "probes": True}
    return spec_of(root, classifier() if raw is None else raw, **(base | changes)), inputs


def fails(witness: Witness, spec: dict[str, Any], inputs: int, step: str, code: str) -> RefusedError:
    """Run the body; it must refuse at ``step`` with ``code``, and nothing after that step may happen."""
    channel = Recorder()
    with pytest.raises(RefusedError) as caught:
        run.body({"kind": "run", "spec": spec}, channel, {"inputs": inputs, "outputs": blob()})
    assert (caught.value.stage, caught.value.code) == (step, code)
    position = LOAD_ORDER.index(step)
    assert witness.entered == list(LOAD_ORDER[: position + 1])
    assert channel.steps() == list(LOAD_ORDER[:position])
    assert bool(witness.sessions) == (position >= LOAD_ORDER.index("session"))
    assert bool(channel.all("schema")) == (position > LOAD_ORDER.index("discover-schema"))
    assert witness.later == []
    assert channel.all("placement") == channel.all("case") == []
    return caught.value


def test_all_thirteen_steps_pass_in_order(tmp_path: Path, witness: Witness) -> None:
    spec, inputs = order(tmp_path)
    channel = Recorder()
    run.body({"kind": "run", "spec": spec}, channel, {"inputs": inputs, "outputs": blob()})
    assert len(LOAD_ORDER) == 13
    assert tuple(load.STEPS) == LOAD_ORDER
    assert channel.steps() == witness.entered == list(LOAD_ORDER)
    assert witness.sessions == [str(tmp_path / "model.onnx")]
    assert witness.later == ["placement", "_runner", "probe"]
    assert channel.all("case")


@pytest.mark.parametrize(
    "change",
    [
        {"model": "../model.onnx"},
        {"model": "/etc/passwd"},
        {"sha256": "A" * 64},
        {"sha256": "0" * 63},
        {"size": -1},
        {"repeats": 0},
        {"repeats": True},
        {"seed": "xyz"},
        {"dims": {"batch": {"min": 3, "max": 1}}},
        {"dims": {"batch": 3}},
        {"declared": {"inputs": [{"name": "", "dtype": "float32"}]}},
        {"declared": {"inputs": [{"name": "a", "dtype": "float32"}] * 2}},
        {"declared": {"outputs": [{"name": "a", "dtype": "float31"}]}},
        {"declared": {"inputs": [{"name": "a", "dtype": "float32", "range": [1, 0]}]}},
        {"declared": {"inputs": [{"name": "a", "dtype": "float32", "range": [0, float("nan")]}]}},
        {"declared": {"inputs": [{"name": "a", "dtype": "float32", "shape": [-1]}]}},
    ],
)
def test_step_1_manifest_structure(tmp_path: Path, witness: Witness, change: dict[str, Any]) -> None:
    spec, inputs = order(tmp_path, **change)
    fails(witness, spec, inputs, "manifest-structure", "load/order-invalid")


@pytest.mark.parametrize(
    "profile",
    [
        {"intra_op_threads": 0},
        {"inter_op_threads": 257},
        {"intra_op_threads": True},
        {"optimisation": "most"},
        {"session_entries": {"session.load_model_format": "ORT"}},
        {"session_entries": {"session.optimized_model_filepath": "/tmp/x"}},
        {"session_entries": {"session.enable_profiling": "1"}},
    ],
)
def test_step_2_profile_bounds(tmp_path: Path, witness: Witness, profile: dict[str, Any]) -> None:
    spec, inputs = order(tmp_path, profile=profile)
    fails(witness, spec, inputs, "profile-bounds", "load/profile-bounds")


def test_step_3_an_empty_model(tmp_path: Path, witness: Witness) -> None:
    spec, inputs = order(tmp_path, b"")
    fails(witness, spec, inputs, "size", "load/empty-model")


@pytest.mark.parametrize("grown", [b"", b"xx"], ids=["shrunk", "grown"])
def test_step_3_another_size_than_sealed(tmp_path: Path, witness: Witness, grown: bytes) -> None:
    spec, inputs = order(tmp_path)
    (tmp_path / "model.onnx").write_bytes(classifier() + grown if grown else classifier()[:-1])
    fails(witness, spec, inputs, "size", "load/size-mismatch")


def test_step_3_a_missing_file(tmp_path: Path, witness: Witness) -> None:
    spec, inputs = order(tmp_path, model="other.onnx")
    fails(witness, spec, inputs, "size", "load/size-mismatch")


def test_step_4_another_digest_than_sealed(tmp_path: Path, witness: Witness) -> None:
    spec, inputs = order(tmp_path)
    raw = bytearray(classifier())
    raw[-1] ^= 1
    (tmp_path / "model.onnx").write_bytes(raw)
    error = fails(witness, spec, inputs, "digest", "load/digest-mismatch")
    assert hashlib.sha256(raw).hexdigest() in error.message


def test_step_5_a_provider_that_is_not_here(tmp_path: Path, witness: Witness) -> None:
    profile = {"providers": ["CUDAExecutionProvider", "CPUExecutionProvider"]}
    spec, inputs = order(tmp_path, profile=profile)
    error = fails(witness, spec, inputs, "provider", "load/provider-unavailable")
    assert error.where == "CUDAExecutionProvider"


def test_step_5_a_permitted_fallback_is_recorded(tmp_path: Path, witness: Witness) -> None:
    profile = {"providers": ["CUDAExecutionProvider"], "allow_cpu_fallback": True}
    spec, inputs = order(tmp_path, profile=profile)
    channel = Recorder()
    run.body({"kind": "run", "spec": spec}, channel, {"inputs": inputs, "outputs": blob()})
    note = channel.all("step")[LOAD_ORDER.index("provider")]["note"]
    assert "selected_provider=CPUExecutionProvider used_cpu_fallback=true" in note
    assert witness.sessions


def broken(*_arguments: Any, **_named: Any) -> Any:
    raise RuntimeError("out of order")


@pytest.mark.parametrize(
    ("step", "function"), [("builder", "new_options"), ("cpu-allocator", "plan_memory")], ids=["step 6", "step 7"]
)
def test_step_6_and_7_options_that_cannot_be_built(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch, step: str, function: str
) -> None:
    monkeypatch.setattr(f"sandbox.session.{function}", broken)
    spec, inputs = order(tmp_path)
    fails(witness, spec, inputs, step, "load/failed")


def test_step_8_an_entry_that_the_runtime_refuses(tmp_path: Path, witness: Witness) -> None:
    profile = {"session_entries": {"session.dynamic_block_base": "9" * 9000}}
    spec, inputs = order(tmp_path, profile=profile)
    fails(witness, spec, inputs, "options", "load/options-refused")


def test_step_9_bytes_that_are_no_model(tmp_path: Path, witness: Witness) -> None:
    spec, inputs = order(tmp_path, b"not a model")
    fails(witness, spec, inputs, "session", "load/invalid-model")


def test_step_9_an_operator_that_the_runtime_does_not_have(tmp_path: Path, witness: Witness) -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"])
    value = tensor_info("x", TensorProto.FLOAT, [1]), tensor_info("y", TensorProto.FLOAT, [1])
    spec, inputs = order(tmp_path, model_bytes([node], [value[0]], [value[1]]))
    error = fails(witness, spec, inputs, "session", "load/unsupported-operator")
    assert "Frobnicate" in error.message


def test_step_10_a_schema_beyond_bounds(tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_PORTS", 0)
    spec, inputs = order(tmp_path)
    fails(witness, spec, inputs, "discover-schema", "load/failed")


def changed(side: str, **change: Any) -> dict[str, Any]:
    spec = declared()
    spec[side] = [spec[side][0] | change]
    return spec


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": "evidence"}, "schema/input-names"),
        ({"dtype": "float64"}, "schema/input-dtype"),
        ({"dtype": "float16"}, "schema/input-dtype"),
        ({"type": "sequence"}, "schema/input-dtype"),
        ({"shape": ["batch", 5]}, "schema/input-shape"),
        ({"shape": [4]}, "schema/input-shape"),
        ({"shape": ["batch", "batch"]}, "schema/input-shape"),
    ],
)
def test_step_11_exact_inputs(tmp_path: Path, witness: Witness, change: dict[str, Any], code: str) -> None:
    spec, inputs = order(tmp_path, declared=changed("inputs", **change))
    fails(witness, spec, inputs, "exact-inputs", code)


def test_step_11_a_second_required_input(tmp_path: Path, witness: Witness) -> None:
    node = helper.make_node("Add", ["features", "attention_mask"], ["probabilities"])
    names = ("features", "attention_mask", "probabilities")
    infos = [tensor_info(name, TensorProto.FLOAT, ["batch", 4]) for name in names]
    spec, inputs = order(tmp_path, model_bytes([node], infos[:2], infos[2:]))
    error = fails(witness, spec, inputs, "exact-inputs", "schema/input-names")
    assert "attention_mask" in error.message


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": "scores"}, "schema/output-names"),
        ({"dtype": "float64"}, "schema/output-dtype"),
        ({"shape": ["batch", 4]}, "schema/output-shape"),
        ({"shape": ["batch", 3, 1]}, "schema/output-shape"),
    ],
)
def test_step_12_exact_outputs(tmp_path: Path, witness: Witness, change: dict[str, Any], code: str) -> None:
    spec, inputs = order(tmp_path, declared=changed("outputs", **change))
    fails(witness, spec, inputs, "exact-outputs", code)


def test_step_12_outputs_in_another_order(tmp_path: Path, witness: Witness) -> None:
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in ("b", "a")]
    values = [tensor_info(name, TensorProto.FLOAT, [1]) for name in ("x", "b", "a")]
    ports = [{"name": name, "dtype": "float32", "shape": [1]} for name in ("x", "a", "b")]
    spec, inputs = order(
        tmp_path, model_bytes(nodes, values[:1], values[1:]), declared={"inputs": ports[:1], "outputs": ports[1:]}
    )
    error = fails(witness, spec, inputs, "exact-outputs", "schema/output-names")
    assert "another order" in error.message


def test_step_13_receipts(tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.session.runtime_facts", lambda: {"onnxruntime": object()})
    monkeypatch.setattr(
        load, "schema_frame", lambda _load: {"inputs": [], "outputs": [], "providers": [], "load_ms": 0.0}
    )
    spec, inputs = order(tmp_path)
    fails(witness, spec, inputs, "receipts", "load/failed")


def test_receipts_differ_with_options_and_agree_without(tmp_path: Path) -> None:
    def receipt(**changes: Any) -> str:
        spec = spec_of(tmp_path, classifier(), **changes)
        channel = Recorder()
        run.body({"kind": "run", "spec": spec}, channel, {"inputs": blob(), "outputs": blob()})
        return str(channel.all("step")[-1]["note"])

    assert receipt() == receipt()
    assert receipt() != receipt(optimised=False)
    assert receipt() != receipt(profile={"intra_op_threads": 2})


@pytest.mark.parametrize(
    "inferred", [{"declared": {}}, {"declared": changed("inputs", name="z"), "inferred": True}]
)
def test_what_is_inferred_is_not_held_against_the_runtime(
    tmp_path: Path, witness: Witness, inferred: dict[str, Any]
) -> None:
    spec, inputs = order(tmp_path, **inferred)
    channel = Recorder()
    run.body({"kind": "run", "spec": spec}, channel, {"inputs": inputs, "outputs": blob()})
    assert witness.entered == list(LOAD_ORDER)
    assert "error" not in channel.all("case")[0]


def test_memory_refused_in_a_step_is_said_as_such(
    tmp_path: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_arguments: Any, **_named: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("sandbox.session.plan_memory", exhausted)
    spec, inputs = order(tmp_path)
    fails(witness, spec, inputs, "cpu-allocator", "resources/memory-limit")
