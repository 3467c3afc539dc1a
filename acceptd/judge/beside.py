"""Which inputs and outputs of a model can be held against the current release's, and under which limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from acceptd.evidence import DeclaredModel, Facts, Prior, Snapshot, ValueInfo
from acceptd.judge.tolerance import RANKED
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.policy import Policy
from acceptd.policy.regression import Limits

NOT_FOUND: Final = "the release's model is not known well enough to be run"


@dataclass(frozen=True, slots=True)
class Beside:
    """How one model is compared with the release's.

    ``obstacle``: why it is not run at all, empty where it is. ``ours``: the obstacle lies with the acceptor, not
    with the submission. ``skipped``: outputs that are left out, with the reason.
    """

    model: str
    older: Snapshot | None = None
    declared: DeclaredModel | None = None
    obstacle: str = ""
    ours: bool = False
    quantised: bool = False
    outputs: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)

    def limits(self, policy: Policy) -> Limits:
        """Return the limits that hold."""
        return policy.regression.limits(quantised=self.quantised)

    def labels(self, output: str) -> list[str] | None:
        """Return the labels that the release declares for an output."""
        outputs = self.declared.outputs if self.declared is not None else []
        return next((one.labels for one in outputs if one.name == output), None)

    def ranked(self, output: str) -> str:
        """Return the kind of an output whose rows have classes, as the release declares it; empty otherwise."""
        outputs = self.declared.outputs if self.declared is not None else []
        return next((one.kind for one in outputs if one.name == output and one.kind in RANKED), "")


def wanted(prior: Prior | None, policy: Policy) -> bool:
    """Say whether there is a release to run beside the submission; one that was revoked is no measure."""
    there = prior is not None and prior.status in {"found", "unknown"} and not prior.revoked
    return policy.regression.enabled and there


def beside(prior: Prior, model: ModelSpec, facts: Facts | None) -> Beside:
    """Return how ``model`` is compared with the release's model of the same name."""
    if prior.status != "found":
        return Beside(model.name, obstacle=prior.reason or NOT_FOUND, ours=True)
    older = next((one for one in prior.models if one.name == model.name), None)
    if older is None:
        return Beside(model.name, obstacle="the release has no model of this name")
    models = prior.declared.models if prior.declared is not None else []
    declared = next((one for one in models if one.name == model.name), None)
    if facts is None:
        return Beside(model.name, older, declared, obstacle="this model was not inspected")
    if not older.files:
        return Beside(model.name, older, declared, obstacle="its files are not on record", ours=True)
    quantised = _quantised(facts) and not _quantised(older.facts)
    obstacle = _inputs(older.facts, facts)
    shared, skipped = _outputs(older.facts, facts)
    if not obstacle and not shared:
        obstacle = "no output has the name, type and shape of one of the release's"
    for name in list(shared):
        reason = label_obstacle(_labels(declared, name), _labels(model, name))
        if reason:
            shared.remove(name)
            skipped[name] = reason
    if not obstacle and not shared:
        obstacle = next(iter(skipped.values()))
    return Beside(model.name, older, declared, obstacle, False, quantised, tuple(shared), skipped)


def columns(expected: Sequence[str] | None, got: Sequence[str] | None) -> list[int] | None:
    """Return for each label of ``expected`` its column in ``got``; None where the columns are the same.

    Only for two lists of the same labels: see :func:`label_obstacle`.
    """
    if expected is None or got is None or list(expected) == list(got):
        return None
    places = {label: index for index, label in enumerate(got)}
    return [places[label] for label in expected]


def label_obstacle(older: Sequence[str] | None, newer: Sequence[str] | None) -> str:
    """Say why classes of two outputs cannot be compared by label, or nothing."""
    if older is None or newer is None or list(older) == list(newer):
        return ""
    if len(set(older)) < len(older) or len(set(newer)) < len(newer):
        return "a label is declared twice"
    return "" if set(older) == set(newer) else "its labels are others than the release's"


def _labels(model: DeclaredModel | ModelSpec | None, output: str) -> list[str] | None:
    outputs = model.outputs if model is not None else []
    return next((one.labels for one in outputs if one.name == output), None)


def _quantised(facts: Facts) -> bool:
    return facts.quantisation is not None and facts.quantisation.method != "none"


def _inputs(older: Facts, newer: Facts) -> str:
    before = [one for one in older.inputs if not one.overridable]
    after = [one for one in newer.inputs if not one.overridable]
    if [one.name for one in before] != [one.name for one in after]:
        names = [", ".join(one.name[:80] for one in side[:8]) or "none" for side in (before, after)]
        return f"inputs {names[0]} in the release, now {names[1]}"
    for one, other in zip(before, after, strict=True):
        if not _alike(one, other):
            return f"input {one.name[:80]}: {_type(one)} in the release, now {_type(other)}"
    return ""


def _outputs(older: Facts, newer: Facts) -> tuple[list[str], dict[str, str]]:
    before = {one.name: one for one in older.outputs}
    after = {one.name: one for one in newer.outputs}
    shared: list[str] = []
    skipped: dict[str, str] = {}
    for name in dict.fromkeys([*after, *before]):
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            skipped[name] = "the release has no such output" if one is None else "only the release has it"
        elif _alike(one, other):
            shared.append(name)
        else:
            skipped[name] = f"{_type(one)} in the release, now {_type(other)}"
    return shared, skipped


def _alike(one: ValueInfo, other: ValueInfo) -> bool:
    """Whether kind, element type and shape are the same, where names of open dimensions do not count."""
    if (one.kind, one.dtype, one.detail) != (other.kind, other.dtype, other.detail):
        return False
    if one.shape is None or other.shape is None:
        return one.shape is None and other.shape is None
    return [_size(dim) for dim in one.shape] == [_size(dim) for dim in other.shape]


def _size(dim: int | str) -> int | None:
    return dim if isinstance(dim, int) else None


def _type(value: ValueInfo) -> str:
    shape = "of any rank" if value.shape is None else f"[{', '.join(str(dim) for dim in value.shape[:16])}]"
    return f"{value.detail or value.dtype} {shape}"[:160]
