"""Codes of the runtime itself: its libraries, its version, and what a reduced build offers."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "runtime/advisory": Code(
        "hold",
        "reviewer",
        "A signed list of advisories speaks of the runtime that the bundle was run under: its version, or one of "
        "its libraries. The policy's `advisories.affected` is its severity.",
        "The operator installs a runtime that is not affected and the bundle is submitted again, or a person "
        "decides; `acceptd advisory affected` lists what is released.",
    ),
    "runtime/advisories-stale": Code(
        "hold",
        "reviewer",
        "The list of advisories on record has expired or does not verify, so nobody knows what is known against "
        "the runtime. The policy's `advisories.stale` is its severity.",
        "The operator installs the newest list (`acceptd advisory install`).",
    ),
    "runtime/custom-operator-mismatch": Code(
        "hold",
        "reviewer",
        "A library of custom operators is not the one whose digest the profile gives, so nothing was run with it.",
        "The operator puts the right file back, or reviews the new one and gives its digest in the profile.",
    ),
    "runtime/library-mismatch": Code(
        "hold",
        "reviewer",
        "The profile pins the native libraries of its runtime, and one that was mapped has another digest, is not "
        "listed, or was not mapped. Nothing was run.",
        "The operator finds out who changed it; `acceptd profile pin` prints the table as it is now.",
    ),
    "runtime/unmeasured": Code(
        "hold",
        "reviewer",
        "The libraries that a run was forked from could not be measured afterwards: a file was replaced or cannot "
        "be read. What ran has no identity.",
        "The operator restarts acceptd after a change to an interpreter, and the bundle is submitted again.",
    ),
    "runtime/said-otherwise": Code(
        "hold",
        "reviewer",
        "A run job says another version or build of its runtime than its warm parent had before it read a "
        "submitted byte. A job cannot change what it was forked from, so it was taken over or is mistaken.",
        "Look at the job in the evidence; the trusted record is the one of the warm parent.",
    ),
    "runtime/changed": Code(
        "hold",
        "reviewer",
        "Two runs of one submission had different runtimes: something was installed or replaced between them.",
        "Submit again; the operator keeps the interpreter unchanged while acceptd runs.",
    ),
    "runtime/version-mismatch": Code(
        "hold",
        "reviewer",
        "The onnxruntime of the profile's interpreter is not the version that the profile names. Nothing was run.",
        "The operator installs the version that the profile names, or names the one that is installed.",
    ),
    "target/compiled-artifact": Code(
        "reject",
        "team",
        "The model holds a model that an execution provider compiled (EPContext): machine code of one device.",
        "Submit the model that it was compiled from, as the exporter wrote it; production makes its own "
        "compiled form.",
    ),
    "target/optimised-artifact": Code(
        "hold",
        "team",
        "The model is the result of onnxruntime's optimiser for one kind of processor, not a source model.",
        "Submit the exported model, not one that `optimized_model_filepath` wrote; the loader's "
        "optimised_cache= makes and keeps the optimised form.",
    ),
    "target/operator-unavailable": Code(
        "reject",
        "team",
        "The model needs an operator, an opset or an element type of it that the reduced build of the target "
        "runtime was made without.",
        "Use operators that the build has, or ask the operator for a build that has more.",
    ),
}  # fmt: skip
