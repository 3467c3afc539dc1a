"""What a run says of its probes and metamorphic checks as a whole, as evidence: counts, and what was left out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.values import Count, Evidence, Text

What = Annotated[str, Field(max_length=64)]
SCOPES = 3
"""Frames that an honest run sends at most; of more only the first count."""


class LeftOut(Evidence):
    """So many of ``what`` were not made, and why."""

    what: What
    count: Count
    reason: Text


class Probed(Evidence):
    """``run``: everything of one scope has been tried, or is named in ``left_out``.

    ``inside`` the declared domain, ``outside`` of it, or ``relations`` between runs of one model.
    """

    scope: Literal["inside", "outside", "relations"]
    counts: Annotated[dict[What, Count], Field(max_length=32)] = {}
    left_out: Annotated[list[LeftOut], Field(max_length=64)] = []
    seconds: Annotated[float, Field(ge=0)] = 0.0
    classes: Count | None = None
    """Top classes among the draws; None where no output has classes."""
    least_margin: Annotated[float, Field(ge=0)] | None = None
    """The least difference between the two top classes of a row that draws and search came to."""
    retained_bytes: int | None = None
    """Memory that a session held after its smallest, largest, an odd and again its smallest batch, beyond what
    it held after the first; None where it was not measured."""
    concurrent: Count = 0
    """The most calls at once on one session."""
    sizes: Annotated[list[Count], Field(max_length=8)] = []
    """Batch sizes, in the order in which one session met them."""
