"""What became of one promoted bundle that was run again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from acceptd.judge.finding import Finding, Judgement
from acceptd.reaccept.standing import DECISIVE, Standing

Status = Literal["passes", "passes-as-approved", "rejected", "held", "inconclusive"]
EXIT: dict[Status, int] = {"passes": 0, "passes-as-approved": 0, "rejected": 1, "held": 3, "inconclusive": 4}


@dataclass(frozen=True, slots=True)
class Reaccepted:
    """The outcome. ``codes`` are what rejects or holds now, ``new_codes`` those that did not at its acceptance."""

    standing: Standing
    status: Status
    reason: str
    codes: tuple[str, ...] = ()
    new_codes: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    """Identities of the runtimes that it ran under now."""
    heldout: bool = False
    """Whether its contract holds vectors out, which were not evaluated: their budget is for submissions."""


def of(
    standing: Standing, judgement: Judgement, sealed_digest: str | None, runtimes: Iterable[str], *, heldout: bool
) -> Reaccepted:
    """Compare a judgement with what stands.

    A bundle that people approved although something held it still passes while nothing holds it that did not then.
    """
    identities = tuple(dict.fromkeys(runtimes))
    if sealed_digest != standing.bundle_digest:
        words = f"the store does not hold the bundle that was promoted: it seals to {sealed_digest}"
        return Reaccepted(standing, "inconclusive", words, runtimes=identities, heldout=heldout)
    codes = _decisive(judgement.findings)
    new = tuple(code for code in codes if code not in standing.held_for)
    status: Status
    if judgement.verdict == "accepted":
        status = "passes"
    elif judgement.verdict == "held" and standing.verdict == "held" and not new:
        status = "passes-as-approved"
    else:
        status = judgement.verdict
    return Reaccepted(standing, status, judgement.reason, codes, new, identities, heldout)


def lost(standing: Standing, reason: str) -> Reaccepted:
    """Return the outcome of a bundle that could not be run."""
    return Reaccepted(standing, "inconclusive", reason)


def _decisive(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.code for one in findings if one.severity in DECISIVE))
