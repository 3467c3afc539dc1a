"""Carries out evaluations on record that a kill cut off between their entry and what they decided.

Only the newest of a model, and only while both releases are still the ones that it compared: what anybody has done
since goes before it. One that the channel did not take is no such one; ``canary-refused`` is on record then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from acceptd.canary.evaluate import REFUSED, Act, Basis, People, basis
from acceptd.canary.figures import Evaluation, Side
from acceptd.errors import AcceptdError
from acceptd.record.canonical import canonical
from acceptd.record.entry import Entry
from acceptd.record.log import Ledger
from acceptd.release.book import Book, Row, read_book
from acceptd.release.reconcile import Reconciled
from acceptd.release.rests import Rests
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys


@dataclass(frozen=True, slots=True)
class CutOff:
    """An evaluation that was recorded and neither carried out nor refused."""

    seq: int
    evaluation: Evaluation


class Unfinished:
    """What is cut off in one ledger. Reads what came since the last time only."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._newest: dict[str, Entry] = {}
        self._upto = -1

    def cut_off(self) -> list[CutOff]:
        """Return the evaluations that are to be carried out still, one of a model at most."""
        size = self._ledger.tree().size
        for entry in self._ledger.entries(after=self._upto, before=size, kind="canary"):
            self._newest[str(entry.body["model"])] = entry
        for entry in self._ledger.entries(after=self._upto, before=size, kind=REFUSED):
            known = self._newest.get(str(entry.body["model"]))
            if known is not None and known.seq == entry.body["entry"]:
                del self._newest[str(entry.body["model"])]
        self._upto = size - 1
        book = read_book(self._ledger)
        found = {model: _standing(entry, book) for model, entry in sorted(self._newest.items())}
        for model in [model for model, one in found.items() if one is None]:
            del self._newest[model]  # a number that is not current any more never is again
        return [one for one in found.values() if one is not None]


def _standing(entry: Entry, book: Book) -> CutOff | None:
    if entry.body["decision"] == "hold":
        return None
    try:
        found = Evaluation.model_validate_json(canonical(entry.body))
    except ValidationError:
        return None  # `ledger verify` says so
    for side in (found.canary, found.against):
        row = book.current(found.model, side.channel)
        if row is None or row.digest in book.revoked or not _is(row, side):
            return None
    return CutOff(entry.seq, found)


def _is(row: Row, side: Side) -> bool:
    return (row.number, row.digest, row.release_digest) == (
        side.number, side.digest, side.release_digest,
    )  # fmt: skip


def resume(
    state: Path,
    ledger: Ledger,
    keys: ReleaseKeys,
    found: Sequence[CutOff],
    people: People,
    *,
    terms: Terms,
    rests: Rests | None = None,
) -> Reconciled:
    """Carry out what was cut off, by the ordinary ways; ``rests`` keeps what failed, over the calls.

    What the channel does not take now is entered as refused, as it would have been then.
    """
    done: list[str] = []
    problems: list[str] = []
    rests = rests or Rests()
    for one in found:
        place = ("canary", one.seq)
        if not rests.due(place):
            continue
        words = f"{one.evaluation.model}: the canary evaluation of entry {one.seq} ({one.evaluation.decision})"
        try:
            act = Act(
                state, ledger, keys, _compared(state, ledger, keys, one), one.evaluation, people, terms, one.seq
            )
            made = act.do()
        except (AcceptdError, OSError) as error:
            rests.failed(place)
            problems.append(f"{words} cannot be carried out: {error}")
        else:
            rests.over(place)
            done.append(f"{words} was " + (f"not let through: {made.refused}" if made.refused else "carried out"))
    return Reconciled(tuple(done), tuple(problems))


def _compared(state: Path, ledger: Ledger, keys: ReleaseKeys, one: CutOff) -> Basis:
    found = one.evaluation
    return basis(state, ledger, keys, found.model, found.canary.channel, found.against.channel)
