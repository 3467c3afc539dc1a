"""Codes of graphs, operators and functions."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import DYNAMIC, INLINE, NAMES, SAVE

TABLE: Final[Table] = {
    "structure/checker-failed": Code(
        "hold",
        "team",
        "onnx.checker refuses the model although the other stages could read it.",
        'Run `onnx.checker.check_model("model.onnx", full_check=True)` and mend the node that it names; as '
        "a rule export the model again with a current exporter does: `torch.onnx.export(model, args, "
        '"model.onnx", dynamo=True)`.',
    ),
    "structure/checker-skipped": Code(
        "info",
        "team",
        "onnx.checker was not run to its end on the model (too large for it, or its time was up).",
        "Nothing to do; external data inside the bundle and a model within the checker's time are checked.",
    ),
    "structure/duplicate-domain": Code(
        "reject",
        "team",
        'One operator domain is imported with two versions, or both as "" and as `ai.onnx`; the last one '
        "wins and changes what operators mean.",
        "Import each domain once: look at `model.opset_import`, delete the entry that is not meant (`del "
        'model.opset_import[1]`), then `onnx.save(model, "model.onnx")`.',
    ),
    "structure/duplicate-function": Code(
        "reject",
        "team",
        "Two local functions have the same domain, name and overload.",
        "Keep one of the two in `model.functions`, or give one of them another name.",
    ),
    "structure/duplicate-name": Code(
        "reject",
        "team",
        "Two values of one scope have the same name.",
        "Give every value its own name. Where graphs were put together by hand, let onnx prefix the names: "
        '`onnx.compose.merge_models(a, b, io_map, prefix1="a_", prefix2="b_")`.',
    ),
    "structure/einsum-ellipsis": Code(
        "reject",
        "team",
        "An Einsum term has two ellipses: shape inference and the runtime never end on it.",
        "Correct the equation: at most one ellipsis a term, as in `...ij,...jk->...ik`.",
    ),
    "structure/function-expansion": Code(
        "reject",
        "team",
        "Local functions that call each other expand to far more nodes than the policy allows; checkers and "
        "runtimes never end on these.",
        "Inline the functions before you submit: `onnx.save(onnx.inliner.inline_local_functions(model), "
        '"model.onnx")`; where that never ends, the export is broken: let no function call others in a '
        "chain.",
    ),
    "structure/function-recursion": Code(
        "reject",
        "team",
        "A local function calls itself, directly or through others.",
        "Remove the recursion, which ONNX forbids; a repetition is a Loop or a Scan.",
    ),
    "structure/function-shadows-operator": Code(
        "reject",
        "team",
        "A local function has the name of a built-in operator or lies in a domain of the runtime: the "
        "runtime and other readers take different ones.",
        f"Give the function a domain of your own (`com.example`), or inline it: {INLINE}.",
    ),
    "structure/ir-version-out-of-range": Code(
        "reject",
        "team",
        "The IR version lies outside the policy's range.",
        'Give it one in the range: `model.ir_version = 10`, then `onnx.save(model, "model.onnx")`; a '
        "current exporter writes one by itself.",
    ),
    "structure/look-alike-name": Code(
        "hold",
        "team",
        "A name has letters of another script among Latin ones, or looks like another name: people and programs "
        "read different names.",
        f"Write each name in one script and one Unicode form (NFC). {NAMES} names those of the interface.",
    ),
    "structure/metadata-too-large": Code(
        "reject",
        "team",
        "The metadata or documentation strings pass the policy's limit.",
        "Remove what the model does not need: `onnx.helper.strip_doc_string(model)`, `del "
        "model.metadata_props[:]`, then `onnx.save`.",
    ),
    "structure/model-too-large": Code(
        "reject",
        "team",
        "The model file is larger than limits.model_bytes.",
        f"Move the weights to a file beside the model: {SAVE}.",
    ),
    "structure/no-graph": Code(
        "reject",
        "team",
        "The model has no graph.",
        'Export the model again and look at it: `onnx.load("model.onnx").graph` must have nodes.',
    ),
    "structure/opset-out-of-range": Code(
        "reject",
        "team",
        "A model or a function imports an opset of the default domain outside the policy's range, or a version of "
        "another domain that cannot be: 0, negative, or more than 32 bits, of which runtimes drop a part.",
        "Export for an opset in the range: `torch.onnx.export(..., opset_version=17)`, "
        "`skl2onnx.to_onnx(..., target_opset=17)`, `python -m tf2onnx.convert ... --opset 17`, or "
        "`onnx.version_converter.convert_version(model, 17)`.",
    ),
    "structure/overridable-initializer": Code(
        "hold",
        "team",
        "A weight is also a graph input, so that a caller may replace it. In a model without a manifest, whose "
        "interface nobody declared, it is info only.",
        "Export with `torch.onnx.export(..., keep_initializers_as_inputs=False)`, or take the weights out "
        "of `model.graph.input` (IR version 4 or newer).",
    ),
    "structure/rank": Code(
        "reject",
        "team",
        "A value has more than 256 dimensions.",
        "Correct the shape: no tensor of a real model has so many axes.",
    ),
    "structure/repeated-domain": Code(
        "warn",
        "team",
        "One operator domain is imported twice, with the same version.",
        "Import each domain once: look at `model.opset_import`, delete the entry that is not meant (`del "
        'model.opset_import[1]`), then `onnx.save(model, "model.onnx")`.',
    ),
    "structure/shadowed-name": Code(
        "warn",
        "team",
        "A name in a subgraph hides a value of an outer graph.",
        "Rename the inner value; current exporters give every value a name of its own.",
    ),
    "structure/shape-inference-failed": Code(
        "warn",
        "team",
        "Shape inference fails on the model.",
        "Run `onnx.shape_inference.infer_shapes(model, strict_mode=True)` and mend the node that it names. "
        f"A shape that was fixed for another batch needs a dynamic axis: {DYNAMIC}.",
    ),
    "structure/shape-inference-skipped": Code(
        "info",
        "team",
        "Shape inference was not run to its end on the model.",
        "Nothing to do; external data inside the bundle and a model within the time for it are inferred.",
    ),
    "structure/tensor-bytes": Code(
        "reject",
        "team",
        "A tensor's data does not have the number of bytes that its shape and type need.",
        "Write the tensor with `onnx.numpy_helper.from_array(array, name)`, which gives it the bytes that "
        "its shape and type need, or export again.",
    ),
    "structure/tensor-dims": Code(
        "reject",
        "team",
        "A tensor has a negative dimension, or more elements than 64 bits can count.",
        "Write the tensor with `onnx.numpy_helper.from_array(array, name)`, or export again: every "
        "dimension is a number from 0 on.",
    ),
    "structure/tensor-dtype": Code(
        "reject",
        "team",
        "A tensor's data type is undefined or unknown to this ONNX.",
        "Export with a released ONNX type; cast in the framework first (`model.float()`, `model.half()`).",
    ),
    "structure/tensor-two-values": Code(
        "reject",
        "team",
        "A tensor has two value fields (or data beside external data): readers use different ones.",
        "Keep one form. Inside the model: delete `external_data` and `data_location` of the tensor; in a "
        f"file of its own: {SAVE}.",
    ),
    "structure/too-many-initializers": Code(
        "reject",
        "team",
        "The model has more initializers than the policy allows.",
        "Fold constants in the export (`torch.onnx.export(..., do_constant_folding=True)`), or ask the "
        "acceptor for another limits.initializers.",
    ),
    "structure/too-many-inputs": Code(
        "reject",
        "team",
        "The graph has more inputs or outputs than a report can hold (4,096).",
        "Merge values into fewer tensors (stack or concatenate them).",
    ),
    "structure/too-many-nodes": Code(
        "reject",
        "team",
        "The model has more nodes than the policy allows.",
        "Fold constants and keep repetitions as Loop or Scan, or ask the acceptor for another limits.nodes.",
    ),
    "structure/too-many-operators": Code(
        "reject",
        "team",
        "The model uses more different operators, domains or functions than a report can hold.",
        "Use the standard operators, and remove entries of `model.opset_import` that no node needs.",
    ),
    "structure/too-many-scopes": Code(
        "reject",
        "team",
        "The model has more graphs, subgraphs and functions than the policy allows.",
        f"Flatten subgraphs; {INLINE} removes functions.",
    ),
    "structure/training-info": Code(
        "hold",
        "team",
        "The model carries training information, which an inference release does not need.",
        'Export for inference: `del model.training_info[:]`, then `onnx.save(model, "model.onnx")`.',
    ),
    "structure/training-mode": Code(
        "warn",
        "team",
        "An operator is set to training mode (Dropout, BatchNormalization): results are not repeatable.",
        "Call `model.eval()` before torch.onnx.export; in Keras export a function that calls the model with"
        " `training=False`.",
    ),
    "structure/tree-cycle": Code(
        "reject",
        "team",
        "The nodes of a tree ensemble form a cycle.",
        "Export the trees again (`skl2onnx.to_onnx`, onnxmltools): children must lead away from the root.",
    ),
    "structure/tree-depth": Code(
        "reject",
        "team",
        "A tree ensemble is deeper than 10,000 nodes: the runtime overflows its stack.",
        "Train with a bounded depth (`max_depth=`) and export again.",
    ),
    "structure/unsafe-name": Code(
        "hold",
        "team",
        "A name holds NUL, control, bidirectional or invisible characters, so that it reads differently from "
        "what it is.",
        f"Use printable names without control or invisible characters: {NAMES} for those of the interface; "
        "the rest follows the names of your modules.",
    ),
    "structure/unseeded-random": Code(
        "warn",
        "team",
        "A random operator has no seed: results are not repeatable.",
        "Remove the operator (dropout and noise go with `model.eval()` before the export), or set its "
        "`seed` attribute.",
    ),
    "structure/unused-domain": Code(
        "info",
        "team",
        "The model imports operator sets that none of its nodes use.",
        "Nothing to do; a current exporter leaves them out.",
    ),
    "operator/denied": Code(
        "reject",
        "team",
        "The model uses an operator that the policy denies.",
        "Replace the operator in the framework and export again; where a runtime's optimiser put it in, "
        "submit the model as it was exported.",
    ),
    "operator/not-listed": Code(
        "reject",
        "team",
        "The model uses an operator, or an operator domain, that the policy does not list.",
        "Export with listed operators (`acceptd policy show` prints them): another `opset_version=` or "
        "turning a custom symbolic off often does; or ask the acceptor to list this one.",
    ),
    "operator/over-limit": Code(
        "reject",
        "team",
        "The model has more nodes of an operator, more repetitions in one, or a larger output of one, than the "
        "policy allows for that operator.",
        "Export it otherwise (fewer repetitions, smaller fixed sizes), or ask the acceptor for another "
        "limit of that operator.",
    ),
}
