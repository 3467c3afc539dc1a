"""A hundred jobs in a row, a third of them bad, leave nothing; ``make soak-cell`` runs a thousand."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cell


def test_fifty_jobs_leave_nothing_and_the_next_is_clean() -> None:
    # A process of its own: its descriptors, children and resident set are those of the one cell.
    done = subprocess.run(
        [sys.executable, "-m", "tests.cell.soak", "50"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
