"""``make bench``: every row of the design's performance table and the figures of the issues, into one file.

Each row is a bench of this package in a process of its own. What it found goes to ``bench/results/rows/`` with the
share of the machine that was busy, before and after, while nothing of ours ran: a row with another's work beside
it is marked ``loaded``. A row that is there, quiet, of the same code and form is not measured again, so a run that
was broken off goes on (``--fresh`` begins anew; ``--only`` names rows). All rows together are
``bench/results/performance.json``; ``tools/gen_performance.py`` makes ``docs/performance.md`` of it. A trial
touches neither: its rows are in ``bench/results/trial/``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from bench import machine
from bench.figures import RESULTS, ROOT

REPORT: Final = RESULTS / "performance.json"
LEDGER: Final = ".cache/bench/ledger"
TAIL: Final = 600
"""Characters of a failed bench's own words that are kept."""
Form = Literal["trial", "quick", "full"]
FORMS: Final[tuple[Form, ...]] = ("trial", "quick", "full")


@dataclass(frozen=True)
class Row:
    """One bench: its module, its words in each form (None: not in that form), minutes on a quiet machine."""

    name: str
    module: str
    result: str
    minutes: float
    trial: str
    quick: str | None
    full: str
    prepare: tuple[str, str] | None = None
    """A module and its words, run before anything is measured."""

    def words(self, form: Form) -> list[str] | None:
        """Return the words for a form."""
        found: str | None = getattr(self, form)
        return None if found is None else found.split()


def row(name: str, minutes: float, trial: str, quick: str | None, full: str | None = None, **more: Any) -> Row:
    """Return a row; in full it is as in quick, unless it says otherwise."""
    found = {"module": f"bench.{name}", "result": name} | more
    return Row(name, minutes=minutes, trial=trial, quick=quick, full=full or quick or "", **found)


GROW: Final = ("bench.ledger", f"--state {LEDGER} --make-only")
ROWS: Final = (
    row("submission", 0.8, "--rounds 2 --burst 4", "--rounds 40 --burst 60", "--rounds 100 --burst 200"),
    row("scanners", 3.5, "--rounds 1", "--rounds 7", "--rounds 15"),
    row("suite", 3.2, "--cases 12 --times 2 --rounds 1", "--cases 0 --times 2", "--cases 0 --times 5"),
    row("large", 1.2, "--gib 0.1 --pairs 1", "--pairs 3", "--pairs 5"),
    row(
        "passing", 2.5, "--small 1 --large 1 --gib 0.1 --memory 1 --heavy 0.2", "",
        "--small 15 --large 4 --memory 4",
    ),
    row("ledger", 2.0, "--entries 2000", f"--state {LEDGER}", prepare=GROW),
    row(
        "loader_modes", 2.0, "--sizes 300B 20MB --rounds 2 --promotions 5", "--sizes 300B 20MB 1.5GiB",
        "--sizes 300B 20MB 1.5GiB --promotions 1000",
    ),
    row("cell", 1.0, "--rounds 2 --repeats 1", "", "--rounds 200 --repeats 20"),
    row("inspection", 1.5, "--rounds 1", "--rounds 7", "--rounds 15"),
    row("compare", 1.5, "5 --rounds 1", "100 --rounds 5", "100 --rounds 15"),
    row("content", 0.3, "64", "512", "2048"),
    row("first_byte", 0.6, "--rounds 2", "--rounds 20", "--rounds 50"),
    row("loader", 1.5, "--rounds 1 --megabytes 1", None, "--rounds 15"),
    row(
        "inspection-large", 3.0, "--large", None, "--large", module="bench.inspection", result="inspection-large"
    ),
    row(
        "scanners-large", 8.0, "--sizes tiny --rounds 1 --name scanners-large", None,
        "--sizes 1.5GiB --rounds 2 --name scanners-large", module="bench.scanners",
    ),
    row("fleet", 8.0, "--rounds 1 --burst 2 --alone 1", None, "--rounds 4"),
    row("fleet_queued", 12.0, "--sizes 10 40 --rounds 1 --verdicts 2", None, "--rounds 3"),
)  # fmt: skip


def chosen(form: Form, only: Sequence[str]) -> list[Row]:
    """Return the rows of a form: all, or those that are named. Raises ValueError for a name that there is not."""
    strange = sorted(set(only) - {one.name for one in ROWS})
    if strange:
        raise ValueError(f"no row {', '.join(strange)}; there are {', '.join(one.name for one in ROWS)}")
    # A trial is of everything, but for what takes minutes at any size.
    slow = {"inspection-large", "fleet", "fleet_queued", "scanners-large"} if form == "trial" else set()
    return [
        one for one in ROWS if (one.name in only or not (only or one.name in slow)) and one.words(form) is not None
    ]


def rows_kept(form: Form) -> Path:
    """Return where rows are kept; a trial's apart, so that it takes the place of nothing."""
    return RESULTS / ("trial" if form == "trial" else "rows")


def kept(name: str, folder: Path) -> dict[str, Any] | None:
    """Return what is kept of a row; None where there is nothing whole."""
    try:
        found = json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def stands(found: dict[str, Any] | None, form: Form, code: str) -> bool:
    """Return whether a row need not be measured again: of this code, in that form or a fuller one, and quiet."""
    if found is None or found["failed"] or found["loaded"] or found["code"] != code:
        return False
    return FORMS.index(found["form"]) >= FORMS.index(form)


def measure(one: Row, form: Form, code: str) -> dict[str, Any]:
    """Run one bench and return its row. A bench that dies leaves a row that says so."""
    result = RESULTS / f"{one.result}.json"
    result.unlink(missing_ok=True)
    if one.prepare is not None and form != "trial":
        _run(one.prepare[0], one.prepare[1].split())
    os.sync()  # what was written before is no work of this row's
    before, load_before, start = machine.quietest(), machine.load(), time.monotonic()
    words = one.words(form) or []
    code_of_end, said = _run(one.module, words)
    seconds = time.monotonic() - start
    load_after, after = machine.load(), machine.quietest()
    failed = "" if result.is_file() else said[-TAIL:] or f"ended with {code_of_end}"
    return {
        "row": one.name,
        "form": form,
        "words": " ".join(words),
        "code": code,
        "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "seconds": round(seconds, 1),
        "busy": [before, after],
        "load": [load_before, load_after],
        "loaded": max(before, after) > machine.BUSY,
        "failed": failed,
        "result": None if failed else json.loads(result.read_text()),
    }


def _run(module: str, words: list[str]) -> tuple[int, str]:
    """Run a module, its output passed on as it comes; return its exit code and the end of what it said."""
    command = [sys.executable, "-m", module, *words]
    said = ""
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    ) as child:  # fmt: skip
        assert child.stdout is not None
        for line in child.stdout:
            print(f"  {line.rstrip()}", flush=True)
            said = (said + line)[-4 * TAIL :]
        return child.wait(), said.strip()


def report(form: Form, folder: Path) -> dict[str, Any]:
    """Return the rows that are kept, in that form or a fuller one, in their order, with what they ran on."""
    every = (kept(one.name, folder) for one in ROWS)
    rows = [one for one in every if one is not None and FORMS.index(one["form"]) >= FORMS.index(form)]
    return {
        "measured": max((found["measured"] for found in rows), default=""),
        "form": form,
        "commit": machine.commit(ROOT),
        "machine": machine.machine() | {"peers": machine.peers(ROOT / ".venvs")},
        "rows": rows,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 where a row failed. A bound that is missed is a figure, no failure."""
    parser = argparse.ArgumentParser(description="Every performance figure, measured; the page is made of it.")
    parser.add_argument("--form", choices=FORMS, default="quick", help="trial: tiny repetitions, says nothing")
    parser.add_argument("--only", nargs="*", default=[], metavar="ROW")
    parser.add_argument("--fresh", action="store_true", help="forget the rows of a run before")
    parser.add_argument(
        "--refuse-loaded", action="store_true", help="end with a line where the machine is not quiet"
    )
    given = parser.parse_args(arguments)
    try:
        rows = chosen(given.form, given.only)
    except ValueError as error:
        parser.error(str(error))
    share = machine.quietest()
    if share > machine.BUSY:
        told = f"{share:.0%} of the cores' time is another's (load {machine.load()[0]})"
        if given.refuse_loaded:
            print(f"bench: {told}; end what runs beside it, or leave out --refuse-loaded", file=sys.stderr)
            return 75
        print(f"bench: {told}; rows are marked as loaded, and measured again next time", flush=True)
    folder = rows_kept(given.form)
    folder.mkdir(parents=True, exist_ok=True)
    if given.fresh:
        for one in rows:
            (folder / f"{one.name}.json").unlink(missing_ok=True)
    code = machine.code(ROOT)
    open_ones = [one for one in rows if not stands(kept(one.name, folder), given.form, code)]
    print(f"bench: {len(open_ones)} of {len(rows)} rows, {given.form}", flush=True)
    for number, one in enumerate(open_ones, 1):
        left = sum(other.minutes for other in open_ones[number - 1 :])
        print(f"{number}/{len(open_ones)} {one.name} (about {left:.0f} minutes left)", flush=True)
        found = measure(one, given.form, code)
        (folder / f"{one.name}.json").write_text(json.dumps(found, indent=1) + "\n")
        marks = ", loaded" * found["loaded"] + ", FAILED" * bool(found["failed"])
        print(f"  {found['seconds']:.0f} s{marks}", flush=True)
    whole = report(given.form, folder)
    target = folder / REPORT.name if given.form == "trial" else REPORT
    target.write_text(json.dumps(whole, indent=1) + "\n")
    failed = [one["row"] for one in whole["rows"] if one["failed"]]
    print(f"{target.relative_to(ROOT)}: {len(whole['rows'])} rows, {len(failed)} failed {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
