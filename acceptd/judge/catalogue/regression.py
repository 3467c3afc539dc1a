"""Codes of a submission that is run beside the current release on the same inputs."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "regression/class-changed": Code(
        "hold",
        "team",
        "More rows than the policy allows have another top class than the current release gives them.",
        "Look at the rows; if the change is meant, a reviewer approves it. A quantised model may need other"
        " calibration data, `per_channel=True`, or operators left in float: `quantize_static(..., "
        "nodes_to_exclude=[...])`.",
    ),
    "regression/differs": Code(
        "hold",
        "team",
        "An output differs from the current release's by more than the policy's tolerance, or has another shape.",
        "Compare both models on the input that is named; if the change is meant, a reviewer approves it.",
    ),
    "regression/false-negatives": Code(
        "hold",
        "team",
        "Of the rows that the current release gives one label, more than the policy allows have another one now.",
        "Evaluate the label by itself: overall agreement does not show it. Calibrate with rows of this "
        "label (`quantize_static` with a reader that gives some), or leave the last layers in float "
        "(`nodes_to_exclude=[...]`).",
    ),
    "regression/label-gone": Code(
        "hold",
        "team",
        "No row that the current release gives one label has it any more. Of a quantised model this rejects.",
        "Check that labels and columns have one order, and evaluate the label by itself. Of a quantised "
        "model quantise the last layers with `per_channel=True`, or leave them in float "
        "(`nodes_to_exclude=[...]`).",
    ),
    "regression/larger": Code(
        "hold",
        "team",
        "The model is larger than the current release by more than the policy allows.",
        "Remove what is not used (weights stored twice, debug outputs, metadata), or have a reviewer approve it.",
    ),
    "regression/less-accurate": Code(
        "warn",
        "team",
        "On the goldens it is wrong on rows on which the current release is right, or on more of them.",
        "Compare with the original; keep the release if the difference is not meant.",
    ),
    "regression/more-memory": Code(
        "hold",
        "team",
        "The run needs more memory than the current release on the same inputs by more than the policy allows.",
        "Look for larger intermediate values, or for weights that are expanded at load.",
    ),
    "regression/moved": Code(
        "warn",
        "team",
        "Operators of the quantised model run on another provider than in the current release.",
        "Check that the provider has integer kernels for them; a copy between providers costs what int8 gains.",
    ),
    "regression/not-answered": Code(
        "hold",
        "team",
        "The current release answers inputs inside the declared domain that this model does not.",
        "Look at the findings about probes: the model must answer what bundle.toml declares, as the release does.",
    ),
    "regression/not-comparable": Code(
        "info",
        "team",
        "Model or output cannot be compared with the current release: other inputs, types, shapes or labels.",
        "Nothing, where the change is meant. A policy that requires the comparison holds it for a reviewer.",
    ),
    "regression/operators": Code(
        "info",
        "team",
        "Operators or layers of the quantised model take more time than in the current release, or another "
        "provider, as onnxruntime's profiler told both jobs.",
        "Leave the operators that are named in float (`quantize_static(..., nodes_to_exclude=[...])`), or "
        "quantise them in another format: a kernel for few bits that is missing on this processor, and "
        "scales computed at each call, cost what int8 gains.",
    ),
    "regression/release-failed": Code(
        "hold",
        "reviewer",
        "The current release did not survive its own run on the inputs of this submission, or on this runtime.",
        "Run the release alone: if it fails too, the runtime has changed; else look at the golden that breaks it.",
    ),
    "regression/release-unavailable": Code(
        "warn",
        "reviewer",
        "The current release could not be run: its bytes or its facts are not there as they were accepted.",
        "Run acceptd ledger verify, and put the bundle back from a copy that gives its digest.",
    ),
    "regression/slower": Code(
        "hold",
        "team",
        "An inference takes longer than the current release's by more than the policy allows.",
        "Profile both (`SessionOptions().enable_profiling = True`) and find the operator that costs more; "
        "if the time is worth it, a reviewer approves it.",
    ),
    "regression/slower-unclear": Code(
        "warn",
        "team",
        "An inference seems to take longer than the current release's; it does not stand out from the noise.",
        "Submit again on a quiet machine, or give the policy more timing rounds.",
    ),
}
