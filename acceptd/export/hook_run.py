"""Runs one hook command, without privileges and within its time, and says how it ended. Standard library only.

Started by :mod:`acceptd.export.hook` in an interpreter of its own (``python -I -S``), never imported by the
daemon: it forks, gives up rights and kills. Its standard input is the order, one JSON object: ``command``,
``parent`` (the process that orders it), ``uid`` and ``gid`` (null: keep them), ``seconds``, ``most`` (bytes that
are kept of what the command says) and ``event`` (text for the command's standard input). Its answer is one JSON
object on standard output.

All that the command starts ends with it: this process adopts orphans (prctl(2), PR_SET_CHILD_SUBREAPER), and kills
until none of its descendants is left, also of those who left the process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import sys
import time
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER = 1, 38, 36
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}
CHUNK = 65536


def main() -> None:
    """Take the order, run the command, answer."""
    order = json.loads(sys.stdin.buffer.read())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _end)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # the daemon's end is the hook's
    if os.getppid() != order["parent"]:  # it ended before the kernel was asked to tell of it
        _end(0, None)
    try:
        answer = run(order, libc)
    finally:
        kill_all()
    json.dump(answer, sys.stdout)


def _end(_number: int, _frame: object) -> NoReturn:
    kill_all()
    os._exit(143)


def run(order: dict[str, Any], libc: Any) -> dict[str, Any]:
    """Return how the command ended: ``code`` (negative: the signal), ``late``, ``said`` and ``cut``."""
    given, give = os.pipe()
    hear, spoken = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another program takes its place: nothing can be measured in it
        _become(order, libc, given, spoken)
    os.close(given)
    os.close(spoken)
    os.set_blocking(give, False)
    os.set_blocking(hear, False)
    said, cut, late = _attend(order, child, give, hear)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "late": late,
        "said": said.decode("utf-8", "replace"),
        "cut": cut,
    }


def _become(order: dict[str, Any], libc: Any, given: int, spoken: int) -> None:  # pragma: no cover - as above
    """Be the command: own session, no rights, no descriptors, a plain environment."""
    try:
        os.setsid()
        for number, descriptor in ((0, given), (1, spoken), (2, spoken)):
            os.dup2(descriptor, number)
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.umask(0o077)
        os.chdir("/")
        for number in (signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if order["uid"] is not None:
            os.setgroups([])
            os.setresgid(order["gid"], order["gid"], order["gid"])
            os.setresuid(order["uid"], order["uid"], order["uid"])
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            os._exit(126)
        os.execve(order["command"][0], order["command"], ENVIRONMENT)  # noqa: S606 - no shell is meant
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not go on
        os.write(2, f"cannot be started: {error}\n".encode())
    os._exit(127)


def _attend(order: dict[str, Any], child: int, give: int, hear: int) -> tuple[bytearray, bool, bool]:
    """Feed the command and hear it until it ends or its time is over; return what it said."""
    waiting = memoryview(order["event"].encode())
    said, cut, due = bytearray(), False, time.monotonic() + order["seconds"]
    ended = os.pidfd_open(child)
    with selectors.DefaultSelector() as ready:
        ready.register(ended, selectors.EVENT_READ)
        ready.register(hear, selectors.EVENT_READ)
        ready.register(give, selectors.EVENT_WRITE)
        over = False
        while not over and (left := due - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                if key.fd == ended:
                    over = True
                elif key.fd == give:
                    with contextlib.suppress(BrokenPipeError):
                        waiting = waiting[os.write(give, waiting[:CHUNK]) :]
                        if waiting:
                            continue
                    ready.unregister(give)
                    os.close(give)
                else:
                    part = os.read(hear, CHUNK)
                    cut |= len(said) + len(part) > order["most"]
                    said += part[: max(0, order["most"] - len(said))]
                    if not part:
                        ready.unregister(hear)
        while over and (part := _rest(hear)):  # what it said last
            cut |= len(said) + len(part) > order["most"]
            said += part[: max(0, order["most"] - len(said))]
            if cut:
                break
    os.close(ended)
    return said, cut, not over


def _rest(hear: int) -> bytes:
    try:
        return os.read(hear, CHUNK)
    except BlockingIOError:
        return b""


def kill_all() -> None:
    """Kill children until there is none: whose parent died becomes one of ours."""
    me = os.getpid()
    while True:
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


if __name__ == "__main__":
    main()
