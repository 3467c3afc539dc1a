"""A judgement as one HTML file: no script, nothing loaded, every submitted character escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from acceptd.report import findings, heldout, observed, promoted, resources, verification
from acceptd.report.difference import independent_section, release_section
from acceptd.report.escape import markup, prose, size
from acceptd.report.golden import section as golden_section
from acceptd.report.graph import graph_section
from acceptd.report.interface import interface_section, operators_section
from acceptd.report.oracle import oracle_section
from acceptd.report.origin import origin
from acceptd.report.parity import section as parity_section
from acceptd.report.probed import probed_section
from acceptd.report.profiles import profiles_section
from acceptd.report.regression import regression_section
from acceptd.report.runtime import runtime_section
from acceptd.report.sources import sources_section
from acceptd.report.speed import performance_section, placement_section
from acceptd.report.style import CONTENT_POLICY, CSS
from acceptd.report.tables import BAD as _BAD
from acceptd.report.tables import code as _code
from acceptd.report.tables import table as _table

Report = Mapping[str, Any]


def render(report: Report) -> str:
    """Return the page for ``report`` (see :mod:`acceptd.report.document`), the verdict first."""
    verdict = markup(report["verdict"])
    name = report.get("bundle_id") or report.get("submission") or "bundle"
    parts = [(title, content) for title, make in _SECTIONS if (content := make(report))]
    body = [_header(report, name), _contents([title for title, _ in parts])]
    body += [f'<section id="{_slug(title)}"><h2>{title}</h2>{content}</section>\n' for title, content in parts]
    # The style element's content is hashed by the content policy, so it stands exactly as it is.
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{markup(observed.headline(report))}: {markup(name, 140)}</title>\n<style>{CSS}</style>\n</head>\n"
        f'<body>\n<main class="{verdict}">\n{"".join(body)}</main>\n</body>\n</html>\n'
    )


def _header(report: Report, name: Any) -> str:
    version = f" {markup(report['bundle_version'], 64)}" if report.get("bundle_version") else ""
    mode = f'<p class="notice"><b>Observe mode</b> {observed.MODE}</p>' if report.get("observed") else ""
    places = promoted.places(report)
    release = f'<p class="notice"><b>Released</b> {markup(places)}</p>' if places else ""
    troubles = "".join(
        f'<p class="notice bad"><b>Not promoted</b> {prose(text)}</p>' for text in promoted.troubles(report)
    )
    return (
        f'<header><p class="verdict">{markup(observed.headline(report))}</p><h1>{markup(name, 140)}{version}</h1>'
        f"<p>{markup(report['reason'])}</p>{mode}{release}{troubles}"
        f'<p class="soft">judged {markup(report["judged_at"])} · submission {markup(report["submission"])}</p>'
        "</header>\n"
    )


def _contents(titles: list[str]) -> str:
    """Return the way into a long page; the titles are acceptd's own."""
    links = "".join(f'<li><a href="#{_slug(title)}">{title}</a></li>' for title in titles)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n'


def _slug(title: str) -> str:
    return title.lower().replace("'", "").replace(" ", "-")


def _walls(report: Report) -> str:
    notes = report.get("wall_notes", {})
    rows = [
        (markup(name), ("" if state == "enforced" else _BAD) + markup(state), markup(notes.get(name, "")))
        for name, state in report["walls"].items()
    ]
    return _table(("wall", "state", "note"), rows) if rows else "<p>Nothing was run.</p>"


def _identity(report: Report) -> str:
    rows = [
        ("Bundle digest", report.get("bundle_digest")),
        ("Policy", f"{report.get('policy', '')} {report['policy_digest']}".strip()),
        ("Contract digest", report.get("contract_digest")),
        ("Profile", report.get("profile")),
        ("Runtime identity", report.get("runtime_identity")),
        ("Release", promoted.places(report)),
        ("Inferred", ", ".join(report.get("inferred", []))),
        ("Ledger", report.get("ledger")),
        ("Ledger entry", _entry(report)),
        ("Team", report.get("team")),
    ]
    pairs = "".join(f'<dt>{name}</dt><dd class="mono">{markup(value)}</dd>' for name, value in rows if value)
    return f"<dl>{pairs}</dl>"


def _files(report: Report) -> str:
    rows = [(_code(file["path"]), markup(size(file["size"])), _code(file["sha256"])) for file in report["files"]]
    return _table(("path", "size", "sha256"), rows, right=(1,)) if rows else ""


def _entry(report: Report) -> str:
    told = report.get("entry")
    return f"{told.get('number')} of {told.get('log')}" if isinstance(told, Mapping) else ""


def _graph(report: Report) -> str:
    return "".join(graph_section(model) for model in report.get("models", []))


_SECTIONS: Final[tuple[tuple[str, Callable[[Report], str]], ...]] = (
    ("Findings", findings.section),
    ("Profiles", profiles_section),
    ("Whose evidence", sources_section),
    ("Interface", interface_section),
    ("Operators and domains", operators_section),
    ("Graph", _graph),
    ("Placement", placement_section),
    ("Latency", performance_section),
    ("Time and memory", resources.section),
    ("Golden sets", golden_section),
    ("Parity", lambda report: parity_section(report.get("parity", []))),
    ("Beside onnx's own evaluator", oracle_section),
    ("Probes", probed_section),
    ("Held-out vectors", heldout.section),
    ("Difference to the current release", lambda report: release_section(report.get("difference"))),
    ("Run beside the current release", regression_section),
    ("Independent exports", lambda report: independent_section(report.get("models", []))),
    ("Origin and terms", lambda report: origin(report.get("declared"))),
    ("Walls of the sandbox", _walls),
    ("Runtime", runtime_section),
    ("Digests and policy", _identity),
    ("Files", _files),
    ("How to verify this report", verification.section),
)
"""Title and content, in order: what decides first, how to check it last. Empty ones are left out."""
