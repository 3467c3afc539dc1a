"""The values that predicates are made of: closed, bounded, and what hostile text and numbers become. Pure.

Everything here is JSON data as :func:`acceptd.record.canonical.plain` leaves it: a whole number beyond 2^53-1 is
a decimal string, and so is a number that would print as one.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from acceptd.policy.names import valid_moment
from acceptd.report.escape import line

TEXT: Final = 4000
NAME: Final = 400
MAX_MS: Final = 1e12
MAX_MODELS: Final = 64
MAX_VALUES: Final = 64
MAX_RUNS: Final = 1024

Line = Annotated[str, Field(max_length=TEXT + 1)]
"""One printable line; what was longer ends with an ellipsis."""
Word = Annotated[str, Field(max_length=NAME + 1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
DigestOrNone = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""Empty where there is none."""
Stamp = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"),
    AfterValidator(valid_moment),
]
"""A real moment: who reads one reckons with it."""
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Whole = Count | Annotated[str, Field(pattern=r"^[0-9]{1,32}$")]
"""A count that somebody else told: decimal digits where it is beyond 2^53-1."""
Number = float | Annotated[str, Field(max_length=64)]
"""A number that somebody declared: text where JSON readers would take it for another."""
Milliseconds = Annotated[float, Field(ge=0, le=MAX_MS, allow_inf_nan=False)]
Verdict = Literal["accepted", "rejected", "held", "inconclusive"]
Log = Annotated[str, Field(pattern=r"^acceptd/[0-9a-f]{32}$")]


class Part(BaseModel):
    """Base: frozen, strict, closed. Built when first used: a check without a ledger signs nothing."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


class Place(Part):
    """Where in the log: its own name (the origin of its checkpoints), and the number of the entry, from 0."""

    log: Log
    number: Count


class Leaf(Part):
    """One entry of the log by number, and the RFC 6962 hash of its leaf: no other entry can stand for it."""

    number: Count
    leaf_hash: Digest


def word(value: object, limit: int = 200) -> str:
    """Return hostile text as one printable line of at most ``limit`` characters and an ellipsis."""
    return line(value if isinstance(value, str) else str(value), limit)


def whole(value: int) -> int | str:
    """Return a count: digits where it is beyond 2^53-1, and at most 32 of them. Below nothing it is 0."""
    bounded = min(max(value, 0), 10**32 - 1)
    return bounded if bounded < 2**53 else str(bounded)


def milliseconds(value: float | None) -> float | None:
    """Return a duration in ms that a statement can hold; None for what is none (negative, endless, no number)."""
    if value is None or not math.isfinite(value) or not 0 <= value <= MAX_MS:
        return None
    return round(float(value), 6)


def dimension(value: Any) -> int | str:
    """Return one dimension of a shape: a number from 0 to 2^53-1, or text (a name, ``?``, digits)."""
    if isinstance(value, int) and 0 <= value < 2**53:
        return value
    return word(value, 100)
