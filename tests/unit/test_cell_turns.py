"""One question to a warm parent at a time, and none after one that was not answered."""

from __future__ import annotations

import os
import socket
import struct
from array import array
from concurrent.futures import Future
from typing import Any, cast

import pytest

from acceptd.cell.supply import WarmParent
from acceptd.errors import InternalError


class _Parent:
    anonymous = 0

    def __init__(self, control: socket.socket) -> None:
        self.control = control


def _answer(end: socket.socket, descriptor: int) -> None:
    rights = array("i", [descriptor])
    end.sendmsg([b"S" + struct.pack("!I", 1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def test_a_late_answer_is_never_taken_for_that_of_the_next_order() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.settimeout(0.05)
        parent = WarmParent(cast("Any", _Parent(ours)), Future(), (0, 0))
        with pytest.raises(TimeoutError):
            parent.fork([])
        _answer(theirs, theirs.fileno())  # late: another job's pidfd
        with pytest.raises(InternalError, match="did not answer before"):
            parent.fork([])
        assert parent.ailment() == "silent: InternalError"


def test_an_answer_in_time_leaves_the_parent_ready_for_the_next() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        parent = WarmParent(cast("Any", _Parent(ours)), Future(), (0, 0))
        for _ in range(2):
            _answer(theirs, theirs.fileno())
            os.close(parent.fork([]))
