"""Tries each wall and limit on this host, from inside a job, and names the remedy for what does not hold."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from typing import Final

from acceptd.cell import launcher, refused, runtime, syscalls
from acceptd.cell.check import Check, State
from acceptd.cell.client import Cell
from acceptd.cell.limits import job_limits
from acceptd.cell.place import temporary_place
from acceptd.errors import AcceptdError
from acceptd.evidence import JobRecord
from acceptd.policy.policy import LimitsTable
from acceptd.policy.profile import Profile

MEANING: Final[dict[str, tuple[str, str]]] = {
    "namespaces": (
        "a job sees no process, user or IPC object of the host",
        (
            "allow user namespaces: sysctl user.max_user_namespaces=10000 (on Ubuntu also"
            " kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap)"
        ),
    ),
    "root": (
        "a job's file system holds only its own named files",
        "allow mounts in user namespaces; some container hosts forbid them (run on the host, or as root)",
    ),
    "network": ("a job has no network at all", "allow network namespaces in user namespaces"),
    "landlock": (
        "the kernel refuses every file but the named ones even if the private root had a hole",
        "use a kernel from 5.13 on with Landlock enabled (lsm=landlock,... on the kernel command line)",
    ),
    "seccomp": (
        "a job can make about seventy system calls and no other",
        "install libseccomp: apt-get install libseccomp2",
    ),
    "capabilities": (
        "a job holds no capability, not even in its own namespace",
        "report it: this should always hold",
    ),
    "rlimits": (
        "CPU time, memory, output and descriptors are bounded",
        "raise the hard limits of the daemon (ulimit)",
    ),
    "memory_cgroup": (
        "the kernel itself stops a job at its memory budget, page cache included",
        (
            "without it RLIMIT_DATA and a watcher bound memory. It needs cgroup v2 with its memory and pids"
            " controllers delegated: Delegate=memory pids and ProtectControlGroups=no in a drop-in of its unit"
        ),
    ),
    "separate_uid": (
        "a job that escaped every other wall would still not be the daemon's user",
        "start the daemon by its systemd unit, which gives it CAP_SETUID, CAP_SETGID and CAP_KILL, or as root",
    ),
}


_PROBE: Final = """
facts = {}
try:
    os.listdir('/etc'); facts['root'] = 'the host is visible'
except OSError as error:
    facts['root'] = ''
try:
    socket.socket(); facts['network'] = 'a socket could be opened'
except OSError as error:
    facts['network'] = ''
facts['pid'] = os.getpid()
facts['uid'] = os.getuid()
note(**facts)
"""


def examine(profiles: Sequence[Profile] = ()) -> list[Check]:
    """Start a cell of one's own and prove each wall, and look at the runtimes of ``profiles``.

    Never raises for a wall or a runtime that is missing.
    """
    with temporary_place("acceptd-doctor-") as home:
        sealed = home / "sealed"
        sealed.mkdir(mode=0o755)
        try:
            with Cell(sealed, testing=True) as cell:
                record = cell.run(
                    "attack",
                    files={},
                    spec={"source": _PROBE},
                    limits=job_limits("attack", LimitsTable(run_cpu_seconds=5)),
                    required_walls=[],
                )
                return _walls(cell, record) + runtime.checks(cell, profiles)
        except AcceptdError as error:
            return _no_cell(getattr(error, "message", str(error)))


def _walls(cell: Cell, record: JobRecord) -> list[Check]:
    states: dict[str, State] = dict(record.walls.states) if record.walls else {}
    notes = dict(record.walls.notes) if record.walls else {}
    # Of its cgroup the job's record says more than the host: whether the move worked.
    states = {name: _state(value) for name, value in cell.outer_states.items()} | states
    notes = cell.outer_notes | notes
    facts = record.notes[0].facts if record.notes else {}
    for name in ("root", "network"):
        if facts.get(name):
            states[name], notes[name] = "failed", str(facts[name])
    if facts.get("pid") != 2:
        states["namespaces"], notes["namespaces"] = "failed", record.message or "the probe job did not report"
    checks = []
    for name, (meaning, remedy) in MEANING.items():
        state = states.get(name, "failed")
        abi = f"ABI {record.walls.landlock_abi}" if name == "landlock" and record.walls else ""
        checks.append(Check(name, state, meaning, notes.get(name, abi), "" if state == "enforced" else remedy))
    return checks


def _no_cell(reason: str) -> list[Check]:
    seccomp = syscalls.available()
    checks = []
    for name, (meaning, remedy) in MEANING.items():
        # One wall says why; what the others would do nobody knows before that is mended.
        seen, mend = "not tried: the cell did not start", ""
        if name == "namespaces":
            seen = reason
            mend = refused.remedy(reason) or remedy
            if shutil.which("bwrap") is None:
                mend = "apt-get install bubblewrap"
        if name == "seccomp" and seccomp:
            seen, mend = seccomp, remedy
        checks.append(Check(name, "failed", meaning, seen, mend))
    return checks


def _state(value: str) -> State:
    return "enforced" if value == "enforced" else "unavailable" if value == "unavailable" else "failed"


def host() -> dict[str, str]:
    """Return what kind of host this is."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "bubblewrap": shutil.which("bwrap") or "not installed",
        "started_by": "root" if os.getuid() == 0 else f"uid {os.getuid()}",
        "cell_uid": str(launcher.cell_ids()[0]),
    }
