"""Write ``docs/performance.md`` and its pictures from ``bench/results/performance.json``, made by ``make bench``.

What a target is missed for is written by people, in ``bench/performance.toml``; a missed line without an account
is named on the terminal and on the page.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.performance_plots import bars, number, targets

ROOT: Final = Path(__file__).resolve().parents[1]
REPORT: Final = ROOT / "bench" / "results" / "performance.json"
TEMPLATE: Final = ROOT / "bench" / "performance.md"
ACCOUNTS: Final = ROOT / "bench" / "performance.toml"
PAGE: Final = ROOT / "docs" / "performance.md"
IMAGES: Final = ROOT / "docs" / "images"
QUIET: Final = "The machine was quiet: before and after each row nothing else had work to do there."
ROUGH: Final = (
    "Measured beside other work, or by a trial: it says nothing until it is measured on a quiet machine."
)
NOT_YET: Final = "No account has been written yet."
LABELS: Final = {
    "submission": "tiny bundle, drop to promoted",
    "scanners/tiny/warm": "tiny, warm cell, against the faster scanner",
    "scanners/tiny/cold": "tiny, cold check, against the faster scanner",
    "scanners/tiny/warm/onnx": "tiny, warm cell, against modelaudit",
    "scanners/tiny/cold/onnx": "tiny, cold check, against modelaudit",
    "suite": "ONNX backend suite, per case",
    "large": "1.5 GiB, whole acceptance",
    "memory": "daemon's memory, 2.5 GiB pass",
    "ledger/append": "ledger append, a million entries",
}
"""Short names for the picture; the loader's are made of their ids."""
Line = dict[str, Any]


def lines_of(report: dict[str, Any]) -> list[Line]:
    """Return the lines of all rows, in order."""
    return [line for row in report["rows"] if row["result"] for line in row["result"]["lines"]]


def parts_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the breakdowns of all rows, in order."""
    return [part for row in report["rows"] if row["result"] for part in row["result"]["parts"]]


def table(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "l") -> list[str]:
    """Return a Markdown table as lines; ``align`` has an l, c or r for each column, the last for the rest."""
    marks = {"l": "---", "c": ":-:", "r": "--:"}
    kinds = [marks[align[min(at, len(align) - 1)]] for at in range(len(head))]
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(kinds)}|"]
    return [*lines, *(f"| {' | '.join(str(one).replace('|', '&#124;') for one in row)} |" for row in rows)]


def _spread(found: dict[str, Any], unit: str = "") -> str:
    after = f" {unit}" if unit else ""
    if found["n"] == 1:
        return f"{number(found['median'])}{after}"
    return f"{number(found['median'])}{after} ({number(found['q1'])} to {number(found['q3'])})"


def _target(line: Line) -> str:
    side = "≤" if line["sense"] == "most" else "≥"
    return f"{side} {line['bound']:g}" + (f" {line['unit']}" if line["on"] == "ours" else " ×").rstrip()


def _measured(line: Line) -> str:
    found = line[line["on"]]
    told = _spread(found, line["unit"] if line["on"] == "ours" else "×")
    return f"{told}, most {number(found['most'])}" if line["by"] == "most" else told


def _both(line: Line) -> str:
    if line["base"] is None:
        return ""
    return f"{number(line['ours']['median'])} / {number(line['base']['median'])} {line['unit']}"


def _targets(lines: Sequence[Line]) -> list[str]:
    rows = [
        (
            f"{line['what']}" + (f" / {line['beside']}" if line["beside"] else ""),
            _target(line),
            _measured(line),
            "met" if line["met"] else "**missed**",
            _both(line),
            line[line["on"]]["n"],
            line["source"],
        )
        for line in lines
    ]
    return table(["what", "target", "measured", "", "medians", "n", "from"], rows, "lrrcrrl")


def _told(lines: Sequence[Line]) -> list[str]:
    rows = [
        (
            line["what"],
            line["beside"],
            _spread(line["ours"], line["unit"]),
            _spread(line["base"], line["unit"]) if line["base"] else "",
            _spread(line["ratio"], "×") if line["ratio"] else "",
        )
        for line in lines
    ]
    return table(["what", "beside", "it", "the other", "ratio"], rows, "llrrr")


def account(line: Line, accounts: dict[str, str]) -> str:
    """Return why a line is missed, by the longest key that its id begins with; nothing where nobody wrote it."""
    keys = [key for key in accounts if line["id"].startswith(key)]
    return accounts[max(keys, key=len)].strip() if keys else ""


def filled(text: str, lines: Sequence[Line]) -> str:
    """Return an account with ``{id}`` replaced by the median of that line in the same run (–: none)."""
    found = {line["id"]: f"{number(line['ours']['median'])} {line['unit']}" for line in lines}
    return re.sub(r"\{([^{}]+)\}", lambda match: found.get(match[1], "–"), text)


def _accounts(report: dict[str, Any], accounts: dict[str, str]) -> list[str]:
    every = lines_of(report)
    rough = {
        line["id"]
        for row in report["rows"]
        if row["result"] and (row["loaded"] or row["form"] == "trial")
        for line in row["result"]["lines"]
    }
    missed: dict[str, list[str]] = {}
    for line in every:
        if line["met"] is False:
            why = account(line, accounts) or (ROUGH if line["id"] in rough else NOT_YET)
            beside = f" (beside {line['beside']})" if line["id"].startswith("scanners/") else ""
            missed.setdefault(why, []).append(line["what"] + beside)
    if not missed:
        return ["All targets were met in this run."]
    shown = ["## Where a target is missed, and why", ""]
    for why, whats in missed.items():
        told = filled(" ".join(why.split()), every)
        shown += [f"- **{'; '.join(whats)}.** {told}"]
    return shown


def _quiet(report: dict[str, Any]) -> str:
    loaded = [row["row"] for row in report["rows"] if row["loaded"]]
    trial = [row["row"] for row in report["rows"] if row["form"] == "trial"]
    failed = [row["row"] for row in report["rows"] if row["failed"]]
    told = []
    if failed:
        told.append(f"> **Failed**: {', '.join(failed)}. What they should show is not on this page.")
    if trial:
        told.append(
            f"> **A trial**: {', '.join(trial)} ran with tiny repetitions, to show that the benchmark works. Their"
            " figures say nothing."
        )
    if loaded:
        told.append(
            f"> **Loaded**: other work ran on the machine beside {', '.join(loaded)}. Their figures are worse and"
            " wider than a quiet machine's."
        )
    return "\n>\n".join(told) or QUIET


def _machine(report: dict[str, Any]) -> list[str]:
    one = report["machine"]
    versions = ", ".join(f"{name} {found}" for name, found in one["versions"].items())
    peers = ", ".join(f"{name} {found}" for name, found in one["peers"].items())
    told = (
        f"{one['cores']} cores of {one['processor']} with {one['memory_gib']} GiB, Linux {one['kernel']}, files on"
        f" {one['file_system']}, Python {one['python']}, as {one['user']}; {versions}. Peers: {peers}. Commit"
        f" `{report['commit']}`. *Busy* is the share of all cores' time that was another's work in the second"
        " before and after a row; *load* is the kernel's average of one minute then, the row's own work included."
    )
    return [told]


def _rows(report: dict[str, Any]) -> list[str]:
    rows = []
    for row in report["rows"]:
        busy = " / ".join(f"{share:.0%}" for share in row["busy"])
        load = " / ".join(f"{one[0]:.1f}" for one in row["load"])
        state = (
            "failed"
            if row["failed"]
            else ", ".join(["loaded"] * row["loaded"] + ["trial"] * (row["form"] == "trial"))
        )
        rows.append((f"`{row['row']}`", row["measured"], f"{row['seconds']:.0f}", busy, load, state))
    return table(["row", "measured, UTC", "s", "busy", "load", ""], rows, "llrrrl")


def _parts(parts: Sequence[dict[str, Any]]) -> list[str]:
    shown: list[str] = []
    for part in parts:
        cells = [number(value) for _, value in part["rows"]]
        shown += ["", f"**{part['title']}**, {part['unit']}", ""]
        shown += table([name for name, _ in part["rows"]], [cells], "r")
    return shown


def _label(line: Line) -> str:
    if line["id"].startswith("loader/"):
        _, size, mode, which = line["id"].split("/")
        return f"loader, {size}, {mode}, {'fresh' if 'fresh' in which else 'warm'}"
    if line["id"].startswith("pins/"):
        _, case, which = line["id"].split("/")
        size, pinned = case[: case.index("MiB") + 3], "pinned" in case
        return f"loader, {size}, {'pinned' if pinned else 'no pins'}, {which}"
    return LABELS.get(line["id"], line["what"])


def _peer_groups(lines: Sequence[Line]) -> list[tuple[str, list[tuple[str, float, str]]]]:
    groups: dict[str, dict[str, float]] = {}
    for line in lines:
        kind, _, rest = line["id"].partition("/")
        size = rest.partition("/")[0]
        named = line["what"].partition(", ")[2]
        if kind == "peers" or line["id"] in {f"scanners/{size}/warm", f"scanners/{size}/cold"}:
            groups.setdefault(f"{size} bundle", {})[named] = line["ours"]["median"]
    return [
        (
            title,
            [(name, value, f"{number(value)} ms") for name, value in sorted(rows.items(), key=lambda one: one[1])],
        )
        for title, rows in groups.items()
    ]


def pictures(report: dict[str, Any]) -> dict[str, str]:
    """Return the pictures: file name → SVG."""
    lines, parts = lines_of(report), parts_of(report)
    design = [line for line in lines if line["bound"] is not None and line["source"] == "design"]
    found = {"performance-targets.svg": targets(design, [_label(line) for line in design])}
    found["performance-peers.svg"] = bars("Time for one bundle", _peer_groups(lines), log=True)
    for size, name in _sizes(parts):
        groups = [
            (
                part["title"].partition(", ")[2] or part["title"],
                [(step, value, f"{number(value)} {part['unit']}") for step, value in part["rows"]],
            )
            for part in parts
            if part["title"].startswith(f"{size}, ") and part["unit"] == "ms"
        ]
        found[name] = bars(f"Where the time goes: {size}", groups)
    return found


def _sizes(parts: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    sizes = [part["title"].partition(",")[0] for part in parts if "from the drop" in part["title"]]
    return [(size, f"performance-time-{at}.svg") for at, size in enumerate(sizes, 1)]


def page(report: dict[str, Any], written: dict[str, Any]) -> str:
    """Return the page."""
    lines, parts = lines_of(report), parts_of(report)
    bounded = [line for line in lines if line["bound"] is not None]
    peers = [line for line in lines if line["id"].startswith("peers/")]
    others = [line for line in lines if line["bound"] is None and line not in peers]
    values: dict[str, object] = {
        "date": report["measured"][:10],
        "quiet": _quiet(report),
        "image_targets": "images/performance-targets.svg",
        "image_peers": "images/performance-peers.svg",
        "targets": _targets(bounded),
        "accounts": _accounts(report, written["account"]),
        "peers": _told(peers),
        "places": [f"![Where the time goes: {size}](images/{name})\n" for size, name in _sizes(parts)],
        "parts": _parts(parts),
        "tried": [f"- {one}" for one in written["tried"]["list"]],
        "further": _told(others),
        "machine": _machine(report),
        "rows": _rows(report),
    }
    shown = {name: "\n".join(value) if isinstance(value, list) else value for name, value in values.items()}
    return Template(TEMPLATE.read_text("utf-8")).substitute(shown)


def main() -> int:
    """Write page and pictures; say which missed lines have no account."""
    report = json.loads(REPORT.read_text("utf-8"))
    written = tomllib.loads(ACCOUNTS.read_text("utf-8"))
    PAGE.write_text(page(report, written), "utf-8")
    for old in IMAGES.glob("performance-*.svg"):
        old.unlink()
    for name, drawn in pictures(report).items():
        (IMAGES / name).write_text(drawn, "utf-8")
    for line in lines_of(report):
        if line["met"] is False and not account(line, written["account"]):
            print(f"{ACCOUNTS.name}: no account for {line['id']}, which is missed", file=sys.stderr)
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
