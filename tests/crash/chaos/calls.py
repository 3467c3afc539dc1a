"""System calls of the daemon that fail, by strace: once, or from some passing on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.crash.chaos.disk import NotHereError
from tests.crash.chaos.kills import Act
from tests.crash.chaos.lasting import strike
from tests.crash.chaos.town import Town
from tests.crash.faults.calls import STRACE
from tests.crash.faults.live import failing

ERRORS: Final = ("EIO", "ENOSPC", "EMFILE", "ENOMEM")
GROUPS: Final = {
    "fsync, fdatasync": "fsync,fdatasync",
    "rename": "rename,renameat,renameat2",
    "write, pwrite": "write,pwrite64",
    "openat": "openat",
    "link, symlink": "link,linkat,symlink,symlinkat",
}
_FIRST: Final = 3
"""Passings at the start that are the harness's own (it opens a gate), not the daemon's."""


@contextmanager
def injected(town: Town, pid: int, call: str, error: str, when: str, *, follow: bool = False) -> Iterator[None]:
    """Let a daemon's calls fail. Raises NotHereError where none came to it: then nothing was tried."""
    if STRACE is None:
        raise NotHereError("strace is not installed")
    trace = town.home / "trace"
    trace.unlink(missing_ok=True)
    try:
        with failing(pid, town.state, call, error, names=(), when=when, follow=follow, trace=str(trace)):
            yield
    except PermissionError as why:
        raise NotHereError(f"nobody may join a process here: {why}") from why
    town.injected = count(town)


def count(town: Town) -> int:
    """Return how many calls have failed by now."""
    trace = town.home / "trace"
    return trace.read_text(errors="replace").count("(INJECTED)") if trace.exists() else 0


def failing_calls(group: str) -> Act:
    """Return the act: a call of a group fails with one of :data:`ERRORS`.

    From the start it is in the daemon's first thread alone; at work in all of its threads, and in the processes
    that it starts meanwhile.
    """

    def act(town: Town) -> str:
        error, at_start = town.chance.choice(ERRORS), town.chance.random() < 0.35
        number = town.chance.choice((1, 1, 1, 2, 3, 5))
        if at_start and group == "openat":
            number = _FIRST + town.chance.randrange(60)
        when = f"{number}{town.chance.choice(('', '', '+'))}"
        town.injected, town.mute = 0, group.startswith("write")
        word = strike(
            town,
            lambda town, pid: injected(town, pid, GROUPS[group], error, when, follow=not at_start),
            at_start=at_start,
            hit=lambda: count(town) > 0,
        )
        if town.injected == 0:
            return "not done: no such call was made meanwhile"
        often = "for good" if when.endswith("+") else "once"
        return f"{error} {often}, {'from the start' if at_start else 'at work'}: {word}"

    return act
