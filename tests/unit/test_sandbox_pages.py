"""Huge pages of the warm parent: which ranges are asked for, and that what lies there stays what it was."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys

import pytest

from sandbox import confine, pages
from sandbox.pages import HUGE, anonymous, whole

MAPS = """\
55b5dd39e000-55b5defd8000 rw-p 00000000 00:00 0                          [heap]
7efca9480000-7efca9580000 rw-p 00000000 00:00 0
7efcaa0e9000-7efcabcb5000 r-xp 00021000 fe:00 123456                     /usr/lib/libone.so
7efcac28c000-7efcac2e4000 rw-p 021a3000 fe:00 123456                     /usr/lib/libone.so
7efcac300000-7efcac600000 rw-s 00000000 00:01 99                         /memfd:shared (deleted)
7ffd0a000000-7ffd0a021000 rw-p 00000000 00:00 0                          [stack]
7ffd0a100000-7ffd0a102000 r-xp 00000000 00:00 0                          [vdso]
"""


def test_only_private_memory_of_no_file_is_taken() -> None:
    assert list(anonymous(MAPS.splitlines())) == [
        (0x55B5DD39E000, 0x55B5DEFD8000),
        (0x7EFCA9480000, 0x7EFCA9580000),
    ]


def test_no_range_reaches_beyond_its_mapping() -> None:
    assert list(whole(HUGE, 3 * HUGE)) == [HUGE, 2 * HUGE]
    assert list(whole(HUGE + 1, 3 * HUGE)) == [2 * HUGE]
    assert list(whole(HUGE, 3 * HUGE - 1)) == [HUGE]
    assert not list(whole(1, HUGE + 1))


def test_memory_is_the_same_afterwards() -> None:
    with mmap.mmap(-1, 4 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for place in range(0, 4 * HUGE, 4096):
            area[place : place + 8] = place.to_bytes(8, "big")
        made = pages.collapse()
        assert made >= 0
        assert all(area[place : place + 8] == place.to_bytes(8, "big") for place in range(0, 4 * HUGE, 4096))


def test_what_is_reserved_holds_every_arena() -> None:
    held = pages.reserve(4 << 20)
    assert len(held) >= 8  # an arena is 1 MiB
    assert {len(block) for block in held} == {472}


def test_an_older_glibc_forks_as_python_does(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(confine, "_LIBC_GIL", object())
    monkeypatch.setattr(confine.os, "fork", lambda: 4711)
    assert confine.fork() == 4711


FILLED = """
import ctypes, sys
from sandbox import pages

libc = pages._LIBC
torn = [bytes(size) for size in range(1, 470, 7) for _ in range(200)]
chunks = [libc.malloc(size) for size in range(24, 40_000, 640) for _ in range(4)]
del torn[::2]
for chunk in chunks[::2]:
    libc.free(chunk)
before, heap = pages._own(), pages._own("[heap]")
held = pages.fill() if sys.argv[1] == "fill" else []
made = [bytes(size) for size in range(1, 470, 7)]
found = [libc.malloc(size) for size in range(24, 40_000, 640)]
inside = sum(pages._within(id(one), before) for one in made), sum(pages._within(one, heap) for one in found)
print(len(held), len(made), len(found), *inside)
"""
"""Tears holes of every size, fills them or not, and counts what then still lies where something was before."""


def counted(what: str, **environment: str) -> list[int]:
    command = [sys.executable, "-c", FILLED, what]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    return [int(word) for word in done.stdout.split()]


def test_what_is_made_after_the_holes_are_filled_lies_in_few_of_them() -> None:
    _, made, found, objects, chunks = counted("leave")
    assert objects == made  # each lies in a hole
    if chunks:  # a heap that the kernel named, as glibc's is
        assert chunks > found // 2
    held, _, _, objects, fewer = counted("fill")
    assert held > 67 * 50  # a hundred holes of each of 67 sizes were torn
    assert objects <= made // 8  # what filling itself has used and given back
    assert fewer <= chunks // 8


def test_holes_are_filled_where_python_asks_malloc_for_everything() -> None:
    held, made, _, objects, _ = counted("fill", PYTHONMALLOC="malloc")
    assert held > 100
    assert objects <= made // 8


def test_without_a_list_of_mappings_nothing_is_filled_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_own", lambda _only="": [])
    assert len(pages.fill()) == len(range(512, 47, -16)) + 2


def test_an_allocator_whose_memory_never_ends_is_not_filled_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_own", lambda only="": [] if only else [(0, 1 << 64)])
    held = pages.fill()
    assert pages.MOST <= sum(map(sys.getsizeof, held)) <= pages.MOST + (64 << 10)


def test_a_heap_that_never_ends_is_not_filled_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pages, "_own", lambda only="": [(1, 1 << 64)] if only else [])
    monkeypatch.setattr(pages, "_LIBC", Boundless(asked))
    pages.fill()
    assert pages.MOST <= sum(asked) <= pages.MOST + 64 * (64 << 10)


class Boundless:
    """A libc whose heap gives whatever it is asked for."""

    def __init__(self, asked: list[int]) -> None:
        self._asked = asked

    def malloc_trim(self, _pad: int) -> int:
        return 0

    def malloc(self, size: int) -> int:
        self._asked.append(size)
        return 4096

    def free(self, _address: int) -> None:
        pass
