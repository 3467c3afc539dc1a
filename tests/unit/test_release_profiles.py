"""For which runtimes a release holds: what is signed, and which of them a loader opens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import DigestMismatchError, MalformedError, ProfileRefusedError, ReleaseError
from acceptd.policy.profile import Profile
from acceptd.record.canonical import digest, document_digest
from acceptd.release import held as held_for
from acceptd.release import trust
from acceptd.release.history import current_releases, history
from acceptd.release.model import ReleaseDocument, ReleasedProfile, SessionOptions
from tests.release_world import MODEL, World, payload_of, repoint, resign

pytestmark = pytest.mark.unit


def held(*names: str, **changes: Any) -> list[dict[str, Any]]:
    rows = []
    for index, name in enumerate(names):
        profile = Profile(name=name, optimisation="all" if index == 0 else "basic", **changes)
        row = ReleasedProfile(profile=name, digest=f"{index}" * 64, options=SessionOptions.of(profile))
        rows.append(row.model_dump(mode="json"))
    return rows


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path)
    yield made
    made.close()


def release(world: World, *names: str, version: str = "1.0.0") -> None:
    rows = held(*names)
    accepted = world.accepted(version, profiles_digest=document_digest(rows))
    world.promote(accepted, profiles=rows, options=rows[0]["options"])


def rewritten(world: World, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Sign a release anew with a changed payload, and let the channel name it."""

    def change_it(payload: dict[str, Any]) -> None:
        change(payload)

    resign(world, world.release_file(number), change_it, trust.RELEASE_TYPE)
    repoint(world, number)


def test_a_release_under_two_profiles_opens_by_name_with_that_ones_options(world: World) -> None:
    release(world, "cpu", "other")
    opened = {name: world.open(profile=name) for name in ("cpu", "other")}
    assert opened["cpu"].options["optimisation"] == "all"
    assert opened["other"].options["optimisation"] == "basic"
    assert opened["other"].profile == "other"
    assert opened["other"].profiles == ("cpu", "other")


@pytest.mark.parametrize("wanted", [None, "gpu", "", "CPU"])
def test_a_loader_that_names_no_profile_or_a_foreign_one_is_refused(world: World, wanted: str | None) -> None:
    release(world, "cpu", "other")
    with pytest.raises(ProfileRefusedError, match="cpu, other"):
        world.open(profile=wanted)


def test_one_profile_is_the_default_and_an_older_release_holds_for_its_own(world: World) -> None:
    release(world, "cpu")
    assert world.open().profile == world.open(profile="cpu").profile == "cpu"
    with pytest.raises(ProfileRefusedError):
        world.open(profile="other")
    old = world.accepted("2.0.0")
    world.promote(old, options=SessionOptions.of(Profile(name="gpu")))
    document = payload_of(world.release_file(2))
    del document["profiles"]  # as it was written before
    ReleaseDocument.model_validate(document)
    rewritten(world, 2, lambda payload: payload.pop("profiles"))
    assert (world.open().profile, world.open().profiles) == ("gpu", ("gpu",))
    with pytest.raises(ProfileRefusedError):
        world.open(profile="cpu")


def test_a_profile_that_the_verdict_did_not_accept_is_not_promoted(world: World) -> None:
    rows = held("cpu", "other")
    for accepted, given in (
        (world.accepted("1.0.0", profiles_digest=document_digest(rows[:1])), rows),
        (world.accepted("1.0.1"), rows),  # a verdict that says nothing of profiles
        (world.accepted("1.0.2", profiles_digest=document_digest(rows)), []),
        (world.accepted("1.0.3", profiles_digest=document_digest(rows)), held("cpu", "other", intra_op_threads=8)),
    ):
        with pytest.raises(ReleaseError, match="other profiles"):
            world.promote(accepted, profiles=given, options=rows[0]["options"])
    with pytest.raises(ReleaseError, match="profiles: digest"):
        world.promote(world.accepted("1.0.4"), profiles=[rows[0] | {"digest": "x"}])


def test_a_rollback_holds_for_the_profiles_of_the_older_release(world: World) -> None:
    release(world, "cpu", "other")
    release(world, "cpu", version="2.0.0")
    assert world.open().profiles == ("cpu",)
    world.rollback()
    assert world.open(profile="other").profiles == ("cpu", "other")
    (row,) = current_releases(world.state, world.ledger, world.keys, clock=lambda: world.now)
    assert row.profiles == ("cpu", "other")
    lines = history(world.state, world.ledger, world.keys, MODEL, "production")
    assert [line.profiles for line in lines] == [("cpu", "other"), ("cpu",), ("cpu", "other")]


@pytest.mark.parametrize(
    "rows",
    [
        [{"profile": "cpu"}],
        [{"profile": "CPU", "digest": "0" * 64, "options": {}}],
        [{"profile": "cpu", "digest": "0" * 64, "options": []}],
        [{"profile": "cpu", "digest": "0" * 63, "options": {}}],
        ["cpu"],
        {},
    ],
)
def test_signed_profiles_of_another_form_are_malformed(world: World, rows: Any) -> None:
    release(world, "cpu")
    rewritten(world, 1, lambda payload: payload.update(profiles=rows))
    with pytest.raises(MalformedError):
        world.open()


def test_one_profile_twice_is_malformed(world: World) -> None:
    release(world, "cpu")
    rewritten(world, 1, lambda payload: payload.update(profiles=payload["profiles"] * 2))
    with pytest.raises(MalformedError, match="twice"):
        world.open(profile="cpu")


# The runtime that a release says it was accepted on

LIBRARIES = [
    {"name": "libc.so.6", "sha256": "b" * 64},
    {"name": "libc.so.6", "sha256": "c" * 64},
    {"name": "libm.so.6", "sha256": "a" * 64},
]
IDENTITY = digest({"libraries": LIBRARIES, "onnxruntime": "1.32.0"})


def runtime_of(libraries: list[Any], identity: str = IDENTITY) -> Any:
    record = {"onnxruntime": "1.32.0", "libraries": libraries}
    document = {
        "runtimes": [{"profile": "other", "record": {"libraries": []}}, {"profile": "cpu", "record": record}]
    }
    facts = trust.ReleaseFacts(MODEL, "production", 1, "0" * 64, (), {}, {}, (), document)
    return held_for.runtime(facts, held_for.Held("cpu", {}, ("cpu", "other"), identity))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_the_order_in_which_libraries_stand_does_not_change_a_runtime(order: tuple[int, ...]) -> None:
    """A list in another order, also of one name twice, is no lie; the record comes back as it is signed."""
    stands = [LIBRARIES[index] for index in order]
    assert runtime_of(stands) == {"onnxruntime": "1.32.0", "libraries": stands}


@pytest.mark.parametrize("lost", range(3))
def test_a_runtime_without_one_of_its_libraries_is_not_that_of_its_identity(lost: int) -> None:
    with pytest.raises(DigestMismatchError, match="a runtime is not the one of its runtime identity"):
        runtime_of([one for index, one in enumerate(LIBRARIES) if index != lost])


@pytest.mark.parametrize("library", [{"name": "libc.so.6"}, {"sha256": "a" * 64}, "libc.so.6", None])
def test_a_library_of_a_runtime_without_name_or_digest_is_malformed(library: Any) -> None:
    with pytest.raises(MalformedError, match="a library of a runtime has no name or digest"):
        runtime_of([library, *LIBRARIES])


@pytest.mark.parametrize("rows", [["cpu"], [{}], [{"record": 1}], [{"record": {"libraries": "libc.so.6"}}], {}, 7])
def test_runtimes_of_another_form_are_malformed_before_any_is_looked_for(rows: Any) -> None:
    facts = trust.ReleaseFacts(MODEL, "production", 1, "0" * 64, (), {}, {}, (), {"runtimes": rows})
    with pytest.raises(MalformedError) as told:
        held_for.record(facts, held_for.Held("cpu", {}, ("cpu",)))
    assert str(told.value) == "release.json: a runtime has no record with libraries"


def test_a_release_that_tells_no_runtime_has_none() -> None:
    under = held_for.Held("cpu", {}, ("cpu",))
    other = {"runtimes": [{"profile": "other", "record": {"libraries": []}}]}
    for document in ({}, {"runtimes": []}, other):
        facts = trust.ReleaseFacts(MODEL, "production", 1, "0" * 64, (), {}, {}, (), document)
        assert held_for.record(facts, under) is None
        assert held_for.runtime(facts, under) is None


def test_a_profile_comes_with_the_identity_of_the_runtime_that_it_was_accepted_on() -> None:
    rows = tuple(
        {"profile": name, "options": {"n": name}, "runtime_identity": name * 2} for name in ("cpu", "npu")
    )
    bare = ({"profile": "cpu", "options": {}},)
    facts = trust.ReleaseFacts(MODEL, "production", 1, "0" * 64, (), {}, {"runtime_identity": "old"}, rows, {})
    assert held_for.chosen(facts, "npu") == held_for.Held("npu", {"n": "npu"}, ("cpu", "npu"), "npunpu")
    assert held_for.chosen(facts._replace(profiles=bare), None) == held_for.Held("cpu", {}, ("cpu",), "")
    before = held_for.chosen(facts._replace(profiles=()), None)
    assert before == held_for.Held("cpu", {"runtime_identity": "old"}, ("cpu",), "old")
