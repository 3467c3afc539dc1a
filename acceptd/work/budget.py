"""What the machine has, and what each piece of work holds of it. Pure.

The budget is cores and bytes of memory. The sum of all shares that are held never exceeds it, in
neither of the two: :meth:`Budget.take` refuses, and nothing here waits.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from acceptd.errors import ConfigError, InternalError


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the machine: ``cores`` threads that may run at once, ``memory`` in bytes."""

    cores: int
    memory: int

    def __add__(self, other: Share) -> Share:
        return Share(self.cores + other.cores, self.memory + other.memory)

    def __sub__(self, other: Share) -> Share:
        return Share(self.cores - other.cores, self.memory - other.memory)

    def within(self, other: Share) -> bool:
        """Whether ``other`` holds all of this."""
        return self.cores <= other.cores and self.memory <= other.memory


NOTHING = Share(0, 0)


class Budget:
    """Who holds what of a capacity. Not thread-safe: whoever shares it locks."""

    def __init__(self, capacity: Share) -> None:
        self.capacity = capacity
        self.held = NOTHING
        self._holders: dict[Hashable, Share] = {}

    @property
    def free(self) -> Share:
        """What nobody holds."""
        return self.capacity - self.held

    def take(self, holder: Hashable, share: Share) -> bool:
        """Give ``share`` to a new holder; False where it does not fit now. InternalError for a second time."""
        if holder in self._holders:
            raise InternalError(f"{holder!r} holds a share already")
        if share.cores < 0 or share.memory < 0:
            raise InternalError(f"a negative share: {share}")
        if not share.within(self.free):
            return False
        self._holders[holder] = share
        self.held += share
        return True

    def resize(self, holder: Hashable, share: Share) -> bool:
        """Give the holder ``share`` in place of what it has; False, and nothing changed, where it does not fit."""
        if not share.within(self.free + self._share(holder)):
            return False
        self.give_back(holder)
        return self.take(holder, share)

    def give_back(self, holder: Hashable) -> Share:
        """Return what the holder had; InternalError where it holds nothing (any more): never twice."""
        share = self._share(holder)
        del self._holders[holder]
        self.held -= share
        return share

    def _share(self, holder: Hashable) -> Share:
        try:
            return self._holders[holder]
        except KeyError:
            raise InternalError(f"{holder!r} holds no share") from None


def require_fit(what: str, share: Share, capacity: Share) -> None:
    """Raise ConfigError where ``share`` can never fit: such work is refused at once, never queued for ever."""
    if share.cores > capacity.cores:
        raise ConfigError(
            f"{what} needs {share.cores} threads at once, and the budget is {capacity.cores} cores",
            remedy="lower intra_op_threads of the profile, or raise `cores` in acceptd.toml",
        )
    if share.memory > capacity.memory:
        raise ConfigError(
            f"{what} may use {share.memory} bytes of memory, and the budget is {capacity.memory}",
            remedy="lower limits.memory_bytes and limits.inspect_memory_bytes of the policy, "
            "or raise `memory_bytes` in acceptd.toml",
        )
