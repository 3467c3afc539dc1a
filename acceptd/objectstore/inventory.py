"""A bundle's inventory as an object store has it: held against its digest, then against every rule. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any, Final, Literal

from acceptd.errors import LoaderError, ObjectDamagedError, ObjectStoreError, SealError
from acceptd.intake.paths import MARKER, Inventory, shown
from acceptd.policy.limits import LimitsTable
from acceptd.record.canonical import MAX_INT
from acceptd.release import trust

Area = Literal["sealed", "approved"]
AREAS: Final[tuple[Area, ...]] = ("sealed", "approved")
MAX_BYTES: Final = 64 << 20
BLOBS: Final = "blobs/sha256"
Shelf = Literal["evidence", "outputs"]
SHELVES: Final[tuple[Shelf, ...]] = ("evidence", "outputs")
"""What nodes measured, which stays; and outputs of models that a replay may want, which go after their days."""
_ANY: Final = LimitsTable(
    files=1 << 20, bundle_bytes=1 << 50, file_bytes=1 << 50, path_bytes=1 << 16, path_depth=64
)
"""What was sealed was admitted already; these keep a list that no sealer of ours wrote from doing harm."""


def valid_digest(digest: str) -> str:
    """Return a SHA-256 in hex; raise ObjectStoreError for other text."""
    if not trust.is_sha256(digest):
        raise ObjectStoreError(f"{shown(digest, 80)!r} is no SHA-256 in hex")
    return digest


def blob_key(sha256: str) -> str:
    """Return the key of a file's content."""
    return f"{BLOBS}/{valid_digest(sha256)[:2]}/{sha256}"


def evidence_key(sha256: str, shelf: Shelf = "evidence") -> str:
    """Return the key of a piece of evidence, or of kept outputs; raise ObjectStoreError for another shelf."""
    if shelf not in SHELVES:
        raise ObjectStoreError(f"there is no shelf {shown(str(shelf), 40)!r} of objects")
    return f"{shelf}/sha256/{valid_digest(sha256)[:2]}/{sha256}"


def inventory_key(area: Area, digest: str) -> str:
    """Return the key of a bundle's inventory; raise ObjectStoreError for an area that there is not."""
    if area not in AREAS:
        raise ObjectStoreError(f"there is no area {shown(str(area), 40)!r} of objects")
    return f"{area}/{valid_digest(digest)}.json"


def opened(data: bytes, digest: str, most: int) -> tuple[trust.File, ...]:
    """Return the files that an inventory lists.

    Raises ObjectDamagedError where the bytes do not give ``digest``, where they are not of the documented form, a
    path may not stand in a bundle (out of it, twice, of another spelling), or all files together have more than
    ``most`` bytes.
    """
    what = f"the inventory {digest}"
    if not hmac.compare_digest(hashlib.sha256(data).hexdigest(), digest):
        raise ObjectDamagedError(f"{what} is another one: its bytes do not give that digest")
    try:
        document = trust.parse_json(data, what)
    except LoaderError as error:
        raise ObjectDamagedError(str(error)) from error
    if not isinstance(document, list) or not document:
        raise ObjectDamagedError(f"{what} is no list of files")
    files = tuple(_row(row, what) for row in document)
    admitted = Inventory(_ANY)
    try:
        for file in files:
            if admitted.path(file.path.encode("utf-8", "surrogatepass")) == MARKER:
                raise ObjectDamagedError(f"{what} lists {MARKER!r}, which is no file of a bundle")
            admitted.file(file.path, file.size)
    except SealError as error:
        raise ObjectDamagedError(f"{what}: {error.where}: {error.message}") from error
    if admitted.total_bytes > most:
        raise ObjectStoreError(
            f"the bundle {digest} has {admitted.total_bytes} bytes; {most} are allowed here",
            remedy="raise objects.cache_bytes",
        )
    return files


def total(files: Iterable[trust.File]) -> int:
    """Return the bytes of all files together."""
    return sum(file.size for file in files)


def _row(row: Any, what: str) -> trust.File:
    if isinstance(row, dict) and row.keys() == {"path", "sha256", "size"}:
        path, sha256, size = row["path"], row["sha256"], row["size"]
        typed = isinstance(path, str) and isinstance(sha256, str) and type(size) is int
        if typed and 0 <= size <= MAX_INT and trust.is_sha256(sha256):
            return trust.File(path, sha256, size)
    raise ObjectDamagedError(f"{what} is not of the documented form: path, sha256 and size")
