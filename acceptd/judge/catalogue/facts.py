"""Codes of what the facts of inspection show: names, values, cost, quantisation."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import DYNAMIC

TABLE: Final[Table] = {
    "structure/attribute-range": Code(
        "reject",
        "team",
        "A size in an attribute (strides, kernel, pads, batch_dims, …) does not fit 32 bits: runtimes multiply "
        "it, overflow, and then divide by zero or crash.",
        "Correct the attribute that the message names in the framework and export again: no size, stride or"
        " pad of a real model passes 31 bits.",
    ),
    "structure/division-by-input": Code(
        "warn",
        "team",
        "An integer division has a graph input as divisor, or divides input data by -1: one value that a caller "
        "feeds ends the whole process.",
        "Divide as float, or bound the divisor in the graph: in torch `a // b.clamp(min=1)`, in ONNX a Max "
        "with 1 before the Div.",
    ),
    "structure/division-trap": Code(
        "reject",
        "team",
        "Integers are divided by a constant 0, or the least integer by -1: the process ends as soon as the "
        "model is loaded or run.",
        "Correct the constant: an integer Div or Mod may not divide by 0, nor the least integer by -1.",
    ),
    "structure/empty-name": Code(
        "reject",
        "team",
        "An input, output, initializer, function or operator has no name.",
        "Export the model again with a current exporter: a node without an operator is left over from "
        "editing the file.",
    ),
    "structure/function-opset": Code(
        "warn",
        "team",
        "A local function imports another version of an operator set than the model: one operator then means "
        "two things in one file.",
        "Export functions and graph for one opset, or inline them: "
        "`onnx.inliner.inline_local_functions(model, convert_version=True)`.",
    ),
    "structure/node-blow-up": Code(
        "warn",
        "team",
        "The graph has far more nodes than the source has layers: an exporter unrolled a loop or traced Python.",
        "Export loops as Loop or Scan instead of unrolled; where the model is meant to be like this, "
        "correct `layers` in [export] of bundle.toml.",
    ),
    "structure/non-finite-weights": Code(
        "warn",
        "team",
        "A weight or constant holds NaN, or a tensor of several elements infinite numbers.",
        "Check the checkpoint (`torch.isfinite`); a mask may use `torch.finfo(dtype).min` instead of minus "
        "infinity.",
    ),
    "structure/sparse-indices": Code(
        "reject",
        "team",
        "The indices of a sparse tensor are out of range, not ascending, repeated, or of another shape or type "
        "than its values need.",
        "Export the tensor again, or make it dense first (`tensor.to_dense()`).",
    ),
    "structure/subgraph-depth": Code(
        "hold",
        "team",
        "Subgraphs are nested deeper than the policy allows.",
        "Flatten the control flow: fewer If, Loop and Scan inside each other.",
    ),
    "structure/too-many-node-inputs": Code(
        "reject",
        "team",
        "One node has more inputs or outputs than the policy allows.",
        "Split the node: concatenate or stack in several steps.",
    ),
    "structure/unproduced-name": Code(
        "reject",
        "team",
        "A node or an output uses a name that nothing before it, and nothing around it, produces.",
        'Export the model again. To cut a part out of a model use `onnx.utils.extract_model("in.onnx", '
        '"out.onnx", inputs, outputs)`, which keeps what the outputs need.',
    ),
    "structure/unsorted-nodes": Code(
        "hold",
        "team",
        "A node uses a value that a later node produces. ONNX wants nodes in order; readers differ on the rest.",
        "Sort the nodes: `from onnxruntime.transformers.onnx_model import OnnxModel`, then "
        "`OnnxModel(model).topological_sort()` and `onnx.save`.",
    ),
    "cost/allocation": Code(
        "reject",
        "team",
        "One value alone is larger than the memory that a run may use, by arithmetic over the shapes in the file.",
        "Correct the shape or the constant that asks for so much, or ask the acceptor for another limit.",
    ),
    "cost/peak-memory": Code(
        "warn",
        "team",
        "The values that are alive at once pass the memory that a run may use, by arithmetic over the shapes in "
        "the file; a runtime that reuses memory may need less.",
        f"Reduce fixed sizes, or leave the batch to the caller: {DYNAMIC}.",
    ),
    "cost/repetition": Code(
        "reject",
        "team",
        "A loop, scan or operator repeats more often than the policy allows, and nothing in the model can end it "
        "earlier.",
        "Correct the count, or let a condition end the Loop.",
    ),
    "quantization/disagrees": Code(
        "hold",
        "team",
        "The quantisation that the manifest declares is not the one that the operators of the model show.",
        'Correct [quantization] in bundle.toml, or quantise as it says: `quantize_static("model.onnx", '
        '"int8.onnx", reader, quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8, '
        "weight_type=QuantType.QInt8)`.",
    ),
    "quantization/no-provenance": Code(
        "warn",
        "team",
        "The model is quantised, and bundle.toml does not say how: method and format, and for a static one the "
        "digest and number of the calibration samples.",
        'Add to bundle.toml: `[quantization]` with `method = "static"`, and for static quantisation '
        '`calibration = { sha256 = "...", samples = 512 }`; docs/bundle.md has all keys.',
    ),
    "schema/versions-undeclared": Code(
        "info",
        "team",
        "The manifest does not declare the IR version or the operator sets of a model.",
        'Add `ir_version = 10` and `opsets = { "ai.onnx" = 17 }` to [[models]] in bundle.toml, with the '
        "numbers that the message gives.",
    ),
}
