"""Where releases lie below a state directory, and the locks that order those who write them.

Locks are flock(2) on files in ``locks/`` (0700), beside the trees that loaders read. Order, so that nobody
waits in a circle: the store's lock (shared to bring a bundle there and promote it, exclusive to remove one), the
revocation lock (shared to promote, exclusive to revoke), then one model's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from acceptd.errors import ReleaseError, StateError
from acceptd.intake.files import fsync_dir
from acceptd.lockfile import open_lock
from acceptd.policy.names import valid_model_id, valid_name
from acceptd.record.failpoint import failpoint
from acceptd.release.trust import number_name

CURRENT: Final = "current"
CHANNEL_FILE: Final = "channel.json"
RELEASE_FILE: Final = "release.json"
REVOCATIONS_FILE: Final = "revocations.json"
BUNDLE_LINK: Final = "bundle"


def checked(model_id: str, channel: str) -> tuple[str, str]:
    """Return model id and channel where both follow the grammar; raise ReleaseError otherwise."""
    try:
        return valid_model_id(model_id), valid_name(channel)
    except ValueError as error:
        raise ReleaseError(str(error)) from error


def channel_path(model_id: str, channel: str) -> str:
    """Return a channel's directory relative to the state directory."""
    return f"releases/{model_id}/{channel}"


def release_path(model_id: str, channel: str, number: int) -> str:
    """Return one release's directory relative to the state directory."""
    return f"{channel_path(model_id, channel)}/{number_name(number)}"


def bundle_link_target(digest: str) -> str:
    """Return what ``NNNNNN/bundle`` points at: the store, five levels up."""
    return f"../../../../../store/sha256/{digest}"


def make_directories(state: Path, relative: str, mode: int = 0o755) -> Path:
    """Create the directories of ``relative`` below ``state`` that are missing, each durable; return the last."""
    path = state
    for part in relative.split("/"):
        parent, path = path, path / part
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if (
                relative.startswith("releases/") and path.is_symlink()
            ):  # loaders follow none, and nobody writes there
                raise StateError(f"{path} is a link", remedy="put the directory itself there") from None
            continue
        except OSError as error:
            raise StateError(f"{path}: cannot be created: {error.strerror}") from error
        path.chmod(mode)  # not left to the umask
        failpoint("release.directory.made")
        fsync_dir(parent)
    return path


def numbers_on_disk(state: Path, model_id: str, channel: str) -> list[int]:
    """Return the release numbers that have a directory, rising; burnt ones may be among them."""
    try:
        names = os.listdir(state / channel_path(model_id, channel))
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if len(name) == 6 and name.isascii() and name.isdecimal())


@contextlib.contextmanager
def store_lock(state: Path, *, shared: bool) -> Iterator[None]:
    """Hold off removals (``shared``): what was found in the store, or put there, stays until it is named.

    Exclusive: hold off those who are about to name a bundle of the store, to remove one.
    """
    with _flock(make_directories(state, "locks", 0o700) / "store.lock", shared=shared):
        yield


@contextlib.contextmanager
def keys_lock(state: Path, *, shared: bool) -> Iterator[None]:
    """Use the instance's keys (``shared``), or be the only one, to exchange one. Taken before all others."""
    with _flock(make_directories(state, "locks", 0o700) / "keys.lock", shared=shared):
        yield


@contextlib.contextmanager
def revocation_lock(state: Path, *, shared: bool) -> Iterator[None]:
    """Hold off revocations (``shared``), or hold off promotions and other revocations."""
    with _flock(make_directories(state, "locks", 0o700) / "revocations.lock", shared=shared):
        yield


@contextlib.contextmanager
def model_lock(state: Path, model_id: str) -> Iterator[None]:
    """Be the only one who changes the releases of one model, on all its channels."""
    team, _, name = model_id.partition("/")
    with _flock(make_directories(state, f"locks/{team}", 0o700) / f"{name}.lock", shared=False):
        yield


@contextlib.contextmanager
def _flock(path: Path, *, shared: bool) -> Iterator[None]:
    try:
        fd = open_lock(path)
    except OSError as error:
        raise StateError(f"{path}: cannot be locked: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # the lock goes with the descriptor, also when this process is killed
