"""Receipts of real runs, and what `replay` does with them, on a released evidence classifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acceptd import loader_session
from acceptd.errors import (
    DigestMismatchError,
    InvalidInputError,
    InvalidOutputError,
    MalformedError,
    PreprocessingMismatchError,
    ReplayRefusedError,
)
from acceptd.loader_receipts import Request, replay
from acceptd.loader_session import Session
from acceptd.loader_values import value_digest
from acceptd.release.receipt import Decision, Receipt, parse, verify
from examples.evidence_classifier import Variant, build_model, manifest
from tests.release_world import World

pytestmark = pytest.mark.unit
GOOD = [0.9, 0.8, 0.75, 0.1]
FED = {"features": [GOOD, [0.0, 0.0, 0.0, 0.0]]}
PREPROCESSING = str(manifest()["preprocessing"]["sha256"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("receipts"))
    made.released(files={"model.onnx": build_model()}, manifest=manifest())
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(world: World) -> Session:
    return world.open().session()


class Clock:
    """Seconds that tests turn."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, milliseconds: float) -> None:
        self.now += milliseconds / 1000


def test_a_receipt_of_a_row_binds_what_was_decided(world: World, session: Session) -> None:
    outputs = session.run(FED)
    one = outputs.receipt("request 7", raw_input=b"the raw bytes", row=1, threshold=0.4)
    assert one.raw_input == hashlib.sha256(b"the raw bytes").hexdigest()
    assert one.preprocessing == PREPROCESSING
    assert one.decision == Decision(1, "probabilities", 1, outputs.labels()[1], "0.4")
    assert one.inputs == {"features": value_digest(np.array(FED["features"], np.float32))}
    assert one.outputs == {name: value_digest(array) for name, array in outputs.items()}
    assert one.beside.provider == one.beside.requested_provider == "CPUExecutionProvider"
    assert verify(one.line, world.open()) == one


def test_below_the_threshold_there_is_no_label(session: Session) -> None:
    outputs = session.run(FED)
    decision = outputs.receipt(row=1, threshold=0.999).decision
    assert decision == Decision(1, "probabilities", None, None, "0.999")


def test_a_threshold_is_compared_in_the_outputs_own_precision(session: Session) -> None:
    """float32(0.9) is below 0.9: a row that has exactly the threshold keeps its label."""
    outputs = session.run(FED)
    outputs["probabilities"][0] = [np.float32(0.9), np.float32(0.05), np.float32(0.05)]
    decision = outputs.receipt(row=0, threshold=0.9).decision
    assert decision is not None
    assert decision.label == "accept"


@pytest.mark.parametrize("row", [-1, 2, True, 0.0, "0"])
def test_a_row_that_is_not_there(session: Session, row: Any) -> None:
    with pytest.raises(InvalidInputError, match="has 2 rows"):
        session.run(FED).receipt(row=row)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf")])
def test_a_threshold_that_is_no_number(session: Session, threshold: float) -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        session.run(FED).receipt(row=0, threshold=threshold)


def test_nothing_is_decided_before_something_was_run(session: Session) -> None:
    with Request(session, "r") as request, pytest.raises(InvalidInputError, match="nothing has been run yet"):
        request.decide()


def test_a_request_measures_each_phase_and_the_deadline(session: Session) -> None:
    clock = Clock()
    arrived = clock()
    clock.pass_(3)
    with Request(session, "r", arrived=arrived, deadline_ms=20, clock=clock) as request:
        with request.preprocessing():
            clock.pass_(5)
        request.run(FED)
        with request.postprocessing():
            clock.pass_(2)
            assert request.decide(threshold=0.4) == "accept"
    found = request.receipt
    durations = found.beside.durations
    assert [round((value or 0) / 1000) for value in (durations.queue, durations.preprocess)] == [3, 5]
    assert (durations.run, round((durations.postprocess or 0) / 1000)) == (0, 2)
    assert (found.beside.timeout, found.beside.validation, found.beside.error) == ("met", "passed", "")
    assert parse(found.line) == found
    with Request(session, "r", deadline_ms=20, clock=clock) as late:
        late.run(FED)
        clock.pass_(21)
    assert late.receipt.beside.timeout == "exceeded"


def failing(session: Session, error: type[Exception], monkeypatch: pytest.MonkeyPatch, inputs: Any) -> Receipt:
    request = Request(session, "r", raw_input=b"raw")
    with pytest.raises(error), request:
        request.run(inputs)
    monkeypatch.undo()
    return request.receipt


def test_a_refused_input_has_a_receipt_without_its_message(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = failing(session, InvalidInputError, monkeypatch, {"features": [[7.123456, 0, 0, 0]]})
    assert (found.beside.error, found.beside.validation) == ("InvalidInputError", "none")
    assert (found.inputs, found.outputs, found.decision) == ({}, {}, None)
    assert b"7.123" not in found.line


def test_a_refused_output_binds_what_was_fed_and_no_output(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong:
        def run(self, names: list[str], feed: Any) -> list[Any]:
            return [np.full((2, 3), 0.123456, np.float32) for _ in names]

    monkeypatch.setattr(session, "_session", Wrong())
    found = failing(session, InvalidOutputError, monkeypatch, FED)
    assert (found.beside.error, found.beside.validation) == ("InvalidOutputError", "failed")
    assert found.inputs == session.run(FED).receipt().inputs
    assert found.outputs == {}
    assert b"0.123" not in found.line
    assert parse(found.line) == found


def test_an_error_with_an_odd_class_name_is_an_exception(session: Session) -> None:
    odd = type("odd 0.9", (Exception,), {})
    request = Request(session)
    with pytest.raises(odd), request:
        raise odd
    assert request.receipt.beside.error == "Exception"
    assert parse(request.receipt.line).beside.error == "Exception"


def test_a_request_prepared_otherwise_is_refused_before_a_tensor_exists(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted(monkeypatch)
    request = Request(session, preprocessing="a" * 64)
    with pytest.raises(PreprocessingMismatchError), request:
        request.run(FED)
    assert made == []
    assert request.receipt.beside.error == "PreprocessingMismatchError"
    with Request(session, preprocessing=PREPROCESSING) as request:
        request.run(FED)
    assert made == ["features"]


# -- replay


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each tensor that the factory makes."""
    made: list[str] = []
    factory = loader_session.tensor

    def recording(spec: Any, value: Any) -> Any:
        made.append(spec.name)
        return factory(spec, value)

    monkeypatch.setattr(loader_session, "tensor", recording)
    return made


def test_the_same_request_replays(session: Session) -> None:
    told = session.run(FED).receipt("r", row=0, threshold=0.4)
    found = replay(session, told.line, FED, preprocessing=PREPROCESSING)
    assert found.same
    assert (found.release, found.runtime, found.differing) == (True, True, ())


def test_replay_refuses_another_preprocessing_before_a_tensor_exists(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = session.run(FED).receipt("r", row=0)
    made = counted(monkeypatch)
    for other in ("a" * 64, "", None, "é", PREPROCESSING.upper()):
        with pytest.raises(PreprocessingMismatchError):
            replay(session, told, FED, preprocessing=other)
    with pytest.raises(PreprocessingMismatchError, match="the receipt binds"):  # a receipt that lies about it
        replay(session, replace(told, preprocessing="a" * 64), FED, preprocessing=PREPROCESSING)
    with pytest.raises(PreprocessingMismatchError, match="was accepted for"):  # caller and receipt agree to lie
        replay(session, replace(told, preprocessing="a" * 64), FED, preprocessing="a" * 64)
    assert made == []
    replay(session, told, FED, preprocessing=PREPROCESSING)  # the control: the recorder does see a tensor
    assert made == ["features"]


REFUSED: dict[str, dict[str, Any]] = {
    "another bundle": {"bundle_digest": "a" * 64},
    "another model id": {"model_id": "mosaic/other"},
    "another model": {"model": "second"},
    "no outputs": {"outputs": {}},
}


@pytest.mark.parametrize("name", REFUSED)
def test_replay_refuses_what_cannot_be_run_again_here(
    session: Session, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    told = replace(session.run(FED).receipt("r"), **REFUSED[name])
    made = counted(monkeypatch)
    with pytest.raises(ReplayRefusedError):
        replay(session, told, FED, preprocessing=PREPROCESSING)
    assert made == []


def test_replay_trusts_no_line(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    told = session.run(FED).receipt("r").line
    made = counted(monkeypatch)
    for line in (b"", b"{", told[:-10]):
        with pytest.raises(MalformedError):
            replay(session, line, FED, preprocessing=PREPROCESSING)
    with pytest.raises(DigestMismatchError):
        replay(session, told.replace(b'"r"', b'"s"'), FED, preprocessing=PREPROCESSING)
    assert made == []


def test_replay_says_what_differs(session: Session) -> None:
    told = session.run(FED).receipt("r", row=0)
    other = {"features": [[0.0, 0.0, 0.0, 0.0], GOOD]}
    found = replay(session, told, other, preprocessing=PREPROCESSING)
    assert (found.same, found.inputs, found.outputs, found.decision) == (False, False, False, False)
    assert found.differing == tuple(sorted(told.outputs))
    lied = replace(told, outputs={**told.outputs, "probabilities": "a" * 64})
    found = replay(session, lied, FED, preprocessing=PREPROCESSING)
    assert (found.inputs, found.outputs, found.decision, found.differing) == (
        True,
        False,
        True,
        ("probabilities",),
    )
    bound = replace(told, decision=None)
    assert replay(session, bound, FED, preprocessing=PREPROCESSING).decision, "none was bound: none differs"
    moved = replace(told, decision=Decision(9, "nothing", 0, "accept"))
    assert not replay(session, moved, FED, preprocessing=PREPROCESSING).decision


def test_a_release_of_the_same_bundle_under_a_later_number_replays(tmp_path: Path) -> None:
    made = World(tmp_path)
    first = made.released(files={"model.onnx": build_model()}, manifest=manifest())
    told = made.open().session().run(FED).receipt("r", row=0)
    other = manifest()
    other["bundle"]["version"] = "9.9.9"
    made.released(files={"model.onnx": build_model(Variant(bias=(5.0, 0.0, 0.0)))}, manifest=other)
    with pytest.raises(ReplayRefusedError):
        replay(made.open().session(), told, FED, preprocessing=PREPROCESSING)
    made.rollback(first.bundle_digest)
    found = replay(made.open().session(), told, FED, preprocessing=PREPROCESSING)
    assert (found.same, found.release) == (True, False)
    made.close()


# -- digests of what is no tensor


def test_sequences_and_maps_are_bound_to_their_last_element() -> None:
    """`repr` of a long array leaves out its middle: two sequences that differ there had one digest."""
    one, other = np.zeros(5000, np.float32), np.zeros(5000, np.float32)
    other[2500] = 1
    assert repr([one]) == repr([other])
    assert value_digest([one]) != value_digest([other])
    assert value_digest([{0: one}]) != value_digest([{0: other}])
    assert value_digest([one, other]) != value_digest([other, one])
    assert value_digest({1: 0.5, 2: 0.25}) == value_digest({2: 0.25, 1: 0.5})
    assert value_digest({1: 0.5}) != value_digest({1: 0.25})
    assert value_digest({1: 0.5}) != value_digest({"1": 0.5})
    assert value_digest([0.5]) != value_digest((0.5, 0.5))


def test_text_that_is_no_unicode_has_a_digest() -> None:
    assert value_digest(np.array(["\ud800"], object)) != value_digest(np.array(["\ud801"], object))
    assert json.loads('"\\ud800"') == "\ud800"
