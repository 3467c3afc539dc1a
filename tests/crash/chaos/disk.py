"""A small file system of a town's own, in memory, that can be filled up or made read-only.

It is mounted in a mount namespace that nobody else sees (:func:`alone`), which takes root; else towns lie in an
ordinary directory, and what needs a disk of its own is not done and said to be so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SIZE: Final = "160m"
_INSIDE: Final = "ACCEPTD_TEST_CHAOS_DISK"


class NotHereError(Exception):
    """Something cannot be done on this machine; in words."""


def able() -> bool:
    """Whether disks are mounted here."""
    return os.environ.get(_INSIDE) == "1"


def alone(module: str, words: list[str]) -> None:
    """Go on in a mount namespace of its own where that may be: the process begins again there, once."""
    if os.environ.get(_INSIDE) is not None:
        return
    probe = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "probe", "/mnt"]
    may = os.geteuid() == 0 and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    os.environ[_INSIDE] = str(int(may))
    if may:
        inside = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", module, *words]
        os.execvp("unshare", inside)


@contextmanager
def mounted(place: Path) -> Iterator[None]:
    """Mount a disk at ``place``; it goes with the last process that uses it."""
    _run("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "chaos", str(place))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(place))


@contextmanager
def plain() -> Iterator[None]:
    """Mount nothing."""
    yield


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Let every name below ``place`` be read-only for whoever opens it from now on."""
    if not able():
        raise NotHereError("mounting takes root")
    _run("mount", "--bind", str(place), str(place))
    try:
        _until_idle("mount", "-o", "remount,bind,ro", str(place))
        yield
    finally:
        _run("umount", "--lazy", str(place))


def _until_idle(*words: str) -> None:
    """Run it again while it is refused: the daemon may just have opened a file for writing there (EBUSY)."""
    for _ in range(100):
        if subprocess.run(words, check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.02)
    _run(*words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
