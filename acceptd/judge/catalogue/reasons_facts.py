"""Why findings of the facts matter: names, values, cost, quantisation. Code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

TABLE: Final[Reasons] = {
    "structure/attribute-range": (
        "A stride of 2^62 in a Conv or MaxPool ends the process with SIGFPE at the first run.",
        ("CWE-190", "CWE-369"),
    ),
    "structure/division-by-input": (
        "An integer division that traps ends the whole serving process, not one request.",
        ("CWE-369",),
    ),
    "structure/division-trap": (
        "117 bytes are enough to end a process with SIGFPE while it creates the session.",
        ("CWE-369",),
    ),
    "structure/empty-name": (
        "An empty name means 'left out': readers differ on what it stands for.",
        ("CWE-436",),
    ),
    "structure/function-opset": (
        "Operators change their meaning between versions, and readers differ on whose version counts.",
        ("CWE-436",),
    ),
    "structure/node-blow-up": (
        "What nobody wrote nobody reviews: a payload of nodes is lost among a hundred thousand.",
        ("CWE-1284",),
    ),
    "structure/non-finite-weights": (
        "One NaN spreads through sums and attention to every output, for some inputs alone.",
        ("CWE-682",),
    ),
    "structure/sparse-indices": (
        "Native code writes each value where its index points, inside the dense tensor or beyond it.",
        ("CWE-119", "CWE-1285"),
    ),
    "structure/subgraph-depth": ("Readers descend into subgraphs recursively.", ("CWE-674",)),
    "structure/too-many-node-inputs": (
        "Checkers and runtimes take quadratic time over the inputs of one node.",
        ("CWE-770",),
    ),
    "structure/unproduced-name": (
        "Some readers take such a name for an input that is left out, others refuse it.",
        ("CWE-436",),
    ),
    "structure/unsorted-nodes": (
        "onnxruntime sorts the nodes itself and runs what ONNX forbids; other readers see no such value.",
        ("CWE-436",),
    ),
    "cost/allocation": (
        "A model of a hundred bytes asks for terabytes, and takes its neighbours on the host with it.",
        ("CWE-789",),
    ),
    "cost/peak-memory": ("Memory that was not planned for ends the serving process under load.", ("CWE-400",)),
    "cost/repetition": (
        "A Scan over a tensor of zero bytes turns 2^62 times and costs no memory that a limit could see.",
        ("CWE-834", "CWE-400"),
    ),
    "quantization/disagrees": (
        "Accuracy was measured for one arithmetic and production runs another.",
        ("CWE-682",),
    ),
    "quantization/no-provenance": (
        "Scales come from calibration data: who chose them chose what saturates.",
        ("CWE-345",),
    ),
    "schema/versions-undeclared": (
        "Operators change their meaning between versions; what nobody declared nobody compares.",
        ("CWE-436",),
    ),
}
