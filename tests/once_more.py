"""``-p tests.once_more``: the files of the few tests that failed beside others run once more, alone.

Daemons, cells and kills of many tests share a few cores. What fails then and passes alone says how busy the host
was; a fault fails again and ends the run. A whole file, because a test may stand on what the one before it made.
Whoever reads the output is told of both runs; more than a few files are no chance and are not run again.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST = 3
"""Files."""


def failed_files(failed: list[str]) -> list[str]:
    """Return the files of failed tests by name; nothing where they are too many to be chance."""
    files = sorted({name.partition("::")[0] for name in failed})
    return files if len(files) <= MOST else []


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Run them, and let that decide."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    a_worker = hasattr(session.config, "workerinput")
    if a_worker or reporter is None or session.exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    failed = [one.nodeid for kind in ("failed", "error") for one in reporter.stats.get(kind, ())]
    files = failed_files(failed)
    if not files:
        return
    told = f"failed beside others: {', '.join(failed)}; {', '.join(files)} once more, alone"
    print(f"\n{told}", flush=True)
    again = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    chosen = session.config.getoption("markexpr")
    done = subprocess.run([*again, *(["-m", chosen] if chosen else []), *files], check=False)
    print(f"{'passed' if done.returncode == 0 else 'failed'} alone, after it had {told}", flush=True)
    if done.returncode == 0:
        session.exitstatus = pytest.ExitCode.OK
