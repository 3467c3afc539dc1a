"""One output of a submission beside the current release's, over all inputs that both were given. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from acceptd.evidence import Labels, OutputStats
from acceptd.judge.agreement import breaches, measured
from acceptd.judge.beside import Beside
from acceptd.judge.tolerance import Resolved
from acceptd.kind_facts import CLASSES
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.regression import Limits
from acceptd.policy.tolerance import LIMITS, least

SHOWN: Final = 64


@dataclass(frozen=True, slots=True)
class LabelLoss:
    """Rows that the release gives one label, and how many of them the submission gives another.

    ``corrected`` of these are golden rows that the submission answers as its golden expects: the release is wrong
    there by the submission's own account, and they count against nobody. Never of a quantised model.
    """

    label: str
    rows: int
    missed: int
    corrected: int = 0


@dataclass(frozen=True, slots=True)
class Worst:
    """The element that differs most: golden set or draw, index, the release's value, the submission's."""

    set: str = ""
    index: tuple[int, ...] = ()
    release: str = ""
    now: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """One output over all inputs that both models were given. ``error``: against the goldens' expected values."""

    output: str
    kind: str
    inputs: int = 0
    elements: int = 0
    beyond: int = 0
    """Elements beyond the policy's tolerance; of an output without one, those that differ at all."""
    max_abs: float = 0.0
    max_rel: float = 0.0
    worst: Worst = Worst()
    rows: int = 0
    mismatches: int = 0
    corrected: int = 0
    labels: tuple[LabelLoss, ...] = ()
    figures: tuple[tuple[str, float], ...] = ()
    """The worst of each figure that the kind has beside its elements."""
    broken: tuple[str, ...] = ()
    """Which of the policy's limits they break, with the input."""
    sequences: int = 0
    exact: int = 0
    """Rows of tokens, and how many of them are the release's to the last token."""
    incomparable: int = 0
    """Inputs for which the two outputs have other types or shapes, or only one of them is there."""
    note: str = ""
    goldens: int = 0
    error: float = 0.0
    release_error: float = 0.0
    wrong: int = 0
    release_wrong: int = 0
    """Rows with another class than the golden expects."""


def output(model: ModelSpec, how: Beside, name: str, rows: Sequence[OutputStats], limits: Limits) -> Output:
    spec = next((one for one in model.outputs if one.name == name), None)
    kind = spec.kind if spec is not None else "values"
    own = [row for row in rows if row.output == name]
    beside_it = [row for row in own if row.against == "prior"]
    good = [row for row in beside_it if row.comparable]
    bad = [row for row in beside_it if not row.comparable]
    golden = {row.set: row for row in own if row.against == "golden" and row.comparable}
    older = {row.set: row for row in own if row.against == "prior-golden" and row.comparable}
    both = [name for name in golden if name in older]
    worst = max(good, key=lambda row: _number(row.max_abs), default=None)
    labels = [row.labels for row in good if row.labels is not None]
    right = {name for name, row in golden.items() if not how.quantised and not row.top1_mismatches}
    corrected = [row.labels for row in good if row.labels is not None and row.set in right]
    return Output(
        output=name,
        kind=kind,
        inputs=len(good),
        elements=sum(row.n for row in good),
        beyond=sum(row.exceeding for row in good if row.note != CLASSES),
        max_abs=max((_number(row.max_abs) for row in good), default=0.0),
        max_rel=max((_number(row.max_rel) for row in good), default=0.0),
        worst=Worst(worst.set, tuple(worst.worst_index[:16]), worst.worst_expected, worst.worst_got)
        if worst is not None
        else Worst(),
        rows=sum(one.rows for one in labels),
        mismatches=sum(one.mismatches for one in labels),
        figures=tuple(_figures(kind, good)),
        broken=tuple(_beyond(kind, limits, good))[:SHOWN],
        sequences=sum(row.sequence.rows for row in good if row.sequence is not None),
        exact=sum(row.sequence.exact for row in good if row.sequence is not None),
        corrected=sum(one.mismatches for one in corrected),
        labels=tuple(_losses(how.labels(name), labels, corrected)),
        incomparable=len(bad),
        note=bad[0].note if bad else "",
        goldens=len(both),
        error=max((_number(golden[name].max_abs) for name in both), default=0.0),
        release_error=max((_number(older[name].max_abs) for name in both), default=0.0),
        wrong=sum(golden[name].top1_mismatches for name in both),
        release_wrong=sum(found.mismatches for name in both if (found := older[name].labels) is not None),
    )


def _figures(kind: str, rows: Sequence[OutputStats]) -> Iterator[tuple[str, float]]:
    for name, limit in LIMITS.items():
        found = [float(value) for row in rows if (value := measured(row, name)) is not None]
        if kind in limit.kinds and found:
            yield name, min(found) if least(name) else max(found)


def _beyond(kind: str, limits: Limits, rows: Sequence[OutputStats]) -> Iterator[str]:
    if limits.values is None:
        return
    own: dict[str, float] = {
        name: bound for name, bound in limits.values.limits.items() if kind in LIMITS[name].kinds
    }
    held = Resolved(limits.values.rtol, limits.values.atol, None, explicit=False, capped=False, limits=own)
    for row in rows:
        for breach in breaches(row, held):
            if breach.figure in own:
                yield f"{row.set}: {breach.text}"


def _number(value: float | str) -> float:
    return float(value)


def _losses(
    names: Sequence[str] | None, found: Sequence[Labels], corrected: Sequence[Labels]
) -> Iterator[LabelLoss]:
    """Yield the labels over all inputs, those that lost most rows first."""
    rows = _sums((label.index, label.rows) for one in found for label in one.labels)
    missed = _sums((label.index, label.missed) for one in found for label in one.labels)
    right = _sums((label.index, label.missed) for one in corrected for label in one.labels)
    for index in sorted(rows, key=lambda index: (-missed[index], index)):
        named = names[index] if names is not None and index < len(names) > 1 else f"class {index}"
        yield LabelLoss(named, rows[index], missed[index], right.get(index, 0))


def _sums(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for index, count in pairs:
        sums[index] = sums.get(index, 0) + count
    return sums
