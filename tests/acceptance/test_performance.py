"""Speed through the real rooms: what is measured, what a ceiling does, and what it costs nobody who has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.evidence import JobRecord
from acceptd.outcomes import Outcome
from examples import evidence_classifier as classifier
from tests.bench_world import Desk, desk
from tests.world import codes

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk(tmp_path_factory.mktemp("performance"), contract=True) as made:
        yield made


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier.write_bundle(tmp_path_factory.mktemp("good") / "b")


def ceilings(place: Desk, *lines: str) -> None:
    """Put other ceilings into the contract in force."""
    file = place.policies / "contracts" / "mosaic" / "evidence-disposition.toml"
    text = file.with_name(file.name + ".example").read_text("utf-8")
    before, _, rest = text.partition("[ceilings]\n")
    after = rest[rest.index("[[models]]") :]
    file.write_text(before + "[ceilings]\n" + "\n".join(lines) + "\n\n" + after, "utf-8")


def jobs(report: dict[str, object], kind: str = "run") -> list[str]:
    return [job["kind"] for job in report["resources"]["jobs"] if job["kind"] == kind]  # type: ignore[index]


def test_ceilings_that_are_kept_accept_and_time_nothing_twice(place: Desk, good: Path) -> None:
    ceilings(place, "load_ms = 60000", "p50_ms = 60000", "p99_ms = 60000", "p50_kernels = 60000")
    report = place.check(good)
    assert report["verdict"] == "accepted", report["findings"]
    assert len(jobs(report)) == 2


def test_a_broken_ceiling_is_measured_twice_and_never_accepted(place: Desk, good: Path) -> None:
    """Whether it rejects or holds is the machine's load; that it does not pass, and says by how much, is not."""
    ceilings(place, "p50_ms = 0.000001")
    report = place.check(good)
    assert report["verdict"] in {"rejected", "held"}
    (found,) = [one for one in report["findings"] if one["code"].startswith("performance/")]
    assert found["code"] in {"performance/latency-ceiling", "performance/unclear"}
    assert found["where"] == "models.main.p50_ms"
    assert found["evidence"]["outcomes"] == ["over", "over"]
    assert all(count >= 60 for count in found["evidence"]["samples"])
    assert len(jobs(report)) == 3


def test_without_the_second_job_nothing_is_rejected_for_its_time(place: Desk, good: Path) -> None:
    ceilings(place, "p50_ms = 0.000001")
    report = place.check(good, "performance.retry=false")
    assert (report["verdict"], codes(report, "hold")) == ("held", {"performance/unclear"})
    assert len(jobs(report)) == 2


def test_a_policy_that_times_nothing_accepts_without_a_ceiling_and_holds_with_one(place: Desk, good: Path) -> None:
    nothing = ("performance.samples=0", "performance.judged_samples=0")
    ceilings(place, "model_bytes = 1048576")
    assert place.check(good, *nothing)["verdict"] == "accepted"
    ceilings(place, "p50_ms = 60000")
    report = place.check(good, *nothing)
    assert (report["verdict"], codes(report, "hold")) == ("held", {"performance/unclear"})


def test_the_evidence_of_a_run_has_its_timing_and_the_machine(place: Desk, good: Path) -> None:
    from acceptd import local

    kept: list[JobRecord] = []
    ceilings(place, "p50_kernels = 60000")
    with_all = place.rules()
    assert with_all.policy.performance.samples
    original = local._compared

    def keep(*arguments: Any) -> Outcome:
        outcome = original(*arguments)
        kept.extend(outcome.submission.jobs)
        return outcome

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_compared", keep)
        place.check(good)
    (main,) = [one for one in kept if one.kind == "run" and one.variant == ""]
    assert main.timing is not None
    assert main.kernel is not None
    assert main.host is not None
    assert (len(main.timing.wall_ms), main.timing.warmups) == (100, 2)
    assert main.host.cores >= 1
    assert {one.name for one in main.timing.cold} >= {"library-load", "session", "first-run", "prepack"}
    (plain,) = [one for one in kept if one.variant == "unoptimised"]
    assert (plain.timing, plain.kernel, plain.host) == (None, None, None)
