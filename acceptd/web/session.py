"""Who may see the console: a link that works once, a session in memory, and a word in every form (decision 0062).

Nothing here is kept anywhere else: a console that ends forgets all sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

LIFE_SECONDS: Final = 12 * 3600
MOST: Final = 32
"""Sessions at once; the oldest gives way."""


@dataclass
class Sessions:
    """The sessions of one console. ``told`` hears the next token whenever one was used. Safe from threads."""

    told: Callable[[str], None] = lambda _token: None
    clock: Callable[[], float] = time.monotonic
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _until: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def token(self) -> str:
        """The one that opens the next session."""
        return self._token

    def enter(self, token: str) -> str | None:
        """Return a new session's cookie for the right token, which is spent by that; None for any other."""
        with self._lock:
            if not _same(token, self._token):
                return None
            self._token = secrets.token_urlsafe(32)
            cookie = secrets.token_urlsafe(32)
            while len(self._until) >= MOST:
                del self._until[next(iter(self._until))]
            self._until[_name(cookie)] = self.clock() + LIFE_SECONDS
        self.told(self._token)
        return cookie

    def knows(self, cookie: str) -> bool:
        """Say whether a cookie is of a session that has not ended."""
        with self._lock:
            until = self._until.get(_name(cookie))
            if until is not None and until <= self.clock():
                del self._until[_name(cookie)]
                return False
            return until is not None

    def leave(self, cookie: str) -> None:
        """End a session."""
        with self._lock:
            self._until.pop(_name(cookie), None)

    def word(self, cookie: str) -> str:
        """Return the word that every form of this session carries: of this process and this cookie alone."""
        return hmac.new(self._secret, cookie.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def takes(self, cookie: str, word: str) -> bool:
        """Say whether a form carried the word of its session."""
        return _same(word, self.word(cookie))


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _name(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
