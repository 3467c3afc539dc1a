"""Hold acceptd's verdicts on a suite against the direct run of the same files, case by case.

``python tools/compare_suite.py DIRECT.jsonl CHECK.jsonl``: ``pass`` should be ``accepted``, every other
outcome should not. Prints a table and each disagreement with its cause; exit 1 when too few agree.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

OUTCOMES: Final = ("pass", "load", "run", "differ", "skip")
VERDICTS: Final = ("accepted", "rejected", "held", "inconclusive", "missing")
SEVERITIES: Final = ("reject", "hold", "warn", "info")


@dataclass(frozen=True)
class Pair:
    """One case: how the direct run ended, what acceptd said, and why each."""

    case: str
    outcome: str
    detail: str
    verdict: str
    cause: str

    @property
    def agrees(self) -> bool:
        """Whether a pass was accepted, or a failure not."""
        return (self.outcome == "pass") == (self.verdict == "accepted") and self.verdict != "missing"


def case_of(path: str) -> str:
    """Return ``<kind>/<name>``, the last two parts of a case's path, however the suite was addressed."""
    return "/".join(Path(path).parts[-2:])


def read(file: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of a JSON lines file by case; raise ValueError with the place of a bad line."""
    lines: dict[str, dict[str, Any]] = {}
    for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            lines[case_of(line["path"])] = line
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{file}:{number}: not a result line: {error!r}") from error
    return lines


def cause(findings: list[dict[str, Any]]) -> str:
    """Return the weightiest finding in one line."""
    if not findings:
        return "no finding"
    order = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    first = min(findings, key=lambda finding: order.get(finding.get("severity", ""), len(order)))
    message = " ".join(str(first.get("message", "")).split())
    return f"{first.get('code', '?')} at {first.get('where', '?')}: {message}"[:240]


def pair(direct: dict[str, dict[str, Any]], check: dict[str, dict[str, Any]]) -> list[Pair]:
    """Return a pair for each case of the direct run."""
    return [
        Pair(
            case,
            line["outcome"],
            line.get("detail", ""),
            check[case].get("verdict", "missing") if case in check else "missing",
            cause(check[case].get("findings", [])) if case in check else "acceptd gave no line for it",
        )
        for case, line in sorted(direct.items())
    ]


def table(pairs: list[Pair]) -> str:
    """Return the counts of outcomes against verdicts as text."""
    counts = Counter((one.outcome, one.verdict) for one in pairs)
    columns = [verdict for verdict in VERDICTS if any(counts[o, verdict] for o in OUTCOMES)]
    lines = [f"{'direct run':12}" + "".join(f"{verdict:>14}" for verdict in columns)]
    for outcome in OUTCOMES:
        if any(one.outcome == outcome for one in pairs):
            lines.append(f"{outcome:12}" + "".join(f"{counts[outcome, verdict]:14}" for verdict in columns))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Compare two files; exit 1 when fewer cases agree than demanded, 2 when a file cannot be read."""
    parser = argparse.ArgumentParser(description="Compare acceptd's verdicts with the direct run.")
    parser.add_argument("direct", type=Path, help="written by tools/backend_suite.py --direct")
    parser.add_argument("check", type=Path, help="written by acceptd check --suite --jsonl")
    parser.add_argument("--least", type=int, default=2000, help="how many cases must agree (default 2000)")
    given = parser.parse_args(arguments)
    try:
        pairs = pair(read(given.direct), read(given.check))
    except (OSError, ValueError) as error:
        print(f"compare_suite: {error}", file=sys.stderr)
        return 2
    apart = [one for one in pairs if not one.agrees]
    print(table(pairs))
    for one in apart:
        print(f"\n{one.case}: {one.outcome} directly, {one.verdict} by acceptd")
        if one.detail:
            print(f"  directly: {one.detail[:240]}")
        print(f"  acceptd:  {one.cause}")
    agreeing = len(pairs) - len(apart)
    print(f"\n{agreeing} of {len(pairs)} cases agree; at least {given.least} must")
    return 0 if agreeing >= given.least else 1


if __name__ == "__main__":
    sys.exit(main())
