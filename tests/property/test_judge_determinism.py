"""The judge on arbitrary evidence: it never raises, never accepts by accident, and gives the same bytes twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptd.evidence import (
    Case,
    Check,
    External,
    JobRecord,
    Named,
    OpUse,
    Problem,
    Refused,
    Submission,
    TensorRef,
    ValueInfo,
    Walls,
)
from acceptd.judge.codes import CODES
from acceptd.judge.infer import infer
from acceptd.judge.verdict import pre_run
from acceptd.judge.words import finish, printable
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.property

text = st.text(max_size=12)
code = st.one_of(st.sampled_from(sorted(CODES)), st.just("odd/code"))
problems = st.lists(st.builds(Problem, code=code, where=text, message=text), max_size=3)
number = st.integers(-(2**66), 2**66)
count = st.integers(0, 2**40)
ports = st.lists(
    st.builds(
        ValueInfo,
        name=text,
        kind=st.sampled_from(["tensor", "sequence", "optional", "map", "sparse_tensor", "opaque", "unknown"]),
        dtype=st.sampled_from(["float32", "int64", "string", "", "odd"]),
        shape=st.one_of(st.none(), st.lists(st.one_of(number, text), max_size=3)),
        overridable=st.booleans(),
        detail=st.sampled_from(["", "sequence(map(int64,float32))", "map(", "map(a,b)"]),
    ),
    max_size=3,
)
facts = st.fixed_dictionaries(
    {
        "ir_version": number,
        "opsets": st.dictionaries(st.sampled_from(["ai.onnx", "x"]), number, max_size=2),
        "nodes": count,
        "scopes": count,
        "operators": st.lists(st.builds(OpUse, domain=text, op_type=text, count=count, where=text), max_size=2),
        "initializers": count,
        "external": st.lists(
            st.builds(
                External,
                tensor=text,
                location=text,
                offset=st.one_of(st.none(), number),
                length=st.one_of(st.none(), number),
                where=text,
                inside=st.booleans(),
            ),
            max_size=2,
        ),
        "external_count": st.integers(0, 3),
        "inputs": ports,
        "outputs": ports,
        "problems": problems,
    }
).map(lambda changes: world.facts(**changes))
values = st.builds(
    TensorRef,
    dtype=st.sampled_from(["float32", "odd", "string"]),
    shape=st.lists(count, max_size=3),
    offset=count,
    nbytes=count,
)
cases = st.lists(
    st.builds(
        Case,
        set=st.sampled_from([*world.SETS, "probe:zeros", "odd"]),
        repeat=st.integers(0, 3),
        in_domain=st.booleans(),
        outputs=st.lists(st.builds(Named, name=text, value=values), max_size=2),
        error=st.sampled_from(["", "boom"]),
        finite=st.sampled_from([None, True, False]),
        problems=problems,
    ),
    max_size=5,
)
endings = st.fixed_dictionaries(
    {
        "ending": st.sampled_from(["done", "refused", "limit", "crash", "violation", "lost", "unavailable"]),
        "cause": st.sampled_from(["", "cpu", "SIGSYS", "odd"]),
        "refused": st.one_of(st.none(), st.builds(Refused, code=code, where=text, message=text)),
        "walls": st.one_of(st.none(), st.just(Walls(states={"seccomp": "failed"}))),
        "attempts": st.integers(1, 2),
    }
)


def merged(record: JobRecord, *changes: dict[str, Any]) -> JobRecord:
    update: dict[str, Any] = {}
    for one in changes:
        update |= one
    return record.model_copy(update=update)


@st.composite
def submissions(draw: st.DrawFn) -> Submission:
    """A flawless submission in which any job may be anything, in any order, any number of times."""
    jobs: list[JobRecord] = []
    for record in world.submission().jobs:
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
            change: dict[str, Any] = draw(endings) if draw(st.booleans()) else {}
            if record.kind == "inspect" and draw(st.booleans()):
                change |= {"facts": draw(facts), "checker": Check(ok=False, message=draw(text))}
            if record.kind == "run" and draw(st.booleans()):
                change |= {"cases": draw(cases)}
            jobs.append(merged(record, change))
    statistics = draw(st.sampled_from([None, world.statistics(), world.statistics(world.stats(exceeding=1))]))
    return world.submission(jobs=[]).model_copy(
        update={"jobs": draw(st.permutations(jobs)), "statistics": statistics}
    )


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(submissions(), st.booleans())
def test_the_same_evidence_gives_the_same_bytes_and_no_evidence_breaks_the_judge(
    one: Submission, with_contract: bool
) -> None:
    contract = world.a_contract() if with_contract else None
    first = world.verdict(one, contract=contract)
    again = world.verdict(Submission.model_validate_json(one.model_dump_json(by_alias=True)), contract=contract)
    assert first.model_dump_json() == again.model_dump_json()
    pre_run(world.a_manifest(), contract, Policy(), one)
    severities = {finding.severity for finding in first.findings}
    if first.verdict == "accepted":
        assert severities.isdisjoint({"reject", "hold"})
        assert all(job.ending in {"done", "lost", "unavailable", "refused"} for job in one.jobs)
    if first.verdict == "rejected":
        assert "reject" in severities
    assert world.verdict(one.model_copy(update={"walls": {}}), contract=contract).verdict == "inconclusive"


@settings(max_examples=60, deadline=None)
@given(st.permutations(list(world.verdict(world.submission(team="x", statistics=None)).findings)))
def test_the_order_of_findings_does_not_matter(findings: list[Any]) -> None:
    assert finish(findings) == finish(list(reversed(findings)))


@settings(max_examples=100, deadline=None)
@given(facts, text, text)
def test_no_facts_break_the_inference(one: Any, team: str, name: str) -> None:
    found = infer(team, name, {"model.onnx": one}, world.sealed(manifest=False))
    assert found is not None
    assert not found.manifest.declared


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_shown_text_is_always_printable(one: str) -> None:
    shown = printable(one)
    shown.encode()
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert len(shown) <= 4000
