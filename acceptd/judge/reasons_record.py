"""Why findings about provenance, licence, runtime and target matter: code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.reasons_files import Reasons

_ORIGIN: Final = (
    "When a model misbehaves nobody can find out where it came from, make it again, or recall its kin."
)
_TARGET: Final = "Production fails on the first request, or on the one that first takes that path."
_OTHER: Final = "Another runtime than the one that was agreed computed the answers, so they show nothing about it."

TABLE: Final[Reasons] = {
    "export/checkpoint-missing": (_ORIGIN, ("CWE-345", "CWE-1357")),
    "export/code-revision-missing": (_ORIGIN, ("CWE-345", "CWE-1357")),
    "export/dataset-lineage-missing": (
        "A poisoned or withdrawn data set cannot be traced to the models that learnt from it.",
        ("arXiv:1708.06733", "CWE-1357"),
    ),
    "export/exporter-missing": (
        "A faulty or malicious exporter changes what a model computes; its models could not be found again.",
        ("arXiv:2210.00108", "CWE-1357"),
    ),
    "export/framework-missing": (_ORIGIN, ("CWE-1357",)),
    "export/layers-missing": (
        "Without the number of layers a graph that has grown by a backdoor looks like any other.",
        ("arXiv:2206.07840",),
    ),
    "export/parity-missing": (
        "Nobody has compared the export with the model that was trained and evaluated.",
        ("CWE-345", "arXiv:2210.00108"),
    ),
    "export/parity-failed": (
        "The submitter's own comparison says that the export computes something else.",
        ("CWE-682", "arXiv:2210.00108"),
    ),
    "export/quality-missing": ("Nobody has said how well the model does what it is for.", ("CWE-754",)),
    "export/redistribution-missing": ("Releasing it may break the terms under which its parts were given.", ()),
    "export/tested-hardware-missing": (
        "Speed, memory and rounding are unknown on the hardware that serves it.",
        ("CWE-754",),
    ),
    "license/missing": ("Releasing a model without a licence may be an infringement.", ()),
    "license/not-allowed": ("Releasing it would bind the acceptor to terms that were never agreed.", ()),
    "runtime/changed": (_OTHER, ("CWE-354",)),
    "runtime/custom-operator-mismatch": (
        "A custom operator is native code of somebody else, loaded into the process that serves the model.",
        ("CWE-494", "CWE-1357"),
    ),
    "runtime/library-mismatch": (_OTHER, ("CWE-354", "CWE-494")),
    "runtime/said-otherwise": (_OTHER, ("CWE-345",)),
    "runtime/unmeasured": (_OTHER, ("CWE-345",)),
    "runtime/version-mismatch": (_OTHER, ("CWE-345",)),
    "target/operator-unavailable": (_TARGET, ("ORT reduced operators", "ONNX operators")),
}
