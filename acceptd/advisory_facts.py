"""What the trusted side knew of warnings about the runtimes of one submission: frozen models with caps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from acceptd.values import Count, Evidence, Text


class AdvisoryHit(Evidence):
    """One advisory that speaks of one runtime of the submission."""

    id: Annotated[str, Field(max_length=64)]
    summary: Text
    url: Text = ""
    runtime: Annotated[str, Field(max_length=64)]
    """The runtime's identity."""
    because: Text
    """What of the runtime it names."""


class AdvisoryStanding(Evidence):
    """The list that was in force. ``unverified``: the newest on record does not verify; it says nothing then."""

    status: Literal["installed", "unverified"]
    number: Count = 0
    entry: Count = 0
    """The ledger's entry that holds it."""
    expires_at: Annotated[str, Field(max_length=20)] = ""
    reason: Text = ""
    hits: Annotated[list[AdvisoryHit], Field(max_length=4096)] = []
