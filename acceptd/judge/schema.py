"""The interface: manifest against contract, both against the model file, and all against the runtime. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from acceptd.evidence import Facts, Schema
from acceptd.judge.finding import Finding
from acceptd.judge.interface import Difference, DimRule, bounds_rule, differences, file_rule, reported, stated
from acceptd.judge.words import make
from acceptd.policy.contract import Contract, ContractModel, fits, version_words
from acceptd.policy.manifest import DimBounds, Manifest, ModelSpec, OutputSpec, ValueSpec

NARROWED = "schema/dimension-narrowed"


def schema(manifest: Manifest, contract: Contract | None, facts: Mapping[str, Facts]) -> list[Finding]:
    """Return every disagreement that is known before anything ran.

    ``facts`` maps model names to the facts of ``inspect``. One disagreement is one finding, with
    what each of the three sides says.
    """
    found = list(_own(manifest))
    if contract is not None:
        found += _identity(manifest, contract)
    for model in manifest.models:
        agreed = _contract_model(contract, model.name)
        found += _three_sides(manifest, model, contract, agreed, facts.get(model.name))
        if model.name in facts:
            found += _versions(model, agreed, facts[model.name])
    return found


def _contract_model(contract: Contract | None, name: str) -> ContractModel | None:
    return next((one for one in contract.models if one.name == name), None) if contract is not None else None


def _own(manifest: Manifest) -> Iterator[Finding]:
    """What the manifest says wrongly about itself."""
    for model in manifest.models:
        for given in model.inputs:
            low, high = given.range or (0.0, 0.0)
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                message = f"range [{low}, {high}] of input {given.name!r}"
                yield make(
                    "manifest/invalid-range", "manifest", f"models.{model.name}.inputs.{given.name}", message
                )
        for output in model.outputs:
            width = output.shape[-1] if output.shape else None
            if output.labels is not None and isinstance(width, int) and width != len(output.labels):
                message = f"{len(output.labels)} labels for a width of {width}"
                where = f"models.{model.name}.outputs.{output.name}"
                yield make("manifest/labels-width", "manifest", where, message)


def _identity(manifest: Manifest, contract: Contract) -> Iterator[Finding]:
    if contract.id != manifest.bundle.id:
        message = f"the contract is for {contract.id}, the bundle is {manifest.bundle.id}"
        yield make("contract/wrong-id", "judge", "bundle.id", message)
    names = {model.name for model in manifest.models}
    agreed = {model.name for model in contract.models}
    for name in sorted(agreed - names):
        yield make("contract/model-missing", "judge", f"models.{name}", f"the contract names a model {name!r}")
    for name in sorted(names - agreed):
        yield make("contract/model-unexpected", "judge", f"models.{name}", f"the contract has no model {name!r}")
    if contract.preprocessing_sha256 is not None:
        own = manifest.preprocessing.sha256 if manifest.preprocessing is not None else None
        if own != contract.preprocessing_sha256:
            pair = {"contract": contract.preprocessing_sha256, "manifest": own}
            message = "the preprocessing digest is not the contract's"
            yield make("schema/preprocessing-changed", "judge", "preprocessing.sha256", message, pair)
    if contract.label_schema_version is not None:
        version = manifest.labels.schema_version if manifest.labels is not None else None
        if version != contract.label_schema_version:
            message = f"label schema {version}, the contract says {contract.label_schema_version}"
            yield make("schema/label-schema-changed", "judge", "labels.schema_version", message)


def _both(
    agreed: ModelSpec | ContractModel, found: ModelSpec | Facts | Schema, inputs: DimRule, outputs: DimRule
) -> list[Difference]:
    other_inputs = stated(found.inputs) if isinstance(found, ModelSpec) else reported(found.inputs)
    other_outputs = stated(found.outputs) if isinstance(found, ModelSpec) else reported(found.outputs)
    return [
        *differences("input", stated(agreed.inputs), other_inputs, inputs),
        *differences("output", stated(agreed.outputs), other_outputs, outputs),
    ]


def _against_file(
    agreed: ModelSpec | ContractModel, dims: Mapping[str, DimBounds], facts: Facts
) -> list[Difference]:
    freed = NARROWED if isinstance(agreed, ModelSpec) else "schema/dimension-freed"
    return _both(agreed, facts, file_rule(dims, freed), file_rule(dims, ""))


def _three_sides(
    manifest: Manifest,
    model: ModelSpec,
    contract: Contract | None,
    agreed: ContractModel | None,
    facts: Facts | None,
) -> Iterator[Finding]:
    own = _against_file(model, manifest.dims, facts) if facts is not None else []
    if contract is None or agreed is None:
        yield from _told(model, own, "manifest", "model")
        return
    bounds = bounds_rule(contract.dims, manifest.dims)
    word = [*_both(agreed, model, bounds, bounds), *_meanings(agreed, model), *_apart(agreed, model)]
    file = _against_file(agreed, contract.dims, facts) if facts is not None else []
    grave = [one for one in own if one.code != NARROWED]
    if facts is not None and not word and file:
        message = f"{model.file} has another interface than the contract and the manifest state"
        yield make("schema/wrong-file", "judge", f"models.{model.name}.file", message, {"differs": len(file)})
    elif facts is not None and word and not file and grave:
        message = f"{model.file} agrees with the contract; the manifest does not"
        yield make("schema/wrong-manifest", "judge", f"models.{model.name}", message, {"differs": len(word)})
    seen: set[tuple[str, str]] = set()
    for differing, left, right in (
        (word, "contract", "manifest"),
        (file, "contract", "model"),
        (own, "manifest", "model"),
    ):
        fresh = [one for one in differing if (one.code, one.port) not in seen]
        if differing is own and (word or file):
            # what contract and manifest or file already disagree on is told once, not from each side
            fresh = [one for one in fresh if one.code == NARROWED]
        seen |= {(one.code, one.port) for one in fresh}
        yield from _told(model, fresh, left, right)


_SIDES: Final = {"contract": "the contract", "manifest": "bundle.toml", "model": "the model"}
"""Who says it, as a model team knows them."""


def _told(model: ModelSpec, differing: Iterable[Difference], left: str, right: str) -> Iterator[Finding]:
    for one in differing:
        message = f"{_SIDES[left]} says {_short(one.agreed)}, {_SIDES[right]} says {_short(one.found)}"
        where = f"models.{model.name}: {one.port}"
        yield make(one.code, "judge", where, message, {left: one.agreed, right: one.found})


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 120 else f"{text[:119]}…"


def _meanings(agreed: ContractModel, model: ModelSpec) -> Iterator[Difference]:
    inputs = {value.name: value for value in model.inputs}
    for value in agreed.inputs:
        given = inputs.get(value.name)
        if given is None:
            continue
        yield from _unstated(value, given)
        if value.range is not None and value.range != given.range:
            yield Difference("schema/range-changed", value.name, value.range, given.range)
        if value.optional != given.optional:
            yield Difference("schema/optional-changed", value.name, value.optional, given.optional)
    outputs = {value.name: value for value in model.outputs}
    for index, output in enumerate(agreed.outputs):
        own = outputs.get(output.name) or (model.outputs[index] if index < len(model.outputs) else None)
        if own is not None:
            yield from _unstated(output, own)
            yield from _output_meaning(output, own)


def _apart(agreed: ContractModel, model: ModelSpec) -> Iterator[Difference]:
    """What the contract has as one dimension is one in the manifest: else rows of a batch are none any more."""
    own: dict[str, ValueSpec] = {f"input {one.name}": one for one in model.inputs}
    own |= {f"output {one.name}": one for one in model.outputs}
    named: dict[str, str] = {}
    sides = (("input", agreed.inputs), ("output", agreed.outputs))
    for side, value in ((side, value) for side, values in sides for value in values):
        given = own.get(f"{side} {value.name}")
        for left, right in zip(
            value.shape or (), (given.shape if given is not None else None) or (), strict=False
        ):
            if not (isinstance(left, str) and isinstance(right, str)) or "?" in {left, right}:
                continue
            if named.setdefault(left, right) != right:
                yield Difference("schema/dimension-bounds", value.name, left, [named[left], right])


def _unstated(agreed: ValueSpec, own: ValueSpec) -> Iterator[Difference]:
    """What the contract says and the manifest must not leave out: each run is held against the manifest alone."""
    if agreed.shape is not None and own.shape is None:
        yield Difference("schema/rank-changed", agreed.name, list(agreed.shape), None)
    if agreed.key_dtype is not None and agreed.key_dtype != own.key_dtype:
        yield Difference("schema/dtype-changed", agreed.name, agreed.key_dtype, own.key_dtype)


def _output_meaning(agreed: OutputSpec, own: OutputSpec) -> Iterator[Difference]:
    if agreed.kind != "values" and agreed.kind != own.kind:
        yield Difference("schema/output-kind-changed", agreed.name, agreed.kind, own.kind)
    if agreed.labels is not None and agreed.labels != own.labels:
        same = own.labels is not None and sorted(agreed.labels) == sorted(own.labels)
        code = "schema/labels-reordered" if same else "schema/labels-changed"
        yield Difference(code, agreed.name, agreed.labels[:32], (own.labels or [])[:32])


def _versions(model: ModelSpec, agreed: ContractModel | None, facts: Facts) -> Iterator[Finding]:
    sides: list[tuple[str, ModelSpec | ContractModel]] = [("manifest", model)]
    if agreed is not None:
        sides.append(("contract", agreed))
    used = {domain: version for domain, version in facts.opsets.items() if domain not in facts.unused_domains}
    for who, side in sides:
        if who == "manifest" and (side.ir_version is None or side.opsets is None):
            silent = [name for name in ("ir_version", "opsets") if getattr(side, name) is None]
            message = (
                f"IR version {facts.ir_version} and opsets {_imports(used)}; {' and '.join(silent)} not declared"
            )
            yield make("schema/versions-undeclared", "judge", f"models.{model.name}", message)
        if side.ir_version is not None and not fits(side.ir_version, facts.ir_version):
            message = f"IR version {facts.ir_version}, the {who} says {version_words(side.ir_version)}"
            yield make("schema/ir-version-mismatch", "judge", f"models.{model.name}.ir_version", message)
        if side.opsets is None:
            continue
        for domain in sorted({*side.opsets, *used}):
            agreed_on, has = side.opsets.get(domain), facts.opsets.get(domain)
            if agreed_on is None or not fits(agreed_on, has):
                says = version_words(agreed_on) if agreed_on is not None else None
                if has is None:
                    message = f"the model imports no domain {domain}, the {who} says opset {says}"
                elif says is None:
                    message = f"the model imports opset {has} of {domain}, the {who} names no such domain"
                else:
                    message = f"opset of {domain} is {has}, the {who} says {says}"
                where = f"models.{model.name}.opsets.{domain}"
                shown = agreed_on if isinstance(agreed_on, int) else says
                yield make("schema/opset-mismatch", "judge", where, message, {who: shown, "model": has})


def _imports(used: Mapping[str, int]) -> str:
    return ", ".join(f"{domain} {version}" for domain, version in sorted(used.items())[:16])


def runtime(manifest: Manifest, model: ModelSpec, schema_: Schema) -> Iterator[Finding]:
    """Hold what the runtime reports of the loaded model against the manifest.

    For an inferred manifest a difference only warns: nobody promised the interface, and the
    runtime may know more of a shape than the file says.
    """
    rule = file_rule(manifest.dims, "", "schema/dimension-fixed" if manifest.declared else "")
    code = "schema/runtime-disagrees" if manifest.declared else "schema/runtime-differs"
    for one in _both(model, schema_, rule, rule):
        message = (
            f"{one.code.partition('/')[2]}: declared {_short(one.agreed)}, the runtime says {_short(one.found)}"
        )
        where = f"models.{model.name}: {one.port}"
        yield make(code, "run", where, message, {"declared": one.agreed, "runtime": one.found, "as": one.code})
