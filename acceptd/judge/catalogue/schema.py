"""Codes of the interface."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "schema/dimension-bounds": Code(
        "reject",
        "team",
        "A dimension has other bounds in the manifest than in the contract.",
        "Use the contract's bounds.",
    ),
    "schema/dimension-fixed": Code(
        "reject",
        "team",
        "A dimension that was agreed to vary is fixed.",
        "Export with a dynamic dimension.",
    ),
    "schema/dimension-freed": Code(
        "reject",
        "team",
        "A dimension that was agreed to be fixed varies.",
        "Export with the fixed dimension.",
    ),
    "schema/dimension-narrowed": Code(
        "info",
        "team",
        "The manifest fixes an input's dimension that the model itself leaves open; callers are held to the "
        "manifest.",
        "Nothing to do.",
    ),
    "schema/dtype-changed": Code(
        "reject",
        "team",
        "An input or output has another element type than agreed.",
        "Export with the agreed element type, or correct bundle.toml where it names the wrong one.",
    ),
    "schema/input-dtype": Code(
        "reject",
        "team",
        "An input's kind or dtype is another than declared.",
        "Correct the declared dtype, or export again.",
    ),
    "schema/input-extra": Code(
        "reject",
        "team",
        "The model requires an input that was not agreed.",
        "Remove the input, or agree on it with the acceptor.",
    ),
    "schema/input-missing": Code(
        "reject",
        "team",
        "An agreed input is not there.",
        "Export with all agreed inputs.",
    ),
    "schema/input-names": Code(
        "reject",
        "team",
        "The runtime's inputs have other names, or another order, than the manifest declares.",
        "Declare exactly the inputs that the model has, in its order.",
    ),
    "schema/input-renamed": Code(
        "reject",
        "team",
        "An input goes by another name than agreed.",
        "Export with the agreed name, or correct bundle.toml; a new name is agreed with the acceptor first.",
    ),
    "schema/input-shape": Code(
        "reject",
        "team",
        "An input's shape is another than declared: rank, a fixed dimension, or a fixed one where a free one "
        "is declared.",
        "Correct the declared shape, or export again.",
    ),
    "schema/inputs-reordered": Code(
        "reject",
        "team",
        "The inputs stand in another order than agreed.",
        "Export with the agreed order, or correct bundle.toml where it says otherwise.",
    ),
    "schema/ir-version-mismatch": Code(
        "reject",
        "team",
        "The model has another IR version than declared.",
        "Correct ir_version in bundle.toml, or export with the agreed version.",
    ),
    "schema/kind-changed": Code(
        "reject",
        "team",
        "An input or output is another kind of value (tensor, sequence, optional, map) than agreed.",
        "Export with the agreed kind, or correct bundle.toml where it says otherwise.",
    ),
    "schema/label-schema-changed": Code(
        "reject",
        "team",
        "The label schema version is not the contract's.",
        "Use the agreed label schema.",
    ),
    "schema/labels-changed": Code(
        "reject",
        "team",
        "An output's labels are not those of the contract.",
        "Use the contract's labels.",
    ),
    "schema/labels-reordered": Code(
        "reject",
        "team",
        "An output's labels are those of the contract in another order; every answer would be read wrongly.",
        "Put labels and weights in the contract's order.",
    ),
    "schema/opset-mismatch": Code(
        "reject",
        "team",
        "The model imports another operator set version than declared, or one of the two names no such domain.",
        "Where the versions differ, correct opsets in bundle.toml or export with the agreed one; where the model "
        "imports no such domain, export it whole or take the line out.",
    ),
    "schema/optional-changed": Code(
        "reject",
        "team",
        "An input is optional in one of manifest and contract and required in the other.",
        "Use what the contract says.",
    ),
    "schema/output-dtype": Code(
        "reject",
        "team",
        "An output's kind or dtype is another than declared.",
        "Correct the declared dtype, or export again.",
    ),
    "schema/output-extra": Code(
        "reject",
        "team",
        "The model has an output that was not agreed.",
        "Remove the output, or agree on it with the acceptor.",
    ),
    "schema/output-kind-changed": Code(
        "reject",
        "team",
        "An output has another meaning (logits, probabilities, ...) in the manifest than in the contract.",
        "Use the contract's kind.",
    ),
    "schema/output-missing": Code(
        "reject",
        "team",
        "An agreed output is not there.",
        "Export with all agreed outputs.",
    ),
    "schema/output-names": Code(
        "reject",
        "team",
        "The runtime's outputs have other names, or another order, than the manifest declares.",
        "Declare exactly the outputs that the model has, in its order.",
    ),
    "schema/output-renamed": Code(
        "reject",
        "team",
        "An output goes by another name than agreed.",
        "Export with the agreed name, or correct bundle.toml; a new name is agreed with the acceptor first.",
    ),
    "schema/output-shape": Code(
        "reject",
        "team",
        "An output's shape is another than declared: rank, a fixed dimension, or a fixed one where a free "
        "one is declared.",
        "Correct the declared shape, or export again.",
    ),
    "schema/outputs-reordered": Code(
        "reject",
        "team",
        "The outputs stand in another order than agreed.",
        "Export with the agreed order, or correct bundle.toml where it says otherwise.",
    ),
    "schema/preprocessing-changed": Code(
        "reject",
        "team",
        "The preprocessing digest is not the contract's.",
        "Train and export for the agreed preprocessing, or agree on the new one with the acceptor.",
    ),
    "schema/range-changed": Code(
        "reject",
        "team",
        "An input has another range in the manifest than in the contract.",
        "Use the contract's range.",
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
        "Correct the model's declared inputs and outputs.",
    ),
    "schema/runtime-disagrees": Code(
        "reject",
        "team",
        "The runtime reports another interface than the model file declares.",
        "Run shape inference on the model and correct its declared inputs and outputs.",
    ),
    "schema/width-changed": Code(
        "reject",
        "team",
        "A fixed dimension has another size than agreed.",
        "Export with the agreed shape, or correct bundle.toml where it says otherwise.",
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
