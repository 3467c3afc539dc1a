"""Every job kind, under all walls, on ONNX's own node cases: whatever a library imports lazily must be preloaded.

In a job nothing can be imported any more, so that a gap in the preload list shows as ``sandbox/job-error``.
``ACCEPTD_BACKEND_CASES=all`` (``make backend-cell``) takes every case instead of a sample.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from acceptd import local
from acceptd.policy import load
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from acceptd.rules import Rules
from tests.cell.conftest import whole_interpreter
from tools.backend_suite import write_node_case, write_suite

pytestmark = [pytest.mark.cell, pytest.mark.any_uid, whole_interpreter]
WHOLE = os.environ.get("ACCEPTD_BACKEND_CASES") == "all"
SAMPLE = 40


def write_sample(out: Path) -> None:
    """Write ``SAMPLE`` node cases, spread evenly over the sorted names."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # node cases overflow and divide by zero on purpose
        cases = sorted(load_model_tests(kind="node"), key=lambda case: str(case.name))
        for index in range(SAMPLE):
            case = cases[index * len(cases) // SAMPLE]
            place = out / "node" / case.name
            place.mkdir(parents=True)
            write_node_case(case, place)


def rules() -> Rules:
    """Return the default policy, open to any operator and to bundles without a manifest."""
    policy = load.with_overrides(Policy(), ["operators.mode=any", "manifest.inferred=accept"])
    profile = Profile()
    return Rules(policy, load.digest(policy), profile, load.digest(profile), Path("/nonexistent"))


@pytest.mark.timeout(1800 if WHOLE else 300)
def test_no_job_ends_with_an_error_of_its_own(tmp_path: Path) -> None:
    write_suite(tmp_path) if WHOLE else write_sample(tmp_path)
    cases = local.find_cases(tmp_path)
    assert len(cases) == SAMPLE or WHOLE
    faults: dict[str, list[Any]] = {}
    verdicts: Counter[str] = Counter()

    def done(case: Path, report: dict[str, Any]) -> None:
        verdicts[report["verdict"]] += 1
        bad = [one for one in report["findings"] if one["code"].startswith("sandbox/")]
        if bad or report["verdict"] == "inconclusive" or "error" in report:
            faults[case.name] = bad or [report.get("reason")]

    with local.bench(rules(), cores=2, suite=True) as bench:
        local.check_many(bench, cases, done=done)
    assert not faults
    assert sum(verdicts.values()) == len(cases)
    assert verdicts["accepted"] > len(cases) // 2, verdicts
