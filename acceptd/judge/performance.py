"""Ceilings of the contract on time, judged against noise. Pure.

Noise of a machine only adds time. So one measurement that keeps a ceiling is enough to keep it, and one that
breaks it breaks nothing: the model is timed again in a job alone (variant ``timed``), and is rejected only when
both show it, each beyond chance, and the machine was quiet the second time. What stays unclear holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from acceptd.evidence import HostLoad, JobRecord
from acceptd.judge.distribution import Outcome, against, quantile, ratio
from acceptd.judge.finding import Finding
from acceptd.judge.jobs import Jobs
from acceptd.judge.words import make
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import PerformanceTable, Policy

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Measure:
    """One ceiling held against one job: the figure in the ceiling's unit, None where there is none."""

    key: str
    code: str
    ceiling: float
    unit: str
    value: float | None
    outcome: Outcome
    samples: int


def warm_samples(record: JobRecord) -> list[float]:
    """Return the warm wall times of the timed set, in ms: its golden repeats but the first, and the samples.

    They are the job's word. Without a timing the set is the one whose warm repeat took longest.
    """
    repeats: dict[str, list[float]] = {}
    for case in record.cases:
        if case.repeat and not case.error and not case.set.startswith("probe:"):
            repeats.setdefault(case.set, []).append(case.wall_ms)
    timing = record.timing
    if timing is not None and (timing.wall_ms or timing.set in repeats):
        return [*repeats.get(timing.set, []), *timing.wall_ms]
    return max(repeats.values(), key=max, default=[])


def best_run_ms(record: JobRecord) -> float | None:
    """Return the slowest golden set's wall time in ms, each at its fastest repeat; None without a run."""
    best: dict[str, float] = {}
    for case in record.cases:
        if not case.error and not case.set.startswith("probe:"):
            best[case.set] = min(case.wall_ms, best.get(case.set, case.wall_ms))
    return max(best.values(), default=None)


def first_run_ms(record: JobRecord) -> float | None:
    """Return the wall time of the session's first inference in ms; None without one."""
    first = next((case for case in record.cases if not case.error), None)
    return first.wall_ms if first is not None and first.repeat == 0 else None


def measures(record: JobRecord, contract: Contract, table: PerformanceTable) -> list[Measure]:
    """Hold each ceiling on time of the contract against one job."""
    limits, found = contract.ceilings, []
    samples = warm_samples(record)
    single = (
        ("load_ms", "resources/load-ceiling", limits.load_ms, record.schema_.load_ms if record.schema_ else None),
        ("first_run_ms", "performance/first-run-ceiling", limits.first_run_ms, first_run_ms(record)),
        ("run_ms", "resources/run-ceiling", limits.run_ms, best_run_ms(record)),
    )
    for key, code, ceiling, value in single:
        if ceiling is not None:
            outcome: Outcome = "too-few" if value is None else "within" if value <= ceiling else "over"
            found.append(Measure(key, code, ceiling, "ms", value, outcome, int(value is not None)))
    for name, q in QUANTILES.items():
        ceiling = getattr(limits, f"{name}_ms")
        if ceiling is not None:
            outcome = against(samples, q, ceiling, table.least_samples)
            value = quantile(samples, q) if samples else None
            code = "performance/latency-ceiling"
            found.append(Measure(f"{name}_ms", code, ceiling, "ms", value, outcome, len(samples)))
    if limits.p50_kernels is not None:
        kernel = record.kernel.wall_ms if record.kernel is not None else []
        told = ratio(samples, kernel, limits.p50_kernels, table.least_samples)
        code = "performance/kernel-ceiling"
        found.append(
            Measure("p50_kernels", code, limits.p50_kernels, "kernels", told.value, told.outcome, len(samples))
        )
    return found


def busy(host: HostLoad | None, table: PerformanceTable) -> str:
    """Say why timings of that job prove nothing against a model; empty where the machine was quiet.

    Where the kernel tells the pressure, that decides: a load average over a minute still shows what ended before.
    """
    if host is None:
        return "nothing is known of the machine's load"
    if host.steal is not None and host.steal > table.busy_steal:
        return f"the hypervisor took {host.steal:.1%} of the processor time"
    if host.pressure is not None:
        waited = f"tasks waited for a processor in {host.pressure:.0%} of the time"
        return waited if host.pressure > table.busy_pressure else ""
    return f"the load average was {host.load1:g} on {host.cores} cores" if host.load1 > host.cores else ""


def again(record: JobRecord | None, contract: Contract | None, policy: Policy) -> bool:
    """Say whether a model is to be timed once more, in a job alone: a ceiling does not look kept."""
    if record is None or contract is None or record.ending != "done" or not policy.performance.retry:
        return False
    return any(one.outcome != "within" for one in measures(record, contract, policy.performance))


def ceilings(model: ModelSpec, jobs: Jobs, contract: Contract | None, policy: Policy) -> Iterator[Finding]:
    """Yield the ceilings on time that one model broke, and those that could not be judged."""
    records = [one for variant in ("", "timed") if (one := jobs.last("run", model, variant)) is not None]
    records = [one for one in records if one.ending == "done"]
    for record in records:
        yield from _impossible(model, record)
    if contract is None or not records:
        return  # a run that did not end is a finding, or a missing stage, by itself
    by_key: dict[str, list[Measure]] = {}
    for record in records:
        for held in measures(record, contract, policy.performance):
            by_key.setdefault(held.key, []).append(held)
    noise = busy(records[-1].host, policy.performance)
    for found in by_key.values():
        yield from _judged(model, found, noise)


def _judged(model: ModelSpec, found: Sequence[Measure], noise: str) -> Iterator[Finding]:
    if any(one.outcome == "within" for one in found):
        return
    last = found[-1]
    where = f"models.{model.name}.{last.key}"
    shows = {
        "values": [one.value for one in found],
        "outcomes": [one.outcome for one in found],
        "samples": [one.samples for one in found],
        "ceiling": last.ceiling,
        "machine": noise or "quiet",
    }
    if last.value is None:
        told = f"nothing was measured for the agreed {last.ceiling:g} {last.unit}"
        yield make("performance/unmeasured", "judge", where, told, shows)
        return
    told = f"{last.value:.4g} {last.unit}; at most {last.ceiling:g} is agreed"
    if all(one.outcome == "over" for one in found) and len(found) > 1 and not noise:
        yield make(last.code, "judge", where, told, shows)
        return
    if any(one.outcome == "too-few" for one in found):
        why = f"{last.samples} samples are too few"
    elif len(found) < 2:
        why = "it was measured in one job only"
    elif noise:
        why = noise
    else:
        why = "it does not stand out from the noise"
    yield make("performance/unclear", "judge", where, f"{told}, but {why}", shows)


def _impossible(model: ModelSpec, record: JobRecord) -> Iterator[Finding]:
    """A job whose inferences, by its own word, took longer than the job itself, by the trusted side's clock."""
    goldens = sum(case.wall_ms for case in record.cases if not case.set.startswith("probe:"))
    told = goldens + (sum(record.timing.wall_ms) if record.timing else 0.0)
    took = record.wall_s * 1000
    if record.timing is not None and took and told > took * 1.02 + 1:
        message = f"inferences of {told:.4g} ms by the job's word, in a job that took {took:.4g} ms"
        yield make(
            "performance/impossible", "judge", f"models.{model.name}", message, {"told": told, "took": took}
        )
