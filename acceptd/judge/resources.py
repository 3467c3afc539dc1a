"""Ceilings of the contract on memory and size; those on time are in :mod:`acceptd.judge.performance`. Pure."""

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
        message = f"{size} bytes; at most {limits.model_bytes} is agreed"
        yield make("resources/size-ceiling", "judge", where, message, shows)
    if record is None:
        return
    peak = memory_bytes(record)
    if limits.peak_memory_bytes is not None and peak > limits.peak_memory_bytes:
        message = f"{peak} bytes at the peak; at most {limits.peak_memory_bytes} is agreed"
        shows = {"bytes": peak, "ceiling": limits.peak_memory_bytes}
        yield make("resources/memory-ceiling", "judge", where, message, shows)
