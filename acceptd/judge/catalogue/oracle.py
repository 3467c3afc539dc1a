"""Codes of the independent oracle, with why they matter."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.reasons_files import Reasons

TABLE: Final[Table] = {
    "reference/disagrees": Code(
        "hold",
        "team",
        "onnxruntime computes another value than onnx's own evaluator, which follows the operators' definitions.",
        "Look at the operators before the output: a local function of a built-in's name, int8 or float16 kernels, "
        "a fault of one of the two. Where the run is right, a reviewer approves it; or declare a tolerance.",
    ),
    "reference/unavailable": Code(
        "info",
        "team",
        "onnx's own evaluator did not compute this model or output: nothing independent stands beside the run.",
        "Nothing: it knows few operators of other domains and has faults of its own. The policy's [reference] "
        "bounds what it may cost.",
    ),
}
REASONS: Final[Reasons] = {
    "reference/disagrees": (
        (
            "What was checked and what runs may be two programs: a runtime can replace a function that the file "
            "defines by an operator of its own."
        ),
        ("CWE-436", "ONNX operators"),
    ),
    "reference/unavailable": (
        "Goldens that the runtime made itself repeat its mistakes, and only a second computation shows them.",
        ("CWE-345",),
    ),
}
