"""Huge pages for the warm parent's memory, so that forking a job costs less. Standard library only.

Every job is two forks of the parent, and each fork copies a page table entry for every page of anonymous
memory, and gives each back at its end. A page of 2 MiB is one entry instead of 512; the kernel takes it
apart only where a job writes (madvise(2), MADV_COLLAPSE, Linux 6.1).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator
from typing import Final

HUGE: Final = 2 << 20
ARENAS: Final = 16 << 20
"""Bytes of Python objects in a parent that serves every job kind, measured; one that only runs has less."""
_MADV_COLLAPSE: Final = 25
_STRIDE: Final = 512
"""The largest block that Python's allocator serves itself (Objects/obmalloc.c)."""
_BLOCK: Final = _STRIDE - 40
"""So many bytes make an object of that size."""
_KEPT: Final = 1000
"""One block of so many is kept, which is more than one in each arena."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def reserve(size: int = ARENAS) -> list[bytes]:
    """Have Python's allocator take ``size`` bytes of arenas now, side by side; return what holds them.

    An arena is 1 MiB, and a library loaded between two of them keeps them apart: no huge page covers either.
    What is imported while the result is kept fills the arenas; one that nothing is in then is given back.
    """
    blocks = [bytes(_BLOCK) for _ in range(size // _STRIDE)]
    return blocks[::_KEPT]


def anonymous(maps: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the private writable mappings of no file in the lines of /proc/self/maps. Pure."""
    for line in maps:
        words = line.split()
        if words[1] == "rw-p" and words[4] == "0" and (len(words) == 5 or words[5] == "[heap]"):
            start, _, end = words[0].partition("-")
            yield int(start, 16), int(end, 16)


def whole(start: int, end: int) -> range:
    """Return the addresses of the whole huge pages between two addresses. Pure."""
    return range(-(-start // HUGE) * HUGE, end - HUGE + 1, HUGE)


def collapse() -> int:
    """Make huge pages of what is anonymous and in use; return how many. 0 where the kernel has none to give.

    A range without a page in use is left as it is: the kernel refuses it (EINVAL).
    """
    made = 0
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/maps", encoding="ascii") as file:
        for start, end in list(anonymous(file)):
            for address in whole(start, end):
                made += _LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE), _MADV_COLLAPSE) == 0
    return made
