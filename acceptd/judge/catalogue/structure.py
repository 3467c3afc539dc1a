"""Codes of graphs, operators and functions."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "structure/checker-failed": Code(
        "hold",
        "team",
        "onnx.checker refuses the model although the other stages could read it.",
        "Run onnx.checker.check_model on the file and mend what it reports.",
    ),
    "structure/checker-skipped": Code(
        "info",
        "team",
        "onnx.checker was not run to its end on the model (too large for it, or its time was up).",
        "Nothing to do.",
    ),
    "structure/duplicate-domain": Code(
        "reject",
        "team",
        'One operator domain is imported with two versions, or both as "" and as `ai.onnx`; the last one '
        "wins and changes what operators mean.",
        "Import each domain once.",
    ),
    "structure/duplicate-function": Code(
        "reject",
        "team",
        "Two local functions have the same domain, name and overload.",
        "Keep one.",
    ),
    "structure/duplicate-name": Code(
        "reject",
        "team",
        "Two values of one scope have the same name.",
        "Give every value its own name.",
    ),
    "structure/einsum-ellipsis": Code(
        "reject",
        "team",
        "An Einsum term has two ellipses: shape inference and the runtime never end on it.",
        "Correct the equation.",
    ),
    "structure/function-expansion": Code(
        "reject",
        "team",
        "Local functions that call each other expand to far more nodes than the policy allows; checkers and "
        "runtimes never end on these.",
        "Inline the functions before export.",
    ),
    "structure/function-recursion": Code(
        "reject",
        "team",
        "A local function calls itself, directly or through others.",
        "Remove the recursion; ONNX forbids it.",
    ),
    "structure/function-shadows-operator": Code(
        "reject",
        "team",
        "A local function has the name of a built-in operator or lies in a domain of the runtime: the "
        "runtime and other readers take different ones.",
        "Rename the function or put it in a domain of your own.",
    ),
    "structure/ir-version-out-of-range": Code(
        "reject",
        "team",
        "The IR version lies outside the policy's range.",
        "Export with an IR version in the range.",
    ),
    "structure/look-alike-name": Code(
        "hold",
        "team",
        "A name has letters of another script among Latin ones, or looks like another name: people and programs "
        "read different names.",
        "Write each name in one script and one Unicode form (NFC).",
    ),
    "structure/metadata-too-large": Code(
        "reject",
        "team",
        "The metadata or documentation strings pass the policy's limit.",
        "Remove metadata that the model does not need.",
    ),
    "structure/model-too-large": Code(
        "reject",
        "team",
        "The model file is larger than limits.model_bytes.",
        "Move the weights to external data files.",
    ),
    "structure/no-graph": Code(
        "reject",
        "team",
        "The model has no graph.",
        "Export the model again.",
    ),
    "structure/opset-out-of-range": Code(
        "reject",
        "team",
        "A model or a function imports an opset of the default domain outside the policy's range, or a version of "
        "another domain that cannot be: 0, negative, or more than 32 bits, of which runtimes drop a part.",
        "Export with an opset in the range.",
    ),
    "structure/overridable-initializer": Code(
        "hold",
        "team",
        "A weight is also a graph input, so that a caller may replace it. In a model without a manifest, whose "
        "interface nobody declared, it is info only.",
        "Export without keep_initializers_as_inputs.",
    ),
    "structure/rank": Code(
        "reject",
        "team",
        "A value has more than 256 dimensions.",
        "Correct the shape.",
    ),
    "structure/repeated-domain": Code(
        "warn",
        "team",
        "One operator domain is imported twice, with the same version.",
        "Import each domain once.",
    ),
    "structure/shadowed-name": Code(
        "warn",
        "team",
        "A name in a subgraph hides a value of an outer graph.",
        "Rename the inner value.",
    ),
    "structure/shape-inference-failed": Code(
        "warn",
        "team",
        "Shape inference fails on the model.",
        "Run onnx.shape_inference.infer_shapes with strict_mode and mend what it reports.",
    ),
    "structure/shape-inference-skipped": Code(
        "info",
        "team",
        "Shape inference was not run to its end on the model.",
        "Nothing to do.",
    ),
    "structure/tensor-bytes": Code(
        "reject",
        "team",
        "A tensor's data does not have the number of bytes that its shape and type need.",
        "Export the model again.",
    ),
    "structure/tensor-dims": Code(
        "reject",
        "team",
        "A tensor has a negative dimension, or more elements than 64 bits can count.",
        "Export the model again.",
    ),
    "structure/tensor-dtype": Code(
        "reject",
        "team",
        "A tensor's data type is undefined or unknown to this ONNX.",
        "Export with a released ONNX data type.",
    ),
    "structure/tensor-two-values": Code(
        "reject",
        "team",
        "A tensor has two value fields (or data beside external data): readers use different ones.",
        "Save the model with onnx.save.",
    ),
    "structure/too-many-initializers": Code(
        "reject",
        "team",
        "The model has more initializers than the policy allows.",
        "Merge constants, or ask for another limit.",
    ),
    "structure/too-many-inputs": Code(
        "reject",
        "team",
        "The graph has more inputs or outputs than a report can hold (4,096).",
        "Merge inputs.",
    ),
    "structure/too-many-nodes": Code(
        "reject",
        "team",
        "The model has more nodes than the policy allows.",
        "Simplify the model, or ask for another limit.",
    ),
    "structure/too-many-operators": Code(
        "reject",
        "team",
        "The model uses more different operators, domains or functions than a report can hold.",
        "Use the standard operators.",
    ),
    "structure/too-many-scopes": Code(
        "reject",
        "team",
        "The model has more graphs, subgraphs and functions than the policy allows.",
        "Flatten subgraphs.",
    ),
    "structure/training-info": Code(
        "hold",
        "team",
        "The model carries training information, which an inference release does not need.",
        "Export for inference.",
    ),
    "structure/training-mode": Code(
        "warn",
        "team",
        "An operator is set to training mode (Dropout, BatchNormalization): results are not repeatable.",
        "Export in evaluation mode.",
    ),
    "structure/tree-cycle": Code(
        "reject",
        "team",
        "The nodes of a tree ensemble form a cycle.",
        "Export the trees again.",
    ),
    "structure/tree-depth": Code(
        "reject",
        "team",
        "A tree ensemble is deeper than 10,000 nodes: the runtime overflows its stack.",
        "Limit the depth of the trees.",
    ),
    "structure/unsafe-name": Code(
        "hold",
        "team",
        "A name holds NUL, control, bidirectional or invisible characters, so that it reads differently from "
        "what it is.",
        "Use printable names.",
    ),
    "structure/unseeded-random": Code(
        "warn",
        "team",
        "A random operator has no seed: results are not repeatable.",
        "Set a seed, or remove the operator.",
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
        "Replace the operator.",
    ),
    "operator/not-listed": Code(
        "reject",
        "team",
        "The model uses an operator, or an operator domain, that the policy does not list.",
        "Export with listed operators, or ask the acceptor to list this one.",
    ),
    "operator/over-limit": Code(
        "reject",
        "team",
        "The model has more nodes of an operator, more repetitions in one, or a larger output of one, than the "
        "policy allows for that operator.",
        "Export it otherwise, or ask the acceptor for another limit of that operator.",
    ),
}
