"""Codes of golden vectors, loading and running."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import DYNAMIC, SETS

TABLE: Final[Table] = {
    "vectors/duplicate-name": Code(
        "reject",
        "team",
        "Two values of one golden set go by one name.",
        "Give each value of a set its own name (`TensorProto.name`), or none.",
    ),
    "vectors/empty-set": Code(
        "reject",
        "team",
        "A golden set has no input or no expected output.",
        f"Give each set at least one output_N.pb beside its inputs; {SETS} makes whole sets.",
    ),
    "vectors/gap": Code(
        "reject",
        "team",
        "The numbered golden files of a set are not 0, 1, 2, ... without a gap, so positions are not known.",
        "Number input_N.pb and output_N.pb from 0 without gaps.",
    ),
    "vectors/input-shape": Code(
        "reject",
        "team",
        "A golden input has another shape than declared, or a size outside [dims]: the loader would refuse it.",
        "Declare the bounds that the model is meant for (`[dims.batch]` with `min` and `max`), or keep the "
        "golden inputs inside them.",
    ),
    "vectors/insensitive": Code(
        "hold",
        "team",
        "The outputs are the same for all different inputs that were tried: a golden that tests nothing. One "
        "constant output beside others, or a model without a manifest, is info only.",
        "Check that the weights were exported, and add goldens whose inputs lead to other outputs.",
    ),
    "vectors/missing": Code(
        "reject",
        "team",
        "A model has no golden vectors, so nothing shows that it computes what it should.",
        f"Add at least one golden set with inputs and expected outputs, and name it in bundle.toml: {SETS} "
        "does both; better are values of your framework (`--from inputs.npz --oracle expected.npz`).",
    ),
    "vectors/none": Code(
        "warn",
        "team",
        "A model has no golden vectors; only its structure and its ability to run were judged.",
        f"Add at least one golden set with inputs and expected outputs: {SETS}, or values of your framework "
        "(`--from inputs.npz --oracle expected.npz`).",
    ),
    "vectors/output-unchecked": Code(
        "hold",
        "team",
        "No golden set has an expected value of an output, so nothing shows that it computes what it should. "
        "Where goldens are not required it is info only.",
        "Add output_N.pb of this output to at least one set, or remove the output from the model. Where the model "
        "gives NaN or infinity alone, mend that: look at its weights and divisions.",
    ),
    "vectors/pattern-empty": Code(
        "reject",
        "team",
        "A golden-vector pattern in bundle.toml matches nothing.",
        'Correct `sets` in [[models.vectors]] (`sets = ["test_data_set_*"]` matches directories beside '
        "bundle.toml), or add the vectors.",
    ),
    "vectors/self-made": Code(
        "info",
        "team",
        "The expected values come from onnxruntime itself, so the goldens show regression, not parity.",
        "Make the expected values with the training framework or an independent oracle: `acceptd bundle "
        "vectors DIR --from inputs.npz --oracle expected.npz`, or `--oracle reference`.",
    ),
    "vectors/smoke-only": Code(
        "warn",
        "team",
        "A golden set has inputs but no expected output: it compares nothing and counts as no golden.",
        "Add output_N.pb files if the set is meant as a golden; without them only that the model runs is shown.",
    ),
    "vectors/tolerance-invalid": Code(
        "warn",
        "team",
        "data.json carries an rtol or atol that is no finite number of zero or more.",
        "Correct data.json, or declare the tolerance in bundle.toml.",
    ),
    "vectors/type-mismatch": Code(
        "warn",
        "team",
        "A golden value has another kind or dtype than the manifest declares for its place.",
        "Write the golden with the declared type (`array.astype(numpy.float32)`), or correct `dtype` in "
        "bundle.toml.",
    ),
    "vectors/undecodable": Code(
        "reject",
        "team",
        "A golden file cannot be decoded as the value that its name and the model's declared type call for.",
        "Write one TensorProto, SequenceProto, OptionalProto or map per file "
        "(`onnx.numpy_helper.from_array(array, name).SerializeToString()`), or an .npz without pickled "
        "objects.",
    ),
    "vectors/unpaired": Code(
        "reject",
        "team",
        "The expected values of a golden set cannot be assigned to the model's outputs.",
        "Give every expected value the name of an output (`onnx.numpy_helper.from_array(array, "
        '"probabilities")`), or one file per output in the model\'s order.',
    ),
    "load/digest-mismatch": Code(
        "reject",
        "team",
        "The model file has another SHA-256 than was sealed.",
        "Report it: the sealed copy has changed.",
    ),
    "load/empty-model": Code(
        "reject",
        "team",
        "The model file is empty.",
        "Submit the whole file; the one in the bundle has no byte.",
    ),
    "load/failed": Code(
        "reject",
        "team",
        "onnxruntime cannot create a session from the model.",
        'Try it where you are: `onnxruntime.InferenceSession("model.onnx", '
        'providers=["CPUExecutionProvider"])`, and mend what it reports.',
    ),
    "load/invalid-model": Code(
        "reject",
        "team",
        "onnxruntime refuses the model as invalid: graph, types or external data.",
        'Run `onnx.checker.check_model("model.onnx", full_check=True)`, mend what it reports, and export again.',
    ),
    "load/locale-missing": Code(
        "hold",
        "team",
        "The model uses StringNormalizer, which needs the locale en_US.UTF-8, and this host does not have "
        "it: the fault is the host's.",
        "Operator: install the locale (Debian: apt-get install locales, then localedef -i en_US -f UTF-8 "
        "en_US.UTF-8) and start the daemon again.",
    ),
    "load/options-refused": Code(
        "reject",
        "team",
        "onnxruntime refused a session option of the profile.",
        "Operator: correct the profile's session_entries, or the custom_operators that it names.",
    ),
    "load/order-invalid": Code(
        "reject",
        "team",
        "The declared inputs and outputs make no sense: duplicate or empty names, or an unknown dtype.",
        "Correct the model's table in bundle.toml.",
    ),
    "load/profile-bounds": Code(
        "reject",
        "team",
        "The profile asks for threads or session entries beyond what a run may have.",
        "Operator: correct the profile: 1 to 256 threads, no entry that profiles, loads a library or "
        "changes the parser.",
    ),
    "load/provider-unavailable": Code(
        "hold",
        "team",
        "The profile's execution provider is not in this onnxruntime build or cannot start here, and no fallback "
        "is allowed.",
        "Operator: use a profile whose runtime has the provider, or allow the fallback in the profile.",
    ),
    "load/size-mismatch": Code(
        "reject",
        "team",
        "The model file has another size than was sealed.",
        "Report it: the sealed copy has changed.",
    ),
    "load/unsupported-operator": Code(
        "reject",
        "team",
        "This onnxruntime build has no implementation of an operator (or of its version or type) that the "
        "model uses.",
        "Export with an operator, version or type that the profile's onnxruntime implements: "
        "`torch.onnx.export(..., opset_version=17)`; custom operators come from the operator's profile.",
    ),
    "run/crash": Code(
        "reject",
        "team",
        "The model killed the process that loads and runs it.",
        "Run the model where a crash harms nobody; integer division by zero, deep recursion and broken "
        "trees are the common causes. `acceptd policy explain structure/division-trap` says more of the "
        "first.",
    ),
    "run/failed": Code(
        "reject",
        "team",
        "onnxruntime raised while running a golden set or an in-domain probe.",
        "Run the named set with onnxruntime and mend what it reports.",
    ),
    "run/name-ignored": Code(
        "info",
        "team",
        "A golden file carries a name that the model does not have; it was matched by its position.",
        "Write the golden files with the model's own input names, or none.",
    ),
    "run/output-dtype": Code(
        "reject",
        "team",
        "An output of a run has another kind or dtype than declared.",
        "Correct `dtype` of the output in bundle.toml, or export with the declared type.",
    ),
    "run/output-shape": Code(
        "reject",
        "team",
        "An output of a run has another shape than declared, or one name stood for two sizes in one run.",
        "Correct `shape` or the bounds in [dims] of bundle.toml; a size that was fixed at export needs a "
        f"dynamic axis: {DYNAMIC}.",
    ),
    "run/overridden-initializer": Code(
        "hold",
        "team",
        "A golden set feeds a value over a weight of the model (an initializer that is also a graph input), "
        "so it does not test the model's own weight.",
        "Remove the value from the set, or export with `torch.onnx.export(..., "
        "keep_initializers_as_inputs=False)`.",
    ),
    "run/unexpected-case": Code(
        "reject",
        "team",
        "The run reported an inference that was never ordered.",
        "Remove whatever takes over the process that runs the model.",
    ),
    "run/unexpressible-type": Code(
        "hold",
        "team",
        "An input or output has an element type that onnxruntime's Python interface cannot express (2-bit "
        "and 4-bit integers, float4, sparse).",
        "Cast to an expressible type at the graph's border.",
    ),
    "run/unfed-input": Code(
        "reject",
        "team",
        "A golden set gives no value for a required input.",
        "Add the missing input file to the set: `input_N.pb`, in the order of the model's inputs or named "
        "as they are.",
    ),
    "run/unknown-input": Code(
        "reject",
        "team",
        "A golden set gives a value for which the model has no input.",
        "Remove the file, or correct its name.",
    ),
}
