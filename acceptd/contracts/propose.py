"""A contract to begin with: what a bundle declares and what was measured of it, as a commented file. Pure.

A person edits it: figures of time and accuracy that a run told are the run's word, and a manifest is its team's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from acceptd.contracts.toml import contract_text
from acceptd.errors import MalformedError, UsageError
from acceptd.evidence import Facts, JobRecord, QualityStats, Submission
from acceptd.judge.distribution import quantile
from acceptd.judge.jobs import Jobs
from acceptd.judge.performance import QUANTILES, best_run_ms, first_run_ms, warm_samples
from acceptd.judge.resources import memory_bytes, model_bytes
from acceptd.judge.tolerance import promised
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec, OutputSpec
from acceptd.policy.policy import Policy
from acceptd.policy.troubles import Trouble, first

SLACK_MS: Final = 1.0
"""Milliseconds that a budget has at least above what was measured."""
SLACK_BYTES: Final = 4 << 20
FLOOR_MARGIN: Final = 0.02
"""How far below the measured accuracy, and above the measured error, a floor is proposed."""
_LOADER: Final = ("load_ms", "first_run_ms", "run_ms")


@dataclass(frozen=True, slots=True)
class Basis:
    """What a proposal rests on. ``what`` says it in words without a submitter's text; ``margin`` is a factor."""

    manifest: Manifest
    submission: Submission
    policy: Policy
    what: str
    margin: float = 1.5
    now: Contract | None = None
    """The contract in force."""


def proposal(basis: Basis) -> str:
    """Return the text of a contract. Raises MalformedError where what was declared makes none."""
    document, comments = _document(basis)
    found = first(document, Contract)
    if isinstance(found, Trouble):
        raise MalformedError(f"what the bundle declares makes no contract: {found.key}: {found.message}")
    return contract_text(lean(found), comments, _head(basis))


def text_of(contract: Contract, head: Sequence[str]) -> str:
    """Return a contract as TOML; reading it gives the same contract."""
    return contract_text(lean(contract), {}, head)


def lean(contract: Contract) -> dict[str, Any]:
    """Return the JSON form without what every reader takes for granted."""
    document: dict[str, Any] = contract.model_dump(mode="json", by_alias=True, exclude_none=True)
    for model in document["models"]:
        for port in (*model["inputs"], *model["outputs"]):
            if port["type"] == "tensor":
                del port["type"]
            if port.get("optional") is False:
                del port["optional"]
    return document


def _head(basis: Basis) -> list[str]:
    return [
        f"A proposal, from {basis.what}.",
        "Nothing here is agreed on: look at every line, change it, take out what is not to be constrained.",
        "Then: acceptd policy check FILE, acceptd contract sign FILE (docs/contracts.md).",
        f"Budgets are what was measured times {basis.margin:g}, and at least {SLACK_MS:g} ms or 4 MiB more.",
        "Times and accuracies are the word of a run, on one machine: they are no promise.",
        'It may end: with valid_until = "2030-01-31T00:00:00Z" all bundles are held from then on, until it is',
        "signed anew.",
    ]


def _document(basis: Basis) -> tuple[dict[str, Any], dict[str, list[str]]]:
    manifest, now = basis.manifest, basis.now
    comments = {
        "version": [
            f"Version {now.version} is in force; this one supersedes it."
            if now is not None
            else "The first version; raise it with every change."
        ],
        "dims": ["Bounds of the named dimensions, both included; a manifest must name the same."],
    }
    budgets, told = _budgets(basis)
    comments |= told
    models = []
    for number, model in enumerate(manifest.models):
        made, said = _model(basis, model, f"models[{number}]")
        models.append(made)
        comments |= said
    document = {
        "schema": 1,
        "id": manifest.bundle.id,
        "version": now.version + 1 if now is not None else 1,
        "dims": {name: bounds.model_dump() for name, bounds in manifest.dims.items()},
        "models": models,
        "preprocessing_sha256": manifest.preprocessing.sha256 if manifest.preprocessing else None,
        "label_schema_version": manifest.labels.schema_version if manifest.labels else None,
        "max_rtol": now.max_rtol if now is not None else None,
        "max_atol": now.max_atol if now is not None else None,
        "ceilings": budgets,
    }
    return {key: value for key, value in document.items() if value is not None}, comments


def _model(basis: Basis, model: ModelSpec, place: str) -> tuple[dict[str, Any], dict[str, list[str]]]:
    comments: dict[str, list[str]] = {}
    facts = Jobs(tuple(basis.submission.jobs)).facts(basis.manifest).get(model.name)
    outputs = []
    for index, output in enumerate(model.outputs):
        outputs.append(_output(basis, model, output))
        comments[f"{place}.outputs[{index}].tolerance"] = ["As it held then; a manifest may only tighten it."]
    for index, given in enumerate(model.inputs):
        if given.range is not None:
            comments[f"{place}.inputs[{index}].range"] = ["Every element, both ends included."]
    made: dict[str, Any] = {
        "name": model.name,
        **_versions(model, facts),
        "inputs": [one.model_dump(mode="json", exclude_none=True) for one in model.inputs],
        "outputs": outputs,
    }
    if "opsets" in made:
        comments[f"{place}.opsets"] = ["Widen max where a later export may use a newer opset."]
    held = next((one for one in (basis.now.models if basis.now else []) if one.name == model.name), None)
    if held is not None and held.heldout:
        made["heldout"] = [one.model_dump(mode="json") for one in held.heldout]
        comments[f"{place}.heldout"] = ["", "As in the version in force."]
    floors = [one.model_dump(mode="json", exclude_none=True) for one in held.quality] if held is not None else []
    if floors:
        comments[f"{place}.quality"] = ["", "As in the version in force."]
    else:
        floors = list(_floors(basis.submission, model))
        if floors:
            comments[f"{place}.quality"] = ["", f"What labelled rows showed, less {FLOOR_MARGIN:g}."]
    if floors:
        made["quality"] = floors
    return made, comments


def _output(basis: Basis, model: ModelSpec, output: OutputSpec) -> dict[str, Any]:
    made = output.model_dump(mode="json", exclude_none=True)
    held = promised(basis.manifest, model.name, output, basis.now, basis.policy, output.dtype)
    made["tolerance"] = {
        "rtol": held.rtol,
        "atol": held.atol,
        **({"top1": held.top1} if held.top1 is not None else {}),
        **({"limits": dict(held.limits)} if held.limits else {}),
    }
    return made


def _versions(model: ModelSpec, facts: Facts | None) -> dict[str, Any]:
    """Return IR version and opsets: of the file where it was inspected, else what the manifest says."""
    if facts is None:
        said = {"ir_version": model.ir_version, "opsets": model.opsets}
        return {key: value for key, value in said.items() if value is not None}
    used = {name: number for name, number in sorted(facts.opsets.items()) if name not in facts.unused_domains}
    return {
        "ir_version": {"min": facts.ir_version, "max": facts.ir_version},
        "opsets": {name: {"min": number, "max": number} for name, number in used.items()},
    }


def _budgets(basis: Basis) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return ceilings over all models and profiles, and what each rests on."""
    measured: dict[str, float] = {}
    manifest, submission = basis.manifest, basis.submission
    facts = Jobs(tuple(submission.jobs)).facts(manifest)
    for model in manifest.models:
        if submission.sealed is not None:
            size = model_bytes(model, facts.get(model.name), submission.sealed)
            _most(measured, "model_bytes", size)
        for record in submission.jobs:
            if (record.kind, record.model, record.variant, record.ending) == ("run", model.name, "", "done"):
                for name, figure in _measured(record, basis.policy):
                    _most(measured, name, figure)
    ceilings: dict[str, Any] = {}
    comments: dict[str, list[str]] = {
        "ceilings": ["Upper bounds on the acceptor's own machine."],
    }
    for name, figure in measured.items():
        bytes_ = name.endswith("_bytes")
        ceilings[name] = _rounded_bytes(figure, basis.margin) if bytes_ else _rounded_ms(figure, basis.margin)
        comments[f"ceilings.{name}"] = [f"measured {figure:.0f} bytes" if bytes_ else f"measured {figure:.3g} ms"]
    order = [*_LOADER, "p50_ms", "p95_ms", "p99_ms", "peak_memory_bytes", "model_bytes"]
    return {name: ceilings[name] for name in order if name in ceilings}, comments


def _most(measured: dict[str, float], name: str, figure: float) -> None:
    if figure > 0 or name.endswith("_bytes"):
        measured[name] = max(measured.get(name, 0.0), figure)


def _measured(record: JobRecord, policy: Policy) -> Iterator[tuple[str, float]]:
    if record.schema_ is not None:
        yield "load_ms", record.schema_.load_ms
    for name, figure in (("first_run_ms", first_run_ms(record)), ("run_ms", best_run_ms(record))):
        if figure is not None:
            yield name, figure
    samples = warm_samples(record)
    if len(samples) >= policy.performance.least_samples:
        for name, q in QUANTILES.items():
            yield f"{name}_ms", quantile(samples, q)
    yield "peak_memory_bytes", float(memory_bytes(record))


def _rounded_ms(figure: float, margin: float) -> float:
    """Return a budget in ms with two significant digits, never below the figure with its margin."""
    budget = max(figure * margin, figure + SLACK_MS)
    step = 10.0 ** (math.floor(math.log10(budget)) - 1)
    return round(math.ceil(budget / step - 1e-9) * step, 6)


def _rounded_bytes(figure: float, margin: float) -> int:
    budget = math.ceil(max(figure * margin, figure + SLACK_BYTES))
    return -(-budget // 65_536) * 65_536


def _floors(submission: Submission, model: ModelSpec) -> Iterator[dict[str, Any]]:
    rows: list[QualityStats] = submission.statistics.quality if submission.statistics is not None else []
    for row in rows:
        if row.model != model.name or row.note or not row.rows or row.accuracy is None:
            continue
        floor: dict[str, Any] = {"output": row.output, "min_rows": row.rows}
        if row.slice is not None:
            floor["slice"] = row.slice
        floor["min_accuracy"] = max(0.0, math.floor((row.accuracy - FLOOR_MARGIN) * 1000) / 1000)
        if row.calibration_error is not None:
            floor["max_calibration_error"] = min(
                1.0, math.ceil((row.calibration_error + FLOOR_MARGIN) * 1000) / 1000
            )
        yield floor


def declared(manifest: Manifest | None, inferred: Sequence[str], reason: str) -> Manifest:
    """Return the manifest that a contract can be proposed from; raise UsageError where there is none."""
    if manifest is None:
        raise UsageError(
            f"there is no manifest to propose a contract from: {reason}", remedy="mend the bundle first"
        )
    if inferred or not manifest.declared:
        raise UsageError(
            "its manifest was inferred: nobody has declared an interface", remedy="write a bundle.toml first"
        )
    return manifest
