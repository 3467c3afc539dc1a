"""The runtime that a bundle was judged on, in the HTML report and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acceptd.report.escape import line, markup
from acceptd.report.tables import code, table


def runtime_section(report: Mapping[str, Any]) -> str:
    """Return the section's content; empty where nothing was run."""
    record, said = report.get("runtime") or {}, report.get("runtime_said") or {}
    parts = []
    if record:
        note = "Measured before a submitted byte was read, from the process that every run was forked from."
        rows = [(name, value) for name, value in _facts(record) if value]
        identity = report.get("runtime_identity")
        if identity:
            rows.insert(0, ("Identity", identity))
        parts.append(f'<p class="soft">{markup(note)}</p>{_pairs(rows)}')
        parts.append(_operators(record))
        libraries = [(code(one["name"]), code(one["sha256"])) for one in record.get("libraries", [])]
        if libraries:
            parts.append(
                f"<details><summary>{len(libraries)} native libraries</summary>"
                f"{table(('library', 'sha256'), libraries)}</details>"
            )
    if said:
        words = _pairs([(name, text) for name, text in sorted(said.items())])
        parts.append(f'<h3>As a run job says itself <span class="soft">(not measured)</span></h3>{words}')
    return "".join(parts)


def _pairs(rows: list[tuple[str, Any]]) -> str:
    return f"<dl>{''.join(_pair(name, value) for name, value in rows)}</dl>"


def _pair(name: str, value: Any) -> str:
    mono = ' class="mono"' if name in {"Identity", "Reduced build"} else ""
    return f"<dt>{markup(name, 60)}</dt><dd{mono}>{markup(value)}</dd>"


def _facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    operators = record.get("custom_operators", [])
    return [
        ("onnxruntime", " ".join(part for part in (record["onnxruntime"], _wheel(record)) if part)),
        ("Build", record["build"]),
        ("Python", f"{record['implementation']} {record['python']}, numpy {record['numpy']}"),
        ("Processor", record["cpu_class"]),
        ("Providers", ", ".join(_provider(name, record) for name in record["providers"])),
        ("CPU fallback", "allowed" if record["allow_cpu_fallback"] else "refused"),
        ("Available", ", ".join(record["available_providers"])),
        ("Threads", f"{record['intra_op_threads']} in an operator, {record['inter_op_threads']} across operators"),
        ("Optimisation", record["optimisation"]),
        (
            "Session",
            ", ".join(f"{key}={value}" for key, value in sorted(record["session_entries"].items())),
        ),
        ("Custom operators", ", ".join(one["domain"] for one in operators)),
        ("Reduced build", record["reduced_build"]),
    ]


def _wheel(record: Mapping[str, Any]) -> str:
    return f"({record['distribution']})" if record["distribution"] else "(no distribution says so)"


def _provider(name: str, record: Mapping[str, Any]) -> str:
    options = record["provider_options"].get(name, {})
    given = ", ".join(f"{key}={value}" for key, value in sorted(options.items()))
    return f"{name} ({given})" if given else name


def _operators(record: Mapping[str, Any]) -> str:
    rows = [
        (code(one["domain"]), code(one["name"]), markup(one["abi"]), markup(one["source"]), code(one["sha256"]))
        for one in record.get("custom_operators", [])
    ]
    head = ("domain", "library", "abi", "source", "sha256")
    return f"<h3>Custom operators</h3>{table(head, rows, right=(2,))}" if rows else ""


def runtime_rows(report: Mapping[str, Any], *, every: bool) -> list[tuple[str, str]]:
    """Return (name, plain text) rows for a terminal, not yet escaped: what ran, in one line, or ``every`` fact."""
    record = report.get("runtime") or {}
    if not record:
        return []
    providers = "+".join(name.removesuffix("ExecutionProvider") for name in record["providers"])
    threads = record["intra_op_threads"]
    words = [
        f"onnxruntime {record['onnxruntime']}",
        providers,
        f"{threads} thread{'s' if threads != 1 else ''}",
        record["cpu_class"],
    ]
    rows = [("runtime", line(", ".join(words), 300))]
    if every:
        rows.append(("identity", str(report.get("runtime_identity") or "none: it changed between runs")))
        rows += [(name.lower(), line(value, 300)) for name, value in _facts(record)[1:] if value]
        rows.append(("libraries", f"{len(record['libraries'])} native libraries, each with its digest in --json"))
    return rows
