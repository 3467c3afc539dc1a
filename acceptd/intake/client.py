"""The daemon's side of the sealer process: a deadline for each drop, and a kill when it passes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from acceptd.errors import GivenUpError, InternalError, SealError, StateError
from acceptd.intake import files
from acceptd.intake.child import LOOK_SECONDS, Child, LostError, first, unreaped
from acceptd.intake.seal import ARCHIVE_NAME, Archive, SealedArchive
from acceptd.policy.limits import LimitsTable
from acceptd.sealed_facts import Sealed


class SealerClient:
    """Seals drops in processes that are kept warm: below 5 ms for a tiny drop.

    ``children`` drops can be sealed at once, each by a process of its own, so that one that hangs
    holds up no other; ``ready`` of them are kept once they were needed (the first from the start):
    each start costs as much as sealing 100 tiny drops. ``durable`` off: for a throw-away place, where
    a directory need not outlive the process. Threads may share a client. ``close`` ends all.
    """

    def __init__(self, children: int = 4, *, ready: int = 1, durable: bool = True) -> None:
        self._ready = ready
        self._durable = durable
        self._slots = threading.BoundedSemaphore(children)
        self._lock = threading.Lock()
        self._idle: list[Child] = [first()]
        self._busy: set[Child] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def seal(
        self,
        source: Path,
        target: Path,
        limits: LimitsTable,
        seconds: float | None = None,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Sealed:
        """As :func:`acceptd.intake.seal.seal_directory`, with a deadline (default ``limits.seal_seconds``).

        Raises SealError(``seal/deadline``) when it passes; StateError when the process is lost twice;
        GivenUpError, with nothing left behind, when ``cancelled`` says so before it is done.
        """
        reply = self._request(source, target, limits, None, seconds, cancelled)
        return Sealed.model_validate(reply["sealed"])

    def copy_archive(
        self,
        source: Path,
        target: Path,
        limits: LimitsTable,
        archive: Archive,
        seconds: float | None = None,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> SealedArchive:
        """As :func:`acceptd.intake.seal.copy_archive`, with a deadline; raises as :meth:`seal` does."""
        sha256, size = self._request(source, target, limits, archive, seconds, cancelled)["archive"]
        return SealedArchive(target / ARCHIVE_NAME, sha256, size, archive)

    def close(self) -> None:
        """Kill every sealer process; calls that are under way raise StateError."""
        with self._lock:
            self._closed = True
            children = [*self._idle, *self._busy]
            self._idle.clear()
        for child in children:
            child.kill()

    def _request(
        self,
        source: Path,
        target: Path,
        limits: LimitsTable,
        archive: Archive | None,
        seconds: float | None,
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        order = {
            "source": os.path.abspath(source),
            "target": os.path.abspath(target),
            "limits": limits.model_dump(),
            "archive": archive,
            "durable": self._durable,
        }
        allowed = float(limits.seal_seconds if seconds is None else seconds)
        for _ in range(2):
            temporary = files.temporary_name()
            try:
                reply = self._once({**order, "temporary": temporary}, allowed, cancelled)
            except (TimeoutError, LostError, GivenUpError) as error:
                left = files.remove_tree(target.parent, temporary)
                if left:
                    raise StateError(f"sealed storage: cannot remove {left[0]}") from error
                if isinstance(error, GivenUpError):
                    raise
                if isinstance(error, TimeoutError):
                    message = f"reading the drop took longer than {allowed:g} s"
                    raise SealError("seal/deadline", "(drop)", message) from error
                continue  # killed by a stranger, for example for memory: once more
            return _checked(reply)
        raise StateError("the sealer process was killed twice", remedy="check the memory of this machine")

    def _once(self, order: dict[str, Any], allowed: float, cancelled: Callable[[], bool]) -> dict[str, Any]:
        while not self._slots.acquire(timeout=LOOK_SECONDS):
            if cancelled():
                raise GivenUpError("sealing was cancelled")
        try:
            child = self._take()
            try:
                reply = child.ask(order, time.monotonic() + allowed, cancelled)
            except BaseException:
                with self._lock:
                    self._busy.discard(child)
                child.kill()
                raise
            self._give_back(child)
            return reply
        finally:
            self._slots.release()

    def _take(self) -> Child:
        with self._lock:
            if self._closed:
                raise StateError("the sealer is closed")
            child = self._idle.pop() if self._idle else Child()
            self._busy.add(child)
            unreaped[:] = [process for process in unreaped if process.poll() is None]
            return child

    def _give_back(self, child: Child) -> None:
        with self._lock:
            self._busy.discard(child)
            keep = len(self._idle) < self._ready and not self._closed
            if keep:
                self._idle.append(child)
        if not keep:
            child.kill()


def _checked(reply: dict[str, Any]) -> dict[str, Any]:
    match reply:
        case {"refused": [code, where, message]}:
            raise SealError(code, where, message)
        case {"storage": [message, remedy]}:
            raise StateError(message, remedy=remedy)
        case {"sealed": _} | {"archive": _}:
            return reply
    raise InternalError("the sealer process gave an unknown reply")


def seal_in_process(source: Path, target: Path, limits: LimitsTable, seconds: float | None = None) -> Sealed:
    """Seal one directory in a process of its own that is ended afterwards; raises as ``SealerClient.seal``."""
    with SealerClient(children=1) as client:
        return client.seal(source, target, limits, seconds)
