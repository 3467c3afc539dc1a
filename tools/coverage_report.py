"""Puts together what ``make coverage`` measured: a line for each package, and exit 1 below a floor.

``python -m tools.coverage_report [--whole] [--keep]``. ``acceptd/judge/`` is pure and decides: every line and
branch of it is reached, or this ends with 1. ``--whole`` says that every layer of tests ran, so that the floor of
all of acceptd/ holds too; ``--keep`` writes the figures to bench/coverage.json.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PLACE: Final = ROOT / ".cache" / "coverage"
KEPT: Final = ROOT / "bench" / "coverage.json"
JUDGE: Final = "acceptd/judge"
WHOLE: Final = 95.0


@dataclass
class Counted:
    """Lines and branches of one package: all of them, and those that no test reached."""

    lines: int = 0
    missed: int = 0
    branches: int = 0
    unreached: int = 0

    @property
    def percent(self) -> float:
        """Lines and branches that were reached, of a hundred: coverage.py's own measure."""
        all_ = self.lines + self.branches
        return 100.0 * (all_ - self.missed - self.unreached) / all_ if all_ else 100.0

    def add(self, summary: Mapping[str, Any]) -> None:
        """Count one file more, by coverage.py's summary of it."""
        self.lines += summary["num_statements"]
        self.missed += summary["missing_lines"]
        self.branches += summary["num_branches"]
        self.unreached += summary["missing_branches"]

    def document(self) -> dict[str, float]:
        """Return it as JSON data."""
        figures = {"lines": self.lines, "missed": self.missed, "branches": self.branches}
        return {**figures, "unreached": self.unreached, "percent": round(self.percent, 2)}


def packages(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Counted]:
    """Return what was counted by package (``acceptd/judge``; ``acceptd`` for what stands beside the packages)."""
    found: dict[str, Counted] = {}
    for path, told in sorted(files.items()):
        name = "/".join(path.split("/")[: 2 if path.count("/") > 1 else 1])
        found.setdefault(name, Counted()).add(told["summary"])
    return found


def gaps(files: Mapping[str, Mapping[str, Any]], below: str) -> list[str]:
    """Return what was not reached under a directory, as ``path:line`` and ``path:line->line``."""
    return [
        f"{path}:{'->'.join(map(str, place)) if isinstance(place, list) else place}"
        for path, told in sorted(files.items())
        if path.startswith(f"{below}/")
        for place in (*told["missing_lines"], *told["missing_branches"])
    ]


def faults(files: Mapping[str, Mapping[str, Any]], *, whole: bool) -> list[str]:
    """Return one line for each floor that is not kept, with the first places."""
    found = packages(files)
    judge = found.get(JUDGE, Counted())
    said = []
    if not judge.lines:
        said.append(f"{JUDGE}/: nothing was measured; run the tests with .venvs/coverage/bin/python")
    elif left := gaps(files, JUDGE):
        more = f" and {len(left) - 8} more" if len(left) > 8 else ""
        said.append(f"{JUDGE}/: {judge.percent:.2f} %, not 100: test {', '.join(left[:8])}{more}")
    total = summed(found.values())
    if whole and total.percent < WHOLE:
        said.append(f"acceptd/: {total.percent:.2f} %, not {WHOLE:g}: see .cache/coverage/html")
    return said


def summed(parts: Iterable[Counted]) -> Counted:
    """Return several packages as one."""
    found = Counted()
    for one in parts:
        found.lines += one.lines
        found.missed += one.missed
        found.branches += one.branches
        found.unreached += one.unreached
    return found


def least(files: Mapping[str, Mapping[str, Any]], count: int = 10) -> dict[str, Counted]:
    """Return the files of which the smallest share was reached, the worst first; empty ones are none of them."""
    found: dict[str, Counted] = {}
    for path, told in files.items():
        found.setdefault(path, Counted()).add(told["summary"])
    ranked = sorted((one for one in found if found[one].lines), key=lambda one: (found[one].percent, one))
    return {path: found[path] for path in ranked[:count]}


def table(found: Mapping[str, Counted]) -> list[str]:
    """Return a line for each package, and one for all."""
    return _rows("package", 24, {**found, "all": summed(found.values())})


def _rows(what: str, width: int, found: Mapping[str, Counted]) -> list[str]:
    head = f"{what:{width}} {'lines':>7} {'missed':>7} {'branches':>9} {'unreached':>10} {'percent':>8}"
    return [head] + [
        f"{name:{width}} {one.lines:7} {one.missed:7} {one.branches:9} {one.unreached:10} {one.percent:8.2f}"
        for name, one in found.items()
    ]


def readable(raw: Path) -> tuple[list[str], int]:
    """Return the whole files of results, and how many are torn: coverage.py would end at the first of those.

    Of a torn one the copy counts that tools.covered_tests made of it up to a minute before, where there is one.
    """
    found, torn = [], 0
    for path in sorted(raw.glob("data.*")):
        whole = next((one for one in (path, path.with_name(f"kept.{path.name}")) if _whole(one)), None)
        found += [str(whole)] if whole else []
        torn += whole is None
    return found, torn


def _whole(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as one:
            one.execute("select 1 from coverage_schema").fetchone()
            return bool(one.execute("pragma quick_check").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def measured() -> dict[str, Any]:
    """Return coverage.py's own report of all processes that ended and left a whole file."""
    import coverage

    whole = coverage.Coverage(data_file=str(PLACE / "data"), config_file=str(ROOT / "tools" / "coverage.cfg"))
    files, torn = readable(PLACE / "raw")
    if torn:
        print(f"coverage: {torn} processes were killed while they wrote: they count for nothing", file=sys.stderr)
    whole.combine(files, strict=True, keep=True)
    whole.save()
    report = PLACE / "report.json"
    whole.json_report(outfile=str(report))
    whole.html_report(directory=str(PLACE / "html"))
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def main(arguments: list[str]) -> int:
    """Print the table; return 1 where a floor is not kept."""
    parser = argparse.ArgumentParser(prog="tools.coverage_report")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--keep", action="store_true")
    wanted = parser.parse_args(arguments)
    report = measured()
    files = report["files"]
    found = packages(files)
    worst = least(files)
    print("\n".join([*table(found), "", *_rows("least covered", max(map(len, worst), default=24), worst)]))
    if wanted.keep:
        kept = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "coverage": report["meta"]["version"],
            "python": sys.version.split()[0],
            "packages": {name: one.document() for name, one in found.items()},
            "all": summed(found.values()).document(),
            "least": {path: one.document() for path, one in worst.items()},
        }
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    said = faults(files, whole=wanted.whole)
    for line in said:
        print(f"coverage: {line}", file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
