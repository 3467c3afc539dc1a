"""``acceptd bundle lock``: fixes every file of a bundle in its ``bundle.toml``, or checks that it does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from acceptd.bundling.listing import STAGING, Listing, busy, listed
from acceptd.bundling.lock_text import locked
from acceptd.bundling.readback import MANIFEST_FILE, read_manifest
from acceptd.bundling.render import MAX_BYTES
from acceptd.bundling.stage import open_file
from acceptd.bundling.write import replace_text
from acceptd.errors import UsageError
from acceptd.intake.paths import Inventory, shown
from acceptd.intake.target import bundle_digest
from acceptd.judge.finding import Finding
from acceptd.judge.inventory import ABOUT, SIGNATURE_FILE, check_lock
from acceptd.local import Bench
from acceptd.policy.limits import LimitsTable
from acceptd.policy.manifest import LockedFile, Manifest
from acceptd.sealed_facts import BundleFile, Sealed

_CHUNK: Final = 1 << 20
NO_LOCK: Final = "there is no lock: bundle.toml has no [files] table"


@contextmanager
def opened(root: Path, path: str) -> Iterator[IO[bytes]]:
    """Open one file of a bundle; no link is followed. Raises UsageError for what is no readable regular file."""
    with os.fdopen(open_file(root, path, path), "rb", buffering=0) as file:
        yield file


def contents(root: Path, limits: LimitsTable) -> Listing:
    """Return what a bundle holds. Raises UsageError or SealError for what no bundle may hold, as sealing does."""
    if not root.is_dir():
        raise UsageError(f"{shown(str(root))} is no directory", remedy="name the directory that holds bundle.toml")
    listing = listed(root, limits.files)
    if listing.special:
        raise UsageError(
            f"{shown(listing.special[0])} is a link or no regular file",
            remedy="put a copy of the file in its place",
        )
    if any(path.startswith(f"{STAGING}/") for path in listing.files):
        raise busy()
    inventory = Inventory(limits)
    for path, size in listing.files.items():
        inventory.file(inventory.path(os.fsencode(path)), size)
    if MANIFEST_FILE not in listing.files:
        raise UsageError(
            f"there is no bundle.toml in {shown(str(root))}",
            remedy="acceptd bundle init proposes one from the model",
        )
    return listing


def hashed(
    listing: Listing, *, without: tuple[str, ...] = (), each: Callable[[memoryview], object] | None = None
) -> list[BundleFile]:
    """Return every file with its digest, in the order of the bundle digest. ``each`` is given the bytes too."""
    found = []
    buffer = memoryview(bytearray(_CHUNK))
    for path in sorted(listing.files, key=str.encode):
        if path in without:
            continue
        digest, size = hashlib.sha256(), 0
        with opened(listing.root, path) as file:
            while count := file.readinto(buffer):  # type: ignore[attr-defined]
                digest.update(buffer[:count])
                size += count
                if each is not None:
                    each(buffer[:count])
        found.append(BundleFile(path=path, sha256=digest.hexdigest(), size=size))
    return found


def digest_of(listing: Listing) -> str:
    """Return the bundle digest of what lies there now."""
    return bundle_digest(hashed(listing))


def read_text(root: Path) -> bytes:
    """Return the bytes of ``bundle.toml``. Raises UsageError where it has more than a job reads."""
    with opened(root, MANIFEST_FILE) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"bundle.toml is larger than {MAX_BYTES} bytes", remedy="make it shorter")
    return data


def written_back(place: Bench, root: Path, before: bytes, text: str, meant: Manifest) -> None:
    """Replace ``bundle.toml`` by ``text`` where a job reads the manifest in it that is ``meant``, and no other.

    Raises UsageError, and leaves the file as it is, where it reads anything else, or where the file is not what
    ``text`` was made from any more: an editor, or another command, wrote it ``before`` this one was done.
    """
    if len(text.encode()) > MAX_BYTES:
        raise UsageError(
            f"bundle.toml would have {len(text.encode())} bytes; {MAX_BYTES} are possible",
            remedy="have fewer files: golden sets as .npz, assets in one file",
        )
    if read_manifest(place, text.encode()) != meant:
        raise UsageError(
            "bundle.toml cannot be edited as text: what is meant does not come out",
            remedy="write its tables under headers of their own, [files] last, and try again",
        )
    if read_text(root) != before:
        raise UsageError(
            "bundle.toml was changed meanwhile; it stays as it is now", remedy="run the command again"
        )
    replace_text(root / MANIFEST_FILE, text, force=True)


def lock(place: Bench, root: Path) -> tuple[list[BundleFile], bool]:
    """Write the lock; return what it names, and whether the file changed.

    Raises UsageError (SealError for a name) where there is nothing to lock, or the file does not take it.
    """
    listing = contents(root, place.rules.policy.limits)
    before = read_text(root)
    now = read_manifest(place, before)
    files = hashed(listing, without=ABOUT)
    text = locked(before.decode("utf-8"), files)
    if text.encode() == before:
        return files, False
    meant = {one.path: LockedFile(size=one.size, sha256=one.sha256) for one in files}
    written_back(place, root, before, text, now.model_copy(update={"files": meant}))
    return files, True


def differences(place: Bench, root: Path) -> tuple[list[Finding], str]:
    """Return what differs from the lock, as the judge would say it, and the bundle digest as it is now.

    Raises UsageError where there is no lock.
    """
    listing = contents(root, place.rules.policy.limits)
    manifest = read_manifest(place, read_text(root))
    if manifest.files is None:
        raise NoLockError(NO_LOCK, remedy="acceptd bundle lock DIR writes one")
    files = hashed(listing)
    digest = bundle_digest(files)
    sealed = Sealed(digest=digest, files=files, total_bytes=sum(one.size for one in files))
    return check_lock(sealed, manifest), digest


class NoLockError(UsageError):
    """A lock is to be checked, and there is none."""

    exit_code = 1


def signed(listing: Listing) -> bool:
    """Say whether a model signature lies there, which a changed ``bundle.toml`` makes worthless."""
    return SIGNATURE_FILE in listing.files
