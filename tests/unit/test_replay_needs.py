"""What a replay may not answer from stored evidence: keys that decide what is run, limits that work came near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acceptd.cli.replay import exit_code
from acceptd.evidence import Prior, SealFailure, Submission
from acceptd.policy.contract import Contract
from acceptd.policy.load import with_overrides
from acceptd.policy.policy import LimitsTable, Policy
from acceptd.probe_facts import LeftOut, Probed
from acceptd.replay.again import Replayed
from acceptd.replay.needs import _USES, JUDGED, reasons
from tests import heldout_world as own
from tests import judge_world as world

pytestmark = pytest.mark.unit
JUDGE = Path(__file__).resolve().parents[2] / "acceptd" / "judge"


def told(*overrides: str, given: Submission | None = None, contract: Contract | None = None) -> list[str]:
    new = with_overrides(Policy(), overrides)
    return list(reasons(Policy(), new, given or world.submission(), contract))


def test_every_limit_is_either_measured_here_or_read_by_the_judge_itself() -> None:
    source = "".join(path.read_text("utf-8") for path in JUDGE.glob("*.py"))
    for key in set(LimitsTable.model_fields) - _USES.keys():
        assert f"limits.{key}" in source, f"limits.{key}: who holds evidence against it?"
    assert _USES.keys() <= LimitsTable.model_fields.keys()


def test_keys_that_are_named_as_the_judges_exist() -> None:
    for name in JUDGED:
        value: object = Policy()
        for part in name.split("."):
            assert hasattr(value, part), name
            value = getattr(value, part)


@pytest.mark.parametrize(
    "override",
    [
        "parity.max_atol=0.5",
        "vectors.required=false",
        "severity.parity/mismatch=warn",
        "operators.mode=any",
        "required_walls=[]",
        "evidence.keep_outputs_bytes=0",
        "release.channel=staging",
        "limits.nodes_per_layer=1",
        "approvals.required=2",
    ],
)
def test_what_only_the_judge_reads_needs_no_rerun(override: str) -> None:
    assert told(override) == []


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("probes.enabled=false", "probes.enabled changed"),
        ("probes.draws=3", "probes.draws changed"),
        ("limits.files=1", "limits.files was lowered: "),
        ("limits.path_bytes=3", "limits.path_bytes was lowered: "),
        ("limits.bundle_bytes=10", "limits.bundle_bytes was lowered: "),
        ("limits.model_bytes=10", "limits.model_bytes was lowered: 309 were used, 10 are allowed"),
        ("limits.wire_depth=2", "limits.wire_depth was lowered: 6 were used"),
        ("limits.seal_seconds=1", "limits.seal_seconds was lowered"),
        ("limits.threads=1", "limits.threads was lowered"),
    ],
)
def test_what_decides_what_is_run_needs_a_rerun(override: str, words: str) -> None:
    (reason,) = told(override)
    assert reason.startswith(words)


@pytest.mark.parametrize(
    ("override", "asked", "given"),
    [
        ("heldout.evaluations=9", False, world.submission()),
        ("heldout.evaluations=9", True, own.submission(own.held())),
        ("regression.enabled=false", False, world.submission()),
        ("regression.enabled=false", False, world.submission(prior=Prior(status="same", reason="r"))),
        ("regression.enabled=false", True, world.submission(prior=Prior(status="found", reason="r"))),
        ("regression.timing_rounds=1", True, world.submission(prior=Prior(status="found", reason="r"))),
    ],
)
def test_what_there_was_none_of_is_not_asked_for_again(override: str, asked: bool, given: Submission) -> None:
    assert bool(told(override, given=given)) == asked


def test_how_runs_are_timed_matters_only_under_a_contract_with_such_a_ceiling() -> None:
    assert told("performance.samples=3") == []
    timed = world.a_contract(lambda document: document["ceilings"].update(p95_ms=5.0))
    assert told("performance.samples=3", contract=timed) == [
        "performance.samples changed: it decides what is run or compared"
    ]


def test_memory_and_scopes_are_held_against_what_jobs_took() -> None:
    given = world.submission(jobs=[world.run(peak_rss_bytes=300_000_000, baseline_rss_bytes=100_000_000)])
    assert told("limits.memory_bytes=250000000", given=given) == []
    assert told("limits.memory_bytes=150000000", given=given) == [
        "limits.memory_bytes was lowered: 2e+08 were used, 150000000 are allowed"
    ]
    deep = world.submission(jobs=[world.inspect(facts=world.facts(scopes=7))])
    assert told("limits.scopes=7", given=deep) == []
    assert told("limits.scopes=6", given=deep) == ["limits.scopes was lowered: 7 were used, 6 are allowed"]


def test_a_cpu_limit_is_held_against_what_the_jobs_of_its_kind_took() -> None:
    given = world.submission(jobs=[world.run(cpu_s=3.0), world.inspect(cpu_s=9.0)])
    assert told("limits.run_cpu_seconds=4", given=given) == []
    assert told("limits.run_cpu_seconds=2", given=given) == [
        "limits.run_cpu_seconds was lowered: 3 were used, 2 are allowed"
    ]
    slow = world.submission(jobs=[world.run(wall_s=130.0)])
    assert told("limits.wall_factor=3", given=slow) == []
    assert told("limits.wall_factor=2", given=slow)


def test_a_raised_limit_matters_only_where_something_was_stopped() -> None:
    assert told("limits.run_cpu_seconds=900") == []
    stopped = world.submission(jobs=[world.run(ending="limit", cause="cpu")])
    assert told("limits.run_cpu_seconds=900", given=stopped)
    failure = SealFailure(code="seal/too-many-files", where="", message="many")
    unsealed = world.submission(sealed=None, seal_failure=failure)
    assert told("limits.files=9000", given=unsealed)
    assert told("limits.files=2", given=unsealed) == []  # what was refused under more is refused under less


def test_a_limit_that_only_the_held_out_run_met_or_came_near_is_no_unchanged_verdict() -> None:
    def given(**changes: Any) -> Submission:
        return own.submission(own.held(world.run(variant="heldout", **changes)))

    stopped = given(ending="limit", cause="memory")
    assert told("limits.memory_bytes=9000000000", given=stopped) == [
        "limits.memory_bytes was raised: what stopped then may pass now"
    ]
    assert told("limits.run_cpu_seconds=2", given=given(cpu_s=3.0)) == [
        "limits.run_cpu_seconds was lowered: 3 were used, 2 are allowed"
    ]


@pytest.mark.parametrize(
    ("reason", "override"),
    [
        ("limits.threads", "limits.threads=16"),
        ("memory", "limits.memory_bytes=9000000000"),
        ("outputs", "limits.output_bytes=9000000000"),
    ],
)
def test_a_raised_limit_lets_what_was_left_out_for_it_be_tried(reason: str, override: str) -> None:
    left = Probed(scope="relations", left_out=[LeftOut(what="threads", count=1, reason=reason)])
    (said,) = told(override, given=world.submission(jobs=[world.run(probed=[left])]))
    assert "left out" in said
    time = Probed(scope="relations", left_out=[LeftOut(what="threads", count=1, reason="time")])
    assert told(override, given=world.submission(jobs=[world.run(probed=[time])])) == []


def test_exit_codes_are_the_worst_of_what_would_become() -> None:
    def one(status: str, old: str = "accepted", new: str = "") -> Replayed:
        return Replayed("s", "t", "t/m", world.NOW, status, old, new)  # type: ignore[arg-type]

    assert exit_code([]) == exit_code([one("unchanged", new="accepted")]) == 0
    assert exit_code([one("changed", new="rejected"), one("needs-rerun")]) == 1
    assert exit_code([one("needs-rerun"), one("changed", new="held")]) == 4
    assert exit_code([one("not-replayable")]) == exit_code([one("changed", new="inconclusive")]) == 4
    assert exit_code([one("changed", new="held")]) == 3
    assert exit_code([one("changed", old="rejected", new="accepted")]) == 3  # laxer: a person must look
    assert exit_code([one("changed", old="rejected", new="rejected")]) == 3  # other findings
    assert exit_code([one("unchanged")], damaged=1) == 5
