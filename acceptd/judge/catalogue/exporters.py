"""Lines for exporters that several remedies give: what a model team can paste, of the tools' public interfaces."""

from __future__ import annotations

from typing import Final

SAVE: Final = '`onnx.save_model(model, "model.onnx", save_as_external_data=True, location="weights.bin")`'
"""Writes all large tensors into one fresh file beside the model; onnx appends to a file that is there."""

ONCE: Final = (
    "Load the model with onnx and save it again, which writes each field once: "
    '`onnx.save(onnx.load("model.onnx"), "model.onnx")`; if onnx does not load it, export it again.'
)
WITHOUT_UNKNOWN: Final = (
    'Save the model without it (`model = onnx.load("model.onnx")`, `model.DiscardUnknownFields()`, '
    '`onnx.save(model, "model.onnx")`)'
)
DYNAMIC: Final = '`torch.onnx.export(..., input_names=["features"], dynamic_axes={"features": {0: "batch"}})`'
NAMES: Final = "`torch.onnx.export(..., input_names=[...], output_names=[...])`"
SETS: Final = "`acceptd bundle vectors DIR --random 4 --oracle reference`"
PACK: Final = "`acceptd bundle pack DIR`"
LOCK: Final = "`acceptd bundle lock DIR`"
INLINE: Final = "`onnx.inliner.inline_local_functions(model)`"
COMPARE: Final = "Run the original and the exported model on the inputs of the named set"
CHEAPER: Final = (
    'Make the model cheaper (`onnxruntime.quantization.quantize_dynamic("model.onnx", "int8.onnx")`, smaller '
    "fixed sizes, fewer repetitions), or agree on another ceiling with the acceptor."
)
