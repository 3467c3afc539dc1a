"""Codes of held-out vectors. Messages that a team may see are constants, without a place, count or value."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "heldout/budget-spent": Code(
        "hold",
        "team",
        "The acceptor's held-out vectors were evaluated as often as one version of the contract allows; they were "
        "not evaluated for this bundle.",
        "A reviewer decides; the operator puts new sets in place and raises the contract's version.",
    ),
    "heldout/failed": Code(
        "reject",
        "team",
        "The model did not pass the acceptor's held-out vectors. Which, how and by how much is not told.",
        "Test the model on data that it was not made with; ask a reviewer, who sees more.",
    ),
    "heldout/not-evaluated": Code(
        "hold",
        "team",
        "Something else holds the bundle, so the acceptor's held-out vectors were not evaluated.",
        "Mend what holds and submit again; a reviewer who lets the bundle pass does so without them.",
    ),
    "heldout/not-here": Code(
        "info",
        "team",
        "The contract names held-out vectors. A local check never has them; the daemon evaluates them.",
        "Nothing to do.",
    ),
    "heldout/result": Code(
        "info",
        "reviewer",
        "What came of evaluating the held-out vectors, with every finding of it.",
        "Show none of it to the team: whoever is told how it failed learns what was held out.",
    ),
}
