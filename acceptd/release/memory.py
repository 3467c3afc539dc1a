"""What a loader has seen before: in this process always, and in a state file where one is given.

Without a memory, a replayed or restored file system is indistinguishable from a fresh one (TUF, rollback
attack). The highest number, sequence and revocation list are kept; they never fall.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from _thread import allocate_lock
from collections.abc import Iterator, Mapping
from io import FileIO
from typing import TYPE_CHECKING, Any, Final

from acceptd.errors import LoaderError, MalformedError
from acceptd.release.trust import Remembered, is_sha256, parse_json

if TYPE_CHECKING:
    from pathlib import Path

MAX_STATE_BYTES: Final = 4 << 20

_lock = allocate_lock()  # what threading.Lock is, without that module at each start of production
_seen: dict[tuple[str, str], Remembered] = {}
"""(root, ``team/model:channel``) to what this process saw; under (root, "") the revocation list."""
_followed: dict[str, dict[str, str]] = {}
"""Root to the rotations that this process followed: old key id to new one, empty where none succeeded."""


def recall(root: str | Path, place: str, state_file: Path | None) -> Remembered:
    """Return what is remembered of ``place``. Called *before* any file of the release is read.

    So a thread that is overtaken by a promotion compares with what was known when it began, and does
    not take the newer release's number for an attack. Raises MalformedError for a damaged state file.
    """
    with _lock:
        known = _seen.get((str(root), place), Remembered()).joined(_seen.get((str(root), ""), Remembered()))
    if state_file is None:
        return known
    with _locked(state_file):
        return known.joined(_from_file(state_file, place))


def remember(root: str | Path, place: str, seen: Remembered, state_file: Path | None) -> None:
    """Raise what is remembered to ``seen``; the state file is replaced and synchronised where it changes."""
    with _lock:
        for key, value in ((place, seen), ("", Remembered(revocations=seen.revocations))):
            _seen[str(root), key] = value.joined(_seen.get((str(root), key), Remembered()))
    if state_file is None:
        return
    with _locked(state_file):
        document = _read(state_file)
        before = _from_file(state_file, place)
        after = seen.joined(before)
        if after == before and place in document["channels"]:
            return
        document["channels"][place] = {
            "number": after.number,
            "release_digest": after.release_digest,
            "sequence": after.sequence,
        }
        document["revocations"] = after.revocations
        _write(state_file, document)


def recall_keys(root: str | Path, state_file: Path | None) -> dict[str, str]:
    """Return the rotations of keys that were followed before: old key id to new one."""
    with _lock:
        known = dict(_followed.get(str(root), {}))
    if state_file is not None:
        with _locked(state_file):
            known = _keys_in(_read(state_file), state_file) | known
    return known


def remember_keys(root: str | Path, followed: Mapping[str, str], state_file: Path | None) -> None:
    """Keep the rotations that were followed; none is ever forgotten."""
    if not followed:
        return
    with _lock:
        _followed.setdefault(str(root), {}).update(followed)
    if state_file is None:
        return
    with _locked(state_file):
        document = _read(state_file)
        before = _keys_in(document, state_file)
        if followed.items() <= before.items():
            return
        document["keys"] = before | dict(followed)
        _write(state_file, document)


def forget() -> None:
    """Forget what this process saw (for tests); a state file keeps what it holds."""
    with _lock:
        _seen.clear()
        _followed.clear()


def _write(state_file: Path, document: Mapping[str, Any]) -> None:
    data = json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
    from acceptd.intake.files import replace_file  # only who has a state file needs it

    try:
        replace_file(state_file.parent, state_file.name, data, 0o600)
    except OSError as error:
        raise LoaderError(f"the state file {state_file} cannot be written: {error.strerror}") from error


def _keys_in(document: Mapping[str, Any], state_file: Path) -> dict[str, str]:
    keys = document.get("keys", {})
    if not isinstance(keys, dict) or not all(
        is_sha256(old) and (new == "" or is_sha256(new)) for old, new in keys.items()
    ):
        raise MalformedError(f"the state file {state_file} is damaged; what it remembered cannot be trusted")
    return dict(keys)


@contextlib.contextmanager
def _locked(state_file: Path) -> Iterator[None]:
    import fcntl  # as above

    from acceptd.lockfile import open_lock

    if not state_file.name:
        raise LoaderError(f"the state file {state_file} is a directory")
    try:
        fd = open_lock(state_file.with_name(state_file.name + ".lock"))
    except OSError as error:
        raise LoaderError(f"the state file {state_file} cannot be locked: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _read(state_file: Path) -> dict[str, Any]:
    try:
        data = _bytes(state_file)
    except FileNotFoundError:
        return {"schema": 1, "revocations": 0, "channels": {}}
    except OSError as error:
        raise LoaderError(f"the state file {state_file} cannot be read: {error.strerror}") from error
    document = parse_json(data[:MAX_STATE_BYTES], f"the state file {state_file}")
    if (
        not isinstance(document, dict)
        or document.get("schema") != 1
        or not isinstance(document.get("channels"), dict)
        or not _count(document.get("revocations"))
    ):
        raise MalformedError(f"the state file {state_file} is damaged; what it remembered cannot be trusted")
    return document


def _bytes(state_file: Path) -> bytes:
    """Return the file's bytes; raise OSError, and LoaderError for a FIFO or a device, which would never end."""
    fd = os.open(state_file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise LoaderError(f"the state file {state_file} is no regular file")
        with FileIO(fd, "rb", closefd=False) as file:
            return file.read(MAX_STATE_BYTES + 1)
    finally:
        os.close(fd)


def _from_file(state_file: Path, place: str) -> Remembered:
    document = _read(state_file)
    row = document["channels"].get(place)
    if row is None:
        return Remembered(revocations=document["revocations"])
    if (
        not isinstance(row, dict)
        or not _count(row.get("number"))
        or not _count(row.get("sequence"))
        or not is_sha256(row.get("release_digest"))
    ):
        raise MalformedError(f"the state file {state_file} is damaged at {place}")
    return Remembered(row["number"], row["release_digest"], row["sequence"], document["revocations"])


def _count(value: object) -> bool:
    return type(value) is int and value >= 0
