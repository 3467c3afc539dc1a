"""Measures which lines and branches of acceptd/ a process runs: begun by each Python of .venvs/coverage itself.

A process of acceptd is often started with an environment of its own (sealer, comparer, audit), so nothing is
passed by variables: the environment's acceptd-covered.pth imports this where the directory for results is there,
which it never is in a cell.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import coverage

from tools import covered_kills

ROOT = Path(__file__).resolve().parent.parent
RAW = ROOT / ".cache" / "coverage" / "raw"
"""Each process leaves a file of its own in it."""

_HELPERS = frozenset({"acceptd.compare", "acceptd.intake.sealer", "acceptd.record.auditing.worker"})


def start() -> None:
    """Measure from here to the end of this process and of those forked from it."""
    measured = coverage.Coverage(
        data_file=str(RAW / "data"),
        data_suffix=True,
        auto_data=True,
        config_file=str(ROOT / "tools" / "coverage.cfg"),
        source=[str(ROOT / "acceptd")],
    )
    _unlimited()
    _patient()
    _with_site()
    covered_kills.install(_write)
    measured.start()


def _write() -> None:
    """Write what was measured in this process, also where it was forked from the measured one."""
    if (measured := coverage.Coverage.current()) is not None:
        measured.stop()
        measured.save()


def _unlimited() -> None:
    """Let a comparer write what was measured in it: the one limit that it gives itself and does not get here."""
    setting = resource.setrlimit

    def but_files(limit: int, bounds: tuple[int, int]) -> None:
        if limit != resource.RLIMIT_FSIZE:
            setting(limit, bounds)

    resource.setrlimit = but_files


def _patient() -> None:
    """Leave a sealer, comparer or auditor whose socket was closed the time to write, before it is killed."""
    end = subprocess.Popen.kill

    def kill(self: subprocess.Popen[bytes]) -> None:
        if isinstance(self.args, list) and not _HELPERS.isdisjoint(self.args):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(2)
        end(self)

    subprocess.Popen.kill = kill


def _with_site() -> None:
    """Measure the runners of hooks and of the operator's commands too: they start without site-packages."""
    begin = subprocess.Popen.__init__

    def started(self: subprocess.Popen[bytes], args: Any, *more: Any, **named: Any) -> None:
        runner = isinstance(args, list) and args[:3] == [sys.executable, "-I", "-S"]
        if runner and str(args[3]).startswith(f"{ROOT}/acceptd/"):
            args = [*args[:2], *args[3:]]
        begin(self, args, *more, **named)

    subprocess.Popen.__init__ = started


if os.access(RAW, os.W_OK) and coverage.Coverage.current() is None:
    start()
