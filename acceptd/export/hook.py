"""A hook: one command of the operator that is told, on its standard input, of each release and revocation.

It has no privileges of acceptd: under root it runs as another user, and else inside a bubblewrap that shows of the
state what loaders read, read-only: no key, no held-out vector, no sealed byte and no ledger. No environment, no
descriptors, no new privileges, a process group and a time limit. What it says is capped and logged as one line.
That it fails undoes nothing.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptd.errors import ConfigError
from acceptd.export.settings import HookTable
from acceptd.policy.trusted import check_program
from acceptd.report.escape import line

MOST_SAID: Final = 4096
NOBODY: Final = "nobody"
SHOWN: Final = (
    *("keyring.json", "revocations.json", "rotations.json"),
    *("checkpoints", "outbox", "releases", "store"),
)
"""All that a hook of the daemon's own user sees of the state. A list of what it must not see would never be whole:
a write-ahead log, a half-made key and a cache come into being after it was written."""
_PATIENCE: Final = 30.0
"""Seconds beyond the hook's own for the process that ends it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How one run ended. ``problem`` is empty where the command ended with 0 in time."""

    problem: str
    said: str


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook as configured, ready to run. Safe from threads: each run is a process."""

    table: HookTable
    command: tuple[str, ...]
    uid: int | None
    gid: int | None

    @classmethod
    def of(cls, table: HookTable, state: Path) -> Hook:
        """Return the hook; raise ConfigError where a stranger could write its program, or its user is none."""
        where = f"hooks {table.name}: command"
        program = Path(table.command[0])
        check_program(where, program)
        if os.geteuid() == 0:
            user = _user(table)
            return cls(table, tuple(table.command), user.pw_uid, user.pw_gid)
        if table.user and _user(table).pw_uid != os.geteuid():
            raise ConfigError(f"hooks {table.name}: user: only root can run it as {table.user!r}")
        return cls(table, (*_without_secrets(state), *table.command), None, None)

    def run(self, event: Mapping[str, Any]) -> Ran:
        """Tell the command of one event and wait for its end."""
        order = {
            "parent": os.getpid(),
            "command": list(self.command),
            "uid": self.uid,
            "gid": self.gid,
            "seconds": self.table.seconds,
            "most": MOST_SAID,
            "event": json.dumps(event, ensure_ascii=True, sort_keys=True) + "\n",
        }
        starter = [sys.executable, "-I", "-S", str(Path(__file__).with_name("hook_run.py"))]
        limit = self.table.seconds + _PATIENCE
        try:
            done = subprocess.run(
                starter, input=json.dumps(order).encode(), capture_output=True, timeout=limit, env={}, check=False
            )
            answer = json.loads(done.stdout)
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            return Ran(f"it could not be run: {line(error, 300)}", "")
        said = line(answer["said"].strip() + (" … (cut)" if answer["cut"] else ""), 2000)
        if answer["late"]:
            return Ran(f"it was killed after {self.table.seconds:g} s", said)
        code = answer["code"]
        return Ran("" if code == 0 else f"it ended with {code}", said)


def _user(table: HookTable) -> pwd.struct_passwd:
    name = table.user or NOBODY
    try:
        user = pwd.getpwnam(name)
    except KeyError as error:
        raise ConfigError(f"hooks {table.name}: user: there is no user {name!r}") from error
    if user.pw_uid == 0:
        raise ConfigError(f"hooks {table.name}: user: a hook never runs as root", remedy="name another user")
    return user


def _without_secrets(state: Path) -> list[str]:
    """Return a bubblewrap that shows the host, of the state what loaders read, and no process.

    The daemon's user owns the keys; another user cannot be taken on without root.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise ConfigError("hooks: bubblewrap is not there", remedy="install it, or run the daemon as root")
    words = [program, "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--unshare-ipc"]
    place = state.resolve()  # a mount on a link would leave open where the link leads
    words += ["--die-with-parent", "--cap-drop", "ALL", "--tmpfs", str(place)]
    for name in SHOWN:
        words += ["--ro-bind-try", str(place / name), str(place / name)]
    return [*words, "--remount-ro", str(place), "--"]
