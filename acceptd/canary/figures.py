"""What was counted of one evaluation, and what it came to: frozen models, as the ledger keeps them. No I/O."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from acceptd.policy.canary import CanaryTable
from acceptd.policy.names import ModelId, Name, Sha256
from acceptd.policy.table import Table

Count = Annotated[int, Field(ge=0, lt=2**53)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=2000)]
Word = Literal["promote", "hold", "rollback"]
Outcome = Literal["passes", "unsure", "fails"]
RULES: Final = 1
"""Version of :func:`acceptd.canary.decide.decide`: an audit judges again what was judged by rules that it
knows.
"""
MOST_FILES: Final = 1000
LABELS_SHOWN: Final = 5


class Quantile(Table):
    """One quantile of the durations of ``run``, with its interval; microseconds, rounded up by 0.8 % at most."""

    low: Count
    point: Count
    high: Count


class Sample(Table):
    """One model of one release. Each request id counts once."""

    requests: Count = 0
    """Those whose inputs were not refused."""
    refused: Count = 0
    """InvalidInputError: the caller's."""
    errors: Count = 0
    """Any other error class."""
    invalid: Count = 0
    """Outputs that broke the accepted interface; among the errors too."""
    timeouts: Count = 0
    timed: Count = 0
    """Without error, and with a duration of ``run``."""
    latency: Annotated[dict[Literal["p50", "p95", "p99"], Quantile], Field(max_length=3)] = {}
    """Empty where nothing was timed."""


class Shift(Table):
    """The labels of one output, both releases' side by side."""

    output: Annotated[str, Field(max_length=1024)]
    kinds: Count
    """Labels that either release declares, and one for "below the threshold"."""
    canary: Count
    """Rows with a decision."""
    against: Count
    distance: Share
    """Total variation distance."""
    chance: Share
    """The distance that chance alone gives on average for so few rows."""
    leading: Annotated[list[tuple[Annotated[str, Field(max_length=256)], Count, Count]], Field(max_length=5)] = []
    """The labels whose shares differ most: label (empty: below the threshold), rows of the canary, of the
    other.
    """


class Compared(Table):
    """One model of the canary beside the same model of the other release; None: that one has no such model."""

    model: Name
    canary: Sample
    against: Sample | None
    shifts: Annotated[list[Shift], Field(max_length=4096)] = []


class Reason(Table):
    """One check. ``message`` is built of figures and names of the releases' own manifests."""

    check: Annotated[str, Field(max_length=64)]
    model: Name
    outcome: Outcome
    message: Text


class Judged(Table):
    """What an evaluation comes to."""

    decision: Word
    reasons: Annotated[list[Reason], Field(max_length=200_000)]


class Side(Table):
    """One of both releases: receipts that bind exactly it count."""

    channel: Name
    number: Annotated[int, Field(ge=1)]
    digest: Sha256
    """The bundle's."""
    release_digest: Sha256


class ReadFile(Table):
    """One file of receipts as it was read."""

    name: Annotated[str, Field(max_length=1024)]
    """Without its directory."""
    sha256: Sha256
    bytes: Count
    lines: Count


class Counts(Table):
    """What became of all lines. Their sum is the number of lines."""

    counted: Count = 0
    duplicates: Count = 0
    """A request id (and row) that had been counted."""
    elsewhere: Count = 0
    """Receipts of releases that are not these two."""
    surplus: Count = 0
    """Beyond the most that one evaluation counts."""
    empty: Count = 0
    too_long: Count = 0
    malformed: Count = 0
    digest: Count = 0
    """The digest is not that of what is bound."""
    contradictory: Count = 0
    """Names one of these releases, and says of it what its ``release.json`` does not."""

    @property
    def refused(self) -> int:
        """Lines that are no receipt, or one that cannot be true."""
        return self.too_long + self.malformed + self.digest + self.contradictory


class Evaluation(Table):
    """The body of a ledger entry of type ``canary``."""

    rules: Annotated[int, Field(ge=1)] = RULES
    model: ModelId
    canary: Side
    against: Side
    decision: Word
    reasons: Annotated[list[Reason], Field(max_length=200_000)]
    limits: CanaryTable
    policy_digest: Sha256
    files: Annotated[list[ReadFile], Field(min_length=1, max_length=MOST_FILES)]
    counts: Counts
    compared: Annotated[list[Compared], Field(min_length=1, max_length=32)]
    by: Annotated[str, Field(max_length=256)] = ""
    """The user of the system that had it evaluated."""
