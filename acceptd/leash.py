"""Runs a command of the operator that ends with acceptd, whatever it started. Standard library only.

``python -I -S leash.py PARENT PROGRAM ARGUMENT…``, never imported by the daemon. The command has this process's
standard input, output and error and is the leader of a session of its own; as it ended, this process ends, by the
same code or signal. A command may wait for a token to be touched, for ever: SIGTERM ends it, whatever it started,
when its time is over, and where acceptd itself is killed, the kernel sends that (prctl(2), PR_SET_PDEATHSIG): this
process kills what it has adopted (PR_SET_CHILD_SUBREAPER) until nothing is left. SIGKILL would set it free.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CANNOT_START = 127


def command(words: Sequence[str]) -> list[str]:
    """Return the command line that runs ``words`` on a leash of this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def main(parent: int, words: Sequence[str]) -> int:
    """Run ``words`` to their end; return the exit code, or end by the signal that ended them."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _end)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was asked to tell of it
        _end(0, None)
    child = os.fork()
    if child == 0:
        _become(words)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):  # an agent that it started in a session of its own may stay
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL's cannot be changed, and is as it must be
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _become(words: Sequence[str]) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.setsid()
        os.execvp(words[0], list(words))  # noqa: S606 - no shell is meant
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(CANNOT_START)


def _end(_number: int, _frame: object) -> NoReturn:
    kill_all()
    os._exit(128 + signal.SIGTERM)


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
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
