"""Write ``docs/hostile-report.md`` from ``bench/hostile_report.json``, which ``make hostile-report`` measures."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from string import Template
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
REPORT: Final = ROOT / "bench" / "hostile_report.json"
TEMPLATE: Final = ROOT / "bench" / "hostile" / "page.md"
PAGE: Final = ROOT / "docs" / "hostile-report.md"
SIGNS: Final = {
    "detected": "●", "warned": "◐", "missed": "○", "hung": "∞", "crashed": "✖", "memory": "▲",
    "unsure": "?", "not applicable": "–",
}  # fmt: skip
SHORT: Final = {
    "acceptd": "acceptd", "ort-load": "ort load", "ort-run": "ort run", "onnx.checker": "checker",
    "polygraphy-inspect": "P inspect", "polygraphy-run": "P run", "polygraphy-lint": "P lint",
    "modelaudit": "modelaudit", "modelscan": "modelscan",
}  # fmt: skip
PURPOSE: Final = {
    "acceptd": "decides whether a bundle may go to production; runs it in a sandbox",
    "ort-load": "runs models; that a load fails is a by-product",
    "ort-run": "the same with the golden inputs: what a team without a gate would do",
    "onnx.checker": "form, types and shapes of a model, in the process that asks",
    "polygraphy-inspect": "shows what is in a model",
    "polygraphy-run": "runs a model, compares backends, looks for NaN and infinity",
    "polygraphy-lint": "faulty nodes of a graph, by onnx.checker and onnxruntime; experimental",
    "modelaudit": "known attacks in model files of many formats, without running them",
    "modelscan": "unsafe code in serialised models of other formats; does not claim ONNX",
}
Row = dict[str, Any]


def table(head: Iterable[str], rows: Iterable[Iterable[object]], align: str = "") -> list[str]:
    """Return a Markdown table as lines; ``align`` has an ``l`` or ``c`` for each column, the last for the rest."""
    names = list(head)
    marks = [("---", ":-:")[(align[min(i, len(align) - 1)] if align else "l") == "c"] for i in range(len(names))]
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join(marks)}|"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def text(words: str) -> str:
    """Return a tool's own words for a cell of a table: they may hold what a hostile name put there."""
    kept = "".join(f"\\{sign}" if sign in "\\`*_[]#" else sign for sign in words.replace("&", "&amp;"))
    for sign, entity in {"<": "&lt;", ">": "&gt;", "|": "&#124;", "~": "&#126;", "://": ":&#47;&#47;"}.items():
        kept = kept.replace(sign, entity)
    return kept


def counted(rows: Iterable[Row], tool: str) -> Counter[str]:
    """Return how often a tool gave each outcome."""
    return Counter(row["answers"][tool]["outcome"] for row in rows)


def asked(count: Counter[str]) -> int:
    """Return of how many members a tool was asked."""
    return count.total() - count["not applicable"]


def _objections(rows: Iterable[Row], tool: str) -> list[Row]:
    return [row for row in rows if row["answers"][tool]["outcome"] not in {"missed", "warned", "not applicable"}]


def _alarms(rows: list[Row], tool: str) -> str:
    """Return how many good models a tool objects to, and apart from those of how many it cannot say."""
    count = counted(rows, tool)
    unsure = f" + {count['unsure']} ?" if count["unsure"] else ""
    return f"{len(_objections(rows, tool)) - count['unsure']}{unsure} of {asked(count)}" if asked(count) else "–"


def _cpu(rows: Iterable[Row], tool: str) -> list[float]:
    found = (row["answers"][tool] for row in rows)
    return [one["cpu_seconds"] for one in found if "cpu_seconds" in one]


def _summary(report: Row) -> list[str]:
    rows = []
    for tool in report["tools"]:
        name = tool["name"]
        count = counted(report["hostile"], name)
        times = _cpu(report["good"], name)
        peaks = [row["answers"][name].get("peak_mib", 0) for row in (*report["hostile"], *report["good"])]
        rows.append(
            [
                f"{tool['title']} {tool['version']}",
                asked(count),
                *(count[one] or "" for one in SIGNS if one != "not applicable"),
                _alarms(report["good"], name),
                f"{median(times):.1f}" if times else "",
                max(peaks) or "",
            ]
        )
    head = ["tool", "asked", *list(SIGNS.values())[:-1], "false alarms", "CPU s", "MiB"]
    return table(head, rows, "lc")


def _floor(report: Row) -> str:
    """Return what is to be said of resident sets that a measurement could not tell from the harness's own."""
    floor = report.get("peak_floor_mib", 0)
    return f", where it is more than {floor} MiB (less was not told apart from the harness's own)" if floor else ""


def _flags(report: Row) -> list[str]:
    rows = [(tool["title"], PURPOSE[tool["name"]], f"`{tool['flags']}`") for tool in report["tools"]]
    return table(["tool", "what it is for", "what was run"], rows)


def _families(report: Row, tools: list[str]) -> list[str]:
    rows = []
    for family in dict.fromkeys(row["family"] for row in report["hostile"]):
        members = [row for row in report["hostile"] if row["family"] == family]
        cells = []
        for tool in tools:
            count = counted(members, tool)
            cells.append(f"{count['detected']}/{asked(count)}" if asked(count) else "–")
        rows.append([family, *cells])
    return table(["family", *(SHORT[tool] for tool in tools)], rows, "lc")


def _members(report: Row, tools: list[str]) -> list[str]:
    lines: list[str] = []
    for family in dict.fromkeys(row["family"] for row in report["hostile"]):
        rows = [
            [
                f"`{row['name']}`<br>{text(_finding(row['answers']['acceptd']['said']))}",
                *(SIGNS[row["answers"][tool]["outcome"]] for tool in tools),
            ]
            for row in report["hostile"]
            if row["family"] == family
        ]
        head = ["member, acceptd's finding", *(SHORT[tool] for tool in tools)]
        lines += ["", f"### {family[0].upper()}{family[1:]}", "", *table(head, rows, "lc")]
    return lines


def _finding(said: str) -> str:
    """Return acceptd's first finding, with the verdict where it is another than rejected."""
    verdict, _, codes = said.partition(": ")
    first = codes.partition(",")[0]
    return first if verdict == "rejected" else ": ".join(filter(None, (verdict or "accepted", first)))


def _good(report: Row, tools: list[str]) -> list[str]:
    rows = []
    for kind in dict.fromkeys(row["family"] for row in report["good"]):
        models = [row for row in report["good"] if row["family"] == kind]
        cells = []
        for tool in tools:
            cells.append(_alarms(models, tool))
        rows.append([kind, *cells])
    lines = table(["models", *(SHORT[tool] for tool in tools)], rows, "lc")
    told = [
        (
            text(row["name"]),
            SHORT[tool],
            SIGNS[row["answers"][tool]["outcome"]],
            text(row["answers"][tool]["said"]),
        )
        for row in report["good"]
        for tool in tools
        if row in _objections(report["good"], tool)
    ]
    if told:
        words = ["model", "tool", "", "its words"]
        lines += ["", "Every objection to a good model:", "", *table(words, told, "lccl")]
    return lines


def _against(report: Row) -> list[str]:
    """Return what speaks against acceptd, out of the same answers."""
    rows = report["hostile"]
    said = {row["name"]: row["answers"]["acceptd"] for row in rows}
    passed = [name for name, one in said.items() if one["outcome"] in {"missed", "warned"}]
    held = [name for name, one in said.items() if one["said"].startswith("held")]
    open_ones = [name for name, one in said.items() if one["outcome"] in {"unsure", "hung", "crashed", "memory"}]
    unnamed = [row["name"] for row in rows if row.get("named") is False]
    time = {tool["name"]: median(_cpu(report["good"], tool["name"]) or [0.0]) for tool in report["tools"]}
    quicker = sorted((used, SHORT[name]) for name, used in time.items() if used < time["acceptd"])
    lines = []
    if passed:
        lines.append(f"- It lets {_names(passed)} pass. See `README.md` for what it does not promise.")
    if open_ones:
        lines.append(f"- It came to no verdict about {_names(open_ones)}.")
    if unnamed:
        lines.append(f"- It refused {_names(unnamed)} for something else than the fault.")
    if held:
        words = "objections are `held`, which leaves the question to a person"
        lines.append(f"- {len(held)} of its {len(said) - len(passed)} {words}: {_names(held)}.")
    if quicker:
        words = (
            f"{time['acceptd']:.1f} s of processor time for a good model, {quicker[0][1]} {quicker[0][0]:.1f} s"
        )
        lines.append(
            f"- {len(quicker)} of the {len(time) - 1} others answer sooner ({words}): it builds a sandbox and runs"
            " the model several times."
        )
    return lines


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page(report: Row) -> str:
    """Return the page."""
    tools = [tool["name"] for tool in report["tools"]]
    machine, bounds = (
        report["machine"],
        next(one["bounds"] for one in report["tools"] if one["bounds"]["cpu_seconds"]),
    )
    values = {
        "date": report["measured"],
        "hostile": len(report["hostile"]),
        "good": len(report["good"]),
        "cpu": bounds["cpu_seconds"],
        "wall": f"{bounds['wall_seconds']:.0f}",
        "memory": bounds["memory_mib"] // 1024,
        "summary": _summary(report),
        "flags": _flags(report),
        "families": _families(report, tools),
        "against": _against(report),
        "models": _good(report, tools),
        "members": _members(report, tools),
        "machine": f"{machine['cores']} cores of {machine['processor']} with {machine['memory_gib']} GiB, Linux"
        f" {machine['kernel']}, Python {machine['python']}, as {machine['user']}",
        "load": machine["load"],
        "floor": _floor(report),
        "network": machine["network"],
        "bounds": f"{bounds['cpu_seconds']} s of processor time, {bounds['wall_seconds']:.0f} s of wall clock,"
        f" {bounds['memory_mib']} MiB of addresses, files of {bounds['file_mib']} MiB",
        "own": f"{report['tools'][0]['bounds']['wall_seconds']:.0f}",
    }
    shown = {name: "\n".join(value) if isinstance(value, list) else value for name, value in values.items()}
    return Template(TEMPLATE.read_text("utf-8")).substitute(shown)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(json.loads(REPORT.read_text("utf-8"))), "utf-8")
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
