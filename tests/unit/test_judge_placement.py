"""Placements made up: islands, partitions and fallbacks that no machine here has, and what they decide."""

from __future__ import annotations

from typing import Any

import pytest

from acceptd.evidence import JobRecord, PlacedNode, Placement, Prior, Profiled
from acceptd.judge.jobs import Jobs
from acceptd.judge.placement import summarised
from acceptd.judge.verdict import judge
from acceptd.placement_facts import MAX_SEGMENTS, ProfilePlacement, Segment, several_providers, summary
from acceptd.policy.policy import PlacementTable, Policy
from acceptd.policy.profile import Profile
from acceptd.prior import Snapshot, placements_in
from tests import judge_world as world

pytestmark = pytest.mark.unit
CPU, NPU = "CPUExecutionProvider", "QNNExecutionProvider"
BOTH = Profile(name="cpu", providers=[NPU, CPU])


def nodes(*rows: tuple[str, str, int]) -> list[PlacedNode]:
    return [PlacedNode(provider=one, domain="ai.onnx", op_type=name, count=count) for one, name, count in rows]


def placed(*rows: tuple[str, str, int]) -> JobRecord:
    usual = world.run()
    assert usual.schema_ is not None
    return world.run(
        placement=Placement(nodes=nodes(*rows), requested_provider=NPU),
        schema_=usual.schema_.model_copy(update={"providers": [NPU, CPU]}),
    )


def profiled(*order: tuple[str, str, int], **more: Any) -> JobRecord:
    """A profiled run whose one inference went through ``order``: provider, operator, nodes."""
    segments = [Segment(provider=one, nodes=count, first=name, last=name) for one, name, count in order]
    times: dict[str, float] = {}
    for one, _, count in order:
        times[one] = times.get(one, 0.0) + count
    frame = Profiled(runs=20, segments=segments, segment_count=len(segments), ms=times, **more)
    return world.run(variant="profiled", profiled=frame, cases=world.golden_cases(1))


HYBRID = placed((NPU, "Conv", 8), (CPU, "NonMaxSuppression", 1))
PLAN = profiled((NPU, "Conv", 8), (CPU, "NonMaxSuppression", 1))
SPLIT = profiled((NPU, "Conv", 4), (CPU, "NonMaxSuppression", 1), (NPU, "Conv", 4))


def prior(*runs: JobRecord, **changes: Any) -> Prior:
    """The current release: what an accepted submission of these runs has left as evidence."""
    document = [one.model_dump(mode="json") for one in runs]
    snapshot = Snapshot(
        name="main",
        file="model.onnx",
        bytes=309,
        facts=world.facts(),
        structure=world.structure(),
        placements=placements_in(document, "main"),
    ).model_copy(update=changes)
    return Prior(status="found", number=1, bundle_digest="0" * 64, models=[snapshot])


def judged(
    *runs: JobRecord, before: Prior | None = None, policy: Policy | None = None, profile: Profile = BOTH
) -> Any:
    given = world.submission(list(runs), prior=before)
    found = judge(world.a_manifest(), None, policy or Policy(), given, world.NOW, profile=profile)
    told = [(one.code, one.severity) for one in found.findings if one.code.startswith("placement/")]
    return found.verdict, told


# -- what a placement comes to ------------------------------------------------------------------------


def test_one_provider_is_one_partition_and_all_of_the_time_by_definition() -> None:
    told = summary(Placement(nodes=nodes((CPU, "Add", 3))), None, [CPU], [CPU])
    assert (told.partitions, told.cpu_islands, told.copies, told.shares) == (1, 0, 0, {CPU: 1.0})
    assert told.note.startswith("by definition")
    assert not several_providers(Placement(nodes=nodes((CPU, "Add", 3), (CPU, "Mul", 1))))
    none = summary(Placement(nodes=[]), None, [CPU], [CPU])
    assert (none.partitions, none.shares) == (0, {})


def test_several_providers_are_counted_in_the_order_in_which_they_ran() -> None:
    assert several_providers(HYBRID.placement)
    told = summarised(Jobs((HYBRID, SPLIT)), world.a_manifest().models[0], BOTH)
    assert told is not None
    assert (told.partitions, told.cpu_islands, told.copies) == (3, 1, 0)
    assert told.shares == {NPU: round(8 / 9, 6), CPU: round(1 / 9, 6)}
    assert [(one.operator, one.next_operator, one.count) for one in told.boundaries] == [
        ("NonMaxSuppression", "Conv", 1),
        ("Conv", "NonMaxSuppression", 1),
    ]
    assert (told.requested_provider, told.selected_provider, told.used_cpu_fallback) == (NPU, NPU, True)
    assert told.cpu_operators == {"ai.onnx::NonMaxSuppression": 1}


def test_without_a_profiled_run_nothing_is_guessed() -> None:
    told = summarised(Jobs((HYBRID,)), world.a_manifest().models[0], BOTH)
    assert told is not None
    assert (told.partitions, told.shares, told.copies) == (None, None, None)
    assert told.note == "no profiled run came to its end"


def test_a_list_of_segments_that_was_cut_leaves_the_islands_open_and_the_count_whole() -> None:
    order = [(NPU, "Conv", 1), (CPU, "Cast", 1)] * (MAX_SEGMENTS // 2)
    record = profiled(*order)
    assert record.profiled is not None
    cut = record.model_copy(update={"profiled": record.profiled.model_copy(update={"segment_count": 5000})})
    told = summarised(Jobs((HYBRID, cut)), world.a_manifest().models[0], BOTH)
    assert told is not None
    assert (told.partitions, told.cpu_islands) == (5000, None)


# -- fallback -----------------------------------------------------------------------------------------


def test_a_run_that_fell_back_whole_never_satisfies_the_accelerators_profile() -> None:
    record = placed((CPU, "Add", 3))
    assert judged(record) == ("held", [("placement/provider-unused", "hold")])
    allowed = Profile(name="cpu", providers=[NPU], allow_cpu_fallback=True)
    assert judged(record, profile=allowed)[0] == "held"
    lowered = Policy(severity={"placement/provider-unused": "info"})
    assert judged(record, policy=lowered)[0] == "held"


def test_operators_that_may_fall_back_are_the_profiles_else_the_policys() -> None:
    narrow = Policy(placement=PlacementTable(cpu_operators=["ai.onnx::NonMaxSuppression"]))
    assert judged(HYBRID, PLAN, policy=narrow) == ("accepted", [])
    none = Policy(placement=PlacementTable(cpu_operators=[]))
    assert judged(HYBRID, PLAN, policy=none) == ("rejected", [("placement/cpu-operator", "reject")])
    own = BOTH.model_copy(update={"cpu_operators": ["ai.onnx::NonMaxSuppression"]})
    assert judged(HYBRID, PLAN, policy=none, profile=own) == ("accepted", [])
    assert (
        judged(HYBRID, PLAN, policy=narrow, profile=BOTH.model_copy(update={"cpu_operators": []}))[0] == "rejected"
    )


def test_the_cpu_profile_has_no_islands_and_limits_no_operator() -> None:
    policy = Policy(placement=PlacementTable(cpu_operators=[]))
    assert judged(world.run(), policy=policy, profile=Profile()) == ("accepted", [])


# -- beside the current release -----------------------------------------------------------------------


def test_the_same_plan_as_the_release_is_accepted() -> None:
    assert judged(HYBRID, PLAN, before=prior(HYBRID, PLAN)) == ("accepted", [])
    assert judged(HYBRID, PLAN, before=prior(HYBRID, SPLIT)) == ("accepted", [])  # fewer


def test_one_more_partition_fails_with_perfect_parity() -> None:
    verdict, told = judged(HYBRID, SPLIT, before=prior(HYBRID, PLAN))
    assert (verdict, told) == ("rejected", [("placement/more-partitions", "reject")])


def test_a_new_island_on_the_cpu_fails_with_perfect_parity() -> None:
    whole = placed((NPU, "Conv", 9))
    assert judged(whole, before=prior(whole))[0] == "accepted"
    verdict, told = judged(HYBRID, PLAN, before=prior(whole))
    assert (verdict, ("placement/new-cpu-island", "reject") in told) == ("rejected", True)


def test_another_operator_in_the_same_island_is_a_new_island_too() -> None:
    record = placed((NPU, "Conv", 8), (CPU, "NonMaxSuppression", 1), (CPU, "Resize", 1))
    plan = profiled((NPU, "Conv", 8), (CPU, "NonMaxSuppression", 2))
    assert judged(record, plan, before=prior(HYBRID, PLAN))[1] == [("placement/new-cpu-island", "reject")]


def test_partitions_that_one_side_does_not_know_hold() -> None:
    assert judged(HYBRID, before=prior(HYBRID, PLAN)) == ("held", [("placement/not-compared", "hold")])


def test_evidence_of_an_older_version_and_other_profiles_compare_nothing() -> None:
    old = HYBRID.model_dump(mode="json")
    old.pop("profiled")
    for key in ("requested_provider", "selected_provider", "used_cpu_fallback"):
        old["placement"].pop(key)
    assert placements_in([old], "main") == []
    assert judged(HYBRID, SPLIT, before=prior(HYBRID, PLAN, placements=[]))[1] == []
    (other,) = placements_in([HYBRID.model_dump(mode="json")], "main")
    elsewhere = ProfilePlacement(profile="other", summary=other.summary)
    assert judged(HYBRID, SPLIT, before=prior(HYBRID, placements=[elsewhere]))[1] == []


def test_a_profiled_run_that_ends_badly_is_told_and_is_nobodys_fault_but_an_attack_is() -> None:
    broken = world.run(variant="profiled", ending="limit", cause="cpu", cases=[])
    assert judged(HYBRID, broken) == ("accepted", [("placement/not-profiled", "info")])
    killed = world.run(variant="profiled", ending="crash", cause="SIGSYS", cases=[])
    assert judged(HYBRID, killed)[0] == "rejected"
    lying = world.run(variant="profiled", ending="violation", cause="protocol", cases=[])
    assert judged(HYBRID, lying)[0] == "rejected"
