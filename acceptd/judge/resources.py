"""Ceilings of the contract on load, run, memory and size. Limits that a job reached are its ending. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import Facts, JobRecord, Sealed
from acceptd.judge.finding import Finding
from acceptd.judge.structure import resolve
from acceptd.judge.words import make
from acceptd.policy.contract import Ceilings, Contract
from acceptd.policy.manifest import ModelSpec


def model_bytes(model: ModelSpec, facts: Facts | None, sealed: Sealed) -> int:
    """Return the size in bytes of a model with the external data files that it names."""
    sizes = {file.path: file.size for file in sealed.files}
    paths = {model.file}
    if facts is not None:
        paths |= {path for one in facts.external if (path := resolve(model.file, one.location)) is not None}
    return sum(sizes.get(path, 0) for path in paths)


def best_run_ms(record: JobRecord) -> float | None:
    """Return the slowest golden set's wall time in ms, each set taken at its faster repeat; None without a run.

    The first inference of a session pays for lazy work, so the faster repeat is the model's own cost.
    """
    best: dict[str, float] = {}
    for case in record.cases:
        if not case.error and not case.set.startswith("probe:"):
            best[case.set] = min(case.wall_ms, best.get(case.set, case.wall_ms))
    return max(best.values(), default=None)


def memory_bytes(record: JobRecord) -> int:
    """Return the peak resident set above the warm parent's, from whichever side saw more."""
    told = record.done.peak_rss_bytes if record.done is not None else 0
    return max(0, max(record.peak_rss_bytes, told) - record.baseline_rss_bytes)


def ceilings(
    model: ModelSpec, record: JobRecord | None, facts: Facts | None, sealed: Sealed, contract: Contract | None
) -> Iterator[Finding]:
    """Yield the contract's ceilings that one model passed."""
    if contract is None:
        return
    limits: Ceilings = contract.ceilings
    where = f"models.{model.name}"
    size = model_bytes(model, facts, sealed)
    if limits.model_bytes is not None and size > limits.model_bytes:
        shows: dict[str, float] = {"bytes": size, "ceiling": limits.model_bytes}
        yield make("resources/size-ceiling", "judge", where, f"{size} bytes; agreed {limits.model_bytes}", shows)
    if record is None:
        return
    if limits.load_ms is not None and record.schema_ is not None and record.schema_.load_ms > limits.load_ms:
        shows = {"ms": record.schema_.load_ms, "ceiling": limits.load_ms}
        message = f"{record.schema_.load_ms:.1f} ms to load; agreed {limits.load_ms:g}"
        yield make("resources/load-ceiling", "judge", where, message, shows)
    run_ms = best_run_ms(record)
    if limits.run_ms is not None and run_ms is not None and run_ms > limits.run_ms:
        message = f"{run_ms:.1f} ms for the slowest set; agreed {limits.run_ms:g}"
        yield make("resources/run-ceiling", "judge", where, message, {"ms": run_ms, "ceiling": limits.run_ms})
    peak = memory_bytes(record)
    if limits.peak_memory_bytes is not None and peak > limits.peak_memory_bytes:
        message = f"{peak} bytes at the peak; agreed {limits.peak_memory_bytes}"
        shows = {"bytes": peak, "ceiling": limits.peak_memory_bytes}
        yield make("resources/memory-ceiling", "judge", where, message, shows)
