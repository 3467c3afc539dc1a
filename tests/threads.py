"""Threads that find no memory: what is started then ends at its first instruction, or cannot be started."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from acceptd import threads


def _no_memory(*_: object) -> None:
    raise MemoryError


def die_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every thread from now on end by MemoryError at its first instruction, ours and those of a library."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _told: None)  # pytest's would keep what the thread had
    monkeypatch.setattr(threads, "_first", _no_memory)
    monkeypatch.setattr(threading.Thread, "_bootstrap", _no_memory)


def foreign_die_at_once(monkeypatch: pytest.MonkeyPatch, name: str = "") -> None:
    """As :func:`die_at_once`, but only the threads that a library starts, by the name of their class."""
    begin = threading.Thread._bootstrap  # type: ignore[attr-defined] # the place of the fault

    def first(thread: threading.Thread) -> None:
        if name in type(thread).__name__ and type(thread) is not threading.Thread:
            raise MemoryError
        begin(thread)

    monkeypatch.setattr(sys, "unraisablehook", lambda _told: None)
    monkeypatch.setattr(threading.Thread, "_bootstrap", first)
    monkeypatch.setattr(threads, "FOREIGN_SECONDS", 0.05)  # they never begin: nothing is waited for in vain


def only(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only so many threads start from now on; as where the host has no process left."""
    start, left = _thread.start_new_thread, [None] * count

    def starting(call: Callable[..., object], args: tuple[Any, ...]) -> int:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        return start(call, args)

    monkeypatch.setattr(_thread, "start_new_thread", starting)
