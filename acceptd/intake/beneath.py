"""Opening beneath a directory, through no link and into no other file system. All that a loader needs of files.

Sources: openat2(2), open(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

Name = str | bytes

_SYS_OPENAT2: Final = 437  # one number on every architecture since Linux 5.6
_RESOLVE: Final = 0x01 | 0x02 | 0x04 | 0x08  # NO_XDEV | NO_MAGICLINKS | NO_SYMLINKS | BENEATH


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


LIBC: Final = ctypes.CDLL(None, use_errno=True)
_syscall = LIBC.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(_OpenHow),
    ctypes.c_size_t,
)


def _openat2(dir_fd: int, path: bytes, flags: int) -> int:
    how = _OpenHow(flags, 0, _RESOLVE)
    for _ in range(64):
        fd = int(_syscall(_SYS_OPENAT2, dir_fd, path, ctypes.byref(how), ctypes.sizeof(how)))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        # EAGAIN is either a concurrent rename (try again) or, with O_NONBLOCK, somebody's lease.
        if number == errno.EINTR or (number == errno.EAGAIN and not flags & os.O_NONBLOCK):
            continue
        break
    raise OSError(number, os.strerror(number), path)


def _probe_openat2() -> bool:
    """Say whether this kernel and this container allow openat2 (older container filters answer EPERM)."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(_openat2(root, b".", os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


HAVE_OPENAT2: Final = _probe_openat2()


def _open_by_component(dir_fd: int, path: bytes, flags: int) -> int:
    """Open as :func:`open_beneath` does, without openat2: O_NOFOLLOW and ``st_dev`` for each component."""
    parts = path.split(b"/")
    if path.startswith(b"/") or b".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    parts = [part for part in parts if part not in {b"", b"."}] or [b"."]
    device = os.fstat(dir_fd).st_dev
    current = os.dup(dir_fd)
    for index, part in enumerate(parts):
        final = flags if index == len(parts) - 1 else os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            # The device is compared before the open too, so that no foreign file system is opened at all.
            _same_device(os.stat(part, dir_fd=current, follow_symlinks=False), device, path)
            following = os.open(part, final | os.O_NOFOLLOW, dir_fd=current)
        finally:
            os.close(current)
        current = following
        try:
            _same_device(os.fstat(current), device, path)
        except OSError:
            os.close(current)
            raise
    return current


def _same_device(found: os.stat_result, device: int, path: bytes) -> None:
    if found.st_dev != device:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)


def open_beneath(dir_fd: int, path: Name, flags: int) -> int:
    """Open ``path`` below ``dir_fd``; return a descriptor that is closed on exec.

    No component, the last one included, may be a symbolic link, a magic link, ``..`` or a mount of
    another file system. With ``O_PATH | O_NOFOLLOW`` a last link itself is opened. Raises OSError:
    ELOOP for a link, EXDEV for leaving the directory or its file system, else as open(2).
    """
    raw = os.fsencode(path)
    if b"\0" in raw:
        raise OSError(errno.EINVAL, "NUL in a path", path)
    if flags & (os.O_CREAT | os.O_TMPFILE & ~os.O_DIRECTORY):
        raise ValueError("open_beneath opens what exists; create_exclusive creates")
    flags |= os.O_CLOEXEC
    return _openat2(dir_fd, raw, flags) if HAVE_OPENAT2 else _open_by_component(dir_fd, raw, flags)
