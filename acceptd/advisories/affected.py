"""Which releases were accepted under a runtime that the list in force speaks of, by what is on record of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from acceptd.advisories.document import AdvisoryList
from acceptd.advisories.match import hits
from acceptd.advisory_facts import AdvisoryHit
from acceptd.errors import LedgerError
from acceptd.reaccept.standing import Standing
from acceptd.record.log import Ledger
from acceptd.runtime.identity import RuntimeRecord, identity

MAX_RUNTIMES: Final = 256


@dataclass(frozen=True, slots=True)
class Affected:
    """One promoted bundle. ``unknown`` says why nobody can tell; else no hits means that it is not affected."""

    standing: Standing
    hits: tuple[AdvisoryHit, ...]
    runtimes: tuple[tuple[str, str], ...]
    """Identity and version of each runtime that it was accepted under."""
    unknown: str = ""


def affected(ledger: Ledger, said: AdvisoryList, standing: Standing) -> Affected:
    """Return what the list says of the runtimes that a promoted bundle was accepted under."""
    try:
        records = _runtimes(ledger, standing)
    except (LedgerError, ValidationError, ValueError, TypeError, AttributeError) as error:
        return Affected(standing, (), (), f"its runtimes are not on record: {str(error).splitlines()[0][:300]}")
    runtimes = tuple((identity(one), one.onnxruntime) for one in records)
    return Affected(standing, tuple(hits(said, records)), runtimes)


def _runtimes(ledger: Ledger, standing: Standing) -> list[RuntimeRecord]:
    """Return the runtimes in the evidence that the verdict's entry binds by its digest."""
    body = ledger.entry(standing.verdict_seq).body
    data = ledger.evidence(str(body.get("evidence_digest") or ""))
    if data is None:
        raise LedgerError("its evidence is no longer kept")
    document: Any = json.loads(data)
    rows = list(document.get("runtimes", ()))
    for one in document.get("others", ()):
        rows += one.get("runtimes", ())
    if not rows:
        raise LedgerError("its evidence names no runtime")
    return [RuntimeRecord.model_validate(row, strict=False) for row in rows[:MAX_RUNTIMES]]
