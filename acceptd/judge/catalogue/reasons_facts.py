"""Why findings of the facts matter: names, values, cost, quantisation. Code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

TABLE: Final[Reasons] = {
    "structure/attribute-range": (
        "A stride of 2^62 in a Conv or MaxPool kills the process with SIGFPE at the first run.",
        ("CWE-190", "CWE-369"),
    ),
    "structure/division-by-input": (
        "An integer division that traps ends the whole serving process, not one request.",
        ("CWE-369",),
    ),
    "structure/division-trap": (
        "A model of 117 bytes is enough to kill a process with SIGFPE while it creates the session.",
        ("CWE-369",),
    ),
    "structure/empty-name": (
        "An empty name means 'left out': readers differ on what it stands for.",
        ("CWE-436", "ONNX IR"),
    ),
    "structure/function-opset": (
        "Operators change their meaning between versions, and readers differ on whose version counts.",
        ("CWE-436", "ONNX versioning"),
    ),
    "structure/node-blow-up": (
        "An unrolled loop fits one length only, and hidden logic is lost among a hundred thousand nodes.",
        ("arXiv:2206.07840",),
    ),
    "structure/non-finite-weights": (
        "NaN spreads through sums and attention to every output that it reaches; no threshold catches it.",
        ("CWE-682",),
    ),
    "structure/sparse-indices": (
        "Native code writes each value where its index points, inside the dense tensor or beyond it.",
        ("CWE-119", "CWE-1285"),
    ),
    "structure/subgraph-depth": ("Readers that walk subgraphs recursively exhaust their stack.", ("CWE-674",)),
    "structure/too-many-node-inputs": (
        "Checkers and runtimes take quadratic time over the inputs of one node.",
        ("CWE-407",),
    ),
    "structure/unproduced-name": (
        "Some readers take such a name for an input that is left out, others refuse it.",
        ("CWE-436", "ONNX IR"),
    ),
    "structure/unsorted-nodes": (
        "onnxruntime sorts the nodes itself and runs what ONNX forbids; other readers see no such value.",
        ("CWE-436", "ONNX IR"),
    ),
    "schema/versions-undeclared": (
        "Operators change their meaning between versions; nobody can compare what nobody declared.",
        ("ONNX versioning",),
    ),
}
