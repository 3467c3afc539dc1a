"""One line of ``acceptd doctor``: a thing that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["enforced", "unavailable", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing tried: ``state``, why it matters, what was seen, and the remedy."""

    name: str
    state: State
    meaning: str
    seen: str
    remedy: str
