"""The store: approved bundles by digest, real files with one name each, never written again.

A bundle arrives by rename of its sealed directory. Beside the bundles, ``store/inventory/<digest>.json``
holds the canonical list of paths, digests and sizes whose SHA-256 *is* the bundle digest, so the list
proves itself and a bundle can be checked without the ledger.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from acceptd.errors import LoaderError, ReleaseError, StateError
from acceptd.evidence import BundleFile, Sealed
from acceptd.intake import files
from acceptd.intake.seal import seal_directory
from acceptd.policy.names import valid_sha256
from acceptd.policy.policy import LimitsTable
from acceptd.record.canonical import canonical
from acceptd.record.failpoint import failpoint
from acceptd.release import objects, trust
from acceptd.release.layout import make_directories

INVENTORY: Final = "store/inventory"
_MAX_INVENTORY_BYTES: Final = 64 << 20
_TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY})
"""What rename(2) says where the place of a directory has another one already."""
_ANY: Final = LimitsTable(
    files=1 << 40, bundle_bytes=1 << 50, file_bytes=1 << 50, path_bytes=1 << 20, path_depth=64
)
"""Limits of a copy between file systems: what was sealed was admitted already."""


def path(state: Path, digest: str) -> Path:
    """Return where a bundle lies, or would lie; raise ReleaseError for text that is no digest."""
    try:
        return state / objects.object_path(valid_sha256(digest))
    except ValueError as error:
        raise ReleaseError(str(error)) from error


def put(state: Path, sealed_dir: Path, sealed: Sealed) -> Path:
    """Move a sealed directory into the store and return its place there, durably.

    The same bundle twice is kept once: what is there is verified, and the sealed copy removed. Called
    again after a crash, with the sealed directory gone, it verifies what it moved. Raises ReleaseError
    where the bytes in the store are not the bundle's, StateError where the storage fails.
    """
    target = path(state, sealed.digest)
    data = inventory_bytes(sealed.files)
    if hashlib.sha256(data).hexdigest() != sealed.digest:
        raise ReleaseError(f"the inventory of the sealed bundle does not give its digest {sealed.digest}")
    store = make_directories(state, "store/sha256")
    try:
        _write_inventory(state, sealed.digest, data)
        failpoint("release.store.inventory")
        # The same bundle came first, from another submission.
        if target.exists() or not _move(sealed_dir, target, sealed):
            verify(state, sealed.digest)
            with contextlib.suppress(FileNotFoundError):  # sealed on another machine, it was never brought here
                files.remove_tree(sealed_dir.parent, sealed_dir.name)
            return target
        failpoint("release.store.moved")
        files.fsync_dir(store)
        files.fsync_dir(sealed_dir.parent)
    except OSError as error:
        raise StateError(f"the store cannot take {sealed.digest}: {error.strerror}: {error.filename}") from error
    return target


def inventory(state: Path, digest: str) -> tuple[trust.File, ...]:
    """Return the files of a stored bundle from its inventory, which must give the digest; raise ReleaseError."""
    path(state, digest)
    try:
        root = objects.open_root(state)
        try:
            data = objects.read_small(root, f"{INVENTORY}/{digest}.json", _MAX_INVENTORY_BYTES)
        finally:
            os.close(root)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ReleaseError(f"the store's inventory of {digest} was changed", remedy=_AUDIT)
        return tuple(
            trust.File(row["path"], row["sha256"], row["size"]) for row in trust.parse_json(data, "inventory")
        )
    except LoaderError as error:
        raise ReleaseError(f"the store has no bundle {digest}: {error}") from error


def verify(state: Path, digest: str) -> tuple[trust.File, ...]:
    """Hash every file of a stored bundle; return them. Raises ReleaseError for any difference."""
    listed = inventory(state, digest)
    _compare(state, digest, listed, objects.verify_object)
    return listed


def verify_some(state: Path, digest: str, paths: Iterable[str]) -> tuple[trust.File, ...]:
    """Hash only ``paths`` of a stored bundle, against its inventory; return them. Raises as :func:`verify`."""
    listed = {file.path: file for file in inventory(state, digest)}
    wanted = list(paths)
    missing = [one for one in wanted if one not in listed]
    if missing:
        raise ReleaseError(f"the store's bundle {digest} has no file {missing[0][:200]!r}")
    files = tuple(listed[one] for one in wanted)

    def some(root: int, digest: str, _all: Iterable[trust.File]) -> None:
        objects.verify_files(root, digest, files)

    _compare(state, digest, files, some)
    return files


def present(state: Path, digest: str) -> tuple[trust.File, ...]:
    """Compare names, kinds and sizes of a stored bundle with its inventory, hashing nothing; as :func:`verify`."""
    listed = inventory(state, digest)
    _compare(state, digest, listed, objects.present)
    return listed


def _compare(
    state: Path,
    digest: str,
    listed: tuple[trust.File, ...],
    comparison: Callable[[int, str, Iterable[trust.File]], object],
) -> None:
    try:
        root = objects.open_root(state)
        try:
            comparison(root, digest, listed)
        finally:
            os.close(root)
    except LoaderError as error:
        raise ReleaseError(f"store object {digest}: {error}", remedy=_AUDIT) from error


def digests(state: Path) -> list[str]:
    """Return the digests of all stored bundles."""
    try:
        names = os.listdir(state / "store" / "sha256")
    except FileNotFoundError:
        return []
    return sorted(name for name in names if trust.is_sha256(name))


def sweep(state: Path) -> list[str]:
    """Remove half-made copies and inventories that a crash left; return what could not be removed.

    Nobody may be bringing a bundle to the store meanwhile.
    """
    left: list[str] = []
    for folder in (state / "store" / "sha256", state / INVENTORY):
        if folder.is_dir():
            left += files.remove_temporaries(folder)
    return left


_AUDIT: Final = "run `acceptd ledger verify`, and put the bundle back from a copy that gives this digest"


def inventory_bytes(rows: Sequence[BundleFile | trust.File]) -> bytes:
    """Return the canonical list of a bundle's files, whose SHA-256 is the bundle digest."""
    ordered = sorted(rows, key=lambda row: row.path.encode())
    return canonical([{"path": row.path, "sha256": row.sha256, "size": row.size} for row in ordered])


def _write_inventory(state: Path, digest: str, data: bytes) -> None:
    folder = make_directories(state, INVENTORY)
    name = f"{digest}.json"
    try:
        if (folder / name).read_bytes() == data:
            return
    except FileNotFoundError:
        pass
    files.replace_file(folder, name, data, 0o444)


def _move(source: Path, target: Path, sealed: Sealed) -> bool:
    """Give the bundle its place; return false where that was taken meanwhile."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno != errno.EXDEV:
            raise
        temporary = target.with_name(files.temporary_name())
        copied = seal_directory(source, temporary, _ANY)  # hashes while it copies
        if copied.digest != sealed.digest:
            files.remove_tree(temporary.parent, temporary.name)
            raise ReleaseError(f"the sealed copy no longer gives the digest {sealed.digest}") from error
        failpoint("release.store.copied")
        try:
            os.rename(temporary, target)
        except OSError as late:
            if late.errno not in _TAKEN:
                raise
            files.remove_tree(temporary.parent, temporary.name)
            return False
        failpoint("release.store.moved")
        files.remove_tree(source.parent, source.name)
    return True
