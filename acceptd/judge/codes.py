"""The registry of finding codes, and which severities a policy may not touch.

A code that a job of the cell names and that is not here is itself a finding
(``sandbox/unknown-code``); it never passes unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from acceptd.judge.catalogue import (
    behaviour,
    cell,
    contracts,
    export,
    facts,
    golden,
    heldout,
    oracle,
    outcome,
    payload,
    performance,
    reasons_behaviour,
    reasons_facts,
    reasons_files,
    reasons_golden,
    reasons_model,
    reasons_record,
    reasons_regression,
    reasons_run,
    regression,
    run,
    runtime,
    schema,
    seal,
    signature,
    structure,
    wire,
    word,
)
from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.references import REFERENCES
from acceptd.judge.finding import SEVERITY_ORDER, Severity

_BARE: Final[Table] = (
    seal.TABLE
    | word.TABLE
    | contracts.TABLE
    | export.TABLE
    | signature.TABLE
    | cell.TABLE
    | wire.TABLE
    | structure.TABLE
    | facts.TABLE
    | payload.TABLE
    | schema.TABLE
    | run.TABLE
    | runtime.TABLE
    | outcome.TABLE
    | performance.TABLE
    | behaviour.TABLE
    | heldout.TABLE
    | golden.TABLE
    | oracle.TABLE
    | regression.TABLE
)
REASONS: Final[reasons_files.Reasons] = (
    reasons_files.TABLE
    | reasons_model.TABLE
    | reasons_facts.TABLE
    | reasons_run.TABLE
    | reasons_record.TABLE
    | reasons_golden.TABLE
    | reasons_regression.TABLE
    | contracts.REASONS
    | performance.REASONS
    | reasons_behaviour.TABLE
    | oracle.REASONS
    | signature.REASONS
)
"""Reason and references by code: every code has its line in one of the tables ``catalogue/reasons_*.py``."""


def _with_reason(name: str, code: Code) -> Code:
    reason, references = REASONS.get(name, (code.reason, ()))
    return replace(code, reason=reason, references=tuple(REFERENCES[one] for one in references) or code.references)


CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {name: _with_reason(name, code) for name, code in _BARE.items()}
)

TRUSTED_GROUPS: Final = frozenset(
    {
        "seal",
        "cell",
        "policy",
        "contract",
        "cost",
        "quantization",
        "export",
        "license",
        "difference",
        "heldout",
        "parity",
        "performance",
        "placement",
        "quality",
        "reference",
        "regression",
        "runtime",
        "signature",
        "target",
    }
)
"""Groups that only the trusted side speaks of. A job that names one of them breaks the protocol."""

_UNTOUCHABLE_GROUPS: Final = frozenset({"cell", "policy", "runtime"})
_NOT_LOWERED_GROUPS: Final = frozenset({"sandbox", "resources", "heldout"})
_NOT_LOWERED: Final = frozenset(
    {
        "contract/unverified",
        "placement/provider-unused",
        "run/crash",
        "run/unexpected-case",
        "seal/native-library",
        "manifest/team-mismatch",
        "manifest/reserved-version",
        "external-data/path-escape",
        "external-data/names-forbidden-file",
        "external-data/remote-location",
        "wire/disagrees",
    }
)


def group(code: str) -> str:
    """Return the part of a code before the slash."""
    return code.partition("/")[0]


def changeable(code: str) -> Literal["any", "not lowered", "fixed"]:
    """Say what a policy may do with the severity of ``code``: give it any, only raise it, or nothing."""
    severity = CODES[code].severity
    others: list[Severity] = [one for one in ("reject", "hold", "warn", "info") if one != severity]
    if not any(may_override(code, one) for one in others):
        return "fixed"
    lower = [one for one in others if SEVERITY_ORDER[one] > SEVERITY_ORDER[severity]]
    return "not lowered" if lower and not any(may_override(code, one) for one in lower) else "any"


def may_override(code: str, severity: Severity) -> bool:
    """Say whether a policy's ``[severity]`` may give ``code`` this severity.

    Codes of the groups ``cell`` and ``policy`` speak about the host and the policy, not the model:
    raising one would blame the model, lowering one would hide that nothing was measured. What
    shows a taken-over job, an attack on the walls or the limits, or a false identity may be raised
    but not lowered.
    """
    if group(code) in _UNTOUCHABLE_GROUPS:
        return severity == CODES[code].severity
    if group(code) in _NOT_LOWERED_GROUPS or code in _NOT_LOWERED:
        return SEVERITY_ORDER[severity] <= SEVERITY_ORDER[CODES[code].severity]
    return True
