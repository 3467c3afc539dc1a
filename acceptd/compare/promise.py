"""What outputs were promised to be, as pairs for the comparer: kind, tolerance, what belongs together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from acceptd.compare.task import Against, Companion, How, Kind, Pair, Slice
from acceptd.evidence import TensorRef, VectorSet
from acceptd.judge.tolerance import Resolved, agreed_output, promised, tolerance
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, ModelSpec, OutputSpec
from acceptd.policy.policy import Policy

TOKENS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "string"})
"""Element types of tokens: they are the same or they are not."""

_LAX = frozenset({"boxes", "sequence"})
"""Kinds that let elements stand elsewhere, or do not compare all of them."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The rules under which the outputs of a bundle are compared."""

    manifest: Manifest
    contract: Contract | None
    policy: Policy

    def held(self, model: ModelSpec, output: OutputSpec | None, dtype: str, golden: VectorSet | None) -> Resolved:
        """Return the tolerance of one output; ``golden`` where a set may bring its own."""
        if golden is None:
            return promised(self.manifest, model.name, output, self.contract, self.policy, dtype)
        return tolerance(self.manifest, output, golden, self.contract, self.policy, dtype)

    def pairs(
        self,
        model: ModelSpec,
        name: str,
        against: Against,
        expected: Mapping[str, Slice],
        got: Mapping[str, Slice],
        golden: VectorSet | None = None,
    ) -> Iterator[Pair]:
        """Yield a pair for each output of ``expected``, by name, under its own kind and tolerance.

        ``name``: of the set. An output that ``got`` has not is missing. Scores and classes of boxes travel with
        their boxes where ``expected`` has these, and have no pair of their own then.
        """
        specs = {output.name: output for output in model.outputs}
        carried = set()
        for output in model.outputs:
            meant = self._meaning(model, output)
            if output.name in expected and meant is not None and meant.boxes is not None:
                carried |= {one for one in (meant.boxes.scores, meant.boxes.classes) if one in expected}
        for output_name, value in expected.items():
            if output_name in carried:
                continue
            spec = specs.get(output_name)
            held = self.held(model, spec, _dtype(value), golden)
            exact = spec is not None and spec.kind == "sequence" and _dtype(value) in TOKENS
            yield Pair(
                set=name,
                model=model.name,
                output=output_name,
                against=against,
                expected=value,
                got=got.get(output_name),
                rtol=0.0 if exact else held.rtol,
                atol=0.0 if exact else held.atol,
                kind=kind_of(self._meaning(model, spec)),
                how=self._how(model, spec, held, expected, got, golden),
            )

    def how(self, model: ModelSpec, output: OutputSpec | None) -> How:
        """Return what the comparer needs to know of one output where nothing else belongs to it."""
        return self._how(model, output, self.held(model, output, "", None), {}, {}, None)

    def _meaning(self, model: ModelSpec, output: OutputSpec | None) -> OutputSpec | None:
        """Return the output as its kind is compared: what the contract says of that goes before the manifest.

        Where the contract has a tolerance for plain values, no manifest makes boxes or tokens of them, or what
        belongs to boxes, of which less is compared; and it ignores no token that a contract of sequences compares.
        """
        agreed = agreed_output(self.contract, model.name, output)
        if agreed is None or output is None:
            return output
        if agreed.kind != output.kind:
            bound = agreed.kind == "values" and agreed.tolerance is not None and output.kind in _LAX
            if bound:
                return output.model_copy(update={"kind": "values", "boxes": None, "sequence": None})
            return self._alone(model, output)
        keys = ("top_k", "neighbours", "boxes", "sequence")
        said = {key: getattr(agreed, key) for key in keys if getattr(agreed, key) is not None}
        meant = output.model_copy(update={"sequence": None, **said})
        return meant if agreed.boxes is not None else self._alone(model, meant)

    def _alone(self, model: ModelSpec, output: OutputSpec) -> OutputSpec:
        """Return boxes without the scores and classes for which the contract has a tolerance of their own."""
        if output.boxes is None:
            return output
        names = {"scores": output.boxes.scores, "classes": output.boxes.classes}
        outputs = {one.name: agreed_output(self.contract, model.name, one) for one in model.outputs}
        bound = {
            key: None
            for key, name in names.items()
            if name is not None and (own := outputs.get(name)) is not None and own.tolerance is not None
        }
        return output.model_copy(update={"boxes": output.boxes.model_copy(update=bound)}) if bound else output

    def _how(
        self,
        model: ModelSpec,
        output: OutputSpec | None,
        held: Resolved,
        expected: Mapping[str, Slice],
        got: Mapping[str, Slice],
        golden: VectorSet | None,
    ) -> How:
        spec = self._meaning(model, output)
        if spec is None or spec.kind == "values":
            return How()
        usual = How()
        boxes, sequence = spec.boxes, spec.sequence

        def companion(name: str | None, *, exact: bool) -> Companion | None:
            if name is None or name not in expected:
                return None
            own = next((one for one in model.outputs if one.name == name), None)
            least = self.held(model, own, _dtype(expected[name]), golden)
            rtol, atol = (0.0, 0.0) if exact else (least.rtol, least.atol)
            return Companion(output=name, expected=expected[name], got=got.get(name), rtol=rtol, atol=atol)

        return How(
            top_k=spec.top_k or usual.top_k,
            sum_error=held.limits.get("max_sum_error", usual.sum_error),
            neighbours=spec.neighbours or usual.neighbours,
            columns=list(boxes.columns) if boxes is not None else usual.columns,
            min_iou=held.limits.get("min_iou", usual.min_iou),
            scores=companion(boxes.scores, exact=False) if boxes is not None else None,
            classes=companion(boxes.classes, exact=True) if boxes is not None else None,
            end=sequence.end if sequence is not None else None,
            ignore_after_end=sequence is not None and sequence.after == "ignored",
        )


def kind_of(output: OutputSpec | None) -> Kind:
    """Return the kind by which an output is compared."""
    return output.kind if output is not None else "values"


def _dtype(value: Slice) -> str:
    return value.value.dtype if isinstance(value.value, TensorRef) else ""
