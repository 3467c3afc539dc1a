"""Commands without the second that loading them costs: each is forked from a process that has loaded them all.

What runs is ``acceptd.__main__.run`` in a process of its own, with the words, environment, directory and
descriptors that it is given; only its imports have been done before. Start-up itself is tested where a test
starts a cold interpreter (tests/unit/test_cli_*.py, tests/acceptance/test_main_job.py, test_commands.py).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from acceptd.record import failpoint
from tests import steady

ROOT = Path(__file__).resolve().parent.parent
ARMING = "ACCEPTD_TEST_ARMING"
"""Names the file that a running command reads its failpoint from, once it gets SIGUSR2."""
GATE = "ACCEPTD_TEST_GATE"
"""Names the FIFO at which a command waits before it begins, until somebody opens its other end."""
_MOST = 1 << 18
"""Bytes of one order: the words and the environment."""


class Process:
    """A command that runs: as much of `subprocess.Popen` as tests use.

    With ``code``, that runs in its place as ``python -c`` would run it, with ``words`` as its arguments.
    """

    def __init__(
        self,
        *words: str,
        code: str = "",
        environment: Mapping[str, str] | None = None,
        stdout: IO[Any] | int = subprocess.DEVNULL,
        stderr: IO[Any] | int = subprocess.DEVNULL,
    ) -> None:
        self.args = ["acceptd", *words]
        self.returncode: int | None = None
        variables = dict(os.environ if environment is None else environment)
        order = json.dumps({"words": words, "code": code, "environment": variables})
        told, tell = os.pipe()
        with open(os.devnull, "r+b") as null:
            files = [null, *(null if one == subprocess.DEVNULL else one for one in (stdout, stderr))]
            numbers = [one if isinstance(one, int) else one.fileno() for one in files]
            socket.send_fds(_warm(), [order.encode()], [*numbers, tell])
        os.close(tell)
        self._told = told
        self.pid = int(self._line())

    def _line(self) -> bytes:
        text = b""
        while not text.endswith(b"\n"):
            more = os.read(self._told, 1)
            assert more, "the process that starts commands has ended"
            text += more
        return text

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code (-n: ended by signal n); raise TimeoutExpired where that takes longer."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(self._line())
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it unless it has ended."""
        self.send_signal(signal.SIGKILL)


def run(*words: str, code: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command (or ``code``) to its end, with these variables added; return its code and what it said."""
    variables = {**os.environ, **environment}
    with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
        ended = Process(*words, code=code, environment=variables, stdout=out, stderr=err).wait()
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(["acceptd", *words], ended, *said)


@functools.cache
def _warm() -> socket.socket:
    """Start the process that starts commands, once in a test process; it ends with its socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.commands", str(theirs.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )

    @atexit.register
    def end() -> None:
        ours.close()
        server.wait()

    return ours


# -- the other side


def _serve(orders: socket.socket) -> None:
    """Load every command, then start what is ordered. Returns in the process of each command."""
    package = importlib.import_module("acceptd.cli")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"acceptd.cli.{module.name}")
    importlib.import_module("acceptd.daemon")
    assert not {"numpy", "onnx", "onnxruntime", "google"} & set(sys.modules), "a command imports a model library"
    if not steady.RANDOM:
        steady.secrets()
    gc.collect()
    gc.freeze()
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, _MOST, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not data:
            os._exit(0)
        if os.fork() == 0 and _start(orders, json.loads(data), descriptors):
            return
        for number in descriptors:
            os.close(number)


def _start(orders: socket.socket, order: dict[str, Any], descriptors: list[int]) -> bool:
    """Start one command and tell how it ends. Returns, with true, only in its own process."""
    orders.close()
    *standard, tell = descriptors
    child = os.fork()
    if child == 0:
        os.close(tell)
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(order["environment"])
        _become(order)
        return True
    for number in (*standard, 0, 1, 2):
        os.close(number)
    os.write(tell, b"%d\n" % child)
    os.write(tell, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _become(order: dict[str, Any]) -> None:
    """Put the module that is to run in the place of this one: the name of a command comes from there."""
    if order["code"]:
        module, first = types.ModuleType("__main__"), "-c"
        module.__dict__["run"] = functools.partial(exec, order["code"], module.__dict__)
    else:
        module = importlib.import_module("acceptd.__main__")
        first = str(module.__file__)
    sys.modules["__main__"] = module
    sys.argv = [first, *order["words"]]
    if os.environ.pop(steady.KEYS, ""):
        steady.signing_keys()
    if path := os.environ.pop(ARMING, ""):
        signal.signal(signal.SIGUSR2, lambda _number, _frame: _arm(Path(path)))
    if gate := os.environ.pop(GATE, ""):
        with open(gate, "rb"):
            pass


def _arm(order: Path) -> None:
    """Set the failpoint that ``order`` names, and take the file away: that tells that it is set."""
    os.environ[failpoint.VARIABLE] = order.read_text()
    order.unlink()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.modules["__main__"].run()
