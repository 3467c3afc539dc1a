"""Labels of a golden set: the true class of each row, and the slice that each row belongs to.

They are decoded beside the expected values, to where these go: no job that sees the model is given them.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from sandbox import protos
from sandbox.golden_files import LeftOutError, Reading, npy_array
from sandbox.tensors import BlobWriter, TensorValue, pack_strings, tensor_of, to_array

MAX_ROWS: Final = 1_000_000
MAX_NAME: Final = 256


def store(job: Reading, item: dict[str, Any], writer: BlobWriter) -> dict[str, Any]:
    """Return the references of ``labels`` (int64) and ``slices`` (strings), as far as the order names them.

    Bad files are problems ``vectors/labels-invalid``; what can be read of the two is kept.
    """
    kept: dict[str, Any] = {}
    for key, read in (("labels", _labels), ("slices", _slices)):
        path = item.get(key)
        if not path:
            continue
        try:
            kept[key] = writer.store(read(path, job.read(path)))
        except LeftOutError as error:
            job.report("vectors/labels-invalid", error.where, error.message)
        except (ValueError, OverflowError) as error:
            job.report("vectors/labels-invalid", path, str(error))
    return kept


def _labels(path: str, raw: bytes) -> TensorValue:
    if path.endswith(".pb"):
        _, value = protos.decode(raw, "tensor")
        if not isinstance(value, TensorValue) or value.dtype == "string":
            raise ValueError("labels are one tensor of integers")
        array = to_array(value)
    else:
        array = npy_array(raw)
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels are integers, not {array.dtype.name}")
    if array.size > MAX_ROWS:
        raise ValueError(f"more than {MAX_ROWS} labels")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= 2**31):
        raise ValueError("a label is a class from 0 on")
    return tensor_of(array.astype(np.int64).reshape(-1), "int64")


def _slices(path: str, raw: bytes) -> TensorValue:
    try:
        text = raw.decode("utf-8")
        names = json.loads(text) if path.endswith(".json") else text.splitlines()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("slices are a list of names, one for each row")
    if len(names) > MAX_ROWS:
        raise ValueError(f"more than {MAX_ROWS} rows")
    if any(not 1 <= len(name) <= MAX_NAME or not name.isprintable() for name in set(names)):
        raise ValueError(f"the name of a slice is 1 to {MAX_NAME} printable characters")
    return TensorValue("string", (len(names),), pack_strings(name.encode() for name in names))
