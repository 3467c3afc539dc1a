"""What malloc keeps of memory that nobody uses any more: given back to the kernel now and then.

glibc gives back only what is free at the end of its main heap. A daemon with dozens of threads keeps the pages
that are free between others, in each thread's arena; after some hundred verdicts that was a third of its heaps.
"""

from __future__ import annotations

import ctypes


def give_back() -> bool:
    """Give whole free pages of every arena back (malloc_trim(3)); say whether there were any.

    About a millisecond, without the interpreter's lock; where the C library has no such call, nothing happens.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return False
    return bool(trim(ctypes.c_size_t(0)))
