"""The rules that a daemon works by, read at its start and when it is told to; what is refused changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from acceptd.config import Settings, policies_directory
from acceptd.errors import AcceptdError
from acceptd.rules import Rules, load_rules

log = structlog.get_logger("acceptd.daemon")


class RulesInForce:
    """Policy and profiles of one daemon. Safe from threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._rules = self._load()
        self.trouble = ""
        """Why the last reading was refused; empty: it was not."""

    def now(self) -> Rules:
        """Return the rules in force."""
        with self._lock:
            return self._rules

    def reload(self, allow: Callable[[Rules], None]) -> bool:
        """Read the files again; whether that is in force now. ``allow`` raises AcceptdError for what cannot be."""
        try:
            fresh = self._load()
            allow(fresh)
        except AcceptdError as error:
            log.error("policy not reloaded: the old one stays", error=str(error))  # noqa: TRY400
            self.trouble = f"policy not reloaded: {error}"
            return False
        with self._lock:
            self._rules = fresh
        log.info("policy reloaded", policy=fresh.policy_digest)
        tell_observed(fresh)
        self.trouble = ""
        return True

    def _load(self) -> Rules:
        return load_rules(policies_directory(self._settings), self._settings.policy)


def tell_observed(rules: Rules) -> None:
    """Warn of what is only observed."""
    if words := list(rules.policy.observe.words()):
        log.warning("observe mode: judged and recorded, never promoted", observed="; ".join(words))
