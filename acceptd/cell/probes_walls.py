"""Which walls stop which probe, each of them alone: measured, and held by ``tests/cell/test_matrix.py``."""

from __future__ import annotations

from typing import Final

from acceptd.cell.probes import Probe

SWITCHED: Final = ("root", "landlock", "capabilities", "seccomp", "rlimits")
"""The inner walls, which a test can switch off one by one."""
OUTER: Final = "outer"
"""What always stands: bubblewrap's root and namespaces, the job's own namespaces, the watcher outside."""
COLUMNS: Final = (OUTER, *SWITCHED)

_STOPPED: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    ("outer",): (
        "read a host file",
        "read a host file by a path that climbs",
        "read a host file through proc",
        "map a host file",
        "look at a host file",
        "read the environment through proc",
        "list the other submissions",
        "write beside the model",
        "write to the temporary directory",
        "write to shared memory",
        "overwrite the model",
        "append to the model",
        "truncate the model",
        "remove the model",
        "link a file",
        "link the model under another name",
        "make a directory",
        "make a FIFO",
        "make an unnamed file",
        "change a mode",
        "change an owner",
        "change the times",
        "resolve a name",
        "read the routes",
        "start a program",
        "open the memory of its parent",
        "signal everybody",
        "open its own memory",
        "reopen a descriptor for writing",
        "take a lease on the sealed file",
        "take more memory than its budget",
        "use more processor time than allowed",
        "flood standard error",
        "call swapon",
        "call swapoff",
        "call acct",
        "call setgroups",
        "call fanotify_init",
        "call syslog",
    ),
    ("rlimits",): (
        "open more descriptors than allowed",
        "start more threads than allowed",
    ),
    ("root",): (
        "hold a host directory by O_PATH",
        "ask whether the golden is there",
        "ask whether another submission is there",
    ),
    ("capabilities", "seccomp"): (
        "call pivot_root",
        "call move_mount",
        "call fsopen",
        "call fsmount",
        "call fspick",
        "call reboot",
        "call sethostname",
        "call setdomainname",
    ),
    ("landlock", "seccomp"): ("signal its parent",),
    ("root", "landlock"): (
        "list the root",
        "list the libraries",
        "open a device",
        "read the mounts",
        "read the command line of pid 1",
        "read the expected output",
        "read the expected output beside the model",
        "list the golden sets",
        "read another submission",
        "read another submission by a relative path",
        "read its own map",
        "list its descriptors",
    ),
    ("root", "seccomp"): (
        "go to another directory",
        "measure the file system",
    ),
    ("seccomp", "rlimits"): ("lock memory",),
    ("root", "landlock", "seccomp"): ("read the status of its parent",),
}

_BY_NAME: Final = {name: walls for walls, names in _STOPPED.items() for name in names}

_FOR_OWNER: Final[dict[str, tuple[str, ...]]] = {
    "write to shared memory": ("root", "landlock", "seccomp"),
    "list the other submissions": ("root", "landlock"),
    "take a lease on the sealed file": ("seccomp",),
}
"""Started by root, the cell's own uid (``separate_uid``) stops these; a user's job owns what the user owns."""


def walls_of(probe: Probe, *, owner: bool = False) -> tuple[str, ...]:
    """Return every wall that stops ``probe`` with all other inner walls off.

    A probe that the outer walls stop names them only. Most raw calls, and whatever is in no table, are
    stopped by seccomp alone. ``owner``: jobs keep the uid of an ordinary user who started the cell.
    """
    if owner and probe.name in _FOR_OWNER:
        return _FOR_OWNER[probe.name]
    return _BY_NAME.get(probe.name, ("seccomp",))
