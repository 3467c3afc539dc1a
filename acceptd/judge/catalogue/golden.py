"""Codes of the origin and the inputs of goldens, of labelled rows, and of a contract's quality floors."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "vectors/fixture-missing": Code(
        "reject",
        "team",
        "[preprocessing] names a raw input, or a golden set made of it, that is not in the bundle.",
        "Add the file, or correct preprocessing.fixtures.",
    ),
    "vectors/input-range": Code(
        "reject",
        "team",
        "A golden or smoke input has elements outside the range that bundle.toml declares: the loader would "
        "refuse it. The comparer measures all elements.",
        "Declare the range that the model is meant for (`range = [0.0, 1.0]` in [[models.inputs]]), or keep"
        " the golden inputs inside it.",
    ),
    "vectors/labels-invalid": Code(
        "reject",
        "team",
        "Labels or slices of a golden set cannot be read, or do not go with the rows of its output.",
        "Give one integer class from 0 on, and one slice name, for each row of the labelled output.",
    ),
    "vectors/labels-missing": Code(
        "reject",
        "team",
        "bundle.toml names labels or slices that do not lie beside a golden set.",
        "Put the file into the directory of each set, or correct [[models.vectors]] in bundle.toml.",
    ),
    "vectors/not-separable": Code(
        "reject",
        "team",
        "A golden file holds inputs and expected values, and the policy has them decoded by jobs apart.",
        "Write inputs and expected values into files of their own: `input_0.pb` and `output_0.pb`, or "
        "`inputs.npz` and `outputs.npz`.",
    ),
    "vectors/origin-not-accepted": Code(
        "hold",
        "team",
        "The expected values come from a source that the policy does not accept.",
        "Make the expected values with a source that the policy accepts (`acceptd policy show` lists "
        "vectors.origins), or have a reviewer decide.",
    ),
    "vectors/origin-undeclared": Code(
        "hold",
        "team",
        "A golden set does not say where its expected values come from, and the policy requires it.",
        'Say in [[models.vectors]] which program made the values, and its version: `origin = "torch 2.13.0"`.',
    ),
    "vectors/regression-only": Code(
        "reject",
        "team",
        "All golden sets of a model were made by onnxruntime itself: they show that nothing changed, not that the "
        "model computes what its source does, and the policy requires that.",
        "Add a golden set whose expected values come from the training framework or an independent oracle: "
        "`acceptd bundle vectors DIR --from inputs.npz --oracle expected.npz`, or `--oracle reference`.",
    ),
    "quality/accuracy": Code(
        "reject",
        "team",
        "The accuracy on labelled rows is below the contract's floor.",
        "Look at the rows that are answered wrongly; release a better model, or have the contract changed.",
    ),
    "quality/brier": Code(
        "reject",
        "team",
        "The Brier score on labelled rows is above the contract's ceiling.",
        "Calibrate the model on data of its own, or have the contract changed.",
    ),
    "quality/calibration": Code(
        "reject",
        "team",
        "The expected calibration error on labelled rows is above the contract's ceiling.",
        "Calibrate the model on data of its own, or have the contract changed.",
    ),
    "quality/false-negatives": Code(
        "reject",
        "team",
        "Too many labelled rows of one class are answered with another, by the contract's ceiling.",
        "Look at the rows of this class that are missed; release a better model, or have the contract changed.",
    ),
    "quality/not-measured": Code(
        "reject",
        "team",
        "The contract bounds a figure, and no labelled golden gives it.",
        "Add golden sets with labels, and slices where the contract names one.",
    ),
    "quality/too-few-rows": Code(
        "reject",
        "team",
        "There are fewer labelled rows than the contract asks for.",
        "Add labelled rows of this slice or class.",
    ),
}
