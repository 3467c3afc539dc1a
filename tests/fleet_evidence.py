"""What workers of a fleet hand over, made without a cell: one flawless submission, whole and by profile."""

from __future__ import annotations

from typing import Any, Final

from acceptd.errors import FleetTrustError as FleetTrustError
from acceptd.evidence import Submission, UnderProfile
from acceptd.fleet.examined import Examined
from acceptd.judge.profiles import Target
from acceptd.policy.policy import Policy
from acceptd.policy.profile import Profile
from tests import judge_world as world

NAMES: Final = ("cpu", "other", "spare")
TARGETS: Final = (
    Target(Profile(), "1" * 64),
    Target(Profile(name="other", optimisation="basic"), "2" * 64),
    Target(Profile(name="spare", optimisation="disable"), "3" * 64, required=False),
)
POLICY: Final = Policy.model_validate({"profiles": ["cpu", "other"], "optional_profiles": ["spare"]})


def whole() -> Submission:
    """A flawless submission under three profiles, as one host would have examined it."""
    given = world.submission()
    static = [job for job in given.jobs if job.kind != "run"]
    runs = [one for name in NAMES for one in (world.run(profile=name), world.unoptimised(profile=name))]
    return given.model_copy(
        update={
            "profile": "cpu",
            "jobs": [*static, *runs],
            "others": [UnderProfile(profile=name, statistics=world.statistics()) for name in NAMES[1:]],
        }
    )


def examined(one: Submission, *profiles: str, **changes: Any) -> Examined:
    """The examination with this evidence."""
    made: dict[str, Any] = {"profiles": list(profiles), "submission": one, "manifest": world.a_manifest()}
    return Examined(**{**made, **changes})


def part(one: Submission, profile: str, **changes: Any) -> Examined:
    """What a worker that examined it under one profile alone would hand over."""
    own = {} if profile == "cpu" else {"statistics": None, "runtimes": [], "runtime_problem": "", "kept": {}}
    alone = one.model_copy(
        update={
            **own,
            "jobs": [job for job in one.jobs if job.profile in {"", profile}],
            "others": [other for other in one.others if other.profile == profile],
        }
    )
    return examined(alone, profile, **changes)
