"""One connection to the console, and how long it may keep a place that others need: there are few (`serve.py`).

uvicorn bounds the time between two requests, not that before the first one, that of one that comes letter by
letter, nor that of an answer which nobody takes.
"""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS: Final = 10.0
"""How often is looked whether anything came of a connection: it ends after this, or at most twice this."""


class Patience(H11Protocol):  # type: ignore[misc] # Any, where the console's extra is not installed
    """HTTP/1.1 over one connection that ends where neither a request nor its answer gets on."""

    _seen: Any = None
    _left: int = 0
    _look: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look = self.loop.call_later(SECONDS, self._looked)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _looked(self) -> None:
        left = self.transport.get_write_buffer_size()
        answered = self.cycle is None or self.cycle.response_complete
        stuck = left > 0 and left == self._left  # the other end takes nothing
        if stuck or (answered and not left and self.cycle is self._seen):
            self.transport.abort()
            return
        self._seen, self._left = self.cycle, left
        self._look = self.loop.call_later(SECONDS, self._looked)

    def _should_upgrade(self) -> bool:
        """Take no web socket, and log nothing of it: any page of the web may ask for one."""
        return False
