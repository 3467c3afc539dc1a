"""What differs between two policies, in words for a reviewer. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from acceptd.judge.codes import CODES
from acceptd.judge.finding import SEVERITY_ORDER
from acceptd.policy.policy import Policy

_SCALE: Final = {
    "manifest.inferred": ("accept", "hold", "refuse"),
    "operators.mode": ("any", "listed"),
    "contracts.missing": ("accept", "hold"),
    "contracts.unsigned": ("accept", "hold"),
}
"""Words from the laxest to the strictest."""
_MORE_IS_STRICTER: Final = frozenset(
    {
        "required_walls", "vectors.required", "vectors.separate", "operators.denied", "opsets.ir_min",
        "opsets.min", "probes.enabled", "probes.unoptimised", "probes.draws", "probes.near_ties", "probes.seconds",
        "probes.relations", "probes.relations_seconds", "probes.packed_bytes", "probes.max_elements",
        "approvals.required", "approvals.attestations", "contracts.signers", "contracts.warn_days",
        "export.required", "signatures.required", "regression.enabled", "regression.required",
        "regression.class_agreement", "regression.within", "regression.quantized.class_agreement",
        "regression.quantized.within", "regression.quantized.profiled",
        "reference.enabled", "reference.required", "reference.draws",
        "reference.seconds", "reference.max_steps", "reference.max_bytes", "reference.default.top1",
        "reference.probabilities.top1", "reference.logits.top1", "performance.least_samples", "performance.retry",
        "canary.min_samples", "canary.confidence",
    }
)  # fmt: skip
_LESS_IS_STRICTER: Final = frozenset(
    {
        "limits", "operators.domains", "opsets.ir_max", "opsets.max", "parity", "release.automatic",
        "release.channel_valid_seconds", "heldout.evaluations", "licenses.allowed", "operators.allowed",
        "operators.limits", "vectors.require_origin", "regression", "reference", "placement.cpu_operators",
        "approvals.break_glass", "canary",
    }
)  # fmt: skip
_EMPTY_IS_ANY: Final = {"licenses.allowed": "any licence", "operators.allowed": "every operator of the domains"}
_ZERO_IS_OFF: Final = frozenset({f"canary.latency_{name}_ratio" for name in ("p50", "p95", "p99")})
_RANGES: Final = ("opsets.domains.", "opsets.profiles.")
"""Tables by domain or profile, whose keys end with ``min`` and ``max``."""
_NAMES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs. ``tendency`` of the second against the first: ``stricter``, ``laxer`` or ``other``."""

    key: str
    first: Any
    second: Any
    tendency: str

    def text(self) -> str:
        """Return the change as one line."""
        if isinstance(self.first, list) and isinstance(self.second, list):
            if (every := _EMPTY_IS_ANY.get(self.key)) and not (self.first and self.second):
                listed = [str(one) for one in self.first or self.second]
                few = f"{len(listed)} listed {'one' if len(listed) == 1 else 'ones'}"
                way = f"from {every} to {few}" if self.second else f"from {few} to {every}"
                return f"{self.key}: {way} ({_names(listed)})"
            added = [str(one) for one in self.second if one not in self.first]
            gone = [str(one) for one in self.first if one not in self.second]
            parts = [f"{word} {_names(names)}" for word, names in (("adds", added), ("drops", gone)) if names]
            return f"{self.key}: {'; '.join(parts) or 'another order'}"
        return f"{self.key}: {_word(self.first)} → {_word(self.second)}"


def changes(first: Policy, second: Policy) -> list[Change]:
    """Return what differs, in the order of the keys; severities by code, at their end."""
    left = first.model_dump(mode="json", by_alias=True)
    right = second.model_dump(mode="json", by_alias=True)
    severities = left.pop("severity"), right.pop("severity")
    result = [
        Change(key, one, other, _tendency(key, one, other))
        for key, one, other in _pairs(left, right, "")
        if one != other
    ]
    for code in sorted({*severities[0], *severities[1]}):
        own = CODES[code].severity if code in CODES else None
        one, other = severities[0].get(code, own), severities[1].get(code, own)
        if one != other:
            order = SEVERITY_ORDER.get(other, 9) - SEVERITY_ORDER.get(one, 9)
            result.append(Change(f"severity.{code}", one, other, "stricter" if order < 0 else "laxer"))
    return result


def _pairs(left: Any, right: Any, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) or isinstance(right, dict):
        left, right = left or {}, right or {}  # a limit or range that only one of them has
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _pairs(left.get(key), right.get(key), f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, left, right


def _tendency(key: str, one: Any, other: Any) -> str:
    scale = _SCALE.get(key)
    if scale is not None:
        return "stricter" if scale.index(other) > scale.index(one) else "laxer"
    if key == "vectors.require_origin" and not (isinstance(one, list) and isinstance(other, list)):
        return "stricter" if (other is True and one is False) or isinstance(other, list) else "laxer"
    if key in _EMPTY_IS_ANY and not (one and other):
        return "stricter" if other else "laxer"
    if key.startswith("channels."):
        return _of_channel(key, one, other)
    sign = 1 if key in _MORE_IS_STRICTER or _least(key) else -1 if _within(key, _LESS_IS_STRICTER) else 0
    if key.startswith(_RANGES):
        # A profile that says nothing takes what holds for all, which may be more or less.
        inherits = key.startswith("opsets.profiles.") and None in {one, other}
        sign = 0 if inherits else 1 if key.endswith("min") else -1
    if not sign or (key in _ZERO_IS_OFF and not (one and other)):
        return "other" if not sign else "laxer" if one else "stricter"
    if isinstance(one, list) and isinstance(other, list):
        if set(one) == set(other):
            return "other"
        more = set(one) < set(other)
        return ("stricter" if more == (sign > 0) else "laxer") if more or set(other) < set(one) else "other"
    if one is None or other is None:
        return "stricter" if one is None else "laxer"  # none: not bounded
    return "stricter" if (other > one) == (sign > 0) else "laxer"


def _of_channel(key: str, one: Any, other: Any) -> str:
    """Return the tendency of a channel's key; one that only one of two policies has was not laxer before."""
    more = key.endswith((".approvals", ".after.seconds"))
    if not (more or key.endswith((".automatic", ".valid_seconds"))) or (None in {one, other} and not more):
        return "other"
    return "stricter" if ((other or 0) > (one or 0)) == more else "laxer"


def _least(key: str) -> bool:
    """Say whether a key of [parity] is a least value: a share, a cosine, an overlap, a ratio."""
    return key.startswith("parity.") and (key.endswith(".top1") or key.rpartition(".")[2].startswith("min_"))


def _within(key: str, names: frozenset[str]) -> bool:
    parts = key.split(".")
    return any(".".join(parts[:length]) in names for length in range(1, len(parts) + 1))


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(names[:_NAMES_SHOWN])}{more}"


def _word(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
