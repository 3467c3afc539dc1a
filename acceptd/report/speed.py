"""How fast a model ran and where its nodes ran: as data, as HTML with a line for the distribution, as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acceptd.evidence import JobRecord, Submission
from acceptd.judge.distribution import quantile
from acceptd.judge.performance import warm_samples
from acceptd.placement_facts import summary
from acceptd.report.chart import distribution
from acceptd.report.escape import line, markup, milliseconds
from acceptd.report.tables import BAD, code, table

SHOWN: Final = frozenset({"", "timed"})
"""Runs whose times are told. Never one that saw held-out vectors: its times would tell of them."""
_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


def performance(submission: Submission) -> list[dict[str, Any]]:
    """Return what was timed, one entry for each run: the distribution in ms, cold phases, the machine."""
    return [
        _timed(record, submission)
        for record in submission.jobs
        if record.kind == "run" and record.variant in SHOWN and record.timing is not None
    ]


def _timed(record: JobRecord, submission: Submission) -> dict[str, Any]:
    timing = record.timing
    assert timing is not None
    samples = warm_samples(record)
    files = submission.sealed.files if submission.sealed is not None else []
    kernel = record.kernel if record.kernel is not None and record.kernel.wall_ms else None
    return {
        "model": record.model,
        "profile": record.profile,
        "alone": record.variant == "timed",
        "set": timing.set,
        "batch": timing.batch,
        "shapes": {name: list(shape) for name, shape in timing.shapes.items()},
        "warmups": 1 if samples else 0,
        "samples": len(samples),
        "quantiles_ms": {name: round(quantile(samples, q), 6) for name, q in _QUANTILES} if samples else {},
        "wall_ms": sorted(round(one, 6) for one in samples),
        "cpu_ms": timing.cpu_ms,
        "note": timing.note,
        "cold": [one.model_dump() for one in timing.cold],
        "kernel": {"name": kernel.name, "p50_ms": quantile(kernel.wall_ms, 0.5)}
        if kernel and kernel.wall_ms
        else None,
        "machine": record.host.model_dump() if record.host is not None else None,
        "input_files": {
            file.path: file.sha256
            for file in files
            if file.path == timing.set or (timing.set and file.path.startswith(f"{timing.set}/input"))
        },
        "job_wall_ms": round(record.wall_s * 1000, 3),
        "job_cpu_ms": round(record.cpu_s * 1000, 3),
    }


def placements(submission: Submission) -> list[dict[str, Any]]:
    """Return where the nodes of each model ran, one entry for each run as a profile says."""
    found = []
    for record in submission.jobs:
        if record.kind != "run" or record.variant or record.placement is None:
            continue
        same = (one for one in submission.jobs if (one.model, one.profile) == (record.model, record.profile))
        profiled = next(
            (one.profiled for one in same if one.variant == "profiled" and one.profiled is not None), None
        )
        session = list(record.schema_.providers) if record.schema_ is not None else []
        asked = [record.placement.requested_provider] if record.placement.requested_provider else session[:1]
        told = summary(record.placement, profiled, asked, session)
        operators = sorted(record.placement.nodes, key=lambda node: (-node.count, node.provider, node.op_type))
        found.append({
            "model": record.model,
            "profile": record.profile,
            **told.model_dump(),
            "operators": [node.model_dump() for node in operators[:200]],
            "times": [one.model_dump() for one in profiled.operators[:50]] if profiled is not None else [],
        })  # fmt: skip
    return found


# -- HTML ---------------------------------------------------------------------------------------------


def performance_section(report: Mapping[str, Any]) -> str:
    """Return the section on speed; empty where nothing was timed."""
    return "".join(_run(one) for one in report.get("performance", []))


def _run(one: Mapping[str, Any]) -> str:
    under = f" under {markup(one['profile'])}" if one.get("profile") else ""
    title = f'{markup(one["model"])}{under} <span class="soft">{markup(_words(one))}</span>'
    said = "As the job says itself; the trusted side's own clock saw the whole job: "
    told = f"{said}{milliseconds(one['job_wall_ms'])}, {milliseconds(one['job_cpu_ms'])} of processor time."
    quantiles = [(name, one["quantiles_ms"][name]) for name, _ in _QUANTILES if name in one["quantiles_ms"]]
    parts = [f"<h3>{title}</h3>", f'<p class="soft">{markup(told)}</p>']
    if quantiles:
        cells = [[_time(value) for _, value in quantiles]]
        parts.append(table([name for name, _ in quantiles], cells, right=range(len(quantiles)), names=False))
        parts.append(distribution_chart(one))
    else:
        parts.append(f"<p>{markup(one['note'] or 'No warm inference was timed.')}</p>")
    machine = _machine(one.get("machine"))
    parts.append(f'<p class="soft">{markup(machine)}</p>' if machine else "")
    inputs = [(code(path), code(digest)) for path, digest in one["input_files"].items()]
    parts.append(_cold(one["cold"]))
    parts.append(table(("input", "sha256"), inputs) if inputs else "")
    return "".join(parts)


def distribution_chart(one: Mapping[str, Any]) -> str:
    """Return the samples as a histogram with their quantiles; empty where there are too few of them."""
    values = [float(value) for value in one["wall_ms"]]
    marks = {name: quantile(values, q) for name, q in _QUANTILES[:-1]} if values else {}
    under = f" under {one['profile']}" if one.get("profile") else ""
    return distribution(f"Latency of {one['model']}{under}", values, marks)


def _cold(phases: Sequence[Mapping[str, Any]]) -> str:
    """Return how long a start took, phase by phase; those that are told together stand in one row."""
    rows: list[tuple[list[str], Any, str]] = []
    for phase in phases:
        if rows and phase["ms"] is None and rows[-1][1] is None and rows[-1][2] == phase["reason"]:
            rows[-1][0].append(phase["name"])
        else:
            rows.append(([phase["name"]], phase["ms"], phase["reason"]))
    cells = [
        (markup(", ".join(names)), "not told" if took is None else _time(took), markup(reason))
        for names, took, reason in rows
    ]
    return table(("start", "took", "note"), cells, right=(1,)) if cells else ""


def placement_section(report: Mapping[str, Any]) -> str:
    """Return the section on placement; empty where nothing ran."""
    return "".join(_placed(one) for one in report.get("placement", []))


def _placed(one: Mapping[str, Any]) -> str:
    fallback = one["used_cpu_fallback"]
    rows = [
        (code("requested_provider"), markup(one["requested_provider"])),
        (code("selected_provider"), markup(one["selected_provider"] or "not known")),
        (code("used_cpu_fallback"), f"{BAD if fallback else ''}{'true' if fallback else 'false'}"),
        ("partitions", _known(one["partitions"])),
        ("islands on the CPU", _known(one["cpu_islands"])),
        ("copies between devices", _known(one["copies"])),
    ]
    shares = one["shares"] or {}
    providers = [
        (markup(name), markup(count), f"{shares[name]:.1%}" if name in shares else "not known")
        for name, count in one["nodes"].items()
    ]
    boundaries = [
        (markup(edge["before"]), code(edge["operator"]), markup(edge["after"]), code(edge["next_operator"]),
         markup(edge["count"]))
        for edge in one["boundaries"]
    ]  # fmt: skip
    operators = [
        (code(f"{row['domain'] or 'ai.onnx'}::{row['op_type']}"), markup(row["provider"]), markup(row["count"]))
        for row in one["operators"]
    ]
    times = [
        (code(row["op_type"]), markup(row["provider"]), markup(row["nodes"]), _time(row["ms"]))
        for row in one["times"]
    ]
    under = f' <span class="soft">under {markup(one["profile"])}</span>' if one["profile"] else ""
    parts = [
        f"<h3>{markup(one['model'])}{under}</h3>",
        table(("placement", "value"), rows),
        f'<p class="soft">{markup(one["note"])}</p>' if one["note"] else "",
        table(("provider", "nodes", "share of run time"), providers, right=(1, 2)) if providers else "",
        table(("from", "operator", "to", "operator", "times"), boundaries, right=(4,)) if boundaries else "",
        table(("operator", "provider", "nodes"), operators, right=(2,)) if len(providers) > 1 else "",
        table(("time by operator", "provider", "nodes", "an inference"), times, right=(2, 3)) if times else "",
    ]
    return "".join(parts)


def _known(value: Any) -> str:
    return "not known" if value is None else markup(value)


def _time(value: Any) -> str:
    return markup(milliseconds(value))


def _words(one: Mapping[str, Any]) -> str:
    parts = [f"set {one['set']}"] if one["set"] else []
    if one["batch"] is not None:
        parts.append(f"batch {one['batch']}")
    parts += [f"{name} {shape}" for name, shape in list(one["shapes"].items())[:8]]
    parts.append(f"{one['samples']} samples after {one['warmups']} warm-up")
    if one["kernel"]:
        parts.append(f"kernel {one['kernel']['name']} {milliseconds(one['kernel']['p50_ms'])}")
    if one["alone"]:
        parts.append("timed once more, alone")
    return " · ".join(parts)


def _machine(machine: Mapping[str, Any] | None) -> str:
    if not machine:
        return ""
    parts = [machine["processor"], f"{machine['cores']} cores", f"load {machine['load1']:g}"]
    parts.append(f"governor {machine['governor']}" if machine["governor"] else "governor not told")
    for key, words in (("pressure", "waiting for a processor"), ("steal", "taken by the hypervisor")):
        parts.append(f"{words} {machine[key]:.0%}" if machine[key] is not None else f"{words}: not known")
    return " · ".join(part for part in parts if part)


# -- terminal -----------------------------------------------------------------------------------------


def speed_rows(report: Mapping[str, Any], *, every: bool) -> list[tuple[str, str]]:
    """Return lines for a terminal: warm times with ``every``, and placement where the CPU helped out."""
    rows: list[tuple[str, str]] = []
    several, placed = len(report.get("performance", [])) > 1, len(report.get("placement", [])) > 1
    for one in report.get("performance", []):
        found = one["quantiles_ms"]
        if every and found:
            times = ", ".join(f"{name} {milliseconds(found[name])}" for name, _ in _QUANTILES if name in found)
            rows.append(("warm", f"{line(_place(one), 120)}: {times}" if several else times))
    for one in report.get("placement", []):
        if every or one["used_cpu_fallback"]:
            rows.append(("placement", f"{line(_place(one), 120)}: {_in_words(one)}" if placed else _in_words(one)))
    return rows


def _place(one: Mapping[str, Any]) -> str:
    return f"{one['model']} under {one['profile']}" if one.get("profile") else str(one["model"])


def _in_words(one: Mapping[str, Any]) -> str:
    shares: Mapping[str, float] = one["shares"] or {}
    parts: Sequence[str] = [
        f"{count} nodes on {line(name, 60)}" + (f" ({shares[name]:.0%} of the time)" if name in shares else "")
        for name, count in one["nodes"].items()
    ]
    more = f", {one['partitions']} partitions" if one["partitions"] is not None and len(parts) > 1 else ""
    fallback = (
        f"; requested {line(one['requested_provider'], 60)}, used_cpu_fallback" if one["used_cpu_fallback"] else ""
    )
    return f"{', '.join(parts) or 'no nodes'}{more}{fallback}"
