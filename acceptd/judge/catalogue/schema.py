"""Codes of the interface."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import DYNAMIC, NAMES

TABLE: Final[Table] = {
    "schema/dimension-bounds": Code(
        "reject",
        "team",
        "A dimension has other bounds in the manifest than in the contract.",
        "Give [dims] in bundle.toml the contract's bounds, for example `[dims.batch]` with `min = 1` and "
        "`max = 32`.",
    ),
    "schema/dimension-fixed": Code(
        "reject",
        "team",
        "A dimension that was agreed to vary is fixed.",
        f"Export with a dynamic axis: {DYNAMIC} (or `dynamic_shapes=` with dynamo=True); skl2onnx: "
        "`FloatTensorType([None, 4])`; tf2onnx: `tf.TensorSpec([None, 4])`.",
    ),
    "schema/dimension-freed": Code(
        "reject",
        "team",
        "A dimension that was agreed to be fixed varies.",
        "Export with the fixed size: leave the axis out of `dynamic_axes`, or run `python -m "
        "onnxruntime.tools.make_dynamic_shape_fixed --dim_param batch --dim_value 1 model.onnx fixed.onnx`.",
    ),
    "schema/dimension-narrowed": Code(
        "info",
        "team",
        "The manifest fixes an input's dimension that the model itself leaves open; callers are held to the "
        "manifest.",
        "Nothing to do; bundle.toml may promise less than the model can take.",
    ),
    "schema/dtype-changed": Code(
        "reject",
        "team",
        "An input or output has another element type than agreed.",
        "Export with the agreed element type (`model.float()` or `model.half()` before the export; skl2onnx"
        " takes it from the sample: `X[:1].astype(numpy.float32)`), or correct `dtype` in bundle.toml.",
    ),
    "schema/input-dtype": Code(
        "reject",
        "team",
        "An input's kind or dtype is another than declared.",
        "Correct `dtype` or `type` of the input in bundle.toml, or export with the declared type.",
    ),
    "schema/input-extra": Code(
        "reject",
        "team",
        "The model requires an input that was not agreed.",
        "Remove the input (a weight that is also an input goes with `keep_initializers_as_inputs=False`), "
        "or agree on it with the acceptor.",
    ),
    "schema/input-missing": Code(
        "reject",
        "team",
        "An agreed input is not there.",
        "Export with all agreed inputs: an exporter leaves out what no output depends on, so let the model "
        "use it.",
    ),
    "schema/input-names": Code(
        "reject",
        "team",
        "The runtime's inputs have other names, or another order, than the manifest declares.",
        "Declare in bundle.toml exactly the inputs that the model has, in its order, or name them at "
        f"export: {NAMES}.",
    ),
    "schema/input-renamed": Code(
        "reject",
        "team",
        "An input goes by another name than agreed.",
        f"Export with the agreed name: {NAMES}, `python -m tf2onnx.convert --rename-inputs features`; or "
        "correct bundle.toml. A new name is agreed with the acceptor first.",
    ),
    "schema/input-shape": Code(
        "reject",
        "team",
        "An input's shape is another than declared: rank, a fixed dimension, or a fixed one where a free one "
        "is declared.",
        f"Correct `shape` of the input in bundle.toml, or export with the declared one: {DYNAMIC}.",
    ),
    "schema/inputs-reordered": Code(
        "reject",
        "team",
        "The inputs stand in another order than agreed.",
        f"Export with the agreed order ({NAMES}), or correct bundle.toml where it says otherwise.",
    ),
    "schema/ir-version-mismatch": Code(
        "reject",
        "team",
        "The model has another IR version than declared.",
        "Correct `ir_version` in bundle.toml, or set the agreed one: `model.ir_version = 10`, then onnx.save.",
    ),
    "schema/kind-changed": Code(
        "reject",
        "team",
        "An input or output is another kind of value (tensor, sequence, optional, map) than agreed.",
        "Export with the agreed kind, or correct `type` in bundle.toml. scikit-learn classifiers give a "
        'sequence of maps unless told otherwise: `skl2onnx.to_onnx(model, X[:1], options={"zipmap": '
        "False})`.",
    ),
    "schema/label-schema-changed": Code(
        "reject",
        "team",
        "The label schema version is not the contract's.",
        "Give `schema_version` of [labels] in bundle.toml the contract's value, and train for that schema.",
    ),
    "schema/labels-changed": Code(
        "reject",
        "team",
        "An output's labels are not those of the contract.",
        "Give `labels` of the output in bundle.toml the contract's list, or have the contract changed.",
    ),
    "schema/labels-reordered": Code(
        "reject",
        "team",
        "An output's labels are those of the contract in another order; every answer would be read wrongly.",
        "Put labels and columns in the contract's order: in scikit-learn `model.classes_`, in torch the "
        "columns of the last layer's weight and bias.",
    ),
    "schema/opset-mismatch": Code(
        "reject",
        "team",
        "The model imports another operator set version than declared, or one of the two names no such domain.",
        "Where the versions differ, correct `opsets` in bundle.toml or export with the agreed one "
        "(`opset_version=`). Where the manifest names no such domain, add it to `opsets`; where the model "
        "imports none, export it whole or take the line out.",
    ),
    "schema/optional-changed": Code(
        "reject",
        "team",
        "An input is optional in one of manifest and contract and required in the other.",
        "Give `optional` of the input in bundle.toml the contract's value.",
    ),
    "schema/output-dtype": Code(
        "reject",
        "team",
        "An output's kind or dtype is another than declared.",
        "Correct `dtype` or `type` of the output in bundle.toml, or export with the declared type.",
    ),
    "schema/output-extra": Code(
        "reject",
        "team",
        "The model has an output that was not agreed.",
        f"Remove the output (name those that stay: {NAMES}), or agree on it with the acceptor.",
    ),
    "schema/output-kind-changed": Code(
        "reject",
        "team",
        "An output has another meaning (logits, probabilities, ...) in the manifest than in the contract.",
        "Give `kind` of the output in bundle.toml the contract's value; logits become probabilities by a "
        "Softmax at the end.",
    ),
    "schema/output-missing": Code(
        "reject",
        "team",
        "An agreed output is not there.",
        f"Export with all agreed outputs: return them from forward() and name them: {NAMES}.",
    ),
    "schema/output-names": Code(
        "reject",
        "team",
        "The runtime's outputs have other names, or another order, than the manifest declares.",
        "Declare in bundle.toml exactly the outputs that the model has, in its order, or name them at "
        f"export: {NAMES}.",
    ),
    "schema/output-renamed": Code(
        "reject",
        "team",
        "An output goes by another name than agreed.",
        f"Export with the agreed name: {NAMES}, `python -m tf2onnx.convert --rename-outputs probabilities`; "
        "or correct bundle.toml. A new name is agreed with the acceptor first.",
    ),
    "schema/output-shape": Code(
        "reject",
        "team",
        "An output's shape is another than declared: rank, a fixed dimension, or a fixed one where a free "
        "one is declared.",
        "Correct `shape` of the output in bundle.toml, or export with the declared one.",
    ),
    "schema/outputs-reordered": Code(
        "reject",
        "team",
        "The outputs stand in another order than agreed.",
        f"Export with the agreed order ({NAMES}), or correct bundle.toml where it says otherwise.",
    ),
    "schema/preprocessing-changed": Code(
        "reject",
        "team",
        "The preprocessing digest is not the contract's.",
        "Train and export for the agreed preprocessing and give `sha256` of [preprocessing] its digest, or "
        "agree on the new one with the acceptor.",
    ),
    "schema/range-changed": Code(
        "reject",
        "team",
        "An input has another range in the manifest than in the contract.",
        "Give `range` of the input in bundle.toml the contract's value, or have the contract changed.",
    ),
    "schema/rank-changed": Code(
        "reject",
        "team",
        "An input or output has another number of dimensions than agreed.",
        "Export with the agreed shape, or correct bundle.toml where it says otherwise.",
    ),
    "schema/runtime-differs": Code(
        "warn",
        "team",
        "The runtime reports another interface than the inferred one.",
        "Correct the model's declared inputs and outputs: `onnx.shape_inference.infer_shapes(model, "
        "strict_mode=True)` shows where they differ.",
    ),
    "schema/runtime-disagrees": Code(
        "reject",
        "team",
        "The runtime reports another interface than the model file declares.",
        "Run `onnx.shape_inference.infer_shapes(model, strict_mode=True)` and correct the declared inputs "
        "and outputs, in the model or in bundle.toml.",
    ),
    "schema/width-changed": Code(
        "reject",
        "team",
        "A fixed dimension has another size than agreed.",
        "Export with the agreed number of columns (classes, features), or correct bundle.toml where it says"
        " otherwise.",
    ),
    "schema/wrong-file": Code(
        "reject",
        "team",
        "The manifest agrees with the contract, but the model file has another interface: most likely it is "
        "the wrong file.",
        "Put the file that belongs to the manifest into the bundle.",
    ),
    "schema/wrong-manifest": Code(
        "reject",
        "team",
        "The model file agrees with the contract, but the manifest says something else.",
        "Put the manifest that belongs to the file into the bundle.",
    ),
}
