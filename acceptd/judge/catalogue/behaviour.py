"""Codes of relations between inferences: rows, batches, threads, processes, calls at once."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "behaviour/row-dependence": Code(
        "hold",
        "team",
        "A row of a batch gives another result than the same row alone: callers that share a batch influence each "
        "other. It only warns within ten tolerances, or where scales of quantisation are computed over the batch.",
        "Mend what works across the batch axis: a Softmax or mean over axis 0, BatchNormalization in "
        "training mode (`model.eval()`), dynamic quantisation of a whole batch; where rows are meant to "
        "interact, declare `rows_interact = true` for the model in bundle.toml.",
    ),
    "behaviour/order-dependence": Code(
        "hold",
        "team",
        "Rows give other results when their order in the batch changes. It only warns within ten tolerances, or "
        "where scales of quantisation are computed over the batch.",
        "Mend what treats places of the batch differently; where that is meant, declare `rows_interact = "
        "true` for the model in bundle.toml.",
    ),
    "behaviour/state-differs": Code(
        "hold",
        "team",
        "A session that has met other batch sizes gives another result than one that has not: something is kept "
        "between calls. It only warns within ten tolerances, or where scales of quantisation are computed over "
        "the batch.",
        "Remove operators that keep state, or report the case to onnxruntime with the model.",
    ),
    "behaviour/threads-differ": Code(
        "warn",
        "team",
        "With another number of intra-op threads outputs differ by more than the tolerance.",
        "Run production with the threads of the profile, or widen the tolerance if the difference is harmless.",
    ),
    "behaviour/process-differs": Code(
        "hold",
        "team",
        "The same session on the same input gives another result in a fresh process. It only warns within ten "
        "tolerances.",
        "Remove random operators (`model.eval()` before the export) or set their `seed` attribute; a "
        "reviewer decides whether the rest is meant.",
    ),
    "behaviour/concurrent-differs": Code(
        "hold",
        "team",
        "Calls at once on one session give other results than the same calls one after the other. It only warns "
        "within ten tolerances.",
        "Use one session for each thread, or find the operator (often a custom one) that keeps state "
        "between calls.",
    ),
    "behaviour/relation-failed": Code(
        "hold",
        "team",
        "The runtime raised on a batch size, order, thread count or call at once that the declared domain allows, "
        "where the plain call passed.",
        "Run the named batch size with onnxruntime and mend what it reports (often a Reshape with a fixed "
        "batch), or narrow the bounds in [dims].",
    ),
    "behaviour/rows-interact-declared": Code(
        "info",
        "team",
        "The manifest says that rows of one batch influence each other, so rows were not compared alone.",
        "Callers of such a model must not share a batch unless that is meant.",
    ),
    "behaviour/input-ignored": Code(
        "info",
        "team",
        "Other values of one input, with all others held, changed no output on any draw.",
        "Remove the input if the model does not need it, or check that the weights were exported.",
    ),
    "behaviour/probes-left-out": Code(
        "info",
        "team",
        "Some probes or relations were not tried: time, memory, threads, bytes of weights or declarations did not "
        "allow them.",
        "Team: declare ranges and dims; rows and orders need one named first dimension of inputs and outputs, "
        'as `shape = ["batch", 3]`. Operator: raise probes.seconds, probes.relations_seconds or '
        "probes.packed_bytes.",
    ),
}
