"""Target ``tensors``: the files of values that jobs leave behind, by the headers that say what lies where in them.

Four bytes of length, the task as JSON, and the bytes of the file. Headers and bytes are hostile: the comparer says
of any of them how they differ or that they cannot be compared, in bounded time, and its answer survives JSON.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from acceptd.compare.blob import Blob
from acceptd.compare.service import answer, compare
from acceptd.compare.task import CompareTask
from acceptd.statistics_facts import Statistics
from fuzz.house import memory_directory

LENGTH: Final = struct.Struct("!I")
_file: Any = None


def check(raw: bytes) -> None:
    """Compare what the headers point at."""
    if len(raw) < LENGTH.size:
        return
    (size,) = LENGTH.unpack_from(raw)
    head, data = raw[LENGTH.size : LENGTH.size + size], raw[LENGTH.size + size :]
    try:
        document = json.loads(head)
    except (ValueError, RecursionError):
        return
    descriptor = _written(data)
    said = answer({"id": 1, "task": document, "files": ["f"]}, [descriptor])
    try:
        task = CompareTask.model_validate(document)
    except (ValidationError, RecursionError):
        assert str(said["error"])
        return
    found = compare(task, {"f": Blob(descriptor)})
    reply = json.loads(json.dumps(said["statistics"], allow_nan=False))
    assert Statistics.model_validate(reply) == found
    assert len(found.outputs) >= len(task.pairs)


def _written(data: bytes) -> int:
    global _file
    if _file is None:
        _file = (memory_directory() / "values").open("w+b", buffering=0)
    _file.seek(0)
    _file.truncate()
    _file.write(data)
    return int(_file.fileno())


def packed(task: dict[str, Any], data: bytes) -> bytes:
    """Return an input."""
    head = json.dumps(task, separators=(",", ":"), sort_keys=True).encode()
    return LENGTH.pack(len(head)) + head + data


def seeds() -> dict[str, bytes]:
    """Return a task of every kind, and values that are nested."""
    rows = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]], np.float32)
    boxes = np.array([[0, 0, 10, 10], [20, 20, 40, 40]], np.float32)
    found = {
        kind: packed(
            {"pairs": [_pair(_ref(rows), _ref(rows, 24), kind)]}, rows.tobytes() + (rows + 1e-3).tobytes()
        )
        for kind in ("values", "logits", "probabilities", "embedding", "audio")
    }
    found["boxes"] = packed(
        {"pairs": [_pair(_ref(boxes), _ref(boxes, 32), "boxes")]}, boxes.tobytes() + boxes[::-1].tobytes()
    )
    tokens = np.array([[1, 2, 3, 2]], np.int64)
    found["sequence"] = packed(
        {"pairs": [_pair(_ref(tokens), _ref(tokens), "sequence") | {"how": {"end": 2}}]}, tokens.tobytes()
    )
    words = b"".join(struct.pack("<I", len(one)) + one for one in (b"a", b"", b"\xff\xfe"))
    strings = {"kind": "tensor", "dtype": "string", "shape": [3], "offset": 0, "nbytes": len(words)}
    found["strings"] = packed({"pairs": [_pair(strings, strings)]}, words)
    keys = {"kind": "tensor", "dtype": "int64", "shape": [2], "offset": 0, "nbytes": 16}
    pairs = {"kind": "map", "keys": keys, "values": keys | {"dtype": "uint64"}}
    nested = {"kind": "sequence", "items": [pairs, {"kind": "optional", "value": None}]}
    found["nested"] = packed({"pairs": [_pair(nested, nested)]}, struct.pack("<2q", 1, 2))
    for dtype, width in (("int4", 1), ("bfloat16", 4), ("float8e4m3fnuz", 2), ("complex64", 16), ("bool", 2)):
        one = {"kind": "tensor", "dtype": dtype, "shape": [2], "offset": 0, "nbytes": width}
        found[dtype] = packed({"pairs": [_pair(one, one | {"offset": width})]}, bytes(range(2 * width)))
    value = {"file": "f", "value": _ref(rows)}
    found["more"] = packed(
        {
            "groups": [{"model": "main", "output": "y", "samples": [
                {"key": "a", "inputs": [value], "output": value}, {"key": "b", "inputs": None, "output": value}]}],
            "inputs": [{"set": "s", "model": "main", "input": "x", "value": value, "low": 0.0, "high": 1.0}],
            "labelled": [{"set": "s", "model": "main", "output": "y", "kind": "logits", "got": value,
                          "labels": {"file": "f", "value": keys}}],
        },
        rows.tobytes(),
    )  # fmt: skip
    return found


def _ref(array: Any, offset: int = 0) -> dict[str, Any]:
    return {
        "kind": "tensor", "dtype": array.dtype.name, "shape": list(array.shape), "offset": offset,
        "nbytes": array.nbytes,
    }  # fmt: skip


def _pair(expected: dict[str, Any], got: dict[str, Any], kind: str = "values") -> dict[str, Any]:
    return {
        "set": "s", "model": "main", "output": "y", "against": "golden", "kind": kind, "rtol": 0.0, "atol": 1e-6,
        "expected": {"file": "f", "value": expected}, "got": {"file": "f", "value": got},
    }  # fmt: skip
