"""Which policies, profiles and contracts the ledger has already: each is entered before its first use."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from typing import Final

from acceptd.contracts.force import Agreed
from acceptd.record.log import Ledger, Transaction
from acceptd.replay.stored import rules_content
from acceptd.rules import Rules

NOTHING: Final = Agreed()


@dataclass(frozen=True, slots=True)
class Fresh:
    """What has to be entered before its first use: (type, name, digest) of each rule, and texts to keep."""

    entries: tuple[tuple[str, str, str], ...]
    blobs: tuple[bytes, ...]

    def enter(self, change: Transaction) -> None:
        """Keep the texts and append the entries."""
        for blob in self.blobs:
            change.put_evidence(blob)
        for kind, name, digest in self.entries:
            change.append(kind, {"name": name, "digest": digest})


@dataclass(slots=True)
class KnownRules:
    """Remembers, for one process, what the ledger has; what it does not remember it looks up."""

    ledger: Ledger
    _entered: set[str] = field(default_factory=set)
    _kept: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, rules: Rules, agreed: Agreed = NOTHING) -> None:
        """Put on record what no entry names yet, durably, before anything is done by it."""
        with self._lock:
            fresh = self.fresh(rules, agreed)
            if fresh.entries:
                self.ledger.change(fresh.enter)
                self.note(fresh)

    def fresh(self, rules: Rules, agreed: Agreed) -> Fresh:
        """Return what of the rules of one bundle no entry names yet, and what is not kept."""
        used = [
            ("policy", rules.policy.name, rules.policy_digest),
            *(("profile", target.profile.name, target.digest) for target in rules.targets),
        ]
        if agreed.contract is not None:
            used.append(("contract", agreed.contract.id, agreed.digest))
        return Fresh(
            tuple(one for one in used if one[2] not in self._entered and not self._named(one[0], one[2])),
            tuple(rules_content(rules, agreed.contract, agreed.digest, self._kept)),
        )

    def note(self, fresh: Fresh) -> None:
        """Remember what is on record now."""
        self._entered.update(digest for _, _, digest in fresh.entries)
        self._kept.update(hashlib.sha256(blob).hexdigest() for blob in fresh.blobs)

    def _named(self, kind: str, digest: str) -> bool:
        return any(entry.body.get("digest") == digest for entry in self.ledger.entries(kind=kind))
