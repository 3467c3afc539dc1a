"""What people hold: frozen channels and pinned releases, folded from the ledger's entries.

``frozen`` holds a channel of one model, or of all models; ``unfrozen`` ends exactly that. ``pinned`` keeps one
bundle on one channel of one model, ``unpinned`` ends it. Part of the book: :mod:`acceptd.release.book`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from acceptd.record.entry import Entry

KINDS: Final = ("frozen", "unfrozen", "pinned", "unpinned")
Word = Literal["frozen", "unfrozen", "pinned", "unpinned"]


@dataclass(frozen=True, slots=True)
class Hold:
    """One entry. ``model_id`` is empty where a channel of all models is meant, ``digest`` where no bundle is."""

    kind: str
    model_id: str
    channel: str
    digest: str
    reason: str
    by: str
    at: str
    seq: int

    @property
    def place(self) -> tuple[str, str, str]:
        """What it is about."""
        return self.model_id, self.channel, self.digest

    def concerns(self, model_id: str, channel: str) -> bool:
        """Say whether it is about this channel of this model."""
        return self.channel == channel and self.model_id in {"", model_id}


@dataclass(slots=True)
class Holds:
    """What is held after the entries so far, and those entries."""

    entries: list[Hold] = field(default_factory=list)
    _frozen: dict[tuple[str, str, str], Hold] = field(default_factory=dict)
    _pinned: dict[tuple[str, str, str], Hold] = field(default_factory=dict)

    def frozen(self, model_id: str, channel: str) -> list[Hold]:
        """Return what holds a channel of a model, the oldest first."""
        return [one for one in self.all_frozen() if one.concerns(model_id, channel)]

    def all_frozen(self) -> list[Hold]:
        """Return everything that is frozen, the oldest first."""
        return sorted(self._frozen.values(), key=lambda one: one.seq)

    def pinned(self, model_id: str, channel: str) -> list[Hold]:
        """Return the pins of a channel of a model, the oldest first."""
        return [one for one in self.all_pinned() if (one.model_id, one.channel) == (model_id, channel)]

    def all_pinned(self) -> list[Hold]:
        """Return all pins, the oldest first."""
        return sorted(self._pinned.values(), key=lambda one: one.seq)

    def exactly(self, kind: Word, model_id: str, channel: str, digest: str) -> Hold | None:
        """Return the freeze or the pin of exactly this place, where it stands."""
        return (self._frozen if kind == "frozen" else self._pinned).get((model_id, channel, digest))

    def add(self, entry: Entry) -> None:
        """Take up one entry of :data:`KINDS`. They come in order; a second hold of one place changes nothing."""
        body = entry.body
        one = Hold(
            kind=entry.type,
            model_id=str(body.get("model") or ""),
            channel=body["channel"],
            digest=str(body.get("digest") or ""),
            reason=body["reason"],
            by=str(body.get("by") or ""),
            at=entry.at,
            seq=entry.seq,
        )
        self.entries.append(one)
        table = self._frozen if entry.type.endswith("frozen") else self._pinned
        if entry.type.startswith("un"):
            table.pop(one.place, None)
        else:
            table.setdefault(one.place, one)
