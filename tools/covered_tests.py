"""A plugin of pytest (``-p tools.covered_tests``) that notes which test ran what of that which is measured.

It also sees to it that a worker of pytest-xdist that is killed takes little of what it measured with it.
coverage.py writes without a journal, so that a kill amid a write leaves a file that nobody can read.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Final

import coverage
import pytest

KEPT: Final = "kept."
"""What the name of the last whole copy of a file of results begins with."""
SECONDS: Final = 60.0
"""Between two copies."""

_copied = time.monotonic()


def pytest_runtest_logstart(nodeid: str) -> None:
    """What runs from now on is this test's."""
    _context(nodeid)


def pytest_runtest_logfinish() -> None:
    """What runs between two tests is nobody's."""
    _context("")
    if time.monotonic() - _copied >= SECONDS:
        copy()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Write all of it before the worker's last word: xdist kills it ten seconds later, whatever it writes then."""
    if (measured := coverage.Coverage.current()) is not None:
        measured.stop()
        measured.save()


def copy() -> None:
    """Keep what was measured so far in a second file, whole or not at all."""
    global _copied
    if (measured := coverage.Coverage.current()) is not None:
        written = Path(measured.get_data().data_filename())
        half = written.with_name(f"half.{written.name}")
        shutil.copyfile(written, half)
        os.replace(half, written.with_name(f"{KEPT}{written.name}"))
    _copied = time.monotonic()


def _context(name: str) -> None:
    if (measured := coverage.Coverage.current()) is not None:
        measured.switch_context(name)
