"""What a place for objects can do, whatever it is: create once, read with a bound, list, remove.

A key is text of ours (``blobs/sha256/ab/abcd…``). Nothing here knows what an object means; who reads holds every
byte against a digest.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from acceptd.errors import ObjectDamagedError

PART: Final = 16 << 20
"""Bytes that one request carries at most; larger objects come and go in several."""
_STEP: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """An object as its place tells of it: bytes, a tag that changes with its content, seconds since 1970."""

    key: str
    size: int
    tag: str
    modified: float


class Remote(Protocol):
    """One place for objects. Every method raises ObjectStoreError, in one line, and ends in a bounded time.

    Of that: ObjectMissingError where there is no object, ObjectDamagedError where it has another size than asked
    for, ObjectsUnreachableError after the last try.
    """

    where: str
    """For people: the URL, without anything secret."""

    def check(self) -> str:
        """Prove that it is there and that what is written once is not written again; return words for people."""

    def look(self, key: str) -> Found | None:
        """Return what is there, None for nothing."""

    def create(self, key: str, data: bytes) -> bool:
        """Write a new object, whole and durable; False where one is there already, of whatever content."""

    def create_from(self, key: str, source: int, size: int, sha256: str) -> bool:
        """Write a new object from a descriptor, in constant memory, hashing what goes; as :meth:`create`.

        Raises ObjectDamagedError where the source is not what was promised; then nothing was written.
        """

    def read(self, key: str, most: int) -> tuple[bytes, str]:
        """Return a small object and its tag; ObjectDamagedError where it is larger than ``most``."""

    def chunks(self, key: str, size: int) -> Iterator[bytes]:
        """Yield an object of exactly ``size`` bytes; its content is anything until the last chunk was hashed."""

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """Write over what bears ``tag`` (empty: nothing may be there); False where something else is there."""

    def listed(self, prefix: str) -> Iterator[Found]:
        """Yield all objects whose keys begin so, in any order."""

    def refresh(self, found: Found) -> None:
        """Make an object as young as one that was written now, its content untouched."""

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""

    def sweep(self, before: float) -> list[str]:
        """Remove what was begun before that time (seconds since 1970) and never finished; return problems."""

    def close(self) -> None:
        """End what is under way: it raises ObjectStoreError in the threads that wait for it."""


def read_part(source: int, most: int) -> bytes:
    """Return up to ``most`` bytes of a descriptor, fewer at its end alone."""
    data = bytearray()
    while len(data) < most and (part := os.read(source, min(_STEP, most - len(data)))):
        data += part
    return bytes(data)


def same_file(key: str, found: str, length: int, sha256: str, size: int) -> None:
    """Raise ObjectDamagedError where what was read of a sealed file is not what was sealed."""
    if length != size or not hmac.compare_digest(found, sha256):
        raise ObjectDamagedError(f"{key}: the file to be kept is not the one that was sealed")
