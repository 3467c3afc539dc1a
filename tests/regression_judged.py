"""A submission beside a release, as the tests of the judge make them."""

from __future__ import annotations

from typing import Any

from acceptd.evidence import (
    Case,
    JobRecord,
    Named,
    OutputStats,
    Prior,
    Quantisation,
    ReleasedFile,
    Snapshot,
    Submission,
    declared_by,
)
from acceptd.judge.finding import Judgement
from acceptd.policy.policy import Policy
from acceptd.policy.regression import RegressionTable
from acceptd.statistics_facts import LabelRows, Labels
from tests import judge_world as world

INT8 = Quantisation(method="dynamic", format="qoperator", nodes=1)
DRAWS = [f"probe:draws-{number}" for number in range(4)]


def release(**changes: Any) -> Prior:
    declared = declared_by(world.a_manifest())
    snapshot: dict[str, Any] = {
        "name": "main",
        "file": "model.onnx",
        "bytes": 309,
        "facts": world.facts(),
        "structure": world.structure(),
        "files": [ReleasedFile(path="model.onnx", sha256="e" * 64, size=309)],
    }
    own = {key: changes.pop(key) for key in list(changes) if key in snapshot}
    fields: dict[str, Any] = {
        "status": "found",
        "channel": "production",
        "number": 3,
        "bundle_digest": "c" * 64,
        "version": "1.3.0",
        "models": [Snapshot.model_validate(snapshot | own)],
        "declared": declared,
    }
    return Prior.model_validate(fields | changes)


def cases(draws: list[str]) -> list[Case]:
    drawn = [Case(set=name, repeat=0, outputs=[Named(name="probabilities", value=world.ref())]) for name in draws]
    return [*world.golden_cases(), *drawn]


def older(**changes: Any) -> JobRecord:
    return world.run(**({"variant": "prior", "cases": cases(DRAWS)} | changes))


def row(name: str, rows: dict[int, tuple[int, int]], **changes: Any) -> OutputStats:
    """Statistics of one input: for each label of the release its rows, and how many of them are another's now."""
    labels = [LabelRows(index=index, rows=one, missed=other) for index, (one, other) in rows.items()]
    total, missed = sum(one.rows for one in labels), sum(one.missed for one in labels)
    counted = Labels(rows=total, mismatches=missed, labels=labels)
    fields = {"against": "prior", "n": 3 * total, "labels": counted, "max_abs": 0.25}
    return world.stats(name, **(fields | changes))


def judged(
    *rows: OutputStats,
    prior: Prior | None = None,
    jobs: list[JobRecord] | None = None,
    table: dict[str, Any] | None = None,
    **facts: Any,
) -> tuple[Judgement, Submission, Policy]:
    told = world.facts(**facts)
    own = [world.inspect(facts=told), world.run(cases=cases(DRAWS)), older()]
    given = {(job.kind, job.variant) for job in jobs or []}
    kept = [job for job in own if (job.kind, job.variant) not in given]
    usual = [world.stats(name, against=one) for name in world.SETS for one in ("golden", "repeat", "unoptimised")]
    golden = [world.stats(name, against="prior-golden") for name in world.SETS]
    submission = world.submission(
        [*kept, *(jobs or [])],
        prior=prior or release(),
        statistics=world.statistics().model_copy(update={"outputs": [*usual, *golden, *rows]}),
    )
    policy = Policy(regression=RegressionTable.model_validate(table or {}))
    return world.verdict(submission, policy=policy), submission, policy


def regressions(judgement: Judgement) -> dict[str, tuple[str, str]]:
    return {
        one.code: (one.severity, one.where) for one in judgement.findings if one.code.startswith("regression/")
    }


def same(rows: int = 40) -> list[OutputStats]:
    return [row(DRAWS[0], {0: (rows, 0), 1: (rows, 0), 2: (rows, 0)})]
