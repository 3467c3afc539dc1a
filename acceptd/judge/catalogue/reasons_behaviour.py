"""Reasons and references of relations between inferences."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

_SHARED: Final = "Serving gathers calls of different users in one batch: one user's row must not change another's."
_STATE: Final = "What one call leaves behind in the session reaches the next caller."

TABLE: Final[Reasons] = {
    "behaviour/row-dependence": (_SHARED, ("CWE-682", "arXiv:2206.07840")),
    "behaviour/order-dependence": (_SHARED, ("CWE-682",)),
    "behaviour/state-differs": (_STATE, ("CWE-682",)),
    "behaviour/threads-differ": (
        "Answers depend on the machine: sums in another order, or a race between threads.",
        ("arXiv:2408.05148",),
    ),
    "behaviour/process-differs": (
        "No answer can be reproduced after a complaint, and a golden that matches once proves little.",
        ("arXiv:2408.05148",),
    ),
    "behaviour/concurrent-differs": (_STATE, ("CWE-682",)),
    "behaviour/relation-failed": ("The model fails on calls for which it was declared.", ("CWE-754",)),
    "behaviour/rows-interact-declared": (_SHARED, ("arXiv:1810.03993",)),
    "behaviour/input-ignored": (
        "An input that changes nothing was cut off in the export, or answers only to a value that was not tried.",
        ("arXiv:1708.06733",),
    ),
    "behaviour/probes-left-out": (
        "What was not tried is not known: a slow model must not look like a probed one.",
        ("CWE-693",),
    ),
}
