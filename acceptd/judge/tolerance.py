"""Which tolerance holds: the contract's, else the manifest's, else the policy's, under the caps. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from acceptd.evidence import VectorSet
from acceptd.judge.infer import TOLERANCE as INFERRED
from acceptd.policy.contract import Contract
from acceptd.policy.manifest import Manifest, OutputSpec, Tolerance
from acceptd.policy.policy import Policy
from acceptd.policy.tolerance import LIMITS, stricter

BFLOAT16_RTOL: Final = 2.0**-6
"""Two units in the last place of bfloat16, as onnx's own backend-test runner takes."""
RANKED: Final = frozenset({"logits", "probabilities"})
"""Kinds whose rows (along the last axis) have a top class."""
_COARSE: Final = frozenset({"dynamic", "static", "mixed"})
"""Ways to quantise that round activations, and with them the rows of a Softmax."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The tolerance that holds for one output.

    ``explicit``: contract, submitter or golden set declared it; ``capped``: what the submitter declared was cut.
    ``limits`` has a bound for every figure that the kind has (:data:`acceptd.policy.tolerance.LIMITS`).
    """

    rtol: float
    atol: float
    top1: float | None
    explicit: bool
    capped: bool
    limits: Mapping[str, float] = field(default_factory=dict)


def tolerance(
    manifest: Manifest,
    output: OutputSpec | None,
    golden: VectorSet,
    contract: Contract | None,
    policy: Policy,
    dtype: str,
) -> Resolved:
    """Return the tolerance for one output of one golden set.

    Order: the contract's for this output, which a manifest may only tighten; else the manifest's own, else the
    set's (``data.json``), else onnx's defaults for an inferred manifest, else the policy's for the kind. The
    policy's caps bound what a submitter declares, ``max_rtol`` and ``max_atol`` of the contract everything;
    bfloat16 without a declared tolerance gets at least 2^-6 relative, where no contract says less.
    """
    return _resolve(manifest, output, golden.model, (golden.rtol, golden.atol), contract, policy, dtype)


def promised(
    manifest: Manifest,
    model: str,
    output: OutputSpec | None,
    contract: Contract | None,
    policy: Policy,
    dtype: str = "",
) -> Resolved:
    """Return the tolerance for one output where no golden set is in play: probes, another run, another release."""
    return _resolve(manifest, output, model, (None, None), contract, policy, dtype)


def _resolve(
    manifest: Manifest,
    output: OutputSpec | None,
    model: str,
    of_set: tuple[float | None, float | None],
    contract: Contract | None,
    policy: Policy,
    dtype: str,
) -> Resolved:
    kind = output.kind if output is not None else "values"
    own = output.tolerance if output is not None else None
    said = agreed_output(contract, model, output)
    agreed = said.tolerance if said is not None else None
    usual = policy.parity.of(kind)
    chosen = own or agreed or (usual if manifest.declared else INFERRED)
    explicit = own is not None or agreed is not None
    if not explicit and of_set != (None, None):
        explicit = True
        rtol, atol = of_set
        chosen = Tolerance(
            rtol=min(chosen.rtol if rtol is None else rtol, 1.0), atol=chosen.atol if atol is None else atol
        )
    most = agreed or Tolerance(rtol=policy.parity.max_rtol, atol=policy.parity.max_atol)
    ceiling = (
        math.inf if contract is None or contract.max_rtol is None else contract.max_rtol,
        math.inf if contract is None or contract.max_atol is None else contract.max_atol,
    )
    rtol, atol = min(chosen.rtol, most.rtol, ceiling[0]), min(chosen.atol, most.atol, ceiling[1])
    top1 = _least_top1(own, agreed, usual, policy) if kind in RANKED else None
    limits = _limits(kind, own, agreed, usual, policy) if output is not None else {}
    if "max_sum_error" in limits:
        limits["max_sum_error"] = _sum_error(manifest, model, own, agreed, policy, atol, limits["max_sum_error"])
    counted = output is not None and (output.top_k or (said is not None and said.top_k))
    if "min_topk" in limits and not counted:
        del limits["min_topk"]
    cut = own is not None and (
        (own.top1 is not None and kind in RANKED and own.top1 != top1)
        or any(limits.get(name, bound) != bound for name, bound in own.limits.items())
    )
    capped = explicit and (rtol < chosen.rtol or atol < chosen.atol or cut)
    if dtype == "bfloat16" and own is None and agreed is None:
        rtol = min(max(rtol, BFLOAT16_RTOL), ceiling[0])
    return Resolved(rtol, atol, top1, explicit, capped, limits)


def agreed_output(contract: Contract | None, model: str, output: OutputSpec | None) -> OutputSpec | None:
    """Return what the contract says of this very output."""
    if contract is None or output is None:
        return None
    outputs = next((one.outputs for one in contract.models if one.name == model), [])
    return next((one for one in outputs if one.name == output.name), None)


def _least_top1(own: Tolerance | None, agreed: Tolerance | None, usual: Tolerance, policy: Policy) -> float:
    """Return the least share of rows that keep their top class."""
    said = own.top1 if own is not None else None
    if agreed is not None and agreed.top1 is not None:
        return max(agreed.top1, said or 0.0)
    return max(said, policy.parity.min_top1) if said is not None else (1.0 if usual.top1 is None else usual.top1)


def _limits(
    kind: str, own: Tolerance | None, agreed: Tolerance | None, usual: Tolerance, policy: Policy
) -> dict[str, float]:
    """Return a bound for every limit that ``kind`` has: none is left open."""
    found: dict[str, float] = {}
    for name, known in LIMITS.items():
        if kind not in known.kinds:
            continue
        cap = policy.parity.caps.of(name)
        said = own.limits.get(name) if own is not None else None  # type: ignore[call-overload]
        if agreed is not None and name in agreed.limits:
            bound = agreed.limits[name]
            found[name] = bound if said is None else stricter(name, bound, said)
        else:
            found[name] = stricter(name, usual.limits.get(name, cap) if said is None else said, cap)  # type: ignore[call-overload]
    return found


def _sum_error(
    manifest: Manifest,
    model: str,
    own: Tolerance | None,
    agreed: Tolerance | None,
    policy: Policy,
    atol: float,
    bound: float,
) -> float:
    """Return the tolerance of a row's sum: what is declared for it, else it follows the element's tolerance.

    Elements that are rounded to a step cannot sum to 1 exactly: where activations are quantised, and nothing
    is declared, the cap itself holds.
    """
    if any(one is not None and "max_sum_error" in one.limits for one in (own, agreed)):
        return bound
    spec = next((one for one in manifest.models if one.name == model), None)
    way = (spec.quantization if spec is not None else None) or manifest.quantization
    cap = policy.parity.caps.max_sum_error
    if way is not None and way.method in _COARSE:
        return max(bound, cap)
    followed = atol if own is not None or agreed is not None else 0.0
    return min(max(bound, followed), max(bound, cap))
