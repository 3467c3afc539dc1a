"""Codes of the model file's wire form and its external data."""

from __future__ import annotations

from typing import Final

from acceptd.judge.catalogue.code import Code, Table

TABLE: Final[Table] = {
    "wire/disagrees": Code(
        "reject",
        "team",
        "The wire form and the parsed model differ in a count (nodes, initializers, graphs, functions, any "
        "message by its field), in the IR version or in an imported opset: what is checked is not what runs.",
        "Export the model again; the file may hold merged or repeated fields.",
    ),
    "wire/duplicate-field": Code(
        "reject",
        "team",
        "A field that may stand once stands twice: parsers merge the two or take the last.",
        "Save the model with an ONNX writer (onnx.save).",
    ),
    "wire/empty": Code(
        "reject",
        "team",
        "The model file is empty.",
        "Export the model again.",
    ),
    "wire/group": Code(
        "reject",
        "team",
        "The file uses protobuf groups, which no ONNX message has.",
        "Export the model again with an ONNX writer.",
    ),
    "wire/hidden-payload": Code(
        "hold",
        "team",
        "The model file carries a large payload in protobuf fields that ONNX does not define.",
        "Save the model again with onnx.load and onnx.save, or explain the payload to a reviewer.",
    ),
    "wire/invalid-utf8": Code(
        "reject",
        "team",
        "A text field is not valid UTF-8; parsers read different names from it.",
        "Export with plain UTF-8 names.",
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
        "Export the model again.",
    ),
    "wire/ort-format": Code(
        "reject",
        "team",
        "The file is an ORT-format model, or has its mark at offset 4: another parser would read it.",
        "Submit the ONNX model that it was made from.",
    ),
    "wire/number-out-of-range": Code(
        "reject",
        "team",
        "A field of 32 bits (a type, a data location) holds a larger number: parsers cut it and read another one.",
        "Save the model with an ONNX writer (onnx.save).",
    ),
    "wire/overlong-varint": Code(
        "hold",
        "team",
        "A number is written with more bytes than it needs; parsers differ on these.",
        "Save the model with an ONNX writer (onnx.save).",
    ),
    "wire/too-deep": Code(
        "reject",
        "team",
        "Messages are nested deeper than the policy's `limits.wire_depth`.",
        "Flatten the model's subgraphs.",
    ),
    "wire/too-large": Code(
        "reject",
        "team",
        "The model file is larger than the policy allows (protobuf's own limit is 2 GiB).",
        "Store the weights as external data.",
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
        "Remove what follows the model.",
    ),
    "wire/truncated": Code(
        "reject",
        "team",
        "The model file ends inside a field.",
        "Upload it again; it is cut short.",
    ),
    "wire/unknown-field": Code(
        "hold",
        "team",
        "The file has fields that the ONNX schema does not know; they can hide a payload.",
        "Save the model with onnx.save, or ask the acceptor about a newer onnx.",
    ),
    "wire/unknown-value": Code(
        "reject",
        "team",
        "A field of a closed set (attribute type, data location) holds none of its values: parsers drop it.",
        "Save the model with an ONNX writer (onnx.save).",
    ),
    "wire/wrong-type": Code(
        "reject",
        "team",
        "A known field has the wrong wire type; parsers drop it silently.",
        "Save the model with an ONNX writer (onnx.save).",
    ),
    "external-data/aliased": Code(
        "hold",
        "team",
        "Several tensors of one model have exactly the same bytes of an external data file: a model can ask "
        "for far more memory than its files are large.",
        "Give each tensor its own bytes, or share one initializer.",
    ),
    "external-data/bad-checksum": Code(
        "reject",
        "team",
        "The checksum of a tensor's external data is no SHA-1 in hexadecimal digits.",
        "Leave the checksum out, or write the SHA-1 of the data file.",
    ),
    "external-data/bad-number": Code(
        "reject",
        "team",
        "An offset or length is not a plain decimal number.",
        "Save the model with onnx.save.",
    ),
    "external-data/checksum-mismatch": Code(
        "reject",
        "team",
        "The checksum of a tensor's external data is not the SHA-1 of its file: the file was changed or "
        "belongs to another model.",
        "Save model and data again together.",
    ),
    "external-data/duplicate-key": Code(
        "reject",
        "team",
        "A key of a tensor's external data stands twice; readers take different ones.",
        "Save the model with onnx.save.",
    ),
    "external-data/inconsistent": Code(
        "reject",
        "team",
        "A tensor has external data entries but is not marked as external.",
        "Save the model with onnx.save.",
    ),
    "external-data/length-mismatch": Code(
        "reject",
        "team",
        "The stated length is not what the tensor's shape and type need.",
        "Save the model with onnx.save.",
    ),
    "external-data/memory-marker": Code(
        "reject",
        "team",
        "A tensor's data location is the runtime's marker for a raw memory address.",
        "Save the model with onnx.save.",
    ),
    "external-data/missing-file": Code(
        "reject",
        "team",
        "The file of a tensor's external data is not in the bundle.",
        "Add the file, or correct the location.",
    ),
    "external-data/missing-location": Code(
        "reject",
        "team",
        "A tensor is stored externally but names no file.",
        "Save the model with onnx.save.",
    ),
    "external-data/names-forbidden-file": Code(
        "reject",
        "team",
        "A tensor's data is a golden vector, the manifest or a model file, also by another spelling of its name.",
        "Store weights in a file of their own.",
    ),
    "external-data/not-visible": Code(
        "reject",
        "team",
        "The file of a tensor's external data is in the bundle but was not given to the job.",
        "Store weights in a file of their own.",
    ),
    "external-data/out-of-range": Code(
        "reject",
        "team",
        "A tensor's external data lies beyond the end of its file.",
        "The data file is truncated or belongs to another model; save both again.",
    ),
    "external-data/overlap": Code(
        "reject",
        "team",
        "Tensors of one model overlap in an external data file.",
        "Save the model with onnx.save into a fresh data file.",
    ),
    "external-data/path-escape": Code(
        "reject",
        "team",
        "A tensor's data lies outside the bundle: an absolute path, `..`, a backslash, a NUL.",
        "Store it in a file beside the model.",
    ),
    "external-data/remote-location": Code(
        "reject",
        "team",
        "A tensor's data location is a URL, a network path or a drive.",
        "Store it in a file beside the model.",
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
        "Store strings in the model.",
    ),
    "external-data/too-many": Code(
        "reject",
        "team",
        "More tensors have external data than a report can hold (20,000).",
        "Merge the tensors.",
    ),
    "external-data/too-many-bytes": Code(
        "reject",
        "team",
        "The external data files of one model are together larger than limits.external_bytes.",
        "Shrink the model, or ask the operator for a higher limit.",
    ),
    "external-data/too-many-files": Code(
        "reject",
        "team",
        "The model's external data lies in more files than limits.external_files.",
        "Save all tensors to one file.",
    ),
    "external-data/uncovered-bytes": Code(
        "hold",
        "team",
        "An external data file holds bytes that belong to no tensor of any model and are no padding: they are not "
        "zero, or more than alignment explains.",
        "Save the model again with onnx.save into a fresh data file.",
    ),
    "external-data/unknown-key": Code(
        "hold",
        "team",
        "A tensor's external data has a key that ONNX does not define.",
        "Save the model with onnx.save.",
    ),
}
