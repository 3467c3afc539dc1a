"""Judgements as JUnit XML, for the test views of CI systems. Pure: the same reports give the same bytes.

The form is that of Jenkins' ``junit-10.xsd``: one ``testsuite`` per bundle, one ``testcase`` per family of
findings (the part of a code before the slash) below the stage that speaks of it. XML 1.0 cannot hold most
control characters, not even as references, so all text is escaped to printable text first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.judge.codes import CODES, group
from acceptd.report.escape import markup

STAGES: Final = ("seal", "unpack", "manifest", "inspect", "vectors", "run", "compare", "judge", "cell")
_STAGE_OF: Final = {
    "seal": "seal", "archive": "unpack", "manifest": "manifest", "wire": "inspect", "external-data": "inspect",
    "structure": "inspect", "operator": "inspect", "sandbox": "inspect", "vectors": "vectors", "load": "run",
    "run": "run", "placement": "run", "resources": "run", "behaviour": "compare", "parity": "compare",
    "quality": "compare",
    "cell": "cell",
}  # fmt: skip
"""The stage that a family belongs to; one that is not listed is the judge's."""
_JOB_OF: Final = {stage: stage for stage in ("manifest", "inspect", "vectors", "run")} | {"compare": "run"}
_TEXT: Final = 4000


def render(reports: Sequence[tuple[str, Mapping[str, Any]]]) -> bytes:
    """Return the document, UTF-8, for (place, report) pairs; ``place`` is empty for one bundle.

    ``reject`` and ``hold`` are failures, counted by family: the verdict that follows from them is no further
    one, and fails by itself only where no family does (a finding that a team may not see). A verdict that is
    inconclusive is an error of its suite; a family whose stage was never reached is skipped; ``warn`` and
    ``info`` stand in ``system-out``.
    """
    suites, totals, seconds = [], [0, 0, 0], 0.0
    for number, (place, report) in enumerate(reports):
        suite, counts, spent = _suite(number, place, report)
        suites.append(suite)
        totals = [sum(pair) for pair in zip(totals, counts, strict=True)]
        seconds += spent
    head = (
        f'<testsuites name="acceptd" tests="{totals[0]}" failures="{totals[1]}" errors="{totals[2]}" '
        f'time="{seconds:.3f}">\n'
    )
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{"".join(suites)}</testsuites>\n'
    return body.encode("utf-8")


def _suite(number: int, place: str, report: Mapping[str, Any]) -> tuple[str, tuple[int, int, int], float]:
    name = place or report.get("bundle_id") or report.get("submission") or "bundle"
    families: dict[str, list[Mapping[str, Any]]] = {}
    for finding in report["findings"]:
        families.setdefault(group(finding["code"]), []).append(finding)
    reached = _reached(report)
    cases, failures, errors, skipped = [], 0, 0, 0
    groups = sorted({group(code) for code in CODES} | set(families))
    for family in sorted(groups, key=lambda one: (STAGES.index(_stage(one)), one)):
        found = families.get(family, [])
        bad = [finding for finding in found if finding["severity"] in {"reject", "hold"}]
        stage = _stage(family)
        inner = ""
        if bad and stage != "cell":
            failures += 1
            inner = _told("failure", bad)
        elif bad:
            errors += 1
            inner = _told("error", bad)
        elif not found and stage not in reached:
            skipped += 1
            inner = f'<skipped message="the stage {stage} was not reached"/>'
        noted = [finding for finding in found if finding not in bad]
        if noted:
            inner += f"<system-out>{_lines(noted)}</system-out>"
        cases.append(_case(family, f"acceptd.{stage}", inner))
    verdict = ""
    if report["verdict"] == "inconclusive":
        errors += 1
        verdict = f'<error type="inconclusive" message="{markup(report["reason"])}"/>'
    elif report["verdict"] != "accepted" and (failures or errors):
        verdict = f"<system-out>{markup(report['verdict'], 20)}: {markup(report['reason'])}</system-out>"
    elif report["verdict"] != "accepted":
        failures += 1
        verdict = f'<failure type="{markup(report["verdict"])}" message="{markup(report["reason"])}"/>'
    cases.append(_case("verdict", "acceptd.judge", verdict))
    spent = _seconds(report)
    stamp = f' timestamp="{markup(report["judged_at"], 40)}"' if report.get("judged_at") else ""
    properties = "".join(
        f'<property name="{key}" value="{markup(report[key])}"/>'
        for key in ("verdict", "reason", "bundle_id", "bundle_version", "bundle_digest", "policy", "policy_digest")
        if report.get(key)
    )
    text = (
        f'<testsuite name="{markup(name, 1000)}" id="{number}" tests="{len(cases)}" failures="{failures}" '
        f'errors="{errors}" skipped="{skipped}" time="{spent:.3f}"{stamp}>\n'
        f"<properties>{properties}</properties>\n{''.join(cases)}</testsuite>\n"
    )
    return text, (len(cases), failures, errors), spent


def _stage(family: str) -> str:
    return _STAGE_OF.get(family, "judge")


def _reached(report: Mapping[str, Any]) -> set[str]:
    """Return the stages that left something to judge; a report without jobs was sealed at most."""
    kinds = {job["kind"] for job in (report.get("resources") or {}).get("jobs", ())}
    reached = {stage for stage, kind in _JOB_OF.items() if kind in kinds}
    if report.get("bundle_digest"):
        reached |= {"seal", "unpack"}
    if not report.get("error"):
        reached |= {"judge", "cell"}
    return reached


def _case(name: str, classname: str, inner: str) -> str:
    head = f'<testcase name="{markup(name, 200)}" classname="{markup(classname, 200)}"'
    return f"{head}>{inner}</testcase>\n" if inner else f"{head}/>\n"


def _told(tag: str, findings: Sequence[Mapping[str, Any]]) -> str:
    first = findings[0]
    where = f"{markup(first['where'], 400)}: " if first["where"] else ""
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    head = f'<{tag} type="{markup(first["code"], 100)}" message="{where}{markup(first["message"])}{more}">'
    return f"{head}{_lines(findings)}</{tag}>"


def _lines(findings: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for finding in findings:
        count = int(finding.get("count", 1))
        more = f" ×{count}" if count > 1 else ""
        where = f" at {markup(finding['where'], 400)}" if finding["where"] else ""
        lines.append(f"{markup(finding['severity'], 10)} {markup(finding['code'], 100)}{where}{more}")
        lines.append(f"  {markup(finding['message'], _TEXT)}")
        if finding.get("remedy"):
            lines.append(f"  remedy: {markup(finding['remedy'], _TEXT)}")
    return "\n".join(lines)


def _seconds(report: Mapping[str, Any]) -> float:
    """Return seconds from the timings: the total where it is told, else the sum of the stages."""
    timings = report.get("timings_ms") or {}
    spent = timings.get("total", sum(float(value) for value in timings.values()))
    return float(spent) / 1000
