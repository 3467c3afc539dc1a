"""`make coverage`: a process that is killed writes first what was measured in it, and dies as it was to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
WRITES = 'pathlib.Path(sys.argv[1]).write_text("measured")'
MEASURED = f"""
import os, pathlib, signal, sys, threading
from tools import covered_kills
covered_kills.install(lambda: {WRITES})
"""
WAITS = """
print(flush=True)
signal.pause()
"""
KILLS = {
    "os.kill": "os.kill(pid, signal.SIGKILL)",
    "a process group": "os.killpg(pid, signal.SIGKILL)",
    "a pidfd": "signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)",
}


def started(tmp_path: Path, code: str) -> subprocess.Popen[str]:
    """Start a process in a group of its own, and wait for its first line."""
    words = [sys.executable, "-c", code, str(tmp_path / "written")]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "\n"
    return process


def killed(process: subprocess.Popen[str], kill: str) -> None:
    """Kill it from another measured process."""
    code = f"{MEASURED.replace(WRITES, 'None')}\npid = {process.pid}\n{kill}"
    with process:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_whoever_is_killed_by_a_test_writes_first(tmp_path: Path, kill: str) -> None:
    killed(started(tmp_path, MEASURED + WAITS), kill)
    assert (tmp_path / "written").read_text() == "measured"


def test_whoever_kills_itself_at_a_failpoint_writes_first(tmp_path: Path) -> None:
    code = MEASURED + "print(flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    with started(tmp_path, code) as process:
        assert process.wait() == -signal.SIGKILL
    assert (tmp_path / "written").read_text() == "measured"


def test_one_that_nobody_measures_or_that_is_stopped_is_killed_at_once(tmp_path: Path) -> None:
    killed(started(tmp_path, "import signal" + WAITS), KILLS["os.kill"])
    killed(
        started(tmp_path, MEASURED + "print(flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)"), KILLS["os.kill"]
    )
    assert not (tmp_path / "written").exists()


def test_a_kill_that_cannot_be_written_of_kills_all_the_same(tmp_path: Path) -> None:
    broken = MEASURED.replace(WRITES, "1 / 0")
    killed(started(tmp_path, broken + WAITS), KILLS["os.kill"])
