"""Codes of the model file's wire form and its external data."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table
from acceptd.judge.catalogue.exporters import NAMES, ONCE, SAVE, WITHOUT_UNKNOWN

TABLE: Final[Table] = {
    "wire/disagrees": Code(
        "reject",
        "team",
        "The wire form and the parsed model differ in a count (nodes, initializers, graphs, functions, any "
        "message by its field), in the IR version or in an imported opset: what is checked is not what runs.",
        "Export the model again: its file holds fields twice, which readers merge in different ways. "
        '`onnx.save(onnx.load("model.onnx"), "model.onnx")` writes one reading of it.',
    ),
    "wire/duplicate-field": Code(
        "reject",
        "team",
        "A field that may stand once stands twice: parsers merge the two or take the last.",
        ONCE,
    ),
    "wire/empty": Code(
        "reject",
        "team",
        "The model file is empty.",
        "Submit the whole file; the one in the bundle has no byte.",
    ),
    "wire/group": Code(
        "reject",
        "team",
        "The file uses protobuf groups, which no ONNX message has.",
        "Export the model again with an ONNX writer; no ONNX field is a protobuf group.",
    ),
    "wire/hidden-payload": Code(
        "hold",
        "team",
        "The model file carries a large payload in protobuf fields that ONNX does not define.",
        f"{WITHOUT_UNKNOWN}, or explain the payload to a reviewer.",
    ),
    "wire/invalid-utf8": Code(
        "reject",
        "team",
        "A text field is not valid UTF-8; parsers read different names from it.",
        f"Export with UTF-8 names: {NAMES}; names of modules and metadata count too.",
    ),
    "wire/long-name": Code(
        "hold",
        "team",
        "A name, or a key or value of external data, has more than 4,096 bytes: reports cannot tell two apart.",
        "Use shorter names.",
    ),
    "wire/malformed": Code(
        "reject",
        "team",
        "The bytes are no protobuf message: an illegal tag, wire type or length.",
        "The file is damaged or no ONNX model: compare its size and SHA-256 with the original, and try "
        '`onnx.load("model.onnx")`.',
    ),
    "wire/ort-format": Code(
        "reject",
        "team",
        "The file is an ORT-format model, or has its mark at offset 4: another parser would read it.",
        "Submit the .onnx model that the .ort file was made from; production makes its own.",
    ),
    "wire/number-out-of-range": Code(
        "reject",
        "team",
        "A field of 32 bits (a type, a data location) holds a larger number: parsers cut it and read another one.",
        ONCE,
    ),
    "wire/overlong-varint": Code(
        "hold",
        "team",
        "A number is written with more bytes than it needs; parsers differ on these.",
        ONCE,
    ),
    "wire/too-deep": Code(
        "reject",
        "team",
        "Messages are nested deeper than the policy's `limits.wire_depth`.",
        "Flatten the model: fewer subgraphs, sequences or maps inside each other.",
    ),
    "wire/too-large": Code(
        "reject",
        "team",
        "The model file is larger than the policy allows (protobuf's own limit is 2 GiB).",
        f"Store the weights as external data: {SAVE}.",
    ),
    "wire/too-many-fields": Code(
        "reject",
        "team",
        "The file holds more protobuf fields or messages than any model within the limits needs.",
        "Export the model again; a flood of empty messages is an attack on the parser.",
    ),
    "wire/trailing-data": Code(
        "reject",
        "team",
        "Bytes of value 0 follow the model: some parsers accept them, the runtime refuses them.",
        "Remove what follows the model: copy the file again from the exporter, without anything appended.",
    ),
    "wire/truncated": Code(
        "reject",
        "team",
        "The model file ends inside a field.",
        "Copy it again: it is cut short. Compare its size and SHA-256 with the original.",
    ),
    "wire/unknown-field": Code(
        "hold",
        "team",
        "The file has fields that the ONNX schema does not know; they can hide a payload.",
        f"{WITHOUT_UNKNOWN}, or ask the acceptor about a newer onnx.",
    ),
    "wire/unknown-value": Code(
        "reject",
        "team",
        "A field of a closed set (attribute type, data location) holds none of its values: parsers drop it.",
        ONCE,
    ),
    "wire/wrong-type": Code(
        "reject",
        "team",
        "A known field has the wrong wire type; parsers drop it silently.",
        ONCE,
    ),
    "external-data/aliased": Code(
        "hold",
        "team",
        "Several tensors of one model have exactly the same bytes of an external data file: a model can ask "
        "for far more memory than its files are large.",
        "Give each tensor its own bytes, or let the nodes share one initializer. Delete the old data file, "
        f"then {SAVE}.",
    ),
    "external-data/bad-checksum": Code(
        "reject",
        "team",
        "The checksum of a tensor's external data is no SHA-1 in hexadecimal digits.",
        "Leave the checksum out (no runtime needs it), or write the SHA-1 of the whole data file in "
        "hexadecimal digits.",
    ),
    "external-data/bad-number": Code(
        "reject",
        "team",
        "An offset or length is not a plain decimal number.",
        f"Let onnx write location, offset and length: {SAVE}.",
    ),
    "external-data/checksum-mismatch": Code(
        "reject",
        "team",
        "The checksum of a tensor's external data is not the SHA-1 of its file: the file was changed or "
        "belongs to another model.",
        "Save model and data again together, and submit both: a data file of another export is the usual cause.",
    ),
    "external-data/duplicate-key": Code(
        "reject",
        "team",
        "A key of a tensor's external data stands twice; readers take different ones.",
        f"Let onnx write location, offset and length: {SAVE}.",
    ),
    "external-data/inconsistent": Code(
        "reject",
        "team",
        "A tensor has external data entries but is not marked as external.",
        f"Let onnx write them anew, in one form: {SAVE}.",
    ),
    "external-data/length-mismatch": Code(
        "reject",
        "team",
        "The stated length is not what the tensor's shape and type need.",
        f"Let onnx write location, offset and length: {SAVE}.",
    ),
    "external-data/memory-marker": Code(
        "reject",
        "team",
        "A tensor's data location is the runtime's marker for a raw memory address.",
        f"Save the model itself, not what a runtime holds in memory: {SAVE}.",
    ),
    "external-data/missing-file": Code(
        "reject",
        "team",
        "The file of a tensor's external data is not in the bundle.",
        "Put the file beside the model, under the name that the message gives: an export with external data"
        " is two files, and both belong into the bundle.",
    ),
    "external-data/missing-location": Code(
        "reject",
        "team",
        "A tensor is stored externally but names no file.",
        f"Let onnx write the location: {SAVE}.",
    ),
    "external-data/names-forbidden-file": Code(
        "reject",
        "team",
        "A tensor's data is a golden vector, the manifest or a model file, also by another spelling of its name.",
        f"Store weights in a file of their own: {SAVE}.",
    ),
    "external-data/not-visible": Code(
        "reject",
        "team",
        "The file of a tensor's external data is in the bundle but was not given to the job.",
        f"Store weights in a file of their own, beside the model: {SAVE}.",
    ),
    "external-data/out-of-range": Code(
        "reject",
        "team",
        "A tensor's external data lies beyond the end of its file.",
        "The data file is cut short or belongs to another export: copy it again and compare its size, or "
        "save model and data together.",
    ),
    "external-data/overlap": Code(
        "reject",
        "team",
        "Tensors of one model overlap in an external data file.",
        f"Delete the old data file first (onnx appends to one that is there), then {SAVE}.",
    ),
    "external-data/path-escape": Code(
        "reject",
        "team",
        "A tensor's data lies outside the bundle: an absolute path, `..`, a backslash, a NUL.",
        f"Store it in a file beside the model, by a plain name: {SAVE}.",
    ),
    "external-data/remote-location": Code(
        "reject",
        "team",
        "A tensor's data location is a URL, a network path or a drive.",
        f"Store it in a file beside the model, by a plain name: {SAVE}.",
    ),
    "external-data/sparse-file": Code(
        "hold",
        "team",
        "An external data file has holes where tensors lie: nobody wrote those weights.",
        "Write the file out in full (cp --sparse=never).",
    ),
    "external-data/string-tensor": Code(
        "reject",
        "team",
        "A string tensor is stored externally, which no runtime reads.",
        "Store strings in the model; only tensors of numbers go into a data file.",
    ),
    "external-data/too-many": Code(
        "reject",
        "team",
        "More tensors have external data than a report can hold (20,000).",
        "Merge small tensors; with the default `size_threshold` onnx.save_model moves only those of 1,024 "
        "bytes and more.",
    ),
    "external-data/too-many-bytes": Code(
        "reject",
        "team",
        "The external data files of one model are together larger than limits.external_bytes.",
        "Shrink the model (float16 or quantised weights), or ask the operator for a higher limits.external_bytes.",
    ),
    "external-data/too-many-files": Code(
        "reject",
        "team",
        "The model's external data lies in more files than limits.external_files.",
        'Save all tensors to one file: `onnx.save_model(model, "model.onnx", save_as_external_data=True, '
        'all_tensors_to_one_file=True, location="weights.bin")`.',
    ),
    "external-data/uncovered-bytes": Code(
        "hold",
        "team",
        "An external data file holds bytes that belong to no tensor of any model and are no padding: they are not "
        "zero, or more than alignment explains.",
        f"Delete the old data file first (onnx appends to one that is there), then {SAVE}.",
    ),
    "external-data/unknown-key": Code(
        "hold",
        "team",
        "A tensor's external data has a key that ONNX does not define.",
        f"Let onnx write the keys; it knows location, offset, length and checksum: {SAVE}.",
    ),
}
