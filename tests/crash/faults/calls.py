"""The system calls that are let fail, their numbers, and lines of strace about them."""

from __future__ import annotations

import platform
import re
import shutil
from dataclasses import dataclass
from typing import Final

STRACE: Final = shutil.which("strace")
# Name: number on x86-64, number on arm64 (0: that machine has no such call). Kernel: syscall_64.tbl and
# asm-generic/unistd.h.
_NUMBERS: Final[dict[str, tuple[int, int]]] = {
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "write": (1, 64),
    "pwrite64": (18, 68),
    "openat": (257, 56),
    "rename": (82, 0),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, 0),
    "linkat": (265, 37),
    "symlink": (88, 0),
    "symlinkat": (266, 36),
    "mkdir": (83, 0),
    "mkdirat": (258, 34),
    "ftruncate": (77, 46),
    "unlink": (87, 0),
    "unlinkat": (263, 35),
    "rmdir": (84, 0),
    "fallocate": (285, 47),
    "openat2": (437, 437),
    "read": (0, 63),
    "pread64": (17, 67),
}
READING: Final = frozenset({"openat2", "read", "pread64"})
"""Calls that take no space and change nothing; openat without O_CREAT is one more."""
_MACHINE: Final = {"x86_64": 0, "aarch64": 1}.get(platform.machine())
NUMBERS: Final = (
    {} if _MACHINE is None else {name: both[_MACHINE] for name, both in _NUMBERS.items() if both[_MACHINE]}
)
"""By name; empty on a machine whose numbers are not known here."""
MISSING: Final = (
    "strace is not installed" if STRACE is None else "" if NUMBERS else "numbers of system calls are unknown"
)
"""Why nothing can be injected here; empty where it can."""

_LINE: Final = re.compile(r"(?P<call>[a-z0-9]+)\((?P<words>.*)\)\s+= (?P<result>.*)", re.DOTALL)
_DESCRIPTOR: Final = re.compile(r"(?:\d+|AT_FDCWD)<(?P<path>[^>]*)>")
_QUOTED: Final = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"')
_CHANGING: Final = (
    (re.compile(r"\.tmp-(gone-)?[0-9a-f]{16}"), r".tmp-\1"),
    (re.compile(r"[0-9a-f]{64}"), "DIGEST"),
    (re.compile(r"\d{8}T\d{6}Z"), "TIME"),
    (re.compile(r"\d{4,}"), "N"),
)


@dataclass(frozen=True, slots=True)
class Call:
    """One passing of a system call: the how many-th of its name, and what it was about."""

    name: str
    number: int
    about: str
    """A path below the root of the run, with digests and numbers taken out; empty for what lies elsewhere."""
    changes: bool
    injected: bool

    @property
    def kind(self) -> tuple[str, str]:
        """What makes it the same as others."""
        return self.name, self.about


def parse(text: str, root: str) -> list[Call]:
    """Return the calls of one process in order, from what ``strace -y -o`` wrote about it."""
    seen: dict[str, int] = {}
    found: list[Call] = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name, words = match["call"], match["words"]
        number = seen[name] = seen.get(name, 0) + 1
        about = _about(words).partition(f"{root}/")
        below = about[2] if about[1] else ""
        for pattern, instead in _CHANGING:
            below = pattern.sub(instead, below)
        changes = name not in READING and (name != "openat" or "O_CREAT" in words or "O_TMPFILE" in words)
        found.append(Call(name, number, below, changes, "(INJECTED)" in match["result"]))
    return found


def _about(words: str) -> str:
    """Return the path that a call is about: the last name in it, else its descriptor's."""
    names, places = _QUOTED.findall(words), _DESCRIPTOR.findall(words)
    name = str(names[-1]) if names else ""
    if not name or not places:  # of write(2) the data's text is left out
        return str(places[0]) if places else name
    return name if name.startswith("/") else f"{places[-1]}/{name}"
