"""Codes of comparing and of behaviour."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import COMPARE, DYNAMIC, NAMES

TABLE: Final[Table] = {
    "parity/audio": Code(
        "reject",
        "team",
        "Audio has more noise against the expected samples, or another spectrum, than its limits allow.",
        f"{COMPARE}, channel by channel: the same sample rate, normalisation and padding on both sides; "
        "docs/parity.md has the formulas.",
    ),
    "parity/boxes": Code(
        "reject",
        "team",
        "Boxes, matched whatever their order, differ in place, class, score or number from the expected ones.",
        f"{COMPARE}; check the columns that bundle.toml declares, and that scores and thresholds are part of"
        " both. Classes are compared exactly: a class column holds whole numbers.",
    ),
    "parity/class-changed": Code(
        "reject",
        "team",
        "Rows have another top class than expected.",
        f"{COMPARE}: `model.eval()` before the export, the same preprocessing, the same order of classes; "
        "skl2onnx: give float32 inputs to both.",
    ),
    "parity/divergence": Code(
        "reject",
        "team",
        "A row of probabilities is distributed otherwise than the expected one.",
        f"{COMPARE}: `model.eval()` before the export, the same preprocessing, a Softmax on the same axis.",
    ),
    "parity/drift": Code(
        "warn",
        "team",
        "Logits differ from the expected ones by more than the tolerance, and every row keeps its class.",
        "Check the export's precision (float16, fused operators); where it is meant, declare it: `tolerance"
        " = { rtol = 0.0, atol = 1e-3 }` on the output in bundle.toml.",
    ),
    "parity/dtype": Code(
        "reject",
        "team",
        "An output has another element type than its expected value.",
        "Write the golden with the output's own type, for example `expected.astype(numpy.float32)`, or "
        "correct the export.",
    ),
    "parity/embedding": Code(
        "reject",
        "team",
        "Embeddings point elsewhere, have another length, or have other nearest neighbours than expected.",
        f"{COMPARE}; check pooling, the attention mask and the normalisation at the end.",
    ),
    "parity/kind": Code(
        "reject",
        "team",
        "An output is another kind of value than its expected value.",
        "Write the golden as the kind of value that the output is (tensor, sequence, map), or correct the "
        'export (skl2onnx: `options={"zipmap": False}`).',
    ),
    "parity/malformed": Code(
        "reject",
        "team",
        "An output or expected value cannot be read as the tensor that it claims to be.",
        "Write the golden set again; if it is well-formed, look at the run: its output has values that "
        "cannot be compared.",
    ),
    "parity/mismatch": Code(
        "reject",
        "team",
        "An output differs from its expected value by more than the tolerance.",
        f"{COMPARE} (`model.eval()` before the export, the same preprocessing). Where the model is right the"
        " golden may be stale: make it anew from the original. Declare a larger tolerance only with a "
        "reason.",
    ),
    "parity/not-probabilities": Code(
        "reject",
        "team",
        "An output of kind probabilities has values outside [0, 1], or rows that do not sum to 1.",
        "Add the missing Softmax (Sigmoid for independent labels). Where values pass 0 or 1 by rounding alone, as "
        'sums of trees do, end the model in `Clip` from 0 to 1. Or declare kind = "logits" or "values".',
    ),
    "parity/output-missing": Code(
        "reject",
        "team",
        "The run did not give an output for which the golden set has an expected value.",
        f"Name the golden's value as an output of the model, or export with all outputs: {NAMES}.",
    ),
    "parity/sequence": Code(
        "reject",
        "team",
        "A row has another token than expected, or ends elsewhere.",
        f"{COMPARE}, greedy decoding on both sides: the same start, end and padding tokens.",
    ),
    "parity/shape": Code(
        "reject",
        "team",
        "An output has another shape than its expected value.",
        f"Write the golden for the model's own shapes, or export with a dynamic axis: {DYNAMIC}.",
    ),
    "parity/tolerance-capped": Code(
        "warn",
        "team",
        "A declared tolerance is larger than the policy or contract allows; the cap was used.",
        "Declare a tolerance within the cap, or have a contract set a wider one for this output.",
    ),
    "behaviour/nondeterministic": Code(
        "hold",
        "team",
        "Two runs on the same input gave different outputs.",
        "Remove random operators (`model.eval()` before the export) or set their `seed` attribute; a "
        "reviewer decides whether the rest is meant.",
    ),
    "behaviour/optimisation-class-change": Code(
        "hold",
        "team",
        "Without graph optimisation rows have another top class.",
        "Compare with `SessionOptions().graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL` "
        "and find the fused or quantised operators that decide differently; a reviewer decides.",
    ),
    "behaviour/optimisation-differs": Code(
        "warn",
        "team",
        "Without graph optimisation the outputs differ by more than the tolerance.",
        "Nothing, if the difference is harmless; else compare with "
        "`SessionOptions().graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL` and avoid the"
        " operators that are fused.",
    ),
    "behaviour/output-count": Code(
        "reject",
        "team",
        "A run gave another number of outputs, or other names, than declared.",
        f"Declare exactly the outputs that the model has, in its order, or name them at export: {NAMES}.",
    ),
    "behaviour/output-dtype": Code(
        "reject",
        "team",
        "A run gave an output of another kind or element type than declared.",
        "Correct `dtype` of the output in bundle.toml, or export with the declared type.",
    ),
    "behaviour/output-shape": Code(
        "reject",
        "team",
        "A run gave an output of another shape than declared.",
        "Correct `shape` of the output or the bounds in [dims] of bundle.toml; a size that was fixed at "
        f"export needs a dynamic axis: {DYNAMIC}.",
    ),
    "behaviour/probe-crash-outside": Code(
        "warn",
        "team",
        "The process died on an input outside the declared dims and ranges, or for which none is declared; "
        "the loader refuses what is declared and passes everything else on to the model.",
        "Declare `range` of each input and bounds in [dims], so that the loader refuses such inputs before "
        "they reach the model; or guard the division in the graph.",
    ),
    "behaviour/probe-error": Code(
        "reject",
        "team",
        "The runtime raised on an input inside the declared domain.",
        "Declare in bundle.toml what the model can take (`range = [0.0, 1.0]` of the input, `min` and `max`"
        " in [dims]), or mend the operator that the message names.",
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
        "Narrow the declared `range`, or guard divisions, logarithms and square roots: `x.clamp(min=1e-6)`.",
    ),
    "behaviour/probe-not-probabilities": Code(
        "reject",
        "team",
        "An input inside the declared ranges gave probabilities outside [0, 1], or rows that do not sum to 1; "
        "the loader would refuse the answer.",
        "End the model in a Softmax on every path; where values pass 0 or 1 by rounding alone, as sums of trees "
        'do, in `Clip` from 0 to 1. Or declare kind = "logits" or "values".',
    ),
    "behaviour/unoptimised-failed": Code(
        "warn",
        "team",
        "The model loads or runs only with graph optimisation.",
        "Nothing to do if production runs it with optimisation.",
    ),
}
