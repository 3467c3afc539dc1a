"""Golden inputs against declared ranges, and answers on labelled rows against the contract's floors. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from acceptd.evidence import InputStats, QualityStats, Statistics
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy.contract import Contract, ContractModel
from acceptd.policy.manifest import Manifest
from acceptd.policy.quality import QualityFloor


def measured(manifest: Manifest, contract: Contract | None, statistics: Statistics) -> Iterator[Finding]:
    """Yield what the comparer's own figures of golden inputs and labelled answers show."""
    for row in statistics.inputs:
        yield from _input(manifest, row)
    for one in statistics.quality:
        if one.note:
            message = "labels or answers cannot be read" if one.note == "malformed" else one.note
            yield make("vectors/labels-invalid", "compare", f"{one.model}: {one.output}", message)
    for model in contract.models if contract is not None else []:
        for number, floor in enumerate(model.quality):
            where = f"{model.name}: {floor.output}" + (f": slice {floor.slice}" if floor.slice else "")
            where += f": label {floor.label}" if floor.label else ""
            yield from _floor(model, floor, statistics.quality, where, f"models.{model.name}.quality[{number}]")


def _input(manifest: Manifest, row: InputStats) -> Iterator[Finding]:
    spec = next(
        (
            one
            for model in manifest.models
            if model.name == row.model
            for one in model.inputs
            if one.name == row.input
        ),
        None,
    )
    where = f"{row.model}: {row.set}: {row.input}"
    if not row.comparable:
        yield make("vectors/input-range", "compare", where, "the value cannot be read, so its range is not known")
    elif row.outside:
        declared = list(spec.range) if spec is not None and spec.range is not None else []
        message = (
            f"{row.outside} of {row.n} elements outside {declared}; furthest at {row.worst_index}: {row.worst}"
        )
        shows = {"range": declared, "outside": row.outside, "index": row.worst_index[:16], "value": row.worst}
        yield make("vectors/input-range", "compare", where, message, shows)


def _floor(
    model: ContractModel, floor: QualityFloor, rows: Sequence[QualityStats], where: str, key: str
) -> Iterator[Finding]:
    found = next(
        (row for row in rows if (row.model, row.output, row.slice) == (model.name, floor.output, floor.slice)),
        None,
    )
    if found is None or found.note:
        yield make(
            "quality/not-measured", "compare", where, f"the contract's {key} asks, and no labelled row answers"
        )
        return
    if floor.label is None:
        yield from _whole(floor, found, where)
    else:
        yield from _single(floor, found, model.label_index(floor.output, floor.label), where)


def _whole(floor: QualityFloor, row: QualityStats, where: str) -> Iterator[Finding]:
    shows: dict[str, Any] = {"rows": row.rows}
    if row.rows < floor.min_rows:
        yield make(
            "quality/too-few-rows", "compare", where, f"{row.rows} labelled rows, at least {floor.min_rows}"
        )
    bounds = (
        ("quality/accuracy", "accuracy", row.accuracy, floor.min_accuracy, True),
        ("quality/calibration", "calibration error", row.calibration_error, floor.max_calibration_error, False),
        ("quality/brier", "Brier score", row.brier, floor.max_brier, False),
    )
    for code, name, figure, bound, least in bounds:
        if bound is None:
            continue
        if figure is None:
            message = f"no {name}: the output gives no probabilities"
            yield make("quality/not-measured", "compare", where, message, shows)
        elif figure < bound if least else figure > bound:
            message = f"{name} {figure:.6g} over {row.rows} rows; {'at least' if least else 'at most'} {bound:g}"
            yield make(code, "compare", where, message, shows | {"figure": figure, "bound": bound})


def _single(floor: QualityFloor, row: QualityStats, label: int | None, where: str) -> Iterator[Finding]:
    count = next((one for one in row.classes if one.label == label), None)
    support = count.support if count is not None else 0
    if support < floor.min_rows:
        message = f"{support} labelled rows of this class, at least {floor.min_rows}"
        yield make("quality/too-few-rows", "compare", where, message, {"rows": support})
    if count is None:
        return
    shows = {"rows": support, "false_negatives": count.false_negatives}
    rate = count.false_negatives / support
    for figure, bound, words in (
        (count.false_negatives, floor.max_false_negatives, f"{count.false_negatives} false negatives"),
        (rate, floor.max_false_negative_rate, f"share of false negatives {rate:.6g}"),
    ):
        if bound is not None and figure > bound:
            message = f"{words} over {support} rows of this class; at most {bound:g}"
            yield make("quality/false-negatives", "compare", where, message, shows | {"bound": bound})
