"""A submission beside the current release, both run on the same inputs: what was measured, by model. Pure.

:mod:`acceptd.judge.regressed` holds it against the policy's limits; the report shows it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from acceptd.evidence import Case, Facts, JobRecord, LeftOut, OutputStats, Submission
from acceptd.judge import slower
from acceptd.judge.beside import Beside, beside, wanted
from acceptd.judge.jobs import Jobs
from acceptd.judge.operators_beside import Profiles, profiles
from acceptd.judge.outputs_beside import SHOWN, Output, output
from acceptd.judge.resources import memory_bytes, model_bytes
from acceptd.judge.slower import Latency
from acceptd.judge.words import printable, safe
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

VARIANTS: Final = frozenset({"prior", "timed-prior", "profiled-prior"})
"""Variants of runs of the release: what goes wrong there is no fault of the submission."""
MEANT_DRAWS: Final = 8
"""Inferences of draws from which on half of them is more than chance, also where none of both runs came to all."""
DRAW: Final = "probe:draws-"
"""How runs name the inferences that hold draws."""
UNPROFILED: Final = "placement and operator counts; no node was timed by itself"
BOTH: Final = "placement, operator counts and a profile of both"
PROFILED: Final = "placement, operator counts and this model's own profile; the release was not profiled"
Status = Literal["compared", "not-comparable", "unavailable", "failed"]


@dataclass(frozen=True, slots=True)
class Cost:
    """One figure of both. ``ratio`` None: the release's is 0."""

    what: str
    unit: str
    release: float
    now: float
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model beside the release's. ``quantised``: it is, and the release's is not."""

    model: str
    status: Status
    reason: str = ""
    quantised: bool = False
    inputs: tuple[int, int] = (0, 0)
    """Golden sets and draws that the release answered."""
    outputs: tuple[Output, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    unanswered: tuple[str, ...] = ()
    """Inputs that the release answers and the submission does not."""
    release_errors: tuple[str, ...] = ()
    cost: tuple[Cost, ...] = ()
    latency: Latency | None = None
    opsets: tuple[tuple[str, str, str], ...] = ()
    placement: tuple[tuple[str, int, int], ...] = ()
    """Provider, nodes in the release, nodes now."""
    moved: tuple[tuple[str, str, str], ...] = ()
    """Operator, providers in the release, providers now, where they differ."""
    operators: tuple[tuple[str, int, int], ...] = ()
    """Operators of a quantised model that the release has in another number."""
    slowest: tuple[tuple[str, str, float], ...] = ()
    """Operators of a quantised model by the time that they took under the profiler, with provider and ms."""
    basis: str = ""
    """What ``moved`` and ``operators`` were told from."""
    profiles: Profiles | None = None
    """Both under the profiler, where the submission is quantised and the release is not: the jobs' word."""


def comparisons(manifest: Manifest, policy: Policy, submission: Submission) -> list[Comparison]:
    """Return what every model is beside the release's; nothing where there is no release to run."""
    prior = submission.prior
    if prior is None or not wanted(prior, policy):
        return []
    jobs = Jobs(tuple(submission.jobs))
    facts = jobs.facts(manifest)
    found = []
    for model in manifest.models:
        run = jobs.last("run", model)
        if run is None:
            continue  # nothing of it was run: what stopped that decides
        how = beside(prior, model, facts.get(model.name))
        older = jobs.last("run", model, "prior")
        if how.obstacle:
            status: Status = "unavailable" if how.ours else "not-comparable"
            found.append(Comparison(model.name, status, how.obstacle, how.quantised, skipped=how.skipped))
        elif older is None or older.ending != "done":
            found.append(_broken(model, how, older))
        elif run.ending == "done" and submission.statistics is not None:
            rows = [row for row in submission.statistics.outputs if row.model == model.name]
            # Without an obstacle there are facts; of several inspections the last one has them.
            found.append(_compared(model, how, run, older, rows, submission, policy, jobs, facts[model.name]))
    return found


def _broken(model: ModelSpec, how: Beside, older: JobRecord | None) -> Comparison:
    if older is None:
        return Comparison(model.name, "unavailable", "the release's model was not run", how.quantised)
    words = older.message
    if older.refused is not None:
        words = f"{older.refused.code}: {older.refused.message}"
    ours = older.ending in {"lost", "unavailable"}
    told = f"the release's model: {older.ending}{f' ({older.cause})' if older.cause else ''}"
    reason = f"{told}: {words}" if words else told
    return Comparison(model.name, "unavailable" if ours else "failed", printable(reason, 600), how.quantised)


def _compared(
    model: ModelSpec,
    how: Beside,
    run: JobRecord,
    older: JobRecord,
    rows: Sequence[OutputStats],
    submission: Submission,
    policy: Policy,
    jobs: Jobs,
    facts: Facts,
) -> Comparison:
    answered, given = _answered(older), _answered(run)
    draws = [name for name in answered if name.startswith(DRAW)]
    tried = {case.set for case in run.cases}
    late = [name for name in draws if name not in tried]
    slow = _slow(draws, late, cut=any(part.reason == "time" for part in _left(older)))
    errors = [f"{case.set}: {case.error}" for case in older.cases if case.error]
    outputs = tuple(output(model, how, name, rows, how.limits(policy)) for name in how.outputs)
    comparable = any(one.inputs for one in outputs)
    moved, operators = _operators(how, run, older, facts)
    slowest = _slowest(jobs.last("run", model, "profiled")) if how.quantised else ()
    both = profiles(jobs.last("run", model, "profiled-prior"), jobs.last("run", model, "profiled"))
    basis = BOTH if both is not None and not both.reason else PROFILED if slowest else UNPROFILED
    latency = slower.latency(model, submission.jobs, how.limits(policy), policy)
    return Comparison(
        model.name,
        "compared" if comparable else "not-comparable",
        "" if comparable else "there is no input that both models answer",
        how.quantised,
        (len(answered) - len(draws), _drawn(older, len(draws))),
        outputs,
        {**how.skipped, **_undrawn(older, draws), **_few(draws, () if slow else late)},
        _unanswered(answered, given, () if slow else late),
        tuple(printable(one) for one in errors[:SHOWN]),
        (*_costs(model, how, run, older, submission, facts), *_time(latency)),
        latency,
        tuple(_opsets(how, facts)),
        tuple(_placement(run, older)),
        moved,
        operators,
        slowest,
        basis,
        both if how.quantised else None,
    )


def _answered(record: JobRecord) -> list[str]:
    """Return the inputs that a run answered, in order, each once: goldens, and draws inside the domain."""
    return list(dict.fromkeys(case.set for case in record.cases if _good(case)))


def _left(older: JobRecord) -> list[LeftOut]:
    """Return which draws the release's run left out, by its word."""
    return [part for one in older.probed if one.scope == "inside" for part in one.left_out if part.what == "draws"]


def _undrawn(older: JobRecord, draws: Sequence[str]) -> dict[str, str]:
    """Say that no draw was compared where some were wanted: on goldens alone, too little was seen."""
    left = _left(older)
    if draws or not left:
        return {}
    return {"draws": f"the release made none of {left[0].count} ({left[0].reason}); only goldens were compared"}


def _drawn(older: JobRecord, inferences: int) -> int:
    """Return how many draws the inferences of the release's run hold; by its word, where it gave one."""
    told = [one.counts.get("draws", 0) for one in older.probed if one.scope == "inside"]
    return max([inferences, *told])


def _slowest(record: JobRecord | None) -> tuple[tuple[str, str, float], ...]:
    """Return the operators that took most time under the profiler, where it ran."""
    if record is None or record.profiled is None:
        return ()
    found = sorted(record.profiled.operators, key=lambda one: (-one.ms, one.op_type, one.provider))
    return tuple((one.op_type, one.provider, round(one.ms, 6)) for one in found[:8])


def _slow(draws: Sequence[str], late: Sequence[str], *, cut: bool) -> bool:
    """Say whether a run that never came to ``late`` of the release's draws is slower than by chance: by half.

    Both make draws as long as their time lasts, at different moments of one machine, so that one may be some ahead
    of the other. ``cut``: so did the release, and of the handful that a large model comes to half is chance.
    """
    return 2 * len(late) > len(draws) and (not cut or len(draws) >= MEANT_DRAWS)


def _few(draws: Sequence[str], late: Sequence[str]) -> dict[str, str]:
    """Say that most of the few draws that the release made were not compared: little was seen beside goldens."""
    if 2 * len(late) <= len(draws):
        return {}
    return {"draws": f"{len(draws) - len(late)} of {len(draws)} were compared; there was no time for more"}


def _unanswered(answered: Sequence[str], given: Sequence[str], late: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs that only the release answers, but for ``late``: the submission never came to those."""
    return tuple([name for name in answered if name not in given and name not in late][:SHOWN])


def _good(case: Case) -> bool:
    return not case.error and case.in_domain and bool(case.outputs) and case.repeat == 0


def _costs(
    model: ModelSpec, how: Beside, run: JobRecord, older: JobRecord, submission: Submission, facts: Facts
) -> Iterator[Cost]:
    assert how.older is not None
    assert submission.sealed is not None
    before = sum(file.size for file in how.older.files)
    yield _cost("size", "bytes", before, model_bytes(model, facts, submission.sealed))
    yield _cost("peak memory", "bytes", memory_bytes(older), memory_bytes(run))


def _time(found: Latency | None) -> Iterator[Cost]:
    if found is not None and found.release is not None and found.now is not None:
        yield _cost(slower.WHAT, "ms", round(found.release, 6), round(found.now, 6))


def _cost(what: str, unit: str, release: float, now: float) -> Cost:
    return Cost(what, unit, release, now, round(now / release, 4) if release else None)


def _opsets(how: Beside, facts: Facts) -> Iterator[tuple[str, str, str]]:
    assert how.older is not None
    old = how.older.facts
    yield "IR version", str(old.ir_version), str(facts.ir_version)
    for domain in sorted({*old.opsets, *facts.opsets}):
        sides = [str(one.opsets.get(domain, "none")) for one in (old, facts)]
        yield f"opset of {domain}", sides[0], sides[1]


def _providers(record: JobRecord) -> dict[str, dict[str, int]]:
    """Return nodes by provider and operator."""
    found: dict[str, dict[str, int]] = {}
    for node in record.placement.nodes if record.placement is not None else []:
        own = found.setdefault(node.provider, {})
        name = f"{node.domain or 'ai.onnx'}::{node.op_type}"
        own[name] = own.get(name, 0) + node.count
    return found


def _placement(run: JobRecord, older: JobRecord) -> Iterator[tuple[str, int, int]]:
    before, now = _providers(older), _providers(run)
    for name in sorted({*before, *now}):
        yield name, sum(before.get(name, {}).values()), sum(now.get(name, {}).values())


def _operators(
    how: Beside, run: JobRecord, older: JobRecord, facts: Facts
) -> tuple[tuple[tuple[str, str, str], ...], tuple[tuple[str, int, int], ...]]:
    """Return operators that went to other providers, and of a quantised model those in another number."""
    sides = [_providers(record) for record in (older, run)]
    by_operator: list[dict[str, set[str]]] = [{}, {}]
    for side, found in zip(by_operator, sides, strict=True):
        for provider, operators in found.items():
            for name in operators:
                side.setdefault(name, set()).add(provider)
    moved = [
        (name, ", ".join(sorted(by_operator[0][name])), ", ".join(sorted(by_operator[1][name])))
        for name in sorted(by_operator[0].keys() & by_operator[1].keys())
        if by_operator[0][name] != by_operator[1][name]
    ]
    counts: list[dict[str, int]] = [{}, {}]
    assert how.older is not None
    if how.quantised:
        for count, one in zip(counts, (how.older.facts, facts), strict=True):
            for use in one.operators:
                name = f"{use.domain or 'ai.onnx'}::{use.op_type}"
                count[name] = count.get(name, 0) + use.count
    names = sorted({*counts[0], *counts[1]})
    changed = [
        (name, counts[0].get(name, 0), counts[1].get(name, 0))
        for name in names
        if counts[0].get(name, 0) != counts[1].get(name, 0)
    ]
    return tuple(moved[:SHOWN]), tuple(changed[:SHOWN])


def document(manifest: Manifest | None, policy: Policy | None, submission: Submission) -> list[dict[str, Any]]:
    """Return the report's section, every text printable."""
    if manifest is None or policy is None:
        return []
    return [safe(asdict(one)) for one in comparisons(manifest, policy, submission)]
