"""Put runs on record: ``python -m fuzz.record [--note TEXT] RUN.json …`` writes ``docs/fuzzing.json`` and page.

Several runs are added up target by target: of edges and inputs the most, of all else the sum.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
RECORD: Final = DOCS / "fuzzing.json"
PAGE: Final = DOCS / "fuzzing.md"
BEGIN: Final = "<!-- made by python -m fuzz.record -->\n"
_MOST: Final = ("edges", "corpus")
_SUMS: Final = ("executions", "seconds", "cpu_seconds")


def joined(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return several runs as one."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        for one in run["targets"]:
            row = rows.setdefault(one["target"], {"target": one["target"], "findings": 0})
            for key in _MOST:
                row[key] = max(row.get(key, 0), one[key])
            for key in _SUMS:
                row[key] = round(row.get(key, 0) + one[key], 1)
            row["findings"] += len(one["findings"]) if isinstance(one["findings"], list) else one["findings"]
    total = {key: round(sum(row[key] for row in rows.values()), 1) for key in (*_SUMS, "findings")}
    last = runs[-1]
    return {
        "runs": len(runs),
        "at": last["at"],
        "note": last.get("note", ""),
        "versions": last["versions"],
        **total,
        "targets": list(rows.values()),
    }


def section(record: dict[str, Any]) -> str:
    """Return the page's section: what was really run, in whose time, and how far each target came."""
    cpu, wall = record["cpu_seconds"] / 60, record["seconds"] / 60
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
    runs = "one run" if record["runs"] == 1 else f"{record['runs']} runs"
    short = "" if cpu >= 60 else f" That is {cpu / 60:.0%} of the hour of the processor that was meant."
    lines = [
        "## The long run on record",
        "",
        f"{record['executions']:,} inputs in {cpu:.1f} minutes of the processor and {wall:.0f} of the clock, in",
        f"{runs} that ended {record['at']} ({versions}).{short}",
        f"Inputs kept as findings: {record['findings']:.0f}. {record['note']}".rstrip(),
        "",
        "| target | inputs | edges | kept | minutes of the processor |",
        "|---|---|---|---|---|",
    ]
    for row in record["targets"]:
        lines.append(
            f"| `{row['target']}` | {row['executions']:,} | {row['edges']:,} | {row['corpus']:,} | "
            f"{row['cpu_seconds'] / 60:.1f} |"
        )
    return "\n".join(lines) + "\n"


def page(text: str, record: dict[str, Any]) -> str:
    """Return the page with its last section replaced."""
    before, _, _ = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{section(record)}"


def main() -> None:
    """Read the runs, write record and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument("--note", default="", help="what became of the findings")
    options = parser.parse_args()
    record = joined([json.loads(path.read_bytes()) for path in options.runs]) | {"note": options.note}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), record))


if __name__ == "__main__":
    main()
