"""Why findings about the origin of goldens, labels and quality matter: code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

_WORSE: Final = "A model may agree with its source in every digit and still answer wrongly where it counts."

TABLE: Final[Reasons] = {
    "vectors/fixture-missing": (
        "An example of the preprocessing that is not there is one that nobody can repeat.",
        ("CWE-345",),
    ),
    "vectors/input-range": (
        "The loader refuses such values: production gets errors, or the declared range is not what is meant.",
        ("CWE-1284",),
    ),
    "vectors/labels-invalid": ("Figures over rows with the wrong labels mean nothing.", ("CWE-1286",)),
    "vectors/labels-missing": (
        "Its author believes that answers were measured which nobody looked at.",
        ("CWE-345",),
    ),
    "vectors/not-separable": (
        "A decoder that sees both sides, once taken over, can hand the model its answers as an input.",
        ("CWE-653",),
    ),
    "vectors/origin-not-accepted": (
        "Expected values are worth as much as the program that made them.",
        ("CWE-345",),
    ),
    "vectors/origin-undeclared": (
        "Expected values are worth as much as the program that made them.",
        ("CWE-345",),
    ),
    "vectors/regression-only": (
        "Values that the runtime made itself repeat its mistakes: a wrong export agrees with itself.",
        ("CWE-345",),
    ),
    "quality/accuracy": (_WORSE, ("arXiv:1708.06733",)),
    "quality/brier": (
        "Whoever acts on the probabilities weighs risks that are not so.",
        ("arXiv:1706.04599",),
    ),
    "quality/calibration": (
        "Whoever acts on the probabilities weighs risks that are not so.",
        ("arXiv:1706.04599",),
    ),
    "quality/false-negatives": (_WORSE, ("arXiv:1708.06733",)),
    "quality/not-measured": ("What was not measured must never count as passed.", ("CWE-636",)),
    "quality/too-few-rows": ("A share of a handful of rows is chance.", ("CWE-636",)),
}
