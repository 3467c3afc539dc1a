"""Counting the receipts of both releases, in memory that does not grow with their number."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from acceptd.canary import arithmetic
from acceptd.canary.figures import LABELS_SHOWN, Compared, Quantile, Sample, Shift, Side
from acceptd.errors import InvalidInputError, StateError
from acceptd.release.receipt import Receipt, preprocessing_digest

MOST_COUNTED: Final = 5_000_000
"""Requests of one release that one evaluation counts; beyond it, receipts are told as surplus."""
_CACHE_KIB: Final = 16 << 10
_REFUSED: Final = InvalidInputError.__name__
Fate = Literal["counted", "duplicates", "elsewhere", "surplus", "contradictory"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What receipts of one current release have to say, out of its verified ``release.json``."""

    model_id: str
    side: Side
    preprocessing: str | None
    profiles: tuple[str, ...]
    labels: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Model name to its outputs that have labels, each with them in order."""

    @classmethod
    def of(cls, model_id: str, side: Side, manifest: Mapping[str, Any], profiles: tuple[str, ...]) -> Expected:
        """Return what the manifest of a release makes receipts of it say."""
        labels = {
            str(model["name"]): {
                str(one["name"]): tuple(one["labels"]) for one in model.get("outputs", ()) if one.get("labels")
            }
            for model in manifest["models"]
        }
        return cls(model_id, side, preprocessing_digest(manifest), profiles, labels)

    def holds(self, receipt: Receipt) -> bool:
        """Say whether a receipt that names this release can be true of it."""
        side = self.side
        if (receipt.model_id, receipt.channel, receipt.number, receipt.bundle_digest) != (
            self.model_id, side.channel, side.number, side.digest,
        ):  # fmt: skip
            return False
        if receipt.preprocessing != self.preprocessing or receipt.profile not in self.profiles:
            return False
        outputs = self.labels.get(receipt.model)
        if outputs is None:
            return False
        told = receipt.decision
        if told is None:
            return True
        labels = outputs.get(told.output)
        if labels is None:
            return False
        return told.index is None or (told.index < len(labels) and labels[told.index] == told.label)


@dataclass(slots=True)
class _Model:
    """The counts of one model of one release."""

    requests: int = 0
    refused: int = 0
    errors: int = 0
    invalid: int = 0
    timeouts: int = 0
    durations: Counter[int] = field(default_factory=Counter)
    """By bucket: some thousand at most."""
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    """By output; the empty label is "below the threshold". Only declared labels come here."""

    def add(self, receipt: Receipt) -> None:
        beside = receipt.beside
        if beside.error == _REFUSED:
            self.refused += 1
            return
        self.requests += 1
        self.errors += bool(beside.error)
        self.invalid += beside.validation == "failed"
        self.timeouts += beside.timeout == "exceeded"
        if not beside.error and beside.durations.run is not None:
            self.durations[arithmetic.bucket(beside.durations.run)] += 1

    def decide(self, receipt: Receipt) -> None:
        if receipt.decision is not None:
            self.labels.setdefault(receipt.decision.output, Counter())[receipt.decision.label or ""] += 1

    def sample(self, confidence: float) -> Sample:
        timed = sum(self.durations.values())
        found = {
            name: Quantile(low=low, point=point, high=high)
            for name, share in arithmetic.QUANTILES.items()
            for low, point, high in [arithmetic.quantile(self.durations, share, confidence)]
        }
        return Sample(
            requests=self.requests, refused=self.refused, errors=self.errors, invalid=self.invalid,
            timeouts=self.timeouts, timed=timed, latency=found if timed else {},  # type: ignore[arg-type]
        )  # fmt: skip


class Seen:
    """Which requests were counted: SQLite's private temporary database, in memory up to 16 MiB, then on disk."""

    def __init__(self) -> None:
        self._raw = sqlite3.connect("", isolation_level=None)
        for pragma in (f"cache_size=-{_CACHE_KIB}", "journal_mode=OFF", "synchronous=OFF"):
            self._raw.execute(f"PRAGMA {pragma}")
        self._raw.execute("CREATE TABLE seen (key BLOB PRIMARY KEY) WITHOUT ROWID")
        self._raw.execute("BEGIN")

    def new(self, *parts: object) -> bool:
        """Say whether this has not been seen, and remember it. No two of ``parts`` lists have one key."""
        key = hashlib.sha256(repr(parts).encode()).digest()[:16]
        try:
            return self._raw.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount == 1
        except sqlite3.Error as error:
            problem = f"the requests that were counted cannot be kept: {error}"
            raise StateError(problem, remedy="free some space below $TMPDIR, or name fewer receipts") from error

    def close(self) -> None:
        """Forget everything."""
        self._raw.close()


class Tally:
    """Both releases' counts."""

    def __init__(self, canary: Expected, against: Expected, most: int = MOST_COUNTED) -> None:
        self._sides = {one.side.release_digest: one for one in (canary, against)}
        self.canary, self.against, self._most = canary, against, most
        self._models = {digest: {name: _Model() for name in one.labels} for digest, one in self._sides.items()}
        self._counted = dict.fromkeys(self._sides, 0)
        self._seen = Seen()

    def add(self, receipt: Receipt) -> Fate:
        """Take up one receipt; say what became of it. A request counts once, and each of its rows once."""
        expected = self._sides.get(receipt.release_digest)
        if expected is None:
            return "elsewhere"
        if not expected.holds(receipt):
            return "contradictory"
        if self._counted[receipt.release_digest] >= self._most:
            return "surplus"
        model = self._models[receipt.release_digest][receipt.model]
        key = (receipt.release_digest, receipt.model, receipt.request_id)
        first = self._seen.new(*key)
        told = receipt.decision
        row = told is not None and self._seen.new(*key, told.output, told.row)
        if first:
            model.add(receipt)
        if row:
            model.decide(receipt)
        if not first and not row:
            return "duplicates"
        self._counted[receipt.release_digest] += 1
        return "counted"

    def close(self) -> None:
        """Forget which requests were seen."""
        self._seen.close()

    def compared(self, confidence: float) -> list[Compared]:
        """Return the figures of each model of the canary, in the manifest's order."""
        ours, theirs = (self._models[one.side.release_digest] for one in (self.canary, self.against))
        result = []
        for name, model in ours.items():
            other = theirs.get(name)
            shifts = [] if other is None else self._shifts(name, model, other)
            against = None if other is None else other.sample(confidence)
            result.append(Compared(model=name, canary=model.sample(confidence), against=against, shifts=shifts))
        return result

    def _shifts(self, name: str, ours: _Model, theirs: _Model) -> list[Shift]:
        declared = [one.labels.get(name, {}) for one in (self.canary, self.against)]
        found = []
        for output in declared[0]:
            kinds = set(declared[0][output]) | set(declared[1].get(output, ()))
            one, other = (side.labels.get(output, Counter()) for side in (ours, theirs))
            found.append(
                Shift(
                    output=output,
                    kinds=len(kinds) + 1,
                    canary=one.total(),
                    against=other.total(),
                    distance=round(arithmetic.distance(one, other), 6),
                    chance=round(arithmetic.by_chance(one, other), 6),
                    leading=_leading(one, other),
                )
            )
        return found


def _leading(one: Counter[str], other: Counter[str]) -> list[tuple[str, int, int]]:
    count, other_count = one.total() or 1, other.total() or 1

    def apart(label: str) -> tuple[float, str]:
        return -abs(one[label] / count - other[label] / other_count), label

    return [(label, one[label], other[label]) for label in sorted({*one, *other}, key=apart)[:LABELS_SHOWN]]
