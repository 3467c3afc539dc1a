"""Workers that say otherwise about the same bytes, or speak for others: a reason each time, never a choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acceptd.contract_facts import ContractStanding
from acceptd.errors import FleetTrustError
from acceptd.evidence import HeldOut, JobRecord, Problem, UnderProfile
from acceptd.fleet.examined import Examined
from acceptd.fleet.merge import merge, with_heldout
from acceptd.judge.profiles import judge_all
from acceptd.prior import Prior
from tests import fleet_evidence as fleet
from tests import heldout_world
from tests import judge_world as world

pytestmark = pytest.mark.hostile

Change = Callable[[Examined], Examined]


def parts() -> dict[str, Examined]:
    whole = fleet.whole()
    return {name: fleet.part(whole, name) for name in fleet.NAMES}


def evidence(**changes: Any) -> Change:
    return lambda one: one.model_copy(update={"submission": one.submission.model_copy(update=changes)})


def job(kind: str, **changes: Any) -> Change:
    """Another account of every job of a kind that belongs to no profile."""

    def change(one: Examined) -> Examined:
        jobs = [
            each.model_copy(update=changes) if each.kind == kind and not each.profile else each
            for each in one.submission.jobs
        ]
        return evidence(jobs=jobs)(one)

    return change


def more(*jobs: JobRecord) -> Change:
    return lambda one: evidence(jobs=[*one.submission.jobs, *jobs])(one)


def merged(**changes: Change) -> Examined:
    made = parts()
    for name, change in changes.items():
        made[name] = change(made[name])
    return merge(list(made.values()), fleet.TARGETS)


def verdicts(one: Examined) -> dict[str, str]:
    found = judge_all(one.manifest, None, fleet.POLICY, one.submission, world.NOW, fleet.TARGETS)
    return {"": found.verdict} | {each.profile: each.verdict for each in found.profiles}


def test_positive_control_three_workers_that_agree() -> None:
    assert verdicts(merged()) == dict.fromkeys(["", *fleet.NAMES], "accepted")


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        pytest.param(evidence(sealed=world.sealed("more.bin")), "sealed", id="other files under the same bundle"),
        pytest.param(evidence(id="s-2"), "id", id="another submission"),
        pytest.param(evidence(team="other"), "team", id="another team"),
        pytest.param(job("inspect", facts=world.facts(nodes=2)), "other facts", id="other facts of the model"),
        pytest.param(
            job("inspect", structure=world.structure(parameters=1)), "other structure", id="another structure"
        ),
        pytest.param(
            job("vectors", vectors=None, ending="violation"), "ended otherwise", id="a job that broke it"
        ),
        pytest.param(job("manifest", manifest={"schema": 1}), "other manifest", id="another manifest"),
        pytest.param(
            lambda one: one.model_copy(
                update={"manifest": world.a_manifest(lambda table: table["bundle"].update(version="9.9.9"))}
            ),
            "manifest",
            id="another manifest than its own job read",
        ),
        pytest.param(
            lambda one: one.model_copy(update={"contract_digest": "b" * 64}), "contract", id="another contract"
        ),
        pytest.param(
            evidence(contract=ContractStanding(status="signed")), "contract", id="signed by who signed not"
        ),
        pytest.param(evidence(prior=Prior(status="none")), "prior", id="another prior release"),
        pytest.param(
            evidence(manifest_error=Problem(code="manifest/invalid", where="x", message="y")),
            "manifest error",
            id="an invalid manifest",
        ),
        pytest.param(evidence(inferred=["dims"]), "inferred", id="an inferred manifest"),
    ],
)
def test_who_says_otherwise_of_the_same_bytes_ends_it_whichever_came_first(lie: Change, words: str) -> None:
    told = {
        "contract": evidence(contract=ContractStanding(status="unsigned")),
        "prior": evidence(prior=Prior(status="none", reason="first")),
        "manifest error": evidence(manifest_error=Problem(code="manifest/invalid", where="x", message="z")),
        "inferred": evidence(inferred=["range"]),
    }
    if words == "contract" and lie(parts()["cpu"]).contract_digest:
        honest: Change = lambda one: one.model_copy(update={"contract_digest": "a" * 64})  # noqa: E731
    else:
        honest = told.get(words, lambda one: one)
    for liar in fleet.NAMES:
        changes = {name: lie if name == liar else honest for name in fleet.NAMES}
        with pytest.raises(FleetTrustError, match=words) as refused:
            merged(**changes)
        assert refused.value.code == "cell/workers-disagree"
        assert "under" in str(refused.value)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        pytest.param(more(world.run(profile="cpu")), "of profile 'cpu'", id="a run under another's profile"),
        pytest.param(more(world.run(profile="")), "a run under no profile", id="a run under every profile"),
        pytest.param(more(world.inspect(profile="cpu")), "of profile 'cpu'", id="facts for another"),
        pytest.param(evidence(statistics=world.statistics()), "of profile 'cpu'", id="another's statistics"),
        pytest.param(evidence(runtime_problem="no"), "of profile 'cpu'", id="another's runtime"),
        pytest.param(
            evidence(others=[UnderProfile(profile="other"), UnderProfile(profile="spare")]),
            "of profile 'spare'",
            id="a third's statistics",
        ),
        pytest.param(evidence(profile="other"), "for the first profile", id="itself for the first"),
        pytest.param(evidence(heldout=HeldOut(status="spent")), "the judge's", id="held-out vectors unasked"),
        pytest.param(lambda one: one.model_copy(update={"profiles": ["cpu"]}), "two exam", id="another's place"),
        pytest.param(lambda one: one.model_copy(update={"profiles": ["x"]}), "has not", id="a profile of nobody"),
        pytest.param(lambda one: one.model_copy(update={"profiles": []}), "no profile", id="no profile"),
        pytest.param(
            lambda one: one.model_copy(update={"profiles": ["other", "spare"]}), "two exam", id="two profiles"
        ),
    ],
)
def test_nobody_speaks_for_another_profile(lie: Change, words: str) -> None:
    with pytest.raises(FleetTrustError, match=words):
        merged(other=lie)


def test_nobody_examined_it() -> None:
    with pytest.raises(FleetTrustError, match="nobody"):
        merge([], fleet.TARGETS)


@pytest.mark.parametrize("name", fleet.NAMES)
def test_a_profile_that_nobody_handed_in_is_missing(name: str) -> None:
    given = [one for key, one in parts().items() if key != name]
    found = verdicts(merge(given, fleet.TARGETS))
    assert found[name] == "inconclusive"
    assert found[""] == ("accepted" if name == "spare" else "inconclusive")


@pytest.mark.parametrize("ending", ["lost", "unavailable"])
@pytest.mark.parametrize("name", fleet.NAMES)
def test_a_worker_whose_host_lost_a_job_leaves_its_own_profile_open(name: str, ending: str) -> None:
    change = job("inspect", ending=ending, facts=None, structure=None, wire=None, checker=None, shapes=None)
    made = parts()
    found = verdicts(merged(**{name: change}))
    assert found[name] == "inconclusive"
    assert found[""] == ("accepted" if name == "spare" else "inconclusive")
    assert made  # the others are judged by their own
    for other in set(fleet.NAMES) - {name}:
        assert found[other] == "accepted"


def test_a_limit_that_one_host_reached_counts_against_its_profile() -> None:
    change = job("inspect", ending="limit", cause="cpu", shapes=None)
    found = verdicts(merged(other=change))
    assert found == {"": "rejected", "cpu": "accepted", "other": "rejected", "spare": "accepted"}


def test_walls_are_the_worst_of_any_host() -> None:
    def without(one: Examined) -> Examined:
        walls = one.submission.walls | {"seccomp": "unavailable"}
        return evidence(walls=walls, wall_notes={"seccomp": "no such call"})(one)

    whole = merged(other=without)
    assert whole.submission.walls["seccomp"] == "unavailable"
    assert whole.submission.wall_notes["seccomp"] == "no such call"
    assert verdicts(whole)[""] == "inconclusive"


def test_a_wall_that_a_worker_says_nothing_of_did_not_stand() -> None:
    def silent(one: Examined) -> Examined:
        return evidence(walls={key: state for key, state in one.submission.walls.items() if key != "network"})(one)

    whole = merged(spare=silent)
    assert whole.submission.walls["network"] == "unavailable"
    assert "spare" in whole.submission.wall_notes["network"]


def held(name: str, **changes: Any) -> Examined:
    made = heldout_world.held(heldout_world.decoded(), heldout_world.a_run(profile=name))
    return evaluated(name, made.model_copy(update={"number": 3, **changes}))


def evaluated(name: str, what: HeldOut) -> Examined:
    return fleet.examined(world.submission(jobs=[]).model_copy(update={"jobs": [], "heldout": what}), name)


def test_held_out_vectors_under_each_required_profile_are_one_evaluation() -> None:
    whole = with_heldout(merged(), [held("other"), held("cpu")], fleet.TARGETS)
    found = whole.submission.heldout
    assert found is not None
    assert [one.profile for one in found.jobs if one.kind == "run"] == ["cpu", "other"]
    assert [one.profile for one in found.further] == ["other"]
    assert sum(one.kind == "vectors" for one in found.jobs) == 1


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        pytest.param([held("cpu")], "other profiles than are required: other", id="one left out"),
        pytest.param([held("cpu"), held("other"), held("other")], "one twice", id="one twice"),
        pytest.param([held("cpu"), held("other"), fleet.part(fleet.whole(), "spare")], "one twice", id="one more"),
        pytest.param([held(name) for name in fleet.NAMES], "than are required: spare", id="one that is not asked"),
        pytest.param([held("cpu"), held("other", number=4)], "number", id="another evaluation"),
        pytest.param([held("cpu"), held("other", names={})], "names", id="other sets"),
        pytest.param([held("cpu"), evaluated("other", HeldOut(status="spent"))], "status", id="not evaluated"),
        pytest.param([held("cpu"), held("other", jobs=[heldout_world.a_run()])], "decoded", id="not decoded"),
    ],
)
def test_an_evaluation_that_is_not_whole_is_none(parts: list[Examined], words: str) -> None:
    with pytest.raises(FleetTrustError, match=words):
        with_heldout(merged(), parts, fleet.TARGETS)
