"""Memory that nobody uses any more goes back to the kernel, also where something behind it is still in use."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import pytest

from acceptd import heap

pytestmark = pytest.mark.unit

PIECE, PIECES = 2048, 40_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE


def test_what_is_free_between_what_is_used_goes_back_to_the_kernel() -> None:
    pieces: list[bytearray | None] = [bytearray(PIECE) for _ in range(PIECES)]
    for at in range(PIECES):
        if at % 100:
            pieces[at] = None  # a hundredth stays, up to the end: malloc alone would keep all of it
    before = resident()
    assert heap.give_back()
    assert before - resident() > PIECE * PIECES // 2
    assert sum(1 for one in pieces if one is not None) == PIECES // 100


def test_a_c_library_without_the_call_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert not heap.give_back()
