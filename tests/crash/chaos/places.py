"""What a daemon stands on is not there: a whole database, a cell that starts, events of its inbox, the time."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from tests.crash.chaos.calls import count, injected
from tests.crash.chaos.disk import NotHereError
from tests.crash.chaos.lasting import ended, strike
from tests.crash.chaos.town import Town

HOUR: Final = 3600
JUMPS: Final = (HOUR, 26 * HOUR, 400 * 24 * HOUR, -HOUR, -26 * HOUR, -30 * 24 * HOUR)
"""Seconds by which the clock is set, and back at the end of it."""
_SHIM: Final = Path(__file__).with_name("clock.c")


def corrupt_database(town: Town) -> str:
    """Flip bytes of the ledger's file while no daemon has it; the bytes are put back afterwards.

    A daemon says why it does not start on it, or `ledger verify` does, or nothing that counts was hit.
    """
    town.up()
    town.settled()
    town.stop_in_order()
    ledger, whole = town.state / "ledger.sqlite3", town.home / "whole.sqlite3"
    for name in ("-wal", "-shm"):
        ledger.with_name(ledger.name + name).unlink(missing_ok=True)  # empty: it ended in order
    shutil.copyfile(ledger, whole)
    before = _dump(whole)
    page = town.chance.randrange(whole.stat().st_size // 4096)
    with ledger.open("r+b") as file:
        file.seek(page * 4096 + town.chance.choice((0, 8, town.chance.randrange(4000))))
        place = file.tell()
        there = file.read(64)
        file.seek(place)
        file.write(bytes(byte ^ 0xFF for byte in there))
    try:
        town.begin()
        town.until(lambda: town.ready() or town.daemon_ended(), "the daemon is ready or ends")
        if town.daemon_ended():
            return f"a page flipped: {ended(town)}"
        verified = town.acceptd("ledger", "verify")
        assert "Traceback" not in verified.stderr, verified.stderr
        same = _dump(ledger) == before if verified.returncode == 0 else False
        assert verified.returncode != 0 or same, "a flipped page changed what is on record, and nobody noticed"
        return "a page flipped: ready, and `ledger verify` " + (
            "says it" if verified.returncode else "has no reason"
        )
    finally:
        if not town.daemon_ended():
            town.down()
        for name in ("", "-wal", "-shm"):
            ledger.with_name(ledger.name + name).unlink(missing_ok=True)
        shutil.copyfile(whole, ledger)
        ledger.chmod(0o600)


def _dump(database: Path) -> bytes:
    """Return the record's entries as they stand in the file; b"" where it cannot be read."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        try:
            return repr(connection.execute("SELECT * FROM entries ORDER BY seq").fetchall()).encode()
        except sqlite3.DatabaseError:
            return b""


# -- the cell


@contextmanager
def _no_bubblewrap(town: Town, pid: int, how: str) -> Iterator[None]:
    real = shutil.which("bwrap")
    if real is None:
        raise NotHereError("bubblewrap is not installed")
    mine = town.home / "bin" / "bwrap"
    mine.unlink()
    if how != "missing":
        mine.write_text("#!/bin/sh\n" + ("exit 1\n" if how == "failing" else "echo no; kill -9 $$\n"))
        mine.chmod(0o755)
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "bwrap" in one.name():
                    one.kill()
    try:
        yield
    finally:
        mine.unlink(missing_ok=True)
        mine.symlink_to(real)


def no_cell(town: Town) -> str:
    """Let bubblewrap be missing, fail, or die: for a daemon that starts, or for one whose cells are killed."""
    how, at_start = town.chance.choice(("missing", "failing", "dying")), town.chance.random() < 0.5
    binaries = town.home / "bin"
    if "PATH" not in town.more:
        binaries.mkdir()
        for name in os.listdir("/usr/bin"):
            (binaries / name).symlink_to(f"/usr/bin/{name}")
        town.more["PATH"] = str(binaries)
        town.up()
        town.down()
    word = strike(town, lambda town, pid: _no_bubblewrap(town, pid, how), at_start=at_start)
    return f"bubblewrap {how}, {'from the start' if at_start else 'at work'}: {word}"


# -- events of the inbox


def overflow(town: Town) -> str:
    """Let more happen in an inbox than the kernel keeps for a daemon that stands still; a drop comes among it."""
    town.up()
    made = town.staged(2)
    assert town.daemon is not None
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 1 << 17:
        raise NotHereError(f"the kernel keeps {most} events")
    team = next(iter(sorted((town.state / "inbox").iterdir())))
    os.kill(town.daemon.pid, signal.SIGSTOP)
    try:
        for number in range(most // 2):  # each makes three events or more
            place = team / f".flood-{number % 2}"
            place.touch()
            place.unlink()
        for drop in made:
            drop()
    finally:
        os.kill(town.daemon.pid, signal.SIGCONT)
    return f"{most} events and more"


def no_inotify(town: Town) -> str:
    """Let the kernel give no inotify instance, or no watch, to a daemon that starts."""
    call, error = town.chance.choice((("inotify_init1,inotify_init", "EMFILE"), ("inotify_add_watch", "ENOSPC")))
    town.injected = 0
    word = strike(
        town,
        lambda town, pid: injected(town, pid, call, error, "1+", follow=True),
        at_start=True,
        hit=lambda: count(town) > 0,
    )
    if town.injected == 0:
        return "not done: no such call was made meanwhile"
    return f"{call.split(',')[0]} {error}: {word}"


# -- the clock


def clock_jump(town: Town) -> str:
    """Set the daemon's clock while it works, and back: by a library that is loaded before libc (``clock.c``).

    A time namespace does not move CLOCK_REALTIME, and most programs read it without a system call; so neither that
    nor strace can do it. Only the daemon itself sees the other time, not its children, not the file system.
    """
    library = _shim(town)
    offset = town.home / "offset"
    offset.write_bytes(struct.pack("q", 0))
    if town.daemon is not None:
        town.stop_in_order()
    with offset.open("r+b") as file, mmap.mmap(file.fileno(), 8) as clock:
        town.begin_cold(LD_PRELOAD=str(library), ACCEPTD_CHAOS_CLOCK=str(offset))
        town.up()
        jump, town.clock_was_set = town.chance.choice(JUMPS), True
        town.drop_some()
        time.sleep(town.chance.uniform(0.0, town.seconds * 0.6))
        clock[:] = struct.pack("q", jump)
        town.drop_some()
        town.nudge()
        town.settled()
        clock[:] = struct.pack("q", 0)
        if town.chance.random() < 0.5:
            town.nudge()
            return f"{jump:+d} s and back"
        town.down()
        return f"{jump:+d} s, then killed"


def _shim(town: Town) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NotHereError("no C compiler")
    made = town.home / "clock.so"
    if not made.exists():
        words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(_SHIM), "-ldl"]
        subprocess.run(words, check=True, capture_output=True)
    return made
