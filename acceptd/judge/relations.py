"""Relations between inferences of one model: rows, batches, threads, processes, calls at once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from acceptd.evidence import SCOPES, Case, Facts, JobRecord, OutputStats, Probed
from acceptd.judge.agreement import Breach, apart
from acceptd.judge.finding import Finding
from acceptd.judge.jobs import place
from acceptd.judge.tolerance import promised
from acceptd.judge.words import make
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.policy import Policy

META: Final = "meta:"
CLEAR: Final = 10.0
"""A difference of so many tolerances is no rounding; below it a broken relation only warns."""
_CODES: Final = {
    "row": "behaviour/row-dependence",
    "order": "behaviour/order-dependence",
    "batch": "behaviour/state-differs",
    "threads": "behaviour/threads-differ",
    "fresh": "behaviour/process-differs",
    "concurrent": "behaviour/concurrent-differs",
}
_WORDS: Final = {
    "row": "between a row in its batch and the same row alone",
    "order": "after the rows of the batch were moved on by one place",
    "batch": "between a session that had met other batch sizes and one that had not",
    "threads": "with another number of threads",
    "fresh": "between two processes that ran the same session",
    "concurrent": "between calls at once and the same calls one after the other",
}
_SIZES: Final = "between a row in one batch and the same row in a batch of another size"
_COUNTED: Final = frozenset({"tokens", "end", "min_matched", "min_classes"})
"""Figures of what is there or is not: no rounding makes a token or a box."""
_ROUNDED: Final = frozenset({"dynamic", "mixed"})
"""Quantisation whose scales are computed over the whole batch, so that rows share them."""


def cases(record: JobRecord, case: Case) -> Iterator[Finding]:
    """Yield what one case of a relation says by itself: it failed where the plain call did not."""
    if case.error:
        yield make("behaviour/relation-failed", "run", f"{place(record)}: {case.set}", case.error)


def told(manifest: Manifest, model: ModelSpec, record: JobRecord) -> Iterator[Finding]:
    """Yield what a run says of its probes as a whole: what was left out."""
    if not manifest.declared:
        return
    for one in record.probed[:SCOPES]:
        left = [
            f"{part.count} {part.what} ({part.reason})" if part.count > 1 else f"{part.what} ({part.reason})"
            for part in one.left_out
        ]
        if left:
            message = f"not tried: {'; '.join(left[:8])}"
            yield make("behaviour/probes-left-out", "run", f"{place(record)}: {one.scope}", message, _shows(one))
    if model.rows_interact and record.variant == "":
        message = "bundle.toml declares rows_interact: rows alone and in another order were not compared"
        yield make("behaviour/rows-interact-declared", "run", place(record), message)


def _shows(one: Probed) -> dict[str, object]:
    return {"counts": dict(one.counts), "seconds": one.seconds}


def comparisons(
    manifest: Manifest,
    rows: Sequence[OutputStats],
    facts: Mapping[str, Facts],
    contract: Contract | None,
    policy: Policy,
) -> Iterator[Finding]:
    """Yield broken relations and inputs that no output depends on.

    Where repeats on one session differ already, a relation of that output says nothing more.
    """
    outputs = {(model.name, output.name): output for model in manifest.models for output in model.outputs}
    random = {
        (row.model, row.output)
        for row in rows
        if row.against == "repeat" and (not row.comparable or row.exceeding > 0)
    }
    for row in rows:
        if row.against not in _CODES or (row.model, row.output) in random:
            continue
        output = outputs.get((row.model, row.output))
        broken = apart(row, promised(manifest, row.model, output, contract, policy))
        if broken or not row.comparable:
            yield _relation(row, broken, facts.get(row.model))
    yield from _unused(manifest, rows)


def _relation(row: OutputStats, broken: Sequence[Breach], facts: Facts | None) -> Finding:
    where = f"{row.model}: {row.set}: {row.output}"
    words = _SIZES if row.against == "row" and row.set != "meta:single" else _WORDS[row.against]
    if not row.comparable:
        message = f"not comparable ({row.note}) {words}"
    elif all(one.figure == "elements" for one in broken):
        message = f"{row.exceeding} of {row.n} elements differ {words}"
    else:
        message = f"{'; '.join(one.text for one in broken)} ({words})"
    shows = {
        "max_abs": row.max_abs,
        "index": row.worst_index[:16],
        "first": row.worst_expected,
        "second": row.worst_got,
    }
    finding = make(_CODES[row.against], "compare", where, message, shows)
    quantised = facts is not None and facts.quantisation is not None and facts.quantisation.method in _ROUNDED
    shared = quantised and row.comparable and row.against in {"row", "order", "batch"}
    if finding.severity == "hold" and (shared or (row.comparable and not _clear(row, broken))):
        return finding.model_copy(update={"severity": "warn"})
    return finding


def _clear(row: OutputStats, broken: Sequence[Breach]) -> bool:
    """Whether the worst element is further off than rounding takes it, or something counted is another."""
    if any(one.figure in _COUNTED for one in broken):
        return True
    if not row.exceeding:
        return False  # an angle or a ratio alone
    try:
        expected, largest = abs(float(row.worst_expected)), float(row.max_abs)
    except ValueError:
        return True  # a string, or a number that is none
    return not largest <= CLEAR * (row.atol + row.rtol * expected)


def _unused(manifest: Manifest, rows: Sequence[OutputStats]) -> Iterator[Finding]:
    for model in manifest.models:
        same: dict[str, list[bool]] = {}
        for row in rows:
            if row.against == "input" and row.model == model.name:
                same.setdefault(row.set, []).append(row.comparable and row.bit_exact)
        for name, exact in same.items():
            if all(exact) and len(exact) == len(model.outputs):
                spot = name.partition(":")[2].partition(":")[2]
                message = "other values of this input alone changed no output"
                yield make("behaviour/input-ignored", "compare", f"{model.name}: {spot}", message)
