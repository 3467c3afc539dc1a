"""Codes of comparing and of behaviour."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "parity/audio": Code(
        "reject",
        "team",
        "Audio has more noise against the expected samples, or another spectrum, than its limits allow.",
        "Compare the exported model with the original, channel by channel; docs/parity.md has the formulas.",
    ),
    "parity/boxes": Code(
        "reject",
        "team",
        "Boxes, matched whatever their order, differ in place, class, score or number from the expected ones.",
        "Compare the exported model with the original; check the columns that the manifest declares. Classes are "
        "compared exactly: a class column holds whole numbers.",
    ),
    "parity/class-changed": Code(
        "reject",
        "team",
        "Rows have another top class than expected.",
        "Compare the exported model with the original.",
    ),
    "parity/divergence": Code(
        "reject",
        "team",
        "A row of probabilities is distributed otherwise than the expected one.",
        "Compare the exported model with the original.",
    ),
    "parity/drift": Code(
        "warn",
        "team",
        "Logits differ from the expected ones by more than the tolerance, and every row keeps its class.",
        "Check the export's precision; declare a tolerance for the output.",
    ),
    "parity/dtype": Code(
        "reject",
        "team",
        "An output has another element type than its expected value.",
        "Correct the golden set, or the export.",
    ),
    "parity/embedding": Code(
        "reject",
        "team",
        "Embeddings point elsewhere, have another length, or have other nearest neighbours than expected.",
        "Compare the exported model with the original; check pooling and normalisation.",
    ),
    "parity/kind": Code(
        "reject",
        "team",
        "An output is another kind of value than its expected value.",
        "Correct the golden set, or the export.",
    ),
    "parity/malformed": Code(
        "reject",
        "team",
        "An output or expected value cannot be read as the tensor that it claims to be.",
        "Write the golden set again; if it is well-formed, look at the run.",
    ),
    "parity/mismatch": Code(
        "reject",
        "team",
        "An output differs from its expected value by more than the tolerance.",
        "Compare the exported model with the original. Where the model is right the golden may be stale: make it "
        "anew from the original. Declare a larger tolerance only with a reason.",
    ),
    "parity/not-probabilities": Code(
        "reject",
        "team",
        "An output of kind probabilities has values outside [0, 1], or rows that do not sum to 1.",
        'Add the missing Softmax, or declare kind = "logits".',
    ),
    "parity/output-missing": Code(
        "reject",
        "team",
        "The run did not give an output for which the golden set has an expected value.",
        "Correct the golden set, or export with all outputs.",
    ),
    "parity/sequence": Code(
        "reject",
        "team",
        "A row has another token than expected, or ends elsewhere.",
        "Compare the exported model with the original, greedy decoding on both sides.",
    ),
    "parity/shape": Code(
        "reject",
        "team",
        "An output has another shape than its expected value.",
        "Correct the golden set, or the export.",
    ),
    "parity/tolerance-capped": Code(
        "warn",
        "team",
        "A declared tolerance is larger than the policy or contract allows; the cap was used.",
        "Declare a tolerance within the cap.",
    ),
    "behaviour/nondeterministic": Code(
        "hold",
        "team",
        "Two runs on the same input gave different outputs.",
        "Seed or remove random operators; a reviewer decides whether the rest is meant.",
    ),
    "behaviour/optimisation-class-change": Code(
        "hold",
        "team",
        "Without graph optimisation rows have another top class.",
        "Find the fused or quantised operators that decide differently; a reviewer decides.",
    ),
    "behaviour/optimisation-differs": Code(
        "warn",
        "team",
        "Without graph optimisation the outputs differ by more than the tolerance.",
        "Nothing, if the difference is harmless; else avoid the operators concerned.",
    ),
    "behaviour/output-count": Code(
        "reject",
        "team",
        "A run gave another number of outputs, or other names, than declared.",
        "Declare exactly the outputs that the model has, in its order.",
    ),
    "behaviour/output-dtype": Code(
        "reject",
        "team",
        "A run gave an output of another kind or element type than declared.",
        "Correct the declared dtype, or export again.",
    ),
    "behaviour/output-shape": Code(
        "reject",
        "team",
        "A run gave an output of another shape than declared.",
        "Correct the declared shape or its bounds in [dims].",
    ),
    "behaviour/probe-crash-outside": Code(
        "warn",
        "team",
        "The process died on an input outside the declared dims and ranges, or for which none is declared; "
        "the loader refuses what is declared and passes everything else on to the model.",
        "Declare dims and ranges so that such inputs are refused before they reach the model.",
    ),
    "behaviour/probe-error": Code(
        "reject",
        "team",
        "The runtime raised on an input inside the declared domain.",
        "Declare the dims and ranges that the model can take, or mend the model.",
    ),
    "behaviour/probe-error-outside": Code(
        "info",
        "team",
        "The runtime raised on an input outside the declared domain.",
        "Nothing to do; the loader refuses such inputs where ranges are declared.",
    ),
    "behaviour/probe-non-finite": Code(
        "warn",
        "team",
        "An input inside the declared ranges gave an output that is not finite.",
        "Narrow the declared ranges, or guard the divisions and logarithms.",
    ),
    "behaviour/probe-not-probabilities": Code(
        "reject",
        "team",
        "An input inside the declared ranges gave probabilities outside [0, 1], or rows that do not sum to 1; "
        "the loader would refuse the answer.",
        'End the model in a Softmax on every path, or declare kind = "logits" or "values".',
    ),
    "behaviour/unoptimised-failed": Code(
        "warn",
        "team",
        "The model loads or runs only with graph optimisation.",
        "Nothing to do if production runs it with optimisation.",
    ),
}
