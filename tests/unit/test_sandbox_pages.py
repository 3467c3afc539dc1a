"""Huge pages of the warm parent: which ranges are asked for, and that what lies there stays what it was."""

from __future__ import annotations

import mmap

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
