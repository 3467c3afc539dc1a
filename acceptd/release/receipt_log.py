"""Receipts appended to a file of JSON lines, by any number of threads and processes of one host.

Opened anew for each line, so that an operator may rename the file at any time (logrotate, without a signal); when,
and how long it is kept, is the operator's. Source: open(2) and write(2), O_APPEND on a local file system: the
position and the bytes of one write are one step. Not on NFS, where the client appends by itself.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from acceptd.errors import LoaderError
from acceptd.release.receipt import Receipt

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MODE: Final = 0o640


def append(path: str | os.PathLike[str], receipt: Receipt) -> None:
    """Append one receipt as one line, by one write. Not synchronised: a power cut may lose the last ones.

    A line that an earlier writer could not finish (a full disk, a kill) is closed first, so that it costs nobody
    else's line. Raises LoaderError where the file is a link or no regular file, or the line could not be written
    whole.
    """
    try:
        descriptor = os.open(path, _FLAGS, MODE)
    except OSError as error:
        raise LoaderError(f"the receipts file {os.fspath(path)} cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise LoaderError(f"the receipts file {os.fspath(path)} is no regular file")
        line = receipt.line + b"\n"
        if found.st_size and os.pread(descriptor, 1, found.st_size - 1) != b"\n":
            line = b"\n" + line  # at worst an empty line, where another's write is just under way
        written = os.write(descriptor, line)
    except OSError as error:
        raise LoaderError(f"the receipts file {os.fspath(path)} cannot be written: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if written != len(line):
        raise LoaderError(
            f"the receipts file {os.fspath(path)} took {written} of {len(line)} bytes: is the disk full?"
        )
