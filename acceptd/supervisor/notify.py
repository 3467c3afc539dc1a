"""The service manager's notification protocol: datagrams of ``KEY=value`` lines to the socket ``NOTIFY_SOCKET``.

Source: sd_notify(3), "Notes": the protocol is stable and may be reimplemented; sd_watchdog_enabled(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Final

_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_LONGEST: Final = 500


class Notifier:
    """Tells the service manager; does nothing, and costs nothing, where there is none.

    ``watchdog_seconds`` is how long the manager waits for a sign of life; 0.0: it does not ask for one.
    """

    def __init__(self, address: str = "", watchdog_seconds: float = 0.0) -> None:
        self.address = address
        self.watchdog_seconds = watchdog_seconds

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Notifier:
        """Return the notifier that the environment asks for, and take it out: no child speaks for the daemon."""
        address, microseconds, pid = (environment.pop(name, "") for name in _VARIABLES)
        # "@name": an abstract socket. A manager outside of a virtual machine (vsock:…) is not spoken to.
        if not address.startswith(("/", "@")):
            return cls()
        mine = pid in {"", str(os.getpid())}
        asked = mine and microseconds.isascii() and microseconds.isdecimal() and len(microseconds) < 19
        return cls(address, int(microseconds) / 1e6 if asked else 0.0)

    def ready(self, status: str) -> None:
        """Begun, or read anew: all that was promised stands."""
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """The policy is read anew; :meth:`ready` ends it."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}", _status("reading the policy"))

    def stopping(self, status: str) -> None:
        """Nothing more is begun."""
        self._send("STOPPING=1", _status(status))

    def status(self, text: str) -> None:
        """Say in one line how things stand (``systemctl status``)."""
        self._send(_status(text))

    def alive(self) -> None:
        """Give the sign of life that the watchdog waits for."""
        self._send("WATCHDOG=1")

    def more_time(self, seconds: float) -> None:
        """Ask for so many seconds more to start or to stop, from now on."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def _send(self, *lines: str) -> None:
        if not self.address:
            return
        name = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        # A manager that is being replaced, or whose queue is full, must not stop the daemon.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(lines).encode(), name)


def _status(text: str) -> str:
    """Return the line; one that broke would be read as further keys."""
    return "STATUS=" + "".join(char if char.isprintable() else "?" for char in text)[:_LONGEST]
