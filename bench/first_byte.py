"""How long a person at a terminal waits for the first sign of ``acceptd check``, and for the verdict.

Each command runs in a pseudo-terminal of its own; beside it a bare python, which bounds from below what any
command in Python can do.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import sys
import tempfile
import time
from pathlib import Path

from bench import figures
from bench.figures import ROOT
from examples import evidence_classifier as classifier

ACCEPTD = [sys.executable, "-m", "acceptd"]


def timed(command: list[str]) -> tuple[float, float]:
    """Return the milliseconds from exec to the first byte on the terminal, and to the end."""
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        os.execv(command[0], command)
    try:
        select.select([terminal], [], [])
        first = time.perf_counter()
        try:
            while os.read(terminal, 65_536):
                pass
        except OSError:  # the other side is closed
            pass
        os.waitpid(pid, 0)
        return (first - start) * 1000, (time.perf_counter() - start) * 1000
    finally:
        os.close(terminal)


def main() -> int:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    python: list[tuple[float, float]] = []
    check: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as home:
        bundle = classifier.write_bundle(Path(home) / "bundle")
        for _ in range(rounds):
            python.append(timed([sys.executable, "-c", "print()"]))
            check.append(timed([*ACCEPTD, "check", str(bundle)]))
    lines = [
        figures.alone(
            "first_byte", "`acceptd check` on a terminal: until something shows", [one for one, _ in check],
            bound=200.0, source="issue 8",
        ),
        figures.against(
            "check_cold", "`acceptd check` of the tiny bundle, start to end", [two for _, two in check],
            "a bare python", [two for _, two in python],
        ),
    ]  # fmt: skip
    return figures.save("first_byte", lines)


if __name__ == "__main__":
    sys.exit(main())
