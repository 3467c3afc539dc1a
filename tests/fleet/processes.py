"""Processes of a fleet: started, killed, stopped for a while; whoever waits is told by what they log.

Nobody waits by the clock: each line of a log, each end of a process rings a bell, and whoever waits looks again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import commands

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0
"""Seconds until a wait gives up. Nothing passes by waiting: this only bounds a failure."""
LOOK_AGAIN = 2.0
"""Seconds after which who waits looks without a ring: inotify may lose events, as it may those of an inbox."""


class Bell:
    """Rings whenever anything happened; whoever waits looks again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def ring(self) -> None:
        """Let everybody who waits look again."""
        with self._changed:
            self._changed.notify_all()

    def until(self, holds: Callable[[], bool], what: str | Callable[[], str], seconds: float = PATIENCE) -> None:
        """Wait until ``holds``, which is asked after each ring; raise AssertionError with ``what`` after so
        long."""
        due = time.monotonic() + seconds
        with self._changed:
            while not holds():
                if (left := due - time.monotonic()) <= 0:
                    told = what if isinstance(what, str) else what()
                    raise AssertionError(f"not within {seconds:g} s: {told}")
                self._changed.wait(min(left, LOOK_AGAIN))


class Running:
    """One command of this checkout in a process of its own, its log kept and read as it comes.

    Cold in an interpreter that loads everything itself, as production has it; warm forked from one that has, which
    is what a test that starts daemons often can afford (:mod:`tests.commands`): only such a one can be armed.
    """

    def __init__(
        self,
        words: Sequence[str],
        log: Path,
        bell: Bell,
        *,
        inside: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        warm: bool = False,
    ) -> None:
        """Start ``acceptd WORDS``; ``inside`` comes before a cold one's command line (``nsenter …``)."""
        self.log, self._bell = log, bell
        self.events: list[dict[str, Any]] = []
        """What it has logged since it was started, each a JSON line."""
        self.paused = False
        self.code: int | None = None
        """The exit code, -n where signal n ended it; None while it runs."""
        self._lock = threading.Lock()
        variables = {**os.environ, **(environment or {})}
        reader, writer = os.pipe()
        if warm:
            assert not inside
            self._arming = log.with_suffix(".arming")
            variables[commands.ARMING] = str(self._arming)
            self._process: subprocess.Popen[bytes] | commands.Process = commands.Process(
                *words, environment=variables, stderr=writer
            )
        else:
            self._process = subprocess.Popen(
                # It dies with whoever started it: a test that is killed leaves no daemon behind.
                [*inside, "setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "acceptd", *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writer,
                env=variables,
                process_group=0,
            )
        os.close(writer)
        self.pid = self._process.pid
        name = f"log of {words[0]} {self.pid}"
        self._reader = threading.Thread(target=self._read, args=(reader,), name=name, daemon=True)
        self._reader.start()

    def _read(self, reader: int) -> None:
        with open(reader, "rb") as told, self.log.open("ab") as file:
            for line in told:
                file.write(line)
                file.flush()
                try:
                    event = json.loads(line)
                except ValueError:
                    event = {"event": line.decode(errors="replace").rstrip(), "raw": True}
                self.events.append(event)
                self._bell.ring()
        # All of its log is read, so it has ended. One thread alone waits for it, and nobody signals what is gone.
        with self._lock:
            self.code = self._process.wait()
        self._bell.ring()

    def ended(self) -> bool:
        """Whether it has ended, all of its log read."""
        return not self._reader.is_alive()

    def said(self, event: str, **fields: object) -> int:
        """Return how often it has logged an event with these fields since it was started."""
        return sum(
            one.get("event") == event and all(one.get(key) == value for key, value in fields.items())
            for one in list(self.events)
        )

    def ready(self) -> None:
        """Wait until it says that it is ready."""
        self._bell.until(lambda: self.said("ready") > 0 or self.ended(), lambda: f"ready; {self.tail()}")
        assert self.said("ready"), f"it ended with {self.code} before it was ready: {self.tail()}"

    def tail(self, most: int = 4000) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-most:]

    def send(self, number: int) -> None:
        """Send a signal unless it has ended."""
        with self._lock:
            if self.code is None:
                os.kill(self.pid, number)

    def arm(self, failpoint: str) -> None:
        """Let it die where it next passes ``failpoint``; return once that is set."""
        self._arming.write_text(failpoint)
        self.send(signal.SIGUSR2)
        # Its own signal handler takes the file away, which rings no bell, and is done at its next bytecode.
        due = time.monotonic() + PATIENCE
        while self._arming.exists() and not self.ended():
            assert time.monotonic() < due, self.tail()
            time.sleep(0.005)

    def kill(self) -> None:
        """Kill it, as power loss does, and wait for its end. Its jobs die with it: that is the cell's promise."""
        self.send(signal.SIGKILL)
        self._reader.join(PATIENCE)
        assert self.ended(), f"something of it lives on: {self.tail()}"

    def pause(self) -> None:
        """Stop it where it stands until :meth:`resume`."""
        self.paused = True
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.paused = False
        self.send(signal.SIGCONT)

    def stop(self) -> None:
        """Stop it in order, and check that it ended well."""
        self.resume()
        self.send(signal.SIGTERM)
        self._reader.join(PATIENCE)
        if not self.ended():
            self.kill()
            raise AssertionError(f"it does not stop: {self.tail()}")
        assert self.code == 0, f"it ended with {self.code}: {self.tail()}"
