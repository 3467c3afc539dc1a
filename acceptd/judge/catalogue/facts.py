"""Codes of what the facts of inspection show: names, values, cost, quantisation."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "structure/attribute-range": Code(
        "reject",
        "team",
        "A size in an attribute (strides, kernel, pads, batch_dims, …) does not fit 32 bits: runtimes multiply "
        "it, overflow, and then divide by zero or crash.",
        "Correct the attribute.",
    ),
    "structure/division-by-input": Code(
        "warn",
        "team",
        "An integer division has a graph input as divisor, or divides input data by -1: one value that a caller "
        "feeds ends the whole process.",
        "Divide as float, or bound the divisor in the graph (Max with 1).",
    ),
    "structure/division-trap": Code(
        "reject",
        "team",
        "Integers are divided by a constant 0, or the least integer by -1: the process ends as soon as the "
        "model is loaded or run.",
        "Correct the constant.",
    ),
    "structure/empty-name": Code(
        "reject",
        "team",
        "An input, output, initializer, function or operator has no name.",
        "Export the model again.",
    ),
    "structure/function-opset": Code(
        "warn",
        "team",
        "A local function imports another version of an operator set than the model: one operator then means "
        "two things in one file.",
        "Export functions and graph for one opset.",
    ),
    "structure/node-blow-up": Code(
        "warn",
        "team",
        "The graph has far more nodes than the source has layers: an exporter unrolled a loop or traced Python.",
        "Export with dynamic control flow, or correct export.layers.",
    ),
    "structure/non-finite-weights": Code(
        "warn",
        "team",
        "A weight or constant holds NaN, or a tensor of several elements infinite numbers.",
        "Check the checkpoint; a mask may use the least finite number instead.",
    ),
    "structure/sparse-indices": Code(
        "reject",
        "team",
        "The indices of a sparse tensor are out of range, not ascending, repeated, or of another shape or type "
        "than its values need.",
        "Export the tensor again, or make it dense.",
    ),
    "structure/subgraph-depth": Code(
        "hold",
        "team",
        "Subgraphs are nested deeper than the policy allows.",
        "Flatten the control flow.",
    ),
    "structure/too-many-node-inputs": Code(
        "reject",
        "team",
        "One node has more inputs or outputs than the policy allows.",
        "Split the node.",
    ),
    "structure/unproduced-name": Code(
        "reject",
        "team",
        "A node or an output uses a name that nothing before it, and nothing around it, produces.",
        "Export the model again.",
    ),
    "structure/unsorted-nodes": Code(
        "hold",
        "team",
        "A node uses a value that a later node produces. ONNX wants nodes in order; readers differ on the rest.",
        "Sort the nodes, for example by saving the model with its exporter's own tool.",
    ),
    "cost/allocation": Code(
        "reject",
        "team",
        "One value alone is larger than the memory that a run may use, by arithmetic over the shapes in the file.",
        "Correct the shape, or ask for another limit.",
    ),
    "cost/peak-memory": Code(
        "warn",
        "team",
        "The values that are alive at once pass the memory that a run may use, by arithmetic over the shapes in "
        "the file; a runtime that reuses memory may need less.",
        "Reduce the fixed sizes of the model.",
    ),
    "cost/repetition": Code(
        "reject",
        "team",
        "A loop, scan or operator repeats more often than the policy allows, and nothing in the model can end it "
        "earlier.",
        "Correct the count, or let a condition end the loop.",
    ),
    "quantization/disagrees": Code(
        "hold",
        "team",
        "The quantisation that the manifest declares is not the one that the operators of the model show.",
        "Correct [quantization] in bundle.toml, or export the model that it describes.",
    ),
    "quantization/no-provenance": Code(
        "warn",
        "team",
        "The model is quantised, and bundle.toml does not say how: method and format, and for a static one the "
        "digest and number of the calibration samples.",
        "Add [quantization] to bundle.toml.",
    ),
    "schema/versions-undeclared": Code(
        "info",
        "team",
        "The manifest does not declare the IR version or the operator sets of a model.",
        "Add ir_version and opsets to the model in bundle.toml.",
    ),
}
