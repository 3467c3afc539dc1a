"""Whose word counts: the policy's ``[[fleet.trust]]``, applied to a signature, a role and a profile. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from acceptd.errors import FleetTrustError
from acceptd.fleet.refusals import refused
from acceptd.policy.fleet import NodeRole, TrustTable, raw_key
from acceptd.policy.names import seconds_until
from acceptd.policy.policy import Policy
from acceptd.record.keys import NODE, Keyring, PublicKey
from acceptd.report.escape import line

SKEW_SECONDS: Final = 300
"""By so much the clock of another node may be ahead."""
_REMEDY: Final = "put the node's key into [[fleet.trust]] of the policy; `acceptd key node` prints it there"


@dataclass(frozen=True, slots=True)
class Trust:
    """The policy's word about nodes, at one moment (UTC, RFC 3339)."""

    entries: tuple[TrustTable, ...]
    required_walls: tuple[str, ...]
    valid_seconds: int
    now: str

    @classmethod
    def of(cls, policy: Policy, now: str) -> Self:
        """Return what a policy trusts at ``now``."""
        fleet = policy.fleet
        return cls(tuple(fleet.trust), tuple(policy.required_walls), fleet.valid_seconds, now)

    def known(self, key_id: str, what: str) -> Keyring:
        """Return the keys that are named, whatever each counts for; raise FleetTrustError for another."""
        keys = {one.key_id: PublicKey(NODE, one.key_id, raw_key(one.key)) for one in self.entries}
        if key_id not in keys:
            words = f"{what} is signed by {line(key_id, 16)!r}, a key that the policy names for no node"
            raise refused("unknown-key", words, remedy=_REMEDY)
        return Keyring(tuple(keys.values()))

    def node(self, key_id: str, role: NodeRole, name: str) -> TrustTable:
        """Return the entry by which a named key counts in a role under a name; raise FleetTrustError otherwise."""
        named = [one for one in self.entries if one.key_id == key_id]
        found = next((one for one in named if one.role == role), None)
        if found is None:
            who = " and ".join(f"{one.name} as {one.role}" for one in named) or "nobody"
            raise refused(
                "role", f"it takes a key of role {role}; the policy trusts with this one {who}", remedy=_REMEDY
            )
        if found.name != name:
            raise refused("node", f"signed with the key of {found.name}, and says that it is {name!r:.80}")
        if found.revoked is not None:
            raise refused("revoked", f"signed by {found.name}, whose key is revoked: {found.revoked}")
        if found.expires is not None and seconds_until(found.expires, self.now) <= 0:
            raise refused("expired", f"signed by {found.name}, which was trusted until {found.expires}")
        return found

    def worker(self, key_id: str, name: str, profile: str, *, heldout: bool) -> TrustTable:
        """Return the entry by which a worker's word counts for a profile; raise FleetTrustError otherwise."""
        found = self.node(key_id, "worker", name)
        if profile not in found.profiles:
            may = ", ".join(found.profiles)
            raise refused("profile", f"signed by {name}, which may examine under {may} and not under {profile}")
        if heldout and not found.heldout:
            raise refused("heldout", f"signed by {name}, which may not evaluate held-out vectors")
        return found

    def walled(self, entry: TrustTable, states: Mapping[str, str]) -> None:
        """Raise FleetTrustError where a wall that the policy asks of this worker did not stand."""
        missing = [
            name for name in dict.fromkeys((*self.required_walls, *entry.walls)) if states.get(name) != "enforced"
        ]
        if missing:
            told = ", ".join(f"{name} is {states.get(name, 'not named')}" for name in missing)
            raise refused(
                "wall-missing", f"{entry.name} examined without a wall that is required: {told}",
                remedy="run `acceptd doctor` on that worker",
            )  # fmt: skip

    def fresh(self, what: str, began: str, ended: str) -> None:
        """Raise FleetTrustError where what lasted from ``began`` to ``ended`` is too old, or not over yet."""
        if seconds_until(ended, began) < 0:
            raise refused("stale", f"{what} ended at {ended}, before it began at {began}")
        age = seconds_until(self.now, ended)
        if age < -SKEW_SECONDS:
            raise refused("stale", f"{what} ended at {ended}, which has not come; see to the clocks")
        if age > self.valid_seconds:
            raise refused("stale", f"{what} ended at {ended}, more than {self.valid_seconds} s ago")

    def able(self, profile: str, *, heldout: bool = False) -> list[str]:
        """Return the names of the workers whose word would count now, in the policy's order."""
        return [
            one.name for one in self._live("worker") if profile in one.profiles and (one.heldout or not heldout)
        ]

    def _live(self, role: NodeRole) -> Iterable[TrustTable]:
        for one in self.entries:
            try:
                if one.role == role:
                    yield self.node(one.key_id, role, one.name)
            except FleetTrustError:
                continue
