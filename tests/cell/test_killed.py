"""acceptd is killed while a cell is being built: nothing of the cell outlives it, also where bubblewrap's own
promise to die with its parent does not hold yet."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from acceptd.cell import launcher
from acceptd.cell.launcher import find_bwrap

pytestmark = [pytest.mark.cell, pytest.mark.any_uid]

PATIENCE = 120.0
"""Seconds that bound a failure; nothing passes by waiting."""
DRIVER = (
    "import sys; from pathlib import Path; from acceptd.cell import launcher; launcher.start(Path(sys.argv[1]))"
)
ROOT = Path(__file__).resolve().parents[2]


def building(sealed: Path, tmp_path: Path, bwrap: str) -> subprocess.Popen[bytes]:
    """Start a process that starts a cell, with a program in the place of bubblewrap's."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{bwrap}\n")
    program.chmod(0o755)
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(sealed)],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )


def ended(pidfd: int, seconds: float = PATIENCE) -> bool:
    """Whether the process ends within so long; seconds 0: whether it has."""
    return bool(select.select([pidfd], [], [], seconds)[0])


def test_bubblewraps_first_child_that_waits_for_a_word_of_it_does_not_wait_for_ever(
    sealed: Path, tmp_path: Path
) -> None:
    """The real one, stopped between its wish to die with us and its word to the child: there it waits for us."""
    for name in ("told", "held"):
        os.mkfifo(tmp_path / name)
    real, told, held = find_bwrap(), tmp_path / "told", tmp_path / "held"
    hold = f'exec {real} --unshare-user --info-fd 9 --userns-block-fd 8 "$@" 8<>{held} 9>{told}'
    with building(sealed, tmp_path, hold) as acceptd:
        pidfd = os.pidfd_open(json.loads(told.read_text())["child-pid"])
        try:
            assert not ended(pidfd, 0)
            acceptd.kill()
            assert ended(pidfd), "bubblewrap's child outlives the process that was killed"
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)


def test_a_wall_that_has_asked_for_nothing_yet_ends_with_who_began_it(sealed: Path, tmp_path: Path) -> None:
    """A program that is nowhere yet, and a child of it."""
    told = tmp_path / "told"
    os.mkfifo(told)
    with building(sealed, tmp_path, f"sleep infinity &\necho $! $$ > {told}\nwait") as acceptd:
        pidfds = [os.pidfd_open(int(word)) for word in told.read_text().split()]
        try:
            assert [ended(one, 0) for one in pidfds] == [False, False]
            acceptd.kill()
            assert all(ended(one) for one in pidfds), "it outlives the process that was killed"
        finally:
            for one in pidfds:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(one, signal.SIGKILL)
                os.close(one)


def test_a_cell_that_stands_keeps_no_guard(sealed: Path) -> None:
    parent = launcher.start(sealed)
    try:
        leader = parent.process.pid
        found = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        for number in found:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # reaped meanwhile
                pidfd = os.pidfd_open(int(number))
                if Path(f"/proc/{number}/comm").read_text().strip() != "bwrap":
                    assert ended(pidfd), "the guard stays"
                os.close(pidfd)
        assert parent.process.poll() is None
    finally:
        launcher.end(parent.process)
        parent.process.communicate()
        parent.control.close()
