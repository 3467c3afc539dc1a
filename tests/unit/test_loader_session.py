"""The session on a released evidence classifier: inputs, providers, ties, identity, receipts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acceptd import loader_session
from acceptd.errors import (
    DigestMismatchError,
    InvalidInputError,
    ProviderUnavailableError,
    ReleaseNotFoundError,
    RuntimeRefusedError,
)
from acceptd.loader_session import Session
from acceptd.release.model import SessionOptions
from examples.evidence_classifier import DRIFTS, PUBLISHED, Variant, build_model, features_from_evidence, manifest
from tests.release_world import World

pytestmark = pytest.mark.unit

GOOD = [0.9, 0.8, 0.75, 0.1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("session"))
    made.released(files={"model.onnx": build_model()}, manifest=manifest())
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(world: World) -> Session:
    return world.open().session()


class _Recorder:
    """Counts what the session makes and runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
        self.calls: list[str] = []
        tensor, run = loader_session.tensor, session._session.run

        def recording(spec: Any, value: Any) -> Any:
            self.calls.append("tensor")
            return tensor(spec, value)

        class Runtime:
            def run(_, *arguments: Any) -> Any:
                self.calls.append("run")
                return run(*arguments)

        monkeypatch.setattr(loader_session, "tensor", recording)
        monkeypatch.setattr(session, "_session", Runtime())


@pytest.mark.parametrize("point", PUBLISHED, ids=lambda point: "-".join(map(str, point.evidence)))
def test_published_points(session: Session, point: Any) -> None:
    for value in (features_from_evidence(*point.evidence), features_from_evidence(*point.evidence).tolist()):
        outputs = session.run({"features": value})
        np.testing.assert_allclose(outputs["probabilities"][0], point.probabilities, rtol=0, atol=1e-6)
        assert outputs.labels() == [point.label]


@pytest.mark.parametrize("batch", [1, 2, 32])
def test_batch_inside_the_accepted_bounds(session: Session, batch: int) -> None:
    assert session.run({"features": [GOOD] * batch})["probabilities"].shape == (batch, 3)
    assert session.run({"features": np.full((batch, 4), 0.5, np.float32)})["probabilities"].shape == (batch, 3)


NOT_INPUTS: dict[str, Any] = {
    "batch-0": {"features": []},
    "batch-0-array": {"features": np.zeros((0, 4), np.float32)},
    "batch-33": {"features": [GOOD] * 33},
    "batch-33-array": {"features": np.zeros((33, 4), np.float32)},
    "missing": {},
    "renamed": {"feature": [GOOD]},
    "extra": {"features": [GOOD], "attention_mask": [GOOD]},
    "weight-as-input": {"features": [GOOD], "weight": [GOOD]},
    "rank-1": {"features": GOOD},
    "rank-3": {"features": [[GOOD]]},
    "rank-1-array": {"features": np.zeros(4, np.float32)},
    "scalar": {"features": 0.5},
    "width-3": {"features": [GOOD[:3]]},
    "width-5": {"features": [[*GOOD, 0.1]]},
    "ragged": {"features": [GOOD, GOOD[:3]]},
    "float64-array": {"features": np.zeros((1, 4))},
    "float16-array": {"features": np.zeros((1, 4), np.float16)},
    "int-array": {"features": np.zeros((1, 4), np.int64)},
    "object-array": {"features": np.array([[None] * 4], object)},
    "big-endian-array": {"features": np.zeros((1, 4), ">f4")},
    "text": {"features": [["0.9", "0.8", "0.75", "0.1"]]},
    "string": {"features": "0.9"},
    "none": {"features": None},
    "boolean": {"features": [[True, False, True, False]]},
    "complex": {"features": [[1j, 0, 0, 0]]},
    "nan": {"features": [[float("nan"), 0.8, 0.75, 0.1]]},
    "infinity": {"features": [[float("inf"), 0.8, 0.75, 0.1]]},
    "nan-array": {"features": np.full((1, 4), np.nan, np.float32)},
    "infinity-array": {"features": np.full((1, 4), -np.inf, np.float32)},
    "above-range": {"features": [[1.0000001, 0.8, 0.75, 0.1]]},
    "10001-basis-points": {"features": [[10_001 / 10_000, 0.8, 0.75, 0.1]]},
    "5-agreements": {"features": [[0.9, 0.8, 5 / 4, 0.1]]},
    "above-range-array": {"features": np.full((1, 4), np.float32(1.0000001))},
    "below-range": {"features": [[-1e-9, 0.8, 0.75, 0.1]]},
    "huge-integer": {"features": [[10**5000, 0, 0, 0]]},
    "beyond-float32": {"features": [[1e39, 0, 0, 0]]},
    "set": {"features": {0.1, 0.2}},
    "a-number-as-name": {1: [GOOD]},
    "not-a-mapping": [GOOD],
}


@pytest.mark.parametrize("name", NOT_INPUTS)
def test_refused_before_a_tensor_exists(session: Session, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    recorder = _Recorder(monkeypatch, session)
    with pytest.raises(InvalidInputError):
        session.run(NOT_INPUTS[name])
    assert recorder.calls == []
    session.run({"features": [GOOD]})  # the control: the recorder does see a tensor and a run
    assert recorder.calls == ["tensor", "run"]


def test_second_input_that_is_wrong_keeps_the_first_from_becoming_a_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = World(tmp_path)
    variant = DRIFTS["extra-input"]
    made.released(files={"model.onnx": build_model(variant)}, manifest=manifest(variant))
    session = made.open().session()
    recorder = _Recorder(monkeypatch, session)
    with pytest.raises(InvalidInputError, match="elsewhere in this call 1"):
        session.run({"features": [GOOD], "attention_mask": [GOOD, GOOD]})
    with pytest.raises(InvalidInputError, match="attention_mask"):
        session.run({"features": [GOOD]})
    assert recorder.calls == []
    made.close()


def test_a_caller_that_writes_during_the_run_changes_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = np.array([GOOD], np.float32)
    tensor = loader_session.tensor

    def late(spec: Any, value: Any) -> Any:
        mine[:] = np.nan
        return tensor(spec, value)

    monkeypatch.setattr(loader_session, "tensor", late)
    assert session.run({"features": mine}).labels() == ["accept"]


def test_ties_go_to_the_lowest_index(tmp_path: Path) -> None:
    made = World(tmp_path)
    variant = DRIFTS["zero-weights"]
    made.released(files={"model.onnx": build_model(variant)}, manifest=manifest(variant))
    outputs = made.open().session().run({"features": [GOOD, [0, 0, 0, 0]]})
    np.testing.assert_allclose(outputs["probabilities"], np.full((2, 3), 1 / 3), atol=1e-6)
    assert outputs.labels("probabilities") == ["accept", "accept"]
    with pytest.raises(InvalidInputError):
        outputs.labels("logits")
    made.close()


@pytest.mark.parametrize(
    "drift",
    ["renamed-input", "float64", "float16", "width-4", "extra-input", "static", "renamed-output", "two-outputs"],
)
def test_file_that_is_not_the_accepted_interface(tmp_path: Path, drift: str) -> None:
    made = World(tmp_path)
    made.released(files={"model.onnx": build_model(DRIFTS[drift])}, manifest=manifest())
    with pytest.raises(RuntimeRefusedError):
        made.open().session()
    made.close()


def test_reordered_outputs(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.released(
        files={"model.onnx": build_model(DRIFTS["reordered-outputs"])}, manifest=manifest(DRIFTS["two-outputs"])
    )
    with pytest.raises(RuntimeRefusedError, match="outputs"):
        made.open().session()
    made.close()


def test_cuda_requested_here(tmp_path: Path) -> None:
    made = World(tmp_path)
    cuda = SessionOptions(providers=["CUDAExecutionProvider"])
    files = {"model.onnx": build_model()}
    made.promote(made.accepted(files=files, manifest=manifest()), options=cuda)
    with pytest.raises(ProviderUnavailableError, match="CUDAExecutionProvider is not available"):
        made.open().session()
    made.close()


def test_cuda_requested_with_an_accepted_fallback(tmp_path: Path) -> None:
    made = World(tmp_path)
    cuda = SessionOptions(providers=["CUDAExecutionProvider"], allow_cpu_fallback=True)
    files = {"model.onnx": build_model()}
    made.promote(made.accepted(files=files, manifest=manifest()), options=cuda)
    session = made.open().session()
    facts = (session.requested_provider, session.selected_provider, session.used_cpu_fallback)
    assert facts == ("CUDAExecutionProvider", "CPUExecutionProvider", True)
    assert session.run({"features": [GOOD]}).labels() == ["accept"]
    made.close()


def test_cpu_as_accepted_is_no_fallback(session: Session) -> None:
    facts = (session.requested_provider, session.selected_provider, session.used_cpu_fallback)
    assert facts == ("CPUExecutionProvider", "CPUExecutionProvider", False)


def test_two_inferences_share_the_runtime_identity_and_their_receipts_differ(session: Session) -> None:
    one, two = (session.run({"features": [GOOD]}).receipt() for _ in range(2))
    assert one.runtime_identity == two.runtime_identity == session.runtime_identity
    assert one.inputs == two.inputs
    assert one.digest != two.digest


def test_one_basis_point_more_and_every_digest_differs(session: Session) -> None:
    first, more = (
        session.run({"features": features_from_evidence(*point.evidence)}).receipt("r-1")
        for point in (PUBLISHED[0], PUBLISHED[2])
    )
    assert first.inputs["features"] != more.inputs["features"]
    assert first.outputs["probabilities"] != more.outputs["probabilities"]
    assert first.digest != more.digest


def test_lists_and_arrays_of_the_same_numbers_have_the_same_digests(session: Session) -> None:
    rows = features_from_evidence(9000, 8000, 3, 1000)
    one, two = (session.run({"features": value}).receipt("r") for value in (rows, rows.tolist()))
    assert one.inputs == two.inputs


def test_receipt_names_the_release_and_holds_no_value(world: World, session: Session) -> None:
    receipt = session.run({"features": [GOOD]}).receipt("request 7")
    release = world.open()
    assert (receipt.number, receipt.release_digest, receipt.bundle_digest) == (
        release.number, release.release_digest, release.bundle_digest,
    )  # fmt: skip
    text = str(asdict(receipt))
    assert "0.9" not in text
    assert receipt.request_id == "request 7"


def test_another_thread_count_is_another_runtime_identity(world: World, tmp_path: Path, session: Session) -> None:
    made = World(tmp_path)
    files = {"model.onnx": build_model()}
    made.promote(made.accepted(files=files, manifest=manifest()), options=SessionOptions(intra_op_threads=2))
    assert made.open().session().runtime_identity != session.runtime_identity
    assert world.open().session().runtime_identity == session.runtime_identity
    made.close()


def test_file_swapped_between_hash_and_load(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.released(files={"model.onnx": build_model()}, manifest=manifest())
    release = made.open()
    target = release.path / "model.onnx"
    target.unlink()
    target.write_bytes(build_model(DRIFTS["other-bias"]))
    with pytest.raises(DigestMismatchError):
        release.session()
    made.close()


def test_bytes_that_are_no_model(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.released(files={"model.onnx": b"no model"}, manifest=manifest())
    with pytest.raises(RuntimeRefusedError, match=r"model\.onnx"):
        made.open().session()
    made.close()


def test_model_that_is_not_named(world: World) -> None:
    with pytest.raises(ReleaseNotFoundError, match="main"):
        world.open().session("other")
    assert world.open().session("main").model == "main"


def test_two_models_in_one_bundle_must_be_named(tmp_path: Path) -> None:
    made = World(tmp_path)
    document = manifest()
    second = {**document["models"][0], "name": "second", "file": "second.onnx"}
    document["models"] = [document["models"][0], second]
    other = Variant(bias=(5.0, 0.0, 0.0))
    made.released(files={"model.onnx": build_model(), "second.onnx": build_model(other)}, manifest=document)
    release = made.open()
    with pytest.raises(ReleaseNotFoundError, match="name one of them"):
        release.session()
    zeros = {"features": [[0, 0, 0, 0]]}
    assert [release.session(name).run(zeros).labels() for name in ("main", "second")] == [["review"], ["accept"]]
    made.close()


def test_environment_that_lets_a_model_configure_its_session(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", "1")
    with pytest.raises(RuntimeRefusedError, match="ORT_LOAD_CONFIG_FROM_MODEL"):
        world.open().session()


def test_production_needs_no_database_and_starts_no_telemetry(world: World) -> None:
    """In a fresh interpreter: what the loader imports, and that onnxruntime is told before it is imported."""
    source = """
import json, os, sys, threading
from acceptd.loader import open_release
heavy = "sqlalchemy structlog pydantic typer numpy onnx onnxruntime google.protobuf psutil".split()
dear = "pathlib urllib.parse ipaddress subprocess selectors random secrets rfc8785 _strptime fcntl".split()
state, now = sys.argv[1], float(sys.argv[2])
release = open_release(state, "mosaic/evidence-disposition", keys=state + "/keyring.json", now=lambda: now)
early = [name for name in heavy if name in sys.modules]
label = release.session().run({"features": [[0.9, 0.8, 0.75, 0.1]]}).labels()[0]
late = [name for name in heavy if name in sys.modules]
threads = len(os.listdir("/proc/self/task"))
ours = [name for name in dear if name in sys.modules]
print(json.dumps([early, late, ours, label, os.environ["ORT_DISABLE_TELEMETRY"], threads]))
"""
    environment = {
        k: v for k, v in os.environ.items() if k not in {"ORT_DISABLE_TELEMETRY", "OPENBLAS_NUM_THREADS"}
    }
    done = subprocess.run(
        [sys.executable, "-c", source, str(world.state), str(world.now)],
        env={**environment, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    early, late, ours, label, telemetry, threads = json.loads(done.stdout)
    assert early == []
    assert ours == [], "production waits for imports at each start that only rare ways of the loader need"
    assert set(late) <= {"numpy", "onnxruntime"}
    assert (label, telemetry, threads) == ("accept", "1", 1)
