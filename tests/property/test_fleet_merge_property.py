"""Examinations of one bundle under one profile each, merged, are the examination under all: to the last byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acceptd.evidence import JobRecord, Refused, Submission, UnderProfile
from acceptd.fleet.examined import Examined
from acceptd.fleet.merge import merge
from acceptd.judge.profiles import judge_all
from acceptd.policy.policy import Policy
from acceptd.record.canonical import canonical
from acceptd.replay.again import recorded
from tests import fleet_evidence as fleet
from tests import judge_world as world

pytestmark = pytest.mark.property

ENDINGS = st.fixed_dictionaries(
    {
        "ending": st.sampled_from(["done", "refused", "limit", "crash", "violation", "lost", "unavailable"]),
        "cause": st.sampled_from(["", "cpu", "SIGSYS", "odd"]),
        "refused": st.one_of(
            st.none(),
            st.builds(Refused, code=st.just("load/create"), where=st.text(max_size=8), message=st.text()),
        ),
        "attempts": st.integers(1, 2),
    }
)
MEASURED = st.fixed_dictionaries(
    {
        "wall_s": st.floats(0, 1e6),
        "cpu_s": st.floats(0, 1e6),
        "peak_rss_bytes": st.integers(0, 2**50),
        "baseline_rss_bytes": st.integers(0, 2**50),
        "parent": st.integers(0, 99),
        "stderr_tail": st.text(max_size=20),
    }
)
"""What differs between two honest hosts."""


@st.composite
def wholes(draw: st.DrawFn) -> Submission:
    """A submission under three profiles: any job may have ended anyhow, and any profile may have none."""

    def maybe(job: JobRecord) -> JobRecord:
        return job.model_copy(update=draw(ENDINGS)) if draw(st.integers(0, 3)) == 0 else job

    whole = fleet.whole()
    static = [maybe(job) for job in whole.jobs if not job.profile]
    ran = [name for name in fleet.NAMES if draw(st.integers(0, 4))]
    runs = [maybe(job) for name in fleet.NAMES for job in whole.jobs if job.profile == name and name in ran]
    statistics = st.sampled_from([None, world.statistics(), world.statistics(world.stats(exceeding=1))])
    under = {name: UnderProfile(profile=name, statistics=draw(statistics)) for name in ran}
    first = under.get("cpu", UnderProfile(profile="cpu"))
    return whole.model_copy(
        update={
            "jobs": [*static, *runs],
            "statistics": first.statistics,
            "others": [under[name] for name in fleet.NAMES[1:] if name in under],
        }
    )


def findings(one: Examined, policy: Policy) -> bytes:
    found = judge_all(one.manifest, None, policy, one.submission, world.NOW, fleet.TARGETS)
    return canonical({"verdict": found.verdict, "reason": found.reason, "findings": recorded(found)})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wholes(), st.data())
def test_merged_examinations_are_the_whole_one(whole: Submission, data: st.DataObject) -> None:
    def elsewhere(job: JobRecord) -> JobRecord:
        changes: dict[str, Any] = data.draw(MEASURED)
        return job if job.profile else job.model_copy(update=changes)

    parts = [fleet.part(whole, name) for name in fleet.NAMES]
    parts[1:] = [
        one.model_copy(
            update={
                "submission": one.submission.model_copy(
                    update={"jobs": [elsewhere(job) for job in one.submission.jobs]}
                )
            }
        )
        for one in parts[1:]
    ]
    carried = [Examined.from_bytes(one.to_bytes()) for one in data.draw(st.permutations(parts))]
    merged = merge(carried, fleet.TARGETS)
    assert merged.submission == whole
    assert merged.to_bytes() == fleet.examined(whole, *fleet.NAMES).to_bytes()
    assert findings(merged, fleet.POLICY) == findings(fleet.examined(whole, *fleet.NAMES), fleet.POLICY)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wholes(), st.data())
def test_no_profile_is_accepted_that_its_own_worker_would_not_accept(
    whole: Submission, data: st.DataObject
) -> None:
    """One worker's jobs of the bundle end otherwise than the others'."""
    name = data.draw(st.sampled_from(fleet.NAMES))
    parts = [fleet.part(whole, one) for one in fleet.NAMES]
    index = fleet.NAMES.index(name)
    jobs = [
        job if job.profile or data.draw(st.integers(0, 1)) else job.model_copy(update=data.draw(ENDINGS))
        for job in parts[index].submission.jobs
    ]
    changed = parts[index].submission.model_copy(update={"jobs": jobs})
    parts[index] = parts[index].model_copy(update={"submission": changed})
    try:
        merged = merge(parts, fleet.TARGETS)
    except fleet.FleetTrustError:
        return
    alone = judge_all(
        parts[index].manifest, None, fleet.POLICY.under(name), changed.under(name), world.NOW,
        [fleet.TARGETS[index]],
    )  # fmt: skip
    found = judge_all(merged.manifest, None, fleet.POLICY, merged.submission, world.NOW, fleet.TARGETS)
    told = {one.profile: one.verdict for one in found.profiles}
    if alone.verdict != "accepted":
        assert told[name] != "accepted"
