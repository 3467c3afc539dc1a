"""How much the state directory holds, place by place. Never fails on what goes while it counts."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from acceptd.config import Paths

MAX_ENTRIES: Final = 200_000
"""Names that one count looks at; beyond them it says how much it has seen."""


def tree_bytes(path: Path, most: int = MAX_ENTRIES) -> int:
    """Return the bytes allocated below ``path`` (or of the file that it is), following no link."""
    total, left, waiting = 0, most, [os.fspath(path)]
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        total += status.st_blocks * 512
        if not stat.S_ISDIR(status.st_mode):
            return total
    while waiting and left > 0:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                left -= 1
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                if left <= 0:
                    break
    return total


def disk_use(paths: Paths) -> dict[str, int]:
    """Return allocated bytes by place: ledger, store, sealed, quarantine, outputs, backups, outbox."""
    ledger = sum(tree_bytes(Path(f"{paths.ledger}{end}")) for end in ("", "-wal", "-shm"))
    places = {
        "store": paths.store, "sealed": paths.sealed, "quarantine": paths.quarantine,
        "outputs": paths.outputs, "backups": paths.backups, "outbox": paths.outbox,
    }  # fmt: skip
    return {"ledger": ledger} | {name: tree_bytes(place) for name, place in places.items()}


def gib(count: int) -> str:
    """Return bytes for people."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
