"""What golden values prove, by where they come from: said in the file, and to whoever makes them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from acceptd.judge.golden_sets import shown_by

REFERENCE: Final = "reference"
RUNTIME: Final = "onnxruntime"
OWN: Final = "given"
"""Expected values of the caller's own."""


@dataclass(frozen=True, slots=True)
class Origin:
    """``text`` for the manifest, ``word`` for names of sets, and in plain words what such sets prove."""

    word: str
    text: str
    proves: str


def of_reference(version: str) -> Origin:
    """Return the origin of what onnx's own evaluator computed."""
    return Origin(
        REFERENCE,
        f"onnx reference evaluator {version}".strip(),
        "they prove parity: onnx's own evaluator computed them from the same file, independently of the "
        "runtime; that the export equals its source they do not show",
    )


def of_runtime(version: str) -> Origin:
    """Return the origin of what onnxruntime itself computed."""
    return Origin(
        RUNTIME,
        f"onnxruntime {version}, its own output".replace("  ", " "),
        "they prove regression only: onnxruntime computed them itself; that a later run gives the same they "
        "show, not that it is right",
    )


def of_caller(text: str) -> Origin:
    """Return the origin of expected values that the caller brought, by the caller's word."""
    if shown_by(text) == "regression":
        return Origin(OWN, text, "they prove regression only: by what you say, onnxruntime computed them itself")
    return Origin(OWN, text, "they prove parity, as far as they were computed without the runtime, as you say")
