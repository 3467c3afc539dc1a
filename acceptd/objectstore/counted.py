"""A place for objects whose calls are counted: how long each took, and which failed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from acceptd.errors import ObjectMissingError, ObjectStoreError
from acceptd.metrics.counting import Counting
from acceptd.objectstore.remote import Found, Remote


class Counted:
    """As the :class:`acceptd.objectstore.remote.Remote` that it is made of. What is missing is no failure."""

    def __init__(self, remote: Remote, count: Counting) -> None:
        self.where = remote.where
        self._remote, self._count = remote, count

    @contextlib.contextmanager
    def _timed(self, call: str) -> Iterator[None]:
        began, failed = time.monotonic(), False
        try:
            yield
        except ObjectStoreError as error:
            failed = not isinstance(error, ObjectMissingError)
            raise
        finally:
            self._count.object_call(call, time.monotonic() - began, failed=failed)

    def check(self) -> str:
        """As :meth:`Remote.check`."""
        with self._timed("create"):
            return self._remote.check()

    def look(self, key: str) -> Found | None:
        """As :meth:`Remote.look`."""
        with self._timed("look"):
            return self._remote.look(key)

    def create(self, key: str, data: bytes) -> bool:
        """As :meth:`Remote.create`."""
        with self._timed("create"):
            return self._remote.create(key, data)

    def create_from(self, key: str, source: int, size: int, sha256: str) -> bool:
        """As :meth:`Remote.create_from`."""
        with self._timed("create"):
            return self._remote.create_from(key, source, size, sha256)

    def read(self, key: str, most: int) -> tuple[bytes, str]:
        """As :meth:`Remote.read`."""
        with self._timed("read"):
            return self._remote.read(key, most)

    def chunks(self, key: str, size: int) -> Iterator[bytes]:
        """As :meth:`Remote.chunks`; counted once, with the time of whoever takes the chunks."""
        with self._timed("read"):
            yield from self._remote.chunks(key, size)

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """As :meth:`Remote.replace`."""
        with self._timed("replace"):
            return self._remote.replace(key, data, tag)

    def listed(self, prefix: str) -> Iterator[Found]:
        """As :meth:`Remote.listed`; counted once."""
        with self._timed("list"):
            yield from self._remote.listed(prefix)

    def refresh(self, found: Found) -> None:
        """As :meth:`Remote.refresh`."""
        with self._timed("replace"):
            self._remote.refresh(found)

    def remove(self, key: str) -> None:
        """As :meth:`Remote.remove`."""
        with self._timed("remove"):
            self._remote.remove(key)

    def sweep(self, before: float) -> list[str]:
        """As :meth:`Remote.sweep`."""
        with self._timed("remove"):
            return self._remote.sweep(before)

    def close(self) -> None:
        """As :meth:`Remote.close`."""
        self._remote.close()
