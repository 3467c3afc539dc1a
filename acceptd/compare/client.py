"""The trusted side's handle on the comparer process: spawn, ask, restart, stop. No numpy here."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

import acceptd
from acceptd import powers
from acceptd.bytecode import compiled
from acceptd.compare import protocol
from acceptd.compare.task import CompareTask
from acceptd.errors import InternalError
from acceptd.evidence import Statistics

COMPARE_USER: Final = "acceptd-compare"
NOBODY: Final = 65534
"""Where there is no such user. Others are ``nobody`` too, and until a process has made itself undumpable whoever
has its uid can take hold of it, with all that it is given later (ptrace(2), measured)."""
START_SECONDS: Final = 60.0
TASK_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 0.05
"""So often a request that waits for its turn looks whether it is still wanted."""


def compare_ids() -> tuple[int, int]:
    """Return (uid, gid) that the comparer runs as where we may change uids: a user of its own, else ``nobody``."""
    try:
        entry = pwd.getpwnam(COMPARE_USER)
    except KeyError:
        return NOBODY, NOBODY
    return entry.pw_uid, entry.pw_gid


class Comparer:
    """Owns one comparer process. Thread-safe: requests take turns.

    As root it needs an unprivileged ``uid`` (default: that of ``acceptd-compare``, else nobody's). The process is
    started at the first request, or by :meth:`start` so that it is warm by then. A request that fails for any
    reason raises InternalError, and the process is killed; the next request starts another.
    """

    def __init__(self, *, uid: int | None = None, gid: int | None = None, interpreter: str | None = None) -> None:
        if uid is None and powers.drops():
            uid, gid = compare_ids()
        self._uid = uid
        self._gid = gid if gid is not None else uid
        self._interpreter = interpreter or sys.executable
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready = False
        self._number = 0
        self.starts = 0
        """How many processes were started so far: more than one says that one died."""

    def __enter__(self) -> Comparer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id while one runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process without waiting for it to be warm; do nothing where there is one."""
        if self._process is None:
            with self._lock:
                self._ensure()

    def healthy(self) -> bool:
        """Say whether the process answers (it is started where there is none)."""
        try:
            return self._ask({"ping": True}, [], START_SECONDS).get("pong") is True
        except InternalError:
            return False

    def compare(
        self,
        task: CompareTask,
        files: Mapping[str, int],
        *,
        seconds: float = TASK_SECONDS,
        check: Callable[[], None] = lambda: None,
    ) -> Statistics:
        """Return the statistics of ``task``. ``files`` maps its keys to read-only descriptors; they stay open.

        ``check`` is called while others have their turn; what it raises comes out here.

        Raises InternalError: the process died, did not answer in ``seconds``, or answered nonsense.
        """
        message = {"task": task.model_dump(mode="json"), "files": list(files)}
        reply = self._ask(message, list(files.values()), seconds, check)
        try:
            return Statistics.model_validate(reply["statistics"])
        except KeyError as error:
            raise InternalError(f"the comparer refused a task: {str(reply.get('error'))[:400]}") from error
        except ValidationError as error:
            raise InternalError("the comparer's answer is not of the agreed form") from error

    def close(self) -> None:
        """Stop the process and wait for it."""
        with self._lock:
            self._stop()

    def _ask(
        self,
        message: dict[str, Any],
        descriptors: list[int],
        seconds: float,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        with self._turn(check):
            sock = self._ensure()
            self._number += 1
            deadline = time.monotonic() + seconds
            try:
                self._await_ready(sock)
                protocol.send(sock, {"id": self._number} | message, descriptors)
                sock.settimeout(max(0.001, deadline - time.monotonic()))
                reply, extra = protocol.receive(sock)
            except (OSError, ValueError, protocol.ClosedError) as error:
                code = self._stop()
                raise InternalError(f"the comparer is gone ({type(error).__name__}, exit code {code})") from error
            except BaseException:
                self._stop()  # a half-read answer would be taken for the next one
                raise
            for descriptor in extra:
                os.close(descriptor)
            if reply.get("id") != self._number:
                self._stop()
                raise InternalError("the comparer answered another question")
            return reply

    @contextlib.contextmanager
    def _turn(self, check: Callable[[], None]) -> Iterator[None]:
        while not self._lock.acquire(timeout=_LOOK_SECONDS):
            check()
        try:
            yield
        finally:
            self._lock.release()

    def _await_ready(self, sock: socket.socket) -> None:
        sock.settimeout(START_SECONDS)
        if not self._ready:
            hello, _ = protocol.receive(sock)
            if hello.get("ready") is not True:
                raise protocol.ClosedError("no greeting")
            self._ready = True

    def _ensure(self) -> socket.socket:
        if self._process is not None and self._process.poll() is not None:
            self._stop()
        if self._socket is None:
            self._spawn()
        assert self._socket is not None
        return self._socket

    def _spawn(self) -> None:
        compiled(Path(__file__).parent)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        command = [self._interpreter, "-s", "-P", "-m", "acceptd.compare", "--socket", str(theirs.fileno())]
        if self._uid is not None:
            command += ["--uid", str(self._uid), "--gid", str(self._gid)]
        environment = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(acceptd.__file__).resolve().parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        }
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    # Root's drops by itself, once it has read its own code.
                    **({} if os.getuid() == 0 or self._uid is None else powers.as_user(self._uid, self._gid or 0)),
                )
            except OSError as error:
                ours.close()
                raise InternalError(f"the comparer cannot be started: {error.strerror}") from error
        self._socket = ours
        self._ready = False
        self.starts += 1

    def _stop(self) -> int | None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        process, self._process = self._process, None
        self._ready = False
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return process.wait()
