"""Why findings of the comparison with the current release matter: code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

_SILENT: Final = "A comparison that cannot be made must be seen as not made, never as passed."

TABLE: Final[Reasons] = {
    "regression/class-changed": (
        "A model may agree with its own goldens and decide otherwise than production everywhere else.",
        ("CWE-682",),
    ),
    "regression/differs": ("Whatever reads the output was set up for the release's values.", ("CWE-682",)),
    "regression/false-negatives": (
        "Overall agreement hides a rare class, which is often the one that matters.",
        ("CWE-682",),
    ),
    "regression/label-gone": (
        "Overall agreement hides a rare class that is lost altogether.",
        ("CWE-682",),
    ),
    "regression/larger": ("Targets are sized for the release.", ("CWE-400",)),
    "regression/less-accurate": ("The new version is worse than the old one at what it is for.", ("CWE-682",)),
    "regression/more-memory": ("Targets are sized for the release.", ("CWE-400",)),
    "regression/moved": (
        "What falls back to another provider is copied there and back: fewer bits, and more time.",
        ("CWE-400",),
    ),
    "regression/not-answered": ("Callers that work today would get errors.", ("CWE-754",)),
    "regression/not-comparable": (_SILENT, ("CWE-636",)),
    "regression/operators": (
        "Fewer bits are meant to be cheaper, and the sum does not show where they are not.",
        ("ORT execution providers",),
    ),
    "regression/release-failed": (
        "An input that breaks the release would also be a way around the comparison with it.",
        ("CWE-636",),
    ),
    "regression/release-unavailable": (_SILENT, ("CWE-636",)),
    "regression/slower": ("Callers' timeouts are set for the release.", ("CWE-400",)),
    "regression/slower-unclear": ("Noise must not reject a model, nor hide that it is slower.", ("CWE-400",)),
}
