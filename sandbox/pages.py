"""The warm parent's memory, laid out so that forking a job costs less. Standard library only.

Every job is two forks of the parent, and each fork copies a page table entry for every page of anonymous
memory, and gives each back at its end. A page of 2 MiB is one entry instead of 512; the kernel takes it
apart only where a job writes (madvise(2), MADV_COLLAPSE, Linux 6.1).

And every page that a job writes to is copied for it. What it makes in holes between the parent's objects lies
on a page of its own each, which is why the holes are filled first: then it lies side by side.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

HUGE: Final = 2 << 20
ARENAS: Final = 16 << 20
"""Bytes of Python objects in a parent that serves every job kind, measured; one that only runs has less."""
_MADV_COLLAPSE: Final = 25
_STRIDE: Final = 512
"""The largest block that Python's allocator serves itself (Objects/obmalloc.c)."""
_BLOCK: Final = _STRIDE - 40
"""So many bytes make an object of that size."""
_HEAD: Final = sys.getsizeof(b"")
"""What an object of bytes has beside them."""
_KEPT: Final = 1000
"""One block of so many is kept, which is more than one in each arena."""
MOST: Final = 8 << 20
"""Bytes that holes in arenas are filled with at most, and those in the heap: four times what was measured. An
allocator that takes a GiB of address space at once (mimalloc) would give nothing outside of it."""
_LARGEST: Final = 64 << 10
"""Bytes of the largest hole of the heap that is looked for: below what malloc maps for itself."""
_SMALL: Final = 1024
"""Up to here malloc keeps lists of chunks of one size each (malloc.c: tcache, fast and small bins)."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.malloc.restype = ctypes.c_void_p
_LIBC.malloc.argtypes = [ctypes.c_size_t]
_LIBC.free.argtypes = [ctypes.c_void_p]


def reserve(size: int = ARENAS) -> list[bytes]:
    """Have Python's allocator take ``size`` bytes of arenas now, side by side; return what holds them.

    An arena is 1 MiB, and a library loaded between two of them keeps them apart: no huge page covers either.
    What is imported while the result is kept fills the arenas; one that nothing is in then is given back.
    """
    blocks = [bytes(_BLOCK) for _ in range(size // _STRIDE)]
    return blocks[::_KEPT]


def anonymous(maps: Iterable[str], *, only: str = "") -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the private writable mappings of no file in the lines of /proc/self/maps. Pure.

    ``only``: those with this name.
    """
    for line in maps:
        words = line.split()
        name = words[5] if len(words) > 5 else ""
        if words[1] == "rw-p" and words[4] == "0" and name in ({only} if only else {"", "[heap]"}):
            start, _, end = words[0].partition("-")
            yield int(start, 16), int(end, 16)


def fill() -> list[object]:
    """Fill the holes of Python's arenas and of malloc's heap; return what holds the arenas' ones.

    What is made afterwards lies side by side on fresh pages. To be called once, at the end of the warming up.
    """
    old = _own()
    makers: list[Callable[[], object]] = [partial(bytes, size - _HEAD) for size in range(_STRIDE, 47, -16)]
    makers += [itertools.count(1 << 20).__next__, object]  # of 32 and 16 bytes
    held: list[object] = []
    left = MOST
    for make in makers:
        held.append(make())
        while left > 0 and _within(id(held[-1]), old):
            left -= sys.getsizeof(held[-1])
            held.append(make())
    _fill_heap()
    return held


def _own(only: str = "") -> list[tuple[int, int]]:
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="ascii") as file:
        return list(anonymous(file, only=only))
    return []


def _within(address: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(start <= address < end for start, end in ranges)


def _fill_heap() -> None:
    """Take every free chunk of malloc's heap but its top, for ever."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is None:  # not glibc: nothing is known of its heap
        return
    trim(0)  # nothing is left of the top: what comes from there lies behind the end of now
    heap = _own("[heap]")
    left = MOST
    for size in sizes():
        while (address := _LIBC.malloc(size)) and left > 0 and _within(address, heap):
            left -= size
        _LIBC.free(address)


def sizes() -> Iterator[int]:
    """Yield the sizes of chunks that malloc is asked for, from the largest: small ones one by one. Pure."""
    size = _LARGEST
    while size > _SMALL:
        yield size
        size = size * 7 // 8
    yield from range(_SMALL, 23, -16)


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
