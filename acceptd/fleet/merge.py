"""Several examinations of one bundle, each under other profiles: one account of them, or why there is none. Pure.

What belongs to the bundle (manifest, facts, goldens) was found out by every worker for itself. It is taken from
the one that comes first in the policy's order; where another says something else about the same bytes, one of
them is wrong, and nobody here can say which: that is a reason and never a choice. What a host may honestly
differ in (a job lost, a limit reached on a slower machine, what the oracle came to) counts for that worker's
profile alone. Runs and comparisons belong to a profile, and nobody can speak for another's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from acceptd.evidence import Check, HeldOutUnder, JobRecord, UnderProfile
from acceptd.fleet.examined import Examined
from acceptd.fleet.refusals import disagree
from acceptd.judge.profiles import Target

HOST_ENDINGS: Final = frozenset({"lost", "unavailable", "limit"})
"""Endings that a host has a part in."""
RUN_STAGES: Final = ("run", "compare")
"""Stages that are gone through once for each profile."""
_FACTS: Final = (
    "wire", "facts", "structure", "checker", "shapes", "manifest", "assets", "signature", "vectors", "notes",
)  # fmt: skip
_TOLD: Final = ("ending", "cause", "refused", "variant", *_FACTS)
_ONCE: Final = ("manifest", "contract_digest")
_ONCE_OF_SUBMISSION: Final = ("manifest_error", "prior", "inferred", "contract")


def merge(examinations: Sequence[Examined], targets: Sequence[Target]) -> Examined:
    """Return one examination of all profiles, as if one host had gone through them in the policy's order.

    ``targets`` are the policy's. Who examined last and who first does not matter: the order is theirs.
    Raises FleetTrustError (``cell/workers-disagree``), with what they disagree about.
    """
    names = [target.profile.name for target in targets]
    parts = _in_order(examinations, names)
    base = parts[0]
    jobs, under = list(base.submission.jobs), _under(base)
    for part in parts[1:]:
        _agree(base, part)
        jobs += _further(base, part)
        under |= _under(part)
    first = under.get(names[0], UnderProfile(profile=names[0]))
    states, notes = _walls(parts)
    submission = base.submission.model_copy(
        update={
            **{name: _either(parts, name) for name in _ONCE_OF_SUBMISSION},
            **{name: value for name, value in first if name != "profile"},
            "jobs": jobs,
            "walls": states,
            "wall_notes": notes,
            "others": [under[name] for name in names[1:] if name in under],
        }
    )
    return Examined(
        profiles=[name for name in names if any(name in part.profiles for part in parts)],
        submission=submission,
        manifest=next((part.manifest for part in parts if part.manifest is not None), None),
        contract_digest=next((part.contract_digest for part in parts if part.contract_digest), ""),
        timings_ms=_timings(parts),
    )


def with_heldout(examined: Examined, parts: Sequence[Examined], targets: Sequence[Target]) -> Examined:
    """Return an examination with what came of held-out vectors under each required profile, as one evaluation.

    ``parts`` say of held-out vectors alone (:meth:`acceptd.acceptance.Acceptance.evaluate`). Raises
    FleetTrustError where a required profile was not evaluated, one was that is not required, or two say otherwise
    which sets were evaluated, or as which evaluation.
    """
    required = [target.profile.name for target in targets if target.required]
    rounds = {
        name: part.submission.heldout
        for part in parts
        for name in part.profiles
        if part.submission.heldout is not None
    }
    if len(parts) != len(rounds) or set(rounds) != set(required):
        odd = ", ".join(sorted(set(rounds) ^ set(required)))
        raise disagree(f"held-out vectors: evaluated under other profiles than are required: {odd or 'one twice'}")
    first, *others = (rounds[name] for name in required)
    for name, other in zip(required[1:], others, strict=True):
        for key in ("status", "number", "names"):
            if getattr(first, key) != getattr(other, key):
                raise disagree(f"held-out vectors: {key} is another under profile {name}")
        decoded = [[_told(job) for job in one.jobs if job.kind != "run"] for one in (first, other)]
        if decoded[0] != decoded[1]:
            raise disagree(f"held-out vectors: decoded otherwise under profile {name}")
    runs = [job for other in others for job in other.jobs if job.kind == "run"]
    further = [
        HeldOutUnder(profile=name, statistics=other.statistics, kept=other.kept)
        for name, other in zip(required[1:], others, strict=True)
    ]
    # Without statistics of the first nothing was compared: then the whole has a gap.
    kept = further if first.status == "run" else []
    return examined.with_heldout(first.model_copy(update={"jobs": [*first.jobs, *runs], "further": kept}))


def _in_order(examinations: Sequence[Examined], names: Sequence[str]) -> list[Examined]:
    """Return the examinations in the order of the profiles, each profile once and none besides."""
    if not examinations:
        raise disagree("nobody examined it")
    seen: set[str] = set()
    for part in examinations:
        if not part.profiles:
            raise disagree("an examination under no profile")
        for name in part.profiles:
            if name in seen:
                raise disagree(f"two examinations under profile {name}")
            if name not in names:
                raise disagree(f"an examination under profile {name}, which the policy has not")
            seen.add(name)
        alone(part, names[0])
    return sorted(examinations, key=lambda part: min(names.index(name) for name in part.profiles))


def alone(part: Examined, first: str, *, heldout: bool = False) -> None:
    """Raise FleetTrustError where an examination speaks of another's profile, or of what is not its to say.

    ``first`` is the policy's first profile; with ``heldout`` it is one that held-out vectors were asked of.
    """
    one = part.submission
    own, who = set(part.profiles), f"the examination under {', '.join(part.profiles)}"
    if one.profile != first:
        raise disagree(f"{who} takes {one.profile!r:.80} for the first profile, the policy {first}")
    named = {job.profile for job in one.jobs} - {""} | {other.profile for other in one.others}
    if first not in own and (one.statistics or one.runtimes or one.runtime_problem or one.kept):
        named.add(first)
    if strange := sorted(named - own):
        raise disagree(f"{who} speaks of profile {strange[0]!r:.80}")
    unbound = next((job for job in one.jobs if job.kind == "run" and not job.profile), None)
    if unbound is not None:
        raise disagree(f"{who} has a run under no profile")
    if (one.heldout is not None and not heldout) or one.advisories is not None:
        raise disagree(f"{who} says what is the judge's to find out: held-out vectors or advisories")


def _agree(base: Examined, other: Examined) -> None:
    """Raise where two say otherwise what one bundle is."""
    one, two = base.submission, other.submission
    pairs: list[tuple[str, Any, Any]] = [
        (name, getattr(one, name), getattr(two, name)) for name in ("id", "team", "sealed", "seal_failure")
    ]
    # A broken-off examination did not come so far.
    pairs += [(name, getattr(base, name) or None, getattr(other, name) or None) for name in _ONCE]
    pairs += [(name, getattr(one, name) or None, getattr(two, name) or None) for name in _ONCE_OF_SUBMISSION]
    for name, first, second in pairs:
        far = name in _ONCE or name in _ONCE_OF_SUBMISSION
        if first != second and not (far and (first is None or second is None)):
            raise disagree(f"{name.replace('_', ' ')}: {_who(base, other)} say otherwise")
    known = dict(_keyed(one.jobs))
    for key, job in _keyed(two.jobs):
        if key in known and job.kind != "reference":
            _alike(known[key], job, _who(base, other))


def _alike(one: JobRecord, two: JobRecord, who: str) -> None:
    what = " ".join(part for part in (one.kind, one.model) if part)
    for name in _FACTS:
        first, second = _fact(one, name), _fact(two, name)
        if first and second and first != second:
            raise disagree(f"{what}: {who} give other {name}")
    endings = {one.ending, two.ending}
    if endings.isdisjoint(HOST_ENDINGS) and _told(one) != _told(two):
        raise disagree(f"{what}: {who} say that it ended otherwise ({one.ending}, {two.ending})")


def _further(base: Examined, part: Examined) -> Iterator[JobRecord]:
    """Yield the jobs of a later examination that the first has not: its runs, and what went otherwise on its host.

    The latter bear its profile's name, so that they count there and nowhere else.
    """
    known = dict(_keyed(base.submission.jobs))
    keyed = {id(job): key for key, job in _keyed(part.submission.jobs)}
    for job in part.submission.jobs:
        if job.profile:
            yield job
        elif (same := known.get(keyed[id(job)])) is None or _told(same) != _told(job):
            for name in part.profiles:
                yield job.model_copy(update={"profile": name})


def _keyed(jobs: Sequence[JobRecord]) -> Iterator[tuple[tuple[str, str, int], JobRecord]]:
    """Yield the jobs that belong to no profile, with what they were for; the number tells several of one apart."""
    count: dict[tuple[str, str], int] = {}
    for job in jobs:
        if not job.profile:
            task = (job.kind, job.model)
            count[task] = number = count.get(task, -1) + 1
            yield (*task, number), job


def _told(job: JobRecord) -> list[Any]:
    """Return what a job said and how it ended, without what a clock or the host's memory said."""
    cases = [case.model_copy(update={"wall_ms": 0.0, "cpu_ms": 0.0}) for case in job.cases]
    return [*(_fact(job, name) for name in _TOLD), cases]


def _fact(job: JobRecord, name: str) -> Any:
    """Return one thing that a job said, without the time that it took."""
    value = getattr(job, name)
    return value.model_copy(update={"seconds": 0.0}) if isinstance(value, Check) else value


def _under(part: Examined) -> dict[str, UnderProfile]:
    """Return what was found under each profile that something was run under."""
    one = part.submission
    found = {other.profile: other for other in one.others}
    own = UnderProfile(
        profile=one.profile,
        statistics=one.statistics,
        runtimes=one.runtimes,
        runtime_problem=one.runtime_problem,
        kept=one.kept,
    )
    if own != UnderProfile(profile=one.profile):
        found[one.profile] = own
    return found


def _either(parts: Sequence[Examined], name: str) -> Any:
    """Return what the first says that came so far."""
    values = [getattr(part.submission, name) for part in parts]
    return next((value for value in values if value), values[0])


def _walls(parts: Sequence[Examined]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the worst state of each wall on any host that ran something, with its note."""
    states: dict[str, str] = {}
    notes: dict[str, str] = {}
    ran = [part for part in parts if part.submission.jobs or part.submission.walls]
    for name in dict.fromkeys(name for part in ran for name in part.submission.walls):
        for part in ran:
            state = part.submission.walls.get(name, "unavailable")
            if states.get(name, "enforced") == "enforced":
                states[name] = state
                where = f"under profile {', '.join(part.profiles)}"
                note = part.submission.wall_notes.get(name, "")
                if name not in part.submission.walls:
                    note = f"{where} nothing was said of it"
                if note:
                    notes[name] = note
    return states, notes


def _timings(parts: Sequence[Examined]) -> dict[str, float]:
    """Return milliseconds by stage: once for the bundle, and the sum over profiles of what each was run for."""
    found = dict(parts[0].timings_ms)
    for part in parts[1:]:
        for stage, spent in part.timings_ms.items():
            if stage in RUN_STAGES:
                found[stage] = round(found.get(stage, 0.0) + spent, 3)
            else:
                found.setdefault(stage, spent)
    return found


def _who(base: Examined, other: Examined) -> str:
    return f"the examinations under {', '.join(base.profiles)} and under {', '.join(other.profiles)}"
