"""Why findings about provenance, licence, runtime and target matter: code to (reason, references)."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.reasons_files import Reasons

_ORIGIN: Final = (
    "When a model misbehaves nobody can trace its origin, rebuild it, or recall models made the same way."
)
_TARGET: Final = "Production fails on the first request, or on the one that first takes that path."
_OTHER: Final = "Answers of a runtime other than the agreed one show nothing about the agreed one."

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
    "export/quality-missing": ("Nobody has said how well the model does what it is for.", ("arXiv:1810.03993",)),
    "export/redistribution-missing": ("Releasing it may break the terms under which its parts were given.", ()),
    "export/tested-hardware-missing": (
        "Speed, memory and rounding are unknown on the hardware that serves it.",
        (),
    ),
    "license/missing": ("Releasing a model without a licence may be an infringement.", ()),
    "license/not-allowed": ("Releasing it would bind the acceptor to terms that were never agreed.", ()),
    "runtime/advisory": (
        "A known fault of the runtime may be what made it pass, or what an attacker uses in production.",
        ("CWE-1395",),
    ),
    "runtime/advisories-stale": (
        "Who withholds new advisories keeps a vulnerable runtime in use.",
        ("CWE-1395",),
    ),
    "runtime/changed": (_OTHER, ("CWE-354",)),
    "runtime/custom-operator-mismatch": (
        "A custom operator is native code of somebody else, loaded into the process that serves the model.",
        ("CWE-494", "CWE-1357"),
    ),
    "runtime/library-mismatch": (_OTHER, ("CWE-354", "CWE-494")),
    "runtime/said-otherwise": (_OTHER, ("CWE-345",)),
    "runtime/version-mismatch": (_OTHER, ("CWE-345",)),
    "target/compiled-artifact": (
        "Nobody can read what compiled code does, and it is right for one device and one driver alone.",
        ("CWE-494", "ORT EP context"),
    ),
    "target/optimised-artifact": (
        "Operators that an optimiser put in for one processor run nowhere else, or run other kernels there.",
        ("ORT graph optimisations",),
    ),
    "target/operator-unavailable": (_TARGET, ("ORT reduced operators", "ONNX operators")),
    "difference/initializers-changed": (
        "A backdoor that is built into the graph brings weights of its own.",
        ("arXiv:2511.00664",),
    ),
    "difference/interface-changed": (
        "Callers of the current release would fail, or read every answer wrongly.",
        ("CWE-20",),
    ),
    "difference/meaning-changed": (
        "The weights may be byte-equal while every answer is read as another label, or checked less strictly.",
        ("CWE-345", "CWE-20"),
    ),
    "difference/models-changed": ("A model that nobody asked for would be released along.", ("CWE-912",)),
    "difference/new-branch": (
        "A new choice may be a new behaviour, even where no input decides it.",
        ("arXiv:2206.07840",),
    ),
    "difference/new-domain": (
        "Native code of another origin becomes part of what production trusts.",
        ("CWE-1357",),
    ),
    "difference/new-operator": (
        "What the model computes has changed, not only its numbers.",
        ("arXiv:2206.07840",),
    ),
    "difference/new-selection": (
        "A trigger in the graph has this shape: an input is looked for, and on it another answer is chosen.",
        ("arXiv:2511.00664", "arXiv:2206.07840", "CWE-912"),
    ),
    "difference/operator-gone": (
        "Nobody misses a step that was taken out, such as a check of the input, until it matters.",
        ("CWE-693",),
    ),
    "difference/selection-changed": (
        "Where an input chooses, a new condition is a new behaviour.",
        ("arXiv:2511.00664", "CWE-912"),
    ),
    "difference/size-changed": (
        "A model that grew or shrank a lot is not the model that people know.",
        ("CWE-345",),
    ),
    "difference/terms-changed": (
        "What the model may be fed with, and used for, would change without anybody who decides having seen it.",
        ("CWE-345", "arXiv:1810.03993"),
    ),
    "difference/unknown": ("What could not be compared may have changed in any way.", ("CWE-636",)),
    "difference/version-changed": (
        "Operators change their meaning between versions: the same nodes can compute something else.",
        ("ONNX versioning",),
    ),
    "export/independent-byte-equal": (
        "A copy of the same file shows nothing about its exporter.",
        ("CWE-345",),
    ),
    "export/independent-differs": (
        "Two exporters may write the same model in two ways, but one of them may also have changed it.",
        ("arXiv:2210.00108",),
    ),
    "export/independent-graph-equal": (
        "One exporter alone cannot have altered a graph that another one writes just the same.",
        ("arXiv:2210.00108",),
    ),
    "export/independent-unknown": ("What could not be compared shows nothing about the exporter.", ("CWE-636",)),
    "payload/archive": ("No scanner of the release looks into such an archive.", ("CWE-506",)),
    "payload/executable": (
        "Malware travels in models because scanners look at files, not into tensors.",
        ("CWE-506", "arXiv:2107.08590"),
    ),
    "payload/flood": ("Thousands of false beginnings hide the one that matters.", ("CWE-506", "CWE-400")),
    "payload/pickle": ("Loading a pickle runs whatever code its author put there.", ("CWE-502",)),
    "payload/script": ("One careless tool away from running, it has no business in a model.", ("CWE-506",)),
    "payload/unreadable": ("What cannot be read cannot be judged.", ("CWE-636",)),
    "payload/url": (
        "An address in a model may be where something else reports to or fetches from.",
        ("CWE-506",),
    ),
    "cost/allocation": (
        "One node that needs more memory than there is ends the process that serves it.",
        ("CWE-789",),
    ),
    "cost/peak-memory": (
        "Each value may be small, and together they end the process that serves the model.",
        ("CWE-770",),
    ),
    "cost/repetition": (
        "A few bytes say how often a loop runs: once started, the model never answers.",
        ("CWE-834", "CWE-400"),
    ),
    "quantization/disagrees": (
        "Accuracy and speed were measured for another quantisation than the one that is released.",
        ("CWE-345",),
    ),
    "quantization/no-provenance": (
        "Calibration data shapes every answer of a quantised model, and nobody knows which it was.",
        ("CWE-345", "CWE-1357"),
    ),
    "cell/withdrawn": ("A drop that was taken back must not be released.", ("CWE-367",)),
    "runtime/unmeasured": (_OTHER, ("CWE-353",)),
}
