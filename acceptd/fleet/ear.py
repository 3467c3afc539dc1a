"""Waits for a word of PostgreSQL's (LISTEN/NOTIFY), for a word of this process, or for a time; without polling."""

from __future__ import annotations

import contextlib
import os
import selectors
from typing import Any, Final

from acceptd.fleet.connection import STEADY, away, plain_url

_MOST: Final = 10_000


class Ear:
    """One listener on one channel. ``url`` empty: nobody speaks, and only this process's own words are heard.

    While the database is away it hears this process alone, and tries again at the next :meth:`wait`.
    """

    def __init__(self, url: str, channel: str) -> None:
        self._url = plain_url(url) if url else ""
        self._channel = channel
        self._connection: Any = None
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def wake(self) -> None:
        """End the present or the next wait. Safe from threads and signal handlers."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._write, b"\0")

    def wait(self, seconds: float) -> list[str]:
        """Wait, and return the payloads that were heard; empty where the time is over or this process spoke.

        Empty at once where it has only begun to listen: what was said before that nobody heard.
        """
        if self._listen():
            return []
        with selectors.DefaultSelector() as selector:
            selector.register(self._read, selectors.EVENT_READ)
            if self._connection is not None:
                selector.register(self._connection.fileno(), selectors.EVENT_READ)
                heard = self._heard()  # what came before we looked
                if heard:
                    return heard
            ready = {key.fd for key, _ in selector.select(max(0.0, seconds))}
        if self._read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 1 << 16)
        return self._heard()

    def close(self) -> None:
        """Stop listening."""
        self._drop()
        for descriptor in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._read = self._write = -1

    def _listen(self) -> bool:
        if not self._url or self._connection is not None:
            return False
        import psycopg
        from psycopg import sql

        try:
            self._connection = psycopg.connect(self._url, autocommit=True, **STEADY)
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except psycopg.Error as error:
            self._drop()
            if not away(error):
                raise
            return False
        return True

    def _heard(self) -> list[str]:
        if self._connection is None:
            return []
        import psycopg

        try:
            found = self._connection.notifies(timeout=0, stop_after=_MOST)
            return [one.payload for one in found]
        except (psycopg.Error, OSError):
            self._drop()
            return []

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
        self._connection = None
