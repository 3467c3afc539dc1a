"""The runtime of a submission's runs: what was measured counts, what a job says of it is compared."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import Refused, Schema
from acceptd.judge.jobs import RUNTIME_CAUSES
from acceptd.policy.profile import CustomOperators, Profile
from acceptd.runtime.identity import RuntimeRecord, identity, record_of
from tests import judge_world as world
from tests.unit.test_runtime_identity import CLASS, FACTS, A, B, C

pytestmark = pytest.mark.unit

RECORD = record_of(FACTS, Profile(), CLASS)
PINS = {"libc.so.6": A, "libonnxruntime.so.1.32.0": B, "libx.so": C}


def said(**words: str) -> Any:
    schema = world.run().schema_
    assert isinstance(schema, Schema)
    return world.run(schema_=schema.model_copy(update={"runtime": words}))


def given(*records: RuntimeRecord, jobs: Any = (), **more: Any) -> Any:
    return world.submission(list(jobs), runtimes=list(records or (RECORD,)), **more)


def test_a_measured_runtime_is_accepted_and_has_an_identity() -> None:
    submission = given()
    assert submission.runtime_identity == identity(RECORD)
    judged = world.verdict(submission)
    assert judged.verdict == "accepted"
    assert not [code for code in world.codes(judged) if code.startswith("runtime/")]


@pytest.mark.parametrize(
    ("profile", "code"),
    [
        (Profile(libraries=PINS, onnxruntime="1.32.0"), None),
        (Profile(libraries={**PINS, "libc.so.6": B}), "runtime/library-mismatch"),
        (Profile(libraries={"libc.so.6": A}), "runtime/library-mismatch"),
        (Profile(libraries={**PINS, "libz.so.1": A}), "runtime/library-mismatch"),
        (Profile(onnxruntime="1.24.1"), "runtime/version-mismatch"),
    ],
)
def test_a_submission_that_is_judged_again_by_other_pins_is_held(profile: Profile, code: str | None) -> None:
    judged = world.verdict(given(), profile=profile)
    assert judged.verdict == ("held" if code else "accepted")
    assert not code or code in world.codes(judged, "hold")


def test_a_custom_operator_library_must_be_the_listed_one() -> None:
    def profile(sha256: str) -> Profile:
        one = CustomOperators(path="/opt/x/libx.so", sha256=sha256, abi=20, source="git at 1", domain="x.ops")
        return Profile(custom_operators=[one])

    record = record_of(FACTS, profile(C), CLASS)
    assert world.verdict(given(record), profile=profile(C)).verdict == "accepted"
    judged = world.verdict(given(record), profile=profile(A))
    assert world.codes(judged, "hold") == ["runtime/custom-operator-mismatch"]


@pytest.mark.parametrize("code", sorted(RUNTIME_CAUSES))
def test_a_run_that_was_refused_for_its_runtime_is_inconclusive_and_not_the_models_fault(code: str) -> None:
    stopped: dict[str, Any] = {
        "ending": "unavailable", "cause": code, "message": "libc.so.6 differs", "schema_": None,
        "placement": None, "steps": [], "done": None, "cases": [],
    }  # fmt: skip
    jobs = [world.run(**stopped), world.unoptimised(**stopped)]
    judged = world.verdict(given(jobs=jobs, statistics=None), profile=Profile(libraries={"libc.so.6": B}))
    assert judged.verdict == "inconclusive"
    assert not world.codes(judged, "reject")
    found = [one for one in judged.findings if one.code == code]
    assert {one.audience for one in found} == {"reviewer"}
    assert [one.message for one in found] == ["libc.so.6 differs"] * 2


def test_a_job_cannot_excuse_itself_with_a_cause_of_the_trusted_side() -> None:
    """The cause of an ending is never a job's word; a refusal with such a code is a breach."""
    refused = Refused(code="runtime/library-mismatch", where="libc.so.6", message="not me")
    judged = world.verdict(given(jobs=[world.run(ending="refused", refused=refused, cases=[])]))
    assert "sandbox/protocol-violation" in world.codes(judged, "reject")


@pytest.mark.parametrize(
    ("words", "held"),
    [
        ({}, False),
        ({"onnxruntime": "1.32.0", "numpy": "2.4.6", "build": "git-commit-id=1"}, False),
        ({"available_providers": "AzureExecutionProvider,CPUExecutionProvider", "cpu_class": "anything"}, False),
        ({"onnxruntime": "1.33.0"}, True),
        ({"build": "git-commit-id=2"}, True),
        ({"available_providers": "CUDAExecutionProvider,CPUExecutionProvider"}, True),
    ],
)
def test_what_a_job_says_of_its_runtime_is_compared(words: dict[str, str], *, held: bool) -> None:
    judged = world.verdict(given(jobs=[said(**words)]))
    assert judged.verdict == ("held" if held else "accepted")
    assert ("runtime/said-otherwise" in world.codes(judged, "hold")) is held


def test_two_runtimes_in_one_submission_hold_and_there_is_no_identity() -> None:
    submission = given(RECORD, RECORD.model_copy(update={"numpy": "2.4.7"}))
    assert submission.runtime_identity is None
    judged = world.verdict(submission)
    assert (judged.verdict, world.codes(judged, "hold")) == ("held", ["runtime/changed"])


def test_a_runtime_that_cannot_be_measured_holds() -> None:
    submission = given(runtime_problem="/opt/libx.so: was replaced")
    assert submission.runtime_identity is None
    judged = world.verdict(submission)
    assert (judged.verdict, world.codes(judged, "hold")) == ("held", ["runtime/unmeasured"])
