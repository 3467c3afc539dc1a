"""Digests of weights, also of those that the copy for protobuf leaves out: what an export is compared by.

Only a job that is told to reads them: once, in the mapped file and in the external files that it was given.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

import onnx

from sandbox.inspect import canonical, stubs
from sandbox.inspect.external import Bundle, resolve
from sandbox.messages import text_of
from sandbox.wire import Walk
from sandbox.wire_tensor import Buffer, TensorRecord, skip, varint

MARK: Final = b"\0digest:"
"""Before the SHA-256 that stands in the copy for the values of a large tensor, in place of its raw data."""
CHUNK: Final = 1 << 20
_RAW: Final = 9


class UnreadableError(Exception):
    """A tensor's bytes cannot be read; then there is no hash of the whole."""


def _ignore(_code: str, _offset: int, _message: str) -> None:
    """Problems were noted by the walk already."""


def model_with_digests(buf: Buffer, walk: Walk) -> Any:
    """Return a ModelProto whose large tensors have a mark and a digest as raw data."""
    return onnx.ModelProto.FromString(stubs.with_marks(buf, walk, lambda tensor: MARK + _digest(buf, tensor)))


def _digest(buf: Buffer, tensor: TensorRecord) -> bytes:
    pos = tensor.start
    while pos < tensor.stop:
        tag, pos = varint(buf, pos, tensor.stop, _ignore)
        if tag == _RAW << 3 | 2:
            length, pos = varint(buf, pos, tensor.stop, _ignore)
            state = hashlib.sha256()
            for start in range(pos, pos + length, CHUNK):
                state.update(buf[start : min(start + CHUNK, pos + length)])
            return state.digest()
        pos = skip(buf, tag & 7, pos, tensor.stop, _ignore)
    # Values as numbers of their own: read as protobuf reads them, and written in the raw form.
    return hashlib.sha256(canonical.values(onnx.TensorProto.FromString(buf[tensor.start : tensor.stop]))).digest()


def tensor_key(path: Path, bundle: Bundle) -> canonical.TensorKey:
    """Return the function that hashes a tensor with its values. ``path`` is the model file's own.

    It raises UnreadableError where external data is not inside the bundle.
    """

    def key(tensor: Any) -> bytes:
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            digest = _external(tensor, path, bundle)
        else:
            raw = tensor.raw_data
            marked = raw.startswith(MARK) and len(raw) == len(MARK) + 32
            digest = raw[len(MARK) :] if marked else hashlib.sha256(canonical.values(tensor)).digest()
        return canonical.form(tensor) + digest

    return key


def _external(tensor: Any, path: Path, bundle: Bundle) -> bytes:
    entries = {text_of(item.key): text_of(item.value) for item in tensor.external_data}
    found, code, _ = resolve(entries.get("location", ""), bundle)
    record = TensorRecord(0, 0, dims=list(tensor.dims), dtype=tensor.data_type)
    expected = record.expected_bytes() if all(dim >= 0 for dim in tensor.dims) else None
    offset, length = entries.get("offset", "0"), entries.get("length", str(expected))
    if code or not (offset.isascii() and offset.isdecimal() and length.isascii() and length.isdecimal()):
        raise UnreadableError(found or "external data")
    root = path
    for _ in Path(bundle.model).parts:
        root = root.parent
    state = hashlib.sha256()
    left = int(length)
    with (root / found).open("rb", buffering=0) as file:
        file.seek(min(int(offset), 1 << 62))
        while left:
            piece = file.read(min(CHUNK, left))
            if not piece:
                raise UnreadableError(found)
            state.update(piece)
            left -= len(piece)
    return state.digest()
