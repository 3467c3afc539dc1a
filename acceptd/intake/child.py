"""One sealer process, and its start ahead of time. Imports little: a command that will seal something starts it
before it has loaded itself."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import acceptd
from acceptd import powers
from acceptd.errors import GivenUpError

_REAP_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.1
"""So often a long sealing looks whether it is cancelled."""


class LostError(Exception):
    """The sealer process ended without a reply."""


class Child:
    """One sealer process and its socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs, powers.lent(powers.DAC_OVERRIDE):  # to read drops that a team owns
                self._process = self._started(theirs.fileno())
        except BaseException:
            ours.close()
            raise
        self._socket = ours

    @staticmethod
    def _started(descriptor: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "acceptd.intake.sealer", str(descriptor)],
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(Path(acceptd.__file__).parents[1]),
                "PYDANTIC_DISABLE_PLUGINS": "__all__",  # looking for some costs a third of the start
            },
            stdin=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C is the daemon's to handle
        )

    def ask(self, order: dict[str, Any], deadline: float, cancelled: Callable[[], bool]) -> dict[str, Any]:
        """Return the reply; raise TimeoutError at ``deadline`` (monotonic seconds), LostError at the end.

        Raises GivenUpError soon after ``cancelled`` says so; whoever asked kills the process then.
        """
        received = bytearray()
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            self._socket.sendall(json.dumps(order).encode() + b"\n")
            while not received.endswith(b"\n"):
                left = max(deadline - time.monotonic(), 0.001)
                self._socket.settimeout(min(left, LOOK_SECONDS))
                try:
                    part = self._socket.recv(1 << 18)
                except TimeoutError:
                    if cancelled():
                        raise GivenUpError("sealing was cancelled") from None
                    if left > LOOK_SECONDS:
                        continue
                    raise
                if not part:
                    raise LostError
                received += part
        except TimeoutError:
            raise
        except OSError as error:
            raise LostError from error
        reply: dict[str, Any] = json.loads(received)
        return reply

    def kill(self) -> None:
        """Kill and reap. A process that hangs in the kernel is left to die when its read returns."""
        self._socket.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_SECONDS)
        if self._process.returncode is None:
            unreaped.append(self._process)


unreaped: list[subprocess.Popen[bytes]] = []
"""Killed processes that the kernel has not let go; polled at each start, so that no zombie stays."""

_ahead: list[Child] = []


def begin() -> None:
    """Start a process for the first :func:`first` to come; nothing where that fails, which is told there then.

    It gets ready (0.2 s) while its starter imports what it needs. Where nobody comes it ends with its starter.
    """
    with contextlib.suppress(OSError):
        _ahead.append(Child())


def first() -> Child:
    """Return the process that :func:`begin` started, or a new one. Raises OSError: it cannot be started."""
    return _ahead.pop() if _ahead else Child()
