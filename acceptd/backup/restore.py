"""A backup made a state directory again: every byte hashed on the way, the ledger last."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from acceptd.backup.document import FILES, Document, Kept, read
from acceptd.backup.make import copy
from acceptd.config import Paths, load_settings
from acceptd.errors import StateError
from acceptd.intake.files import fsync_dir, temporary_name
from acceptd.record.copies import copy_to_postgres, is_empty
from acceptd.record.database import FILE_NAME
from acceptd.record.place import Place
from acceptd.record.reserve import free_bytes

_MARGIN = 64 << 20


def restore(backup: Path, state: Path, *, told: Callable[[str], None] = lambda _text: None) -> Document:
    """Fill the empty or new directory ``state`` from ``backup``; return what that holds.

    The ledger gets its place last: whatever is killed before, no daemon and no command takes the state for one.
    Where the settings in the backup name a database, it is written into that, which must be empty.
    Raises StateError where ``state`` holds something, a file of the backup is missing or not what it was, or the
    storage fails.
    """
    found = read(backup)
    record = _record(backup, state)
    try:
        state.mkdir(mode=0o711, parents=True, exist_ok=True)
        if any(state.iterdir()):
            raise StateError(f"{state} is not empty", remedy="name a new directory, or move what is there away")
        needed = sum(one.size for one in found.files) + _MARGIN
        if (free := free_bytes(state)) < needed:
            raise StateError(f"{state}: {needed} bytes are needed, {free} are free", remedy="make room")
        for place, mode in Paths(state).directories():
            place.mkdir(mode=mode, parents=True, exist_ok=True)
            place.chmod(mode)
        last = [one for one in found.files if one.path == FILE_NAME]
        if len(last) != 1:
            raise StateError(f"{backup}: has no ledger", remedy="take another one")
        for one in [*(one for one in found.files if one.path != FILE_NAME), *last]:
            told(one.path.split("/", maxsplit=1)[0])
            _put(backup / FILES, state, one)
        for folder, _, _ in os.walk(state, topdown=False):
            fsync_dir(Path(folder))
        if record.url:
            told(str(record))
            copy_to_postgres(record.path, record.url, told)
            record.path.unlink()  # the record goes on in the database, and nowhere else
    except OSError as error:
        raise StateError(
            f"{error.filename or state}: {error.strerror}", remedy="look at it, empty the state, and begin again"
        ) from error
    return found


def _record(backup: Path, state: Path) -> Place:
    """Return where the settings in the backup, or the environment, say that the record is; it must be empty."""
    place = Place(state, load_settings(backup / FILES).record.url)
    if place.url and not is_empty(place):
        raise StateError(
            f"{place}: holds a ledger already", remedy="empty it, or name another one in ACCEPTD_RECORD_URL"
        )
    return place


def _put(source: Path, state: Path, one: Kept) -> None:
    place = state / one.path
    missing = []
    above = place.parent
    while not above.exists():
        missing.append(above)
        above = above.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o755)
        folder.chmod(0o700 if one.path.split("/")[0] in _PRIVATE else 0o755)
    if one.link:
        os.symlink(one.link, place)
        return
    given = os.open(source / one.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    aside = place.with_name(temporary_name())
    digest, size = copy(given, aside)
    if (digest, size) != (one.sha256, one.size):
        aside.unlink()
        raise StateError(
            f"{source / one.path}: not what was backed up", remedy="the backup is damaged: take another one"
        )
    aside.chmod(one.mode)
    aside.rename(place)  # no name before it is whole: of the ledger above all


_PRIVATE = frozenset({"keys", "heldout", "outputs", "quarantine"})
