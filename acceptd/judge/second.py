"""How many bytes of weights the second process of a model may rearrange for its kernels. Pure.

onnxruntime reads all weights and writes them anew (packs them) for each session, at about a second for a GiB. The
second process opens one session for the goldens and up to RELATIONS more for the relations between calls
(``sandbox/metamorphic.py``). What they pack together is bounded by ``probes.packed_bytes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RELATIONS: Final = 4
"""Sessions of the relations: one that meets all sizes, one with other threads, fresh ones for two sizes."""
UNPACKED: Final = "session.disable_prepacking"
"""onnxruntime's entry: weights are read where they lie, and rearranged in each call where a kernel needs it."""


@dataclass(frozen=True, slots=True)
class Second:
    """What the second process does: whether its sessions pack weights, and how many its relations may open."""

    packed: bool
    sessions: int


def second(weights: int, budget: int, *, quantised: bool, entries: dict[str, str] | None = None) -> Second:
    """Return what ``budget`` bytes allow for a model of ``weights`` bytes, its file and external data together.

    Beyond it a model in floating point leaves its weights where they lie: all relations are held, in sessions
    that are not the first process's, so that only the two processes cannot be compared. A quantised one may be
    computed by other kernels then, with other answers: its sessions pack as always, as many as fit. ``entries``
    are the profile's: where it never packs there is nothing to bound.
    """
    if (entries or {}).get(UNPACKED) == "1" or weights * (1 + RELATIONS) <= budget:
        return Second(packed=True, sessions=RELATIONS)
    if not quantised:
        return Second(packed=False, sessions=RELATIONS)
    return Second(packed=True, sessions=max(0, budget // weights - 1))
