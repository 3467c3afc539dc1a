"""A plugin of pytest (``-p tools.covered_tests``) that notes which test ran what of that which is measured."""

from __future__ import annotations

import coverage


def pytest_runtest_logstart(nodeid: str) -> None:
    """What runs from now on is this test's."""
    _context(nodeid)


def pytest_runtest_logfinish() -> None:
    """What runs between two tests is nobody's."""
    _context("")


def _context(name: str) -> None:
    if (measured := coverage.Coverage.current()) is not None:
        measured.switch_context(name)
