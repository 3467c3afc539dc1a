"""Claiming a drop: one rename within its team directory, to ``.claimed-<id>``.

The rename says which submission a drop became; it grants no exclusivity, since the team still owns
the bytes. Only the sealed copy counts.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from acceptd.errors import SealError
from acceptd.intake import files
from acceptd.intake.paths import check_component, shown
from acceptd.intake.seal import MACHINES, source_error
from acceptd.sealed_facts import SealFailure

Kind = Literal["directory", "zip", "tar", "tar.gz", "other"]

_PREFIX: Final = ".claimed-"
_MILLISECOND: Final = 1_000_000
_AHEAD: Final = 1_000
"""Milliseconds that ids may run ahead of the clock: a flood may claim several drops in one."""
_last: Final = [-_AHEAD]
_lock: Final = threading.Lock()
_SUFFIXES: Final[tuple[tuple[bytes, Kind], ...]] = ((b".tar.gz", "tar.gz"), (b".zip", "zip"), (b".tar", "tar"))
_CLAIMED: Final = re.compile(rb"\.claimed-([0-9]{8}t[0-9]{9}-[0-9a-f]{8})(\.zip|\.tar|\.tar\.gz)?")


@dataclass(frozen=True)
class Claim:
    """A drop that is ours to judge. ``name`` is escaped for people; ``uid`` is the kernel's owner of the drop.

    ``uid`` is None where it had gone before that could be asked.

    ``refusal`` is set when the drop cannot be sealed whatever it holds: a bad name, or neither a
    directory nor an archive. Such a drop is judged like any other, and rejected.
    """

    team: str
    name: str
    path: Path
    id: str
    kind: Kind
    uid: int | None
    refusal: SealFailure | None = None


def submission_id(now_ns: int, randomness: str) -> str:
    """Return an id that sorts by time: ``20261129t151700123-1a2b3c4d`` (UTC, milliseconds, 32 random bits)."""
    seconds, nanoseconds = divmod(now_ns, 1_000_000_000)
    stamp = time.strftime("%Y%m%dt%H%M%S", time.gmtime(seconds))
    return f"{stamp}{nanoseconds // 1_000_000:03d}-{randomness}"


def new_id() -> str:
    """Return a fresh submission id, which sorts after this process's one before unless the clock was set back."""
    with _lock:
        now = time.time_ns() // _MILLISECOND
        if 0 <= _last[0] - now < _AHEAD:
            now = _last[0] + 1
        _last[0] = now
    return submission_id(now * _MILLISECOND, secrets.token_hex(4))


def suffix_of(name: bytes) -> bytes:
    """Return the ending that makes ``name`` an archive, in lower case; empty for any other name."""
    return next((suffix for suffix, _ in _SUFFIXES if name.lower().endswith(suffix)), b"")


def claim(team_fd: int, directory: Path, name: bytes) -> Claim:
    """Rename the drop ``name`` of the team directory and return the claim; raise OSError when that fails.

    An archive keeps its ending, so that its kind is still known after a crash. Where the machine ran out of
    something the drop keeps its name, to be claimed later: its refusal would be on record as the team's fault.
    """
    try:
        files.stat_beneath(team_fd, name)
    except OSError as error:
        if error.errno in MACHINES:
            raise
    identity = new_id()
    claimed = f"{_PREFIX}{identity}".encode() + suffix_of(name)
    os.rename(name, claimed, src_dir_fd=team_fd, dst_dir_fd=team_fd)
    return _describe(team_fd, directory, claimed, identity, name)


def leftovers(team_fd: int, directory: Path, cap: int) -> list[Claim]:
    """Return what an earlier run claimed and did not remove, oldest first; their first names are not known."""
    names, _ = files.scan(team_fd, cap)
    found = [(name, match[1].decode()) for name in names if (match := _CLAIMED.fullmatch(name))]
    return [_describe(team_fd, directory, name, identity, b"") for name, identity in found]


def discard(claimed: Claim) -> list[str]:
    """Remove a claimed drop; return what could not be removed (not ours to force: the team may own it)."""
    try:
        return files.remove_tree(claimed.path.parent, claimed.path.name)
    except OSError as error:
        return [f"{claimed.path.name}: {os.strerror(error.errno or 0)}"]


def _describe(team_fd: int, directory: Path, claimed: bytes, identity: str, name: bytes) -> Claim:
    kind: Kind = "other"
    uid: int | None = None
    refusal = None
    try:
        found = files.stat_beneath(team_fd, claimed)
        uid = found.st_uid
        kind = _kind(found, claimed)
        if kind == "other":
            message = "neither a directory nor a .zip, .tar or .tar.gz file"
            link = stat.S_ISLNK(found.st_mode)
            refusal = SealFailure(
                code="seal/symlink" if link else "seal/not-a-bundle",
                where="(drop)",
                message="a symbolic link" if link else message,
            )
    except OSError as error:
        told = source_error(error, "(drop)")
        if not isinstance(told, SealError):
            raise
        refusal = _failure(told)
    if name:
        try:
            check_component(name, "(drop)")
        except SealError as error:
            refusal = SealFailure(code="seal/drop-name", where="(drop)", message=error.message)
    path = directory / os.fsdecode(claimed)
    return Claim(directory.name, shown(name or claimed), path, identity, kind, uid, refusal)


def _kind(found: os.stat_result, name: bytes) -> Kind:
    if stat.S_ISDIR(found.st_mode):
        return "directory"
    if stat.S_ISREG(found.st_mode):
        return next((kind for suffix, kind in _SUFFIXES if name.endswith(suffix)), "other")
    return "other"


def _failure(error: SealError) -> SealFailure:
    return SealFailure(code=error.code, where=error.where, message=error.message)
