"""Findings made and finished: hostile text made printable, severities of the policy applied, sorted."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final

from acceptd.judge.codes import CODES, TRUSTED_GROUPS, group, may_override
from acceptd.judge.finding import SEVERITY_ORDER, STAGE_ORDER, Finding, Stage
from acceptd.policy.policy import Policy

MAX_TEXT: Final = 400
MAX_PLACES: Final = 20
"""Places of one code that are shown one by one; the rest is counted in the last of them."""

_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SAFE_INTEGER: Final = 2**53 - 1


def printable(text: str, limit: int = MAX_TEXT) -> str:
    r"""Return hostile text in one safe line: control, bidi and unassigned characters as ``\uXXXX``."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    if cut.isprintable():  # no character of the categories below, and of Z only the space
        return cut
    return "".join(_escape(char) if unicodedata.category(char) in _INVISIBLE else char for char in cut)


def _escape(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def safe(value: Any) -> Any:
    """Return small evidence as canonical JSON data: printable text, exact integers, finite floats."""
    if isinstance(value, str):
        return printable(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _SAFE_INTEGER else str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {printable(str(key), 80): safe(item) for key, item in value.items()}
    return [safe(item) for item in value]


def make(code: str, stage: Stage, where: str, message: str, evidence: dict[str, Any] | None = None) -> Finding:
    """Return a finding of a registered code, with the code's own severity and audience."""
    known = CODES[code]
    return Finding(
        code=code,
        severity=known.severity,
        audience=known.audience,
        stage=stage,
        where=printable(where),
        message=printable(message),
        evidence=safe(evidence or {}),
    )


def registered(code: str, stage: Stage, where: str, message: str) -> Finding:
    """Return the finding for a code of the trusted side; one that is not registered holds."""
    if code in CODES:
        return make(code, stage, where, message)
    return make("sandbox/unknown-code", stage, where, f"unknown code {code}: {message}", {"code": code})


def one_line(finding: Mapping[str, Any]) -> str:
    """Return code, place and message of a finding as the one line that a verdict's reason is."""
    where = f" at {finding['where']}" if finding["where"] else ""
    return f"{finding['code']}{where}: {finding['message']}"


def from_job(code: str, stage: Stage, where: str, message: str) -> Finding:
    """Return the finding for a code that a job of the cell names; the job is hostile."""
    if group(code) in TRUSTED_GROUPS:
        return make(
            "sandbox/protocol-violation",
            stage,
            where,
            "a job named a code that only the trusted side may use",
            {"code": code, "message": message},
        )
    if code not in CODES:
        return make("sandbox/unknown-code", stage, where, f"unknown code {code}: {message}", {"code": code})
    return make(code, stage, where, message)


def with_policy(findings: Iterable[Finding], policy: Policy) -> list[Finding]:
    """Return the findings with the policy's severities; say which of its wishes were refused."""
    result: list[Finding] = []
    refused: dict[str, str] = {}
    for finding in findings:
        wanted = policy.severity.get(finding.code)
        if wanted is None or wanted == finding.severity:
            result.append(finding)
        elif may_override(finding.code, wanted):
            result.append(finding.model_copy(update={"severity": wanted}))
        else:
            refused[finding.code] = wanted
            result.append(finding)
    for code in sorted(policy.severity):
        if code not in CODES:
            result.append(
                make("policy/unknown-code", "judge", f"severity.{code}", f"no finding has the code {code}")
            )
        elif code in refused:
            result.append(
                make(
                    "policy/override-ignored",
                    "judge",
                    f"severity.{code}",
                    f"{code} keeps its own severity; the policy asks for {refused[code]}",
                )
            )
    return result


def _key(finding: Finding) -> tuple[int, int, str, str, str, str]:
    return (
        SEVERITY_ORDER[finding.severity],
        STAGE_ORDER[finding.stage],
        finding.code,
        finding.where,
        finding.message,
        json.dumps(finding.evidence, sort_keys=True),
    )


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings sorted by severity, stage, code and place."""
    return tuple(sorted(findings, key=_key))


def finish(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings sorted by severity, stage, code and place; one per code and place, with a count.

    Different things that are said of one place are counted there; of a long family the last one shown
    stands for the rest. What a job says twice, as a fact and as its reason to stop, is told once. The
    result does not depend on the order in which the findings came.
    """
    joined: dict[tuple[str, str, str, str], Finding] = {}
    said: set[tuple[str, str, str, str, str]] = set()
    for finding in sorted(_once(findings), key=_key):
        place = (finding.code, finding.severity, finding.stage, finding.where)
        first = joined.setdefault(place, finding)
        if (*place, finding.message) in said:
            continue
        said.add((*place, finding.message))
        if first is not finding:
            joined[place] = first.model_copy(update={"count": first.count + finding.count})
    result: list[Finding] = []
    shown: dict[tuple[str, str, str], int] = {}
    for finding in joined.values():
        family = (finding.code, finding.severity, finding.stage)
        shown[family] = shown.get(family, 0) + 1
        if shown[family] <= MAX_PLACES:
            result.append(finding)
        else:
            last = result[-1]  # sorted by stage and code: the last one is of the same family
            result[-1] = last.model_copy(update={"count": last.count + finding.count})
    return tuple(result)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out the reasons to stop of inspecting jobs (``inspect <model>: place``) that stand as facts too."""
    given = list(findings)
    facts = {_words(one) for one in given if one.stage == "inspect" and not one.where.startswith("inspect ")}
    return [one for one in given if not (one.where.startswith("inspect ") and _words(one) in facts)]


def _words(finding: Finding) -> tuple[str, str, str, str]:
    return finding.code, finding.severity, finding.where.partition(": ")[2], finding.message
