"""How long a person at a terminal waits for the first sign of ``acceptd check``, and for the verdict.

Each command runs in a pseudo-terminal of its own; beside it a bare python, which bounds from below what any
command in Python can do. Medians and worst of so many rounds, in milliseconds.

    python bench/first_byte.py [--rounds 20]
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path

from examples import evidence_classifier as classifier

ROOT = Path(__file__).resolve().parent.parent
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


def main() -> None:
    """Print one line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        bundle = Path(home) / "bundle"
        classifier.write_bundle(bundle)
        commands = {
            "python": [sys.executable, "-c", "print()"],
            "acceptd check": [*ACCEPTD, "check", str(bundle)],
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                found[name].append(timed(command))
    for name, pairs in found.items():
        first, whole = ([pair[side] for pair in pairs] for side in (0, 1))
        print(
            f"{name:<14} first byte {statistics.median(first):6.0f} ms (worst {max(first):.0f}), "
            f"end {statistics.median(whole):6.0f} ms"
        )


if __name__ == "__main__":
    main()
