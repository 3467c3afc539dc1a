"""A judgement as one HTML file: no script, nothing loaded, every submitted character escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acceptd.report import heldout, observed, promoted
from acceptd.report.chart import memory_chart
from acceptd.report.difference import independent_section, release_section
from acceptd.report.escape import markup, milliseconds, shape, size
from acceptd.report.golden import section as golden_section
from acceptd.report.graph import graph_section
from acceptd.report.oracle import oracle_section
from acceptd.report.origin import origin
from acceptd.report.parity import section as parity_section
from acceptd.report.probed import probed_section
from acceptd.report.profiles import profiles_section
from acceptd.report.regression import regression_section
from acceptd.report.runtime import runtime_section
from acceptd.report.speed import performance_section, placement_section
from acceptd.report.style import CONTENT_POLICY, CSS
from acceptd.report.tables import BAD as _BAD
from acceptd.report.tables import code as _code
from acceptd.report.tables import table as _table

_CHARTS: Final = 24


def render(report: Mapping[str, Any]) -> str:
    """Return the page for ``report`` (see :mod:`acceptd.report.document`), the verdict first."""
    verdict = markup(report["verdict"])
    name = report.get("bundle_id") or report.get("submission") or "bundle"
    body = [
        _header(report, name),
        _section("Profiles", profiles_section(report)),
        _section("Findings", _findings(report)),
        _section("Interface", "".join(_interface(model) for model in report.get("models", []))),
        _section("Operators", "".join(_operators(model) for model in report.get("models", []))),
        _section("Beside the current release", release_section(report.get("difference"))),
        _section("Run beside the current release", regression_section(report)),
        _section("Independent exports", independent_section(report.get("models", []))),
        _section("Graph", "".join(graph_section(model) for model in report.get("models", []))),
        _section("Origin and terms", origin(report.get("declared"))),
        _section("Golden sets", golden_section(report)),
        _section("Parity", parity_section(report.get("parity", []))),
        _section("Beside onnx's own evaluator", oracle_section(report)),
        _section("Probes", probed_section(report)),
        _section("Held-out vectors", heldout.section(report)),
        _section("Speed", performance_section(report)),
        _section("Placement", placement_section(report)),
        _section("Resources", _resources(report)),
        _section("Walls of the sandbox", _walls(report)),
        _section("Runtime", runtime_section(report)),
        _section("Identity", _identity(report)),
        _section("Files", _files(report)),
    ]
    # The style element's content is hashed by the content policy, so it stands exactly as it is.
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{markup(observed.headline(report))}: {markup(name, 140)}</title>\n<style>{CSS}</style>\n</head>\n"
        f'<body>\n<main class="{verdict}">\n{"".join(body)}</main>\n</body>\n</html>\n'
    )


def _header(report: Mapping[str, Any], name: Any) -> str:
    version = f" {markup(report['bundle_version'], 64)}" if report.get("bundle_version") else ""
    mode = f"<p><b>Observe mode</b> {observed.MODE}</p>" if report.get("observed") else ""
    return (
        f'<header><p class="verdict">{markup(observed.headline(report))}</p><h1>{markup(name, 140)}{version}</h1>'
        f"<p>{markup(report['reason'])}</p>{mode}"
        f'<p class="soft">judged {markup(report["judged_at"])} · submission {markup(report["submission"])}</p>'
        "</header>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>\n" if content else ""


def _findings(report: Mapping[str, Any]) -> str:
    blocks = [_finding(finding) for finding in report["findings"]]
    withheld = int(report.get("withheld_findings", 0))
    if withheld:
        blocks.append(f'<p class="soft">{withheld} more, for reviewers only.</p>')
    return "".join(blocks) or "<p>None.</p>"


def _finding(finding: Mapping[str, Any]) -> str:
    severity = markup(finding["severity"])
    count = int(finding.get("count", 1))
    places = f' <span class="soft">×{count}</span>' if count > 1 else ""
    tag = f'<span class="tag">{severity}</span>'
    parts = [f'<div class="finding {severity}"><p>{tag}<code>{markup(finding["code"])}</code>{places}</p>']
    if finding["where"]:
        parts.append(f"<p><code>{markup(finding['where'])}</code></p>")
    parts.append(f"<p>{markup(finding['message'])}</p>")
    if finding.get("meaning"):
        parts.append(f'<p class="soft">{markup(finding["meaning"])}</p>')
    if finding.get("reason"):
        see = ", ".join(markup(one, 60) for one in finding.get("references") or ())
        parts.append(f'<p class="soft"><b>Why</b> {markup(finding["reason"])}{f" See {see}." if see else ""}</p>')
    if finding.get("remedy"):
        parts.append(f'<p class="remedy"><b>Remedy</b> {markup(finding["remedy"])}</p>')
    parts.append("</div>")
    return "".join(parts)


def _interface(model: Mapping[str, Any]) -> str:
    rows = [
        (
            direction,
            _code(value["name"]),
            markup(value["type"]),
            markup(value["dtype"]),
            _code(shape(value["shape"])),
        )
        for direction, key in (("input", "inputs"), ("output", "outputs"))
        for value in model.get(key, [])
    ]
    if not rows:
        return ""
    by = {"runtime": "as the runtime loaded it", "inspection": "as inspected", "manifest": "as declared"}
    file = f" <code>{markup(model['file'])}</code>" if model.get("file") else ""
    caption = f'<h3>{markup(model["name"])}{file} <span class="soft">{by.get(model["seen_by"], "")}</span></h3>'
    return caption + _table(("", "name", "type", "dtype", "shape"), rows)


def _operators(model: Mapping[str, Any]) -> str:
    operators = model.get("operators")
    if operators is None:
        return ""
    opsets = ", ".join(f"{markup(domain, 100)} {markup(version)}" for domain, version in model["opsets"].items())
    placed = "; ".join(
        f"{markup(name)}: {markup(count)} nodes" for name, count in model.get("placement", {}).items()
    )
    about = f"{markup(model['nodes'])} nodes, IR version {markup(model['ir_version'])}, opsets {opsets}"
    rows = [(_code(use["op_type"]), markup(use["domain"]), markup(use["count"])) for use in operators]
    return (
        f'<h3>{markup(model["name"])}</h3><p class="soft">{about}{f"; placed on {placed}" if placed else ""}</p>'
        + _table(("operator", "domain", "count"), rows, right=(2,))
    )


def _resources(report: Mapping[str, Any]) -> str:
    resources, timings = report["resources"], report["timings_ms"]
    stages = _table(
        ("stage", "wall clock"), [(markup(name), _time(took)) for name, took in timings.items()], right=(1,)
    )
    several = len(report.get("profiles") or []) > 1
    rows = [
        (
            markup(job["kind"]),
            markup(_whose(job, several=several)),
            markup(job["ending"] + (f": {job['cause']}" if job["cause"] else "")),
            _time(job["wall_ms"]),
            _time(job["cpu_ms"]),
            markup(size(job["peak_memory_bytes"])),
            markup(job["attempts"]),
        )
        for job in resources["jobs"]
    ]
    head = ("job", "model", "ending", "wall", "cpu", "peak memory", "attempts")
    charts = "".join(memory_chart(job) for job in resources["jobs"][:_CHARTS])
    return (stages if timings else "") + (_table(head, rows, right=(3, 4, 5, 6)) if rows else "") + charts


def _whose(job: Mapping[str, Any], *, several: bool) -> str:
    named = f"{job['model']} {job.get('variant', '')}".strip()
    return f"{named} under {job['profile']}" if several and job.get("profile") else named


def _walls(report: Mapping[str, Any]) -> str:
    notes = report.get("wall_notes", {})
    rows = [
        (markup(name), ("" if state == "enforced" else _BAD) + markup(state), markup(notes.get(name, "")))
        for name, state in report["walls"].items()
    ]
    return _table(("wall", "state", ""), rows) if rows else "<p>Nothing was run.</p>"


def _identity(report: Mapping[str, Any]) -> str:
    rows = [
        ("Bundle digest", report.get("bundle_digest")),
        ("Policy", f"{report.get('policy', '')} {report['policy_digest']}".strip()),
        ("Contract digest", report.get("contract_digest")),
        ("Profile", report.get("profile")),
        ("Runtime identity", report.get("runtime_identity")),
        ("Release", promoted.places(report)),
        *(("Not promoted", text) for text in promoted.troubles(report)),
        ("Inferred", ", ".join(report.get("inferred", []))),
        ("Ledger", report.get("ledger")),
        ("Team", report.get("team")),
    ]
    pairs = "".join(f'<dt>{name}</dt><dd class="mono">{markup(value)}</dd>' for name, value in rows if value)
    return f"<dl>{pairs}</dl>"


def _files(report: Mapping[str, Any]) -> str:
    rows = [(_code(file["path"]), markup(size(file["size"])), _code(file["sha256"])) for file in report["files"]]
    return _table(("path", "size", "sha256"), rows, right=(1,)) if rows else ""


def _time(value: Any) -> str:
    return markup(milliseconds(value))
