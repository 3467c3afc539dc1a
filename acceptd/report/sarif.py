"""Judgements as one SARIF 2.1.0 log, for code scanning and viewers. Pure: same reports, same bytes.

OASIS Static Analysis Results Interchange Format 2.1.0 (errata 01). One run holds one bundle or a whole suite.
In a SARIF message ``[text](target)`` is a link and ``{0}`` a placeholder (sections 3.11.5, 3.11.6), so text of a
submitter is escaped for both; nothing of it is ever given as Markdown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from acceptd import __version__
from acceptd.judge.catalogue.code import Code
from acceptd.judge.codes import CODES, group
from acceptd.report.escape import line

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS: Final = {"reject": "error", "hold": "warning", "warn": "warning", "info": "note"}
RANKS: Final = {"reject": 100.0, "hold": 75.0, "warn": 50.0, "info": 10.0}
"""SARIF has one level for ``hold`` and ``warn``; the rank (3.27.25) and the property ``severity`` differ."""
MANIFEST: Final = "bundle.toml"
_BASE: Final = "BUNDLES"
_OF_MANIFEST: Final = frozenset({"schema", "vectors", "manifest", "export", "license", "signature"})
"""Families whose ``models.<name>...`` is a key of bundle.toml; others mean the model's file."""
_MANIFEST_PLACES: Final = ("models.", "models[", "bundle.", "preprocessing.", "labels.")


def render(reports: Sequence[tuple[str, Mapping[str, Any]]], *, whole: bool = False) -> dict[str, Any]:
    """Return the log for (place, report) pairs; ``place`` is a path below the suite, empty for one bundle.

    A report is that of :mod:`acceptd.report.document`; an inconclusive one also becomes a notification.
    ``whole`` lists every rule, not only those with results.
    """
    used = {finding["code"] for _, report in reports for finding in report["findings"]}
    names = sorted(used | set(CODES) if whole else used)
    index = {name: place for place, name in enumerate(names)}
    artifacts: dict[str, dict[str, Any]] = {}
    results = [
        _result(place, report, finding, index, artifacts)
        for place, report in reports
        for finding in report["findings"]
    ]
    driver: dict[str, Any] = {
        "name": "acceptd",
        "semanticVersion": __version__,
        "rules": [_rule(name, CODES.get(name)) for name in names],
    }
    weaknesses = sorted({number for name in names for number in _weaknesses(CODES.get(name))}, key=_number)
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_BASE: {"description": {"text": "the bundle, or the directory of the suite"}}},
        "invocations": [_invocation(reports)],
        "artifacts": list(artifacts.values()),
        "results": results,
        "properties": {"bundles": [_bundle(place, report) for place, report in reports]},
    }
    if weaknesses:
        driver["supportedTaxonomies"] = [{"name": "CWE", "index": 0}]
        run["taxonomies"] = [
            {
                "name": "CWE",
                "organization": "MITRE",
                "informationUri": "https://cwe.mitre.org/",
                "isComprehensive": False,
                "taxa": [{"id": number.removeprefix("CWE-")} for number in weaknesses],
            }
        ]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def text(value: Any, limit: int = 1000) -> str:
    """Return hostile text as a SARIF plain text message: no link, no placeholder, one printable line."""
    safe = line(value, limit)
    for char, written in (("\\", "\\\\"), ("[", "\\["), ("]", "\\]"), ("{", "{{"), ("}", "}}")):
        safe = safe.replace(char, written)
    return safe


def fingerprint(place: str, finding: Mapping[str, Any]) -> str:
    """Return what stays the same for one finding from run to run: its bundle, its code and its place.

    The message is left out: it may hold measured numbers. Findings are told once per code and place.
    """
    parts = "\0".join((place, str(finding["code"]), str(finding["where"])))
    return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()


def _result(
    place: str,
    report: Mapping[str, Any],
    finding: Mapping[str, Any],
    index: Mapping[str, int],
    artifacts: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    severity, code, inner = finding["severity"], finding["code"], locate(report, finding)[1]
    message = text(finding["message"]) or text(finding.get("meaning") or code)
    if inner:  # many viewers show no logical location
        message += f" (at {text(inner, 400)})"
    if finding.get("count", 1) > 1:
        message += f" (×{int(finding['count'])})"
    return {
        "ruleId": code,
        "ruleIndex": index[code],
        "level": LEVELS[severity],
        "rank": RANKS[severity],
        "message": {"text": message},
        "locations": [_location(place, report, finding, artifacts)],
        "partialFingerprints": {"acceptdFinding/v1": fingerprint(place, finding)},
        "properties": {
            "severity": severity,
            "stage": finding["stage"],
            "audience": finding["audience"],
            "count": int(finding.get("count", 1)),
        },
    }


def _location(
    place: str, report: Mapping[str, Any], finding: Mapping[str, Any], artifacts: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    file, inner = locate(report, finding)
    parts = [part for part in (place, file) if part]
    uri = quote(line("/".join(parts), 2000), safe="/") if parts else "."
    if uri not in artifacts:
        known = {one["path"]: one for one in report.get("files", ())}.get(file)
        artifact: dict[str, Any] = {"location": {"uri": uri, "uriBaseId": _BASE, "index": len(artifacts)}}
        if known is not None:
            artifact |= {"length": known["size"], "hashes": {"sha-256": known["sha256"]}}
            artifact["roles"] = ["analysisTarget"]
        artifacts[uri] = artifact
    result: dict[str, Any] = {"physicalLocation": {"artifactLocation": dict(artifacts[uri]["location"])}}
    if inner:
        shown = line(inner, 400)
        name = shown.rpartition("/")[2] or shown
        result["logicalLocations"] = [
            {
                "name": name,
                "fullyQualifiedName": f"{line(file, 400)}::{shown}" if file else shown,
                "kind": "element",
            }
        ]
    return result


def locate(report: Mapping[str, Any], finding: Mapping[str, Any]) -> tuple[str, str]:
    """Return (file of the bundle, place inside it) for one finding; either may be empty.

    The judge writes places as ``file``, ``file: place``, ``<model>: <golden set>: place``, ``models.<name>...``
    (a place in bundle.toml), or in words of their own. A golden set may be a directory, told with a slash.
    """
    where = str(finding["where"]).removeprefix(f"{MANIFEST} ")
    paths = {str(one["path"]) for one in report.get("files", ())}
    head, _, rest = where.partition(": ")
    if where in paths:
        return where, ""
    if head in paths:
        return head, rest
    models = {str(one["name"]): one.get("file") for one in report.get("models", ())}
    said = group(str(finding["code"]))
    if finding["stage"] == "manifest" or said == "contract":
        return (MANIFEST if MANIFEST in paths else ""), where
    if MANIFEST in paths and said in _OF_MANIFEST and where.startswith(_MANIFEST_PLACES):
        return MANIFEST, where
    if said in {"vectors", "parity"} and (found := _golden(where, models, paths)) is not None:
        return found
    if head.startswith("models."):
        named = models.get(head.removeprefix("models.").partition(".")[0])
        return (str(named) if named in paths else ""), where
    files = [str(file) for file in models.values() if file in paths]
    return (files[0] if len(files) == 1 else ""), where


def _golden(where: str, models: Iterable[str], paths: Iterable[str]) -> tuple[str, str] | None:
    """Return (file or directory of the golden set, place inside it), None where ``where`` names none."""
    head, _, rest = where.partition(": ")
    words = (rest if head in models else where).split(": ")
    for length in range(min(len(words), 8), 0, -1):  # a path may hold the separator itself
        name = ": ".join(words[:length])
        inner = ": ".join(words[length:])
        if name and name in paths:
            return name, inner
        if name and any(path.startswith(f"{name}/") for path in paths):
            return f"{name}/", inner
    return None


def _rule(name: str, code: Code | None) -> dict[str, Any]:
    if code is None:
        return {"id": name, "shortDescription": {"text": "A finding code that this version does not know."}}
    words = [f"{code.meaning}", f"Why: {code.reason}" if code.reason else "", f"Remedy: {code.remedy}"]
    help_text = "\n\n".join(word for word in words if word)
    links = [f"- [{one.title}]({one.url})" for one in code.references]
    rule: dict[str, Any] = {
        "id": name,
        "name": "".join(part.capitalize() for part in name.replace("/", "-").split("-")),
        "shortDescription": {"text": code.meaning},
        "fullDescription": {"text": code.reason or code.meaning},
        "help": {"text": help_text, "markdown": "\n\n".join([help_text, "\n".join(links)]).strip()},
        "defaultConfiguration": {"level": LEVELS[code.severity], "rank": RANKS[code.severity]},
        "properties": {"tags": ["security", group(name)], "severity": code.severity, "audience": code.audience},
    }
    if code.references:
        rule["helpUri"] = code.references[0].url
    weaknesses = _weaknesses(code)
    if weaknesses:
        rule["relationships"] = [
            {
                "target": {"id": number.removeprefix("CWE-"), "toolComponent": {"name": "CWE", "index": 0}},
                "kinds": ["relevant"],
            }
            for number in weaknesses
        ]
    return rule


def _weaknesses(code: Code | None) -> list[str]:
    return [one.id for one in code.references if one.id.startswith("CWE-")] if code is not None else []


def _number(weakness: str) -> int:
    return int(weakness.removeprefix("CWE-"))


def _invocation(reports: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    notes = [
        {
            "level": "error",
            "message": {"text": text(f"{place}: {report['reason']}" if place else report["reason"])},
            "descriptor": {"id": "inconclusive"},
        }
        for place, report in reports
        if report["verdict"] == "inconclusive"
    ]
    result: dict[str, Any] = {"executionSuccessful": not notes}
    if notes:
        result["toolExecutionNotifications"] = notes
    return result


def _bundle(place: str, report: Mapping[str, Any]) -> dict[str, Any]:
    result = {"verdict": report["verdict"], "reason": line(report["reason"])}
    if place:
        result["place"] = line(place)
    for key in ("bundle_id", "bundle_version", "bundle_digest", "policy", "policy_digest", "judged_at"):
        if report.get(key):
            result[key] = line(report[key])
    return result
