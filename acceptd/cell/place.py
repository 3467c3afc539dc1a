"""A place that lasts as long as a cell does, for commands that have no state directory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from acceptd import powers


@contextlib.contextmanager
def temporary_place(prefix: str) -> Iterator[Path]:
    """Yield a new directory, removed at the end. Nobody else lists it; the cell's uid walks through where it must.

    Root needs no such way: its bubblewrap binds what lies there before it drops.
    """
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        if os.getuid() != 0 and powers.drops():
            os.chmod(name, 0o711)  # noqa: S103 - walked through, not listed: 0700 lies everything below that matters
        yield Path(name)
