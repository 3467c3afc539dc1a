"""Starts the outer wall (bubblewrap) with the warm parent inside, as root or as another user.

Wall ``separate_uid``: as root the parent drops to an unprivileged uid of the cell's own before it imports
anything; a daemon that is not root, but may change uids (:mod:`acceptd.powers`), starts bubblewrap itself
under the cell's uid. As an ordinary user everything keeps the user's kernel uid, and that wall is reported
``unavailable``. See ``docs/threat-model.md``.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from acceptd import powers
from acceptd.bytecode import compiled
from acceptd.cell import cgroup, guard
from acceptd.errors import CellUnavailableError, InternalError
from acceptd.runtime.interpreter import Interpreter, examine
from acceptd.runtime.told import Told

Area = Literal["sealed", "store"]
CELL_USER = "acceptd-cell"
FALLBACK_CELL_UID = 59_917
"""Used by root where no user ``acceptd-cell`` exists: outside every range that Debian hands out."""
SEALED_INSIDE = "/sealed"
STORE_INSIDE = "/store"
AREAS: Final[dict[Area, str]] = {"sealed": SEALED_INSIDE, "store": STORE_INSIDE}
"""Where the parent sees what jobs may read files of; a job sees its own named files and neither place."""
STARTUP_SECONDS = 60.0
_HELLO_BYTES = 1 << 18
TOPOLOGY = ("/sys/devices/system/cpu", "/sys/devices/system/node")
"""What a provider beside the CPU's own may want to read of the processors, read-only (sandbox/preloaded.py)."""
_ENVIRONMENT = {
    "ORT_DISABLE_TELEMETRY": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "PATH": "/usr/bin:/bin",
}


@dataclass(frozen=True, slots=True)
class Parent:
    """A started warm parent: process of the outer wall, control socket, what it said of itself."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    told: Told
    anonymous: int
    """RssAnon + RssShmem in bytes when warm: what each fork begins with."""
    resident: int
    """VmRSS in bytes when warm."""


def cell_ids() -> tuple[int, int]:
    """Return (uid, gid) that jobs run as: the cell's own where we may change uids, else the caller's."""
    if not powers.drops():
        return os.getuid(), os.getgid()
    try:
        entry = pwd.getpwnam(CELL_USER)
    except KeyError:
        return FALLBACK_CELL_UID, FALLBACK_CELL_UID
    return entry.pw_uid, entry.pw_gid


def outer_walls() -> tuple[dict[str, str], dict[str, str]]:
    """Return (states, notes) of the walls that only the trusted side can see."""
    states, notes = {}, {}
    if powers.drops():
        states["separate_uid"] = "enforced"
    else:
        states["separate_uid"] = "unavailable"
        notes["separate_uid"] = "started by an ordinary user without CAP_SETUID: jobs keep the user's kernel uid"
    area, why = cgroup.area()
    states["memory_cgroup"] = "unavailable" if area is None else "enforced"
    if area is None:
        notes["memory_cgroup"] = f"{why}; rlimits and the resident-set watcher bound memory"
    return states, notes


def find_bwrap() -> str:
    """Return the path of bubblewrap; raise CellUnavailableError with the remedy."""
    path = shutil.which("bwrap")
    if path is None:
        raise CellUnavailableError(
            "bubblewrap (bwrap) is not installed: the outer wall cannot be built",
            remedy="install it: apt-get install bubblewrap",
        )
    return path


def readable_paths(interpreter: Interpreter) -> tuple[str, ...]:
    """Return the host directories that the interpreter needs, shortest first, none below another."""
    wanted = {
        "/usr",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
        interpreter.prefix,
        interpreter.base_prefix,
        os.path.dirname(interpreter.path),
        os.path.dirname(os.path.realpath(interpreter.path)),
        *interpreter.stdlib,
        *interpreter.directories,
    }
    return _outermost(wanted)


def _outermost(wanted: set[str]) -> tuple[str, ...]:
    real = {os.path.realpath(path) for path in wanted} | wanted
    kept: list[str] = []
    for path in sorted((p for p in real if os.path.exists(p)), key=lambda p: (p.count("/"), p)):
        if not any(path == above or path.startswith(above + "/") for above in kept):
            kept.append(path)
    return tuple(kept)


def bwrap_arguments(
    bwrap: str,
    sealed: Path,
    package: Path,
    uid: int,
    gid: int,
    *,
    interpreter: Interpreter | None = None,
    role: str = "all",
    operators: Sequence[str] = (),
    providers: Sequence[str] = (),
    store: Path | None = None,
) -> list[str]:
    """Return the whole command line: only read-only binds, no network, nothing inherited."""
    interpreter = interpreter or examine()
    command = [
        bwrap,
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-net",
        "--unshare-cgroup-try",
    ]
    command += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    if os.getuid() == 0:
        # Without --unshare-user the drop to the cell's uid inside is a real one; root inside a user
        # namespace would still be kernel uid 0 outside.
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    made: set[str] = set()
    readable = readable_paths(interpreter)
    # A custom-operator library by the very path that the profile lists: the job's name for it must be the same.
    listed = [path for path in operators if not any(path.startswith(above + "/") for above in readable)]
    areas = {str(sealed): SEALED_INSIDE} | ({str(store): STORE_INSIDE} if store is not None else {})
    for path in (*readable, *listed, *areas):
        inside = areas.get(path, path)
        for above in [str(p) for p in reversed(Path(inside).parents)][1:]:
            if above not in made:
                # bubblewrap would make these 0700 and owned by root, and the parent loses its interpreter.
                command += ["--perms", "0755", "--dir", above]
                made.add(above)
        if path != inside or path in listed or not os.path.islink(path):
            command += ["--ro-bind", path, inside]
        else:
            command += ["--symlink", os.readlink(path), inside]
    if providers:
        for folder in ("/sys", "/sys/devices", "/sys/devices/system"):
            command += ["--perms", "0755", "--dir", folder]
        for path in TOPOLOGY:
            command += ["--ro-bind-try", path, path]
    for folder in ("/opt", "/opt/acceptd", "/cell"):
        command += ["--perms", "0755", "--dir", folder]
    command += ["--ro-bind", str(package), "/opt/acceptd/sandbox", "--proc", "/proc", "--dev", "/dev"]
    search = ":".join(("/opt/acceptd", *interpreter.directories))
    for name, value in {**_ENVIRONMENT, "PYTHONPATH": search}.items():
        command += ["--setenv", name, value]
    command += ["--chdir", "/"]
    # -P: the working directory is no place for modules; PYTHONPATH above is ours, the environment is cleared.
    command += ["--", interpreter.path, "-s", "-P", "-m", "sandbox.parent", str(uid), str(gid)]
    return [*command, role, json.dumps({"providers": list(providers), "operators": list(operators)})]


def start(
    sealed: Path,
    *,
    interpreter: Interpreter | None = None,
    role: str = "all",
    operators: Sequence[str] = (),
    providers: Sequence[str] = (),
    store: Path | None = None,
    testing: bool = False,
    begun: Callable[[subprocess.Popen[bytes] | None], None] = lambda _process: None,
) -> Parent:
    """Start a warm parent that sees ``sealed`` read-only at ``/sealed``; wait until it is warm.

    ``store`` is the directory of approved bundles, seen read-only at ``/store``; loaders can read it anyway.

    ``interpreter`` defaults to acceptd's own, ``role`` says which jobs it serves, ``operators`` are the
    custom-operator libraries that it loads, ``providers`` those whose libraries it loads. ``testing`` adds
    the ``attack`` job kind. ``begun`` is given the process while it gets warm, for who wants to kill it, and None
    once that is over. Must be called from a thread that lives as long as the parent shall live: PDEATHSIG follows
    the thread (measured).

    Raises:
        CellUnavailableError: the outer wall or the parent could not be started here, and why.
    """
    import sandbox

    uid, gid = cell_ids()
    if powers.drops():
        # The cell's uid walks through the sealed area but cannot list it; nobody else gets in.
        _share(sealed, gid)
    package = Path(sandbox.__file__).parent
    interpreter = interpreter or examine()
    if interpreter.own:
        compiled(package)
    command = bwrap_arguments(
        find_bwrap(),
        sealed,
        package,
        uid,
        gid,
        interpreter=interpreter,
        role=role,
        operators=operators,
        providers=providers,
        store=store,
    )
    if testing:
        place = command.index("--chdir")
        command[place:place] = ["--setenv", "ACCEPTD_CELL_TESTING", "1"]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        # bubblewrap passes inherited descriptors through: exactly this one, and the parent is told its number.
        process = subprocess.Popen(
            guard.guarded([*command, str(guard.CONTROL)]),
            env={},  # bubblewrap itself heeds LD_PRELOAD and LD_LIBRARY_PATH of whoever starts acceptd
            stdin=subprocess.PIPE,
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            process_group=0,  # see `end` and the guard
            # Root drops inside: bubblewrap as root builds the same root without a user namespace around it.
            **({} if os.getuid() == 0 else powers.as_user(uid, gid)),
        )
    begun(process)
    ours.settimeout(STARTUP_SECONDS)
    try:
        hello = ours.recv(_HELLO_BYTES)
    except (TimeoutError, ConnectionResetError):
        hello = b""
    finally:
        begun(None)
    if hello[:1] != b"R":
        end(process)
        ours.close()  # first: who was past dying with bubblewrap ends with the socket, and its complaint with it
        _, complaint = process.communicate()
        whose = "" if role == "all" else f" with {interpreter.path}"
        raise CellUnavailableError(
            f"the cell did not start{whose}: {_last_line(complaint)}",
            remedy="run `acceptd doctor`: it tries each wall and names what is missing",
        )
    guard.stands(process)
    ours.settimeout(None)
    try:
        told, anonymous, resident = hello_of(hello[1:])
    except InternalError:
        end(process)
        process.communicate()
        ours.close()
        raise
    return Parent(process, ours, told, anonymous, resident)


def hello_of(data: bytes) -> tuple[Told, int, int]:
    """Return a warm parent's first words, with its anonymous and its resident bytes; InternalError for others."""
    try:
        facts = json.loads(data)
        told, anonymous, resident = Told.of(facts), int(facts["anonymous"]), int(facts["resident"])
    except (AttributeError, KeyError, IndexError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InternalError(f"the parent's hello: {error!r:.200}") from None
    if told.threads != 1:
        raise InternalError(f"the warm parent has {told.threads} threads; forking it would not be safe")
    return told, anonymous, resident


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill an outer wall that may not be built yet, with all of it.

    bubblewrap's first child waits for a word of its parent's before it asks to die with it: killing the parent
    alone leaves it behind for ever, with our pipe open. Both are in one process group until the cell stands.
    Where we are killed ourselves, the guard does this (:mod:`acceptd.cell.guard`).
    """
    if process.returncode is None:  # not reaped: the number is still its own
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _share(sealed: Path, gid: int) -> None:
    try:
        os.chown(sealed, -1, gid)
        sealed.chmod(0o710)
    except PermissionError as error:
        raise CellUnavailableError(
            f"{sealed} cannot be given to the cell's group {gid}: {error.strerror}",
            remedy=f"SupplementaryGroups={CELL_USER} in the unit, and a state that the daemon's user owns",
        ) from error


def _last_line(complaint: bytes) -> str:
    lines = complaint.decode("utf-8", "backslashreplace").strip().splitlines()
    return lines[-1][:300] if lines else "no reason given"
