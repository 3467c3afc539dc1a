"""Where the time goes while bundles of 20 MB and 1.5 GiB pass a warm daemon, and what memory the daemon takes.

Time: each drop beside what somebody would do without acceptd (copy, sha256, load and run in a cold python), in
turn (A B A B …); the steps are those of the daemon's log, the stages those that the verdicts name. Memory: the
daemon's greatest resident set while 2.5 GiB pass, set back before each, beside its resident set at rest before it.
The target is 1.1 of that (design, section 10).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import figures
from bench.large import GIB, TEAM, WIDTH, again, bare, build
from bench.submission import Dropped, daemon, jobs, stages, steps, warm

SMALL_WIDTH = 2236
"""Of a layer whose weights are 20 MB."""


def resident(process: int, which: str) -> float:
    """Return ``VmRSS`` or ``VmHWM`` of a process in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {process} has no {which}")


def passes(title: str, bundle: Path, width: int, rounds: int, home: Path) -> tuple[figures.Line, list[Any]]:
    """Drop copies of ``bundle``, each beside a bare side; return the line and where the time goes."""
    state = home / f"state-{title.replace(' ', '-')}"
    without: list[dict[str, float]] = []
    drops: list[Dropped] = []
    with daemon(state, TEAM) as (log, _):
        for number in range(rounds + 1):
            without.append(bare(bundle, home / "copy", width))
            drops.append(warm(state, again(bundle, home / f"drop-{number}", f"1.{number}.1"), TEAM))
            figures.progress(f"passing {title}: {drops[-1].spent:.2f} s, bare {without[-1]['whole']:.2f} s")
        without, drops = without[1:], drops[1:]  # the first warms caches up
        parts = [
            figures.part(
                f"{title}, without acceptd",
                [
                    (key, statistics.median(one[key] for one in without) * 1000)
                    for key in without[0]
                    if key != "whole"
                ],
            ),
            figures.part(f"{title}, from the drop to the verdict", steps(log, drops)),
            figures.part(f"{title}, stages of the judgement", stages(state, TEAM, len(drops))),
            figures.part(f"{title}, processor time in its jobs", jobs(state, TEAM, len(drops))),
        ]
    shutil.rmtree(state)
    line = figures.against(
        f"passing/{title}", f"{title} of external data, drop to promoted, warm daemon",
        [one.spent * 1000 for one in drops], "copy, sha256, load and run in a cold python",
        [one["whole"] * 1000 for one in without],
    )  # fmt: skip
    return line, parts


def memory(gib: float, rounds: int, home: Path) -> figures.Line:
    """Return the daemon's memory while so many GiB pass beside its own at rest."""
    state = home / "state-memory"
    small = build(home / "small", 20_000_000, SMALL_WIDTH)
    bundle = build(home / "heavy", round(gib * GIB))
    rest, most = [], []
    with daemon(state, TEAM) as (_, process):
        for number in range(3):  # what any drop loads is loaded then
            warm(state, again(small, home / f"small-{number}", f"1.{number}.1"), TEAM)
        for number in range(rounds):
            drop = again(bundle, home / f"heavy-{number}", f"2.{number}.1")
            rest.append(resident(process, "VmRSS"))
            Path(f"/proc/{process}/clear_refs").write_text("5")  # sets the greatest back: proc(5)
            warm(state, drop, TEAM)
            most.append(resident(process, "VmHWM"))
            figures.progress(f"memory {number + 1}/{rounds}: {rest[-1]:.1f} MiB at rest, at most {most[-1]:.1f}")
    shutil.rmtree(state)
    return figures.against(
        "memory", f"the daemon's memory while {gib:g} GiB pass", most, "at rest before", rest, unit="MiB",
        bound=1.1, source="design",
    )  # fmt: skip


def main() -> int:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=7, help="rounds of 20 MB")
    parser.add_argument("--large", type=int, default=2, help="rounds of --gib")
    parser.add_argument("--gib", type=float, default=1.5)
    parser.add_argument("--memory", type=int, default=2, help="rounds of --heavy")
    parser.add_argument("--heavy", type=float, default=2.5)
    given = parser.parse_args()
    lines, parts = [], []
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-", dir="/var/tmp") as name:
        home = Path(name)
        home.chmod(0o755)
        sizes = [("20 MB", 20_000_000, SMALL_WIDTH, given.small)]
        sizes.append((f"{given.gib:g} GiB", round(given.gib * GIB), WIDTH, given.large))
        for title, size, width, rounds in sizes:
            if rounds:
                bundle = build(home / "bundle", size, width)
                line, found = passes(title, bundle, width, rounds, home)
                lines.append(line)
                parts += found
                shutil.rmtree(bundle)
        if given.memory:
            lines.append(memory(given.heavy, given.memory, home))
    return figures.save("passing", lines, parts=parts)


if __name__ == "__main__":
    sys.exit(main())
