"""Plain onnxruntime over files in the ONNX backend-test layout: the direct run that acceptd is compared with.

No cell, no policy, no acceptd: a model, its golden inputs, ``InferenceSession.run``. Types that numpy
cannot express (bfloat16, float8, two- and four-bit numbers) go through the memory of an ``OrtValue``. Imported
only by worker processes, because a model may take the process with it.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before the import: the wheel uploads otherwise

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, numpy_helper

Array = npt.NDArray[Any]

BEYOND_NUMPY: Final[dict[str, tuple[int, Any]]] = {
    "tensor(bfloat16)": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "tensor(float8e4m3fn)": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "tensor(float8e4m3fnuz)": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "tensor(float8e5m2)": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "tensor(float8e5m2fnuz)": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
    "tensor(float8e8m0)": (TensorProto.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu),
}
"""onnxruntime's name of a type to ONNX's number and the ml_dtypes type of the same bytes."""

PACKED: Final = {
    "tensor(int4)": (TensorProto.INT4, 4),
    "tensor(uint4)": (TensorProto.UINT4, 4),
    "tensor(int2)": (TensorProto.INT2, 2),
    "tensor(uint2)": (TensorProto.UINT2, 2),
    "tensor(float4e2m1)": (TensorProto.FLOAT4E2M1, 4),
}
"""onnxruntime's name of a packed type to ONNX's number and its bits; ``OrtValue`` has no constructor for them."""

BFLOAT16_RTOL: Final = 2.0**-6  # two units in the last place, as onnx's own runner has it


@dataclass(frozen=True)
class GoldenSet:
    """One ``test_data_set_N``: inputs by name, expected outputs by position."""

    feeds: dict[str, Any]
    expected: list[Any]


def decode(data: bytes, kind: onnx.TypeProto) -> Any:
    """Return the value of a golden file, whose protobuf type the graph's declared type decides."""
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    if kind.HasField("map_type"):
        return numpy_helper.to_dict(onnx.MapProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _numbered(directory: Path, kind: str) -> list[bytes]:
    return [(directory / f"{kind}_{i}.pb").read_bytes() for i in range(len(list(directory.glob(f"{kind}_*.pb"))))]


def golden_sets(case: Path) -> list[GoldenSet]:
    """Return the golden sets of ``case``, matched by position over inputs that are not initializers."""
    graph = onnx.load(str(case / "model.onnx"), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    return [
        GoldenSet(
            {
                value.name: decode(data, value.type)
                for value, data in zip(inputs, _numbered(path, "input"), strict=False)
            },
            [
                decode(data, value.type)
                for value, data in zip(graph.output, _numbered(path, "output"), strict=False)
            ],
        )
        for path in sorted(case.glob("test_data_set_*"))
    ]


def open_session(model: Path, level: Any = None) -> Any:
    """Return a CPU session with one thread and onnxruntime's defaults; ``level`` of graph optimisation."""
    options = ort.SessionOptions()
    if level is not None:
        options.graph_optimization_level = level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _to_ort(value: Any, kind: str) -> Any:
    if kind in BEYOND_NUMPY:
        number, dtype = BEYOND_NUMPY[kind]
        array = np.array(value, dtype, order="C")  # ascontiguousarray would make a scalar a vector
        raw = array.view(np.uint16 if array.itemsize == 2 else np.uint8)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
    if kind in PACKED:
        proto = numpy_helper.from_array(np.asarray(value))  # packs as the runtime does, least bits first
        made = ort.OrtValue.ortvalue_from_shape_and_type(list(proto.dims), proto.data_type)
        ctypes.memmove(made.data_ptr(), proto.raw_data, len(proto.raw_data))
        return made
    return ort.OrtValue.ortvalue_from_numpy(np.asarray(value))


def _from_ort(value: Any) -> Any:
    kind = value.data_type()
    if kind in PACKED:
        number, bits = PACKED[kind]
        dims = value.shape()
        size = (int(np.prod(dims, dtype=np.int64)) * bits + 7) // 8
        raw = ctypes.string_at(value.data_ptr(), size) if size else b""
        return numpy_helper.to_array(onnx.TensorProto(data_type=number, dims=dims, raw_data=raw))
    if kind not in BEYOND_NUMPY:
        return value.numpy()
    dtype = np.dtype(BEYOND_NUMPY[kind][1])
    shape = tuple(value.shape())
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", dtype).reshape(shape)


def run(session: Any, feeds: dict[str, Any], *, packed: bool = True) -> list[Any]:
    """Return the outputs in the graph's order; what onnxruntime raises passes through.

    Without ``packed``, two- and four-bit values go through numpy, which onnxruntime 1.32 refuses.
    """
    inputs = {value.name: value.type for value in session.get_inputs()}
    outputs = [value.type for value in session.get_outputs()]
    special = BEYOND_NUMPY.keys() | (PACKED.keys() if packed else set())
    if not special.isdisjoint([*inputs.values(), *outputs]):
        values = {name: _to_ort(value, inputs.get(name, "")) for name, value in feeds.items()}
        names = [value.name for value in session.get_outputs()]
        return [_from_ort(value) for value in session.run_with_ort_values(names, values)]
    return list(session.run(None, feeds))


def difference(got: Any, expected: Any, rtol: float, atol: float, where: str = "output") -> str:
    """Return the first difference in words, or ``""``; the rule of onnx's ``Runner.assert_similar_outputs``."""
    if isinstance(got, list | tuple):
        if not isinstance(expected, list | tuple) or len(got) != len(expected):
            return f"{where}: another kind or number of values"
        places = ((f"{where}[{i}]", g, e) for i, (g, e) in enumerate(zip(got, expected, strict=True)))
        return next((words for at, g, e in places if (words := difference(g, e, rtol, atol, at))), "")
    if got is None or expected is None:
        return "" if got is expected else f"{where}: absent on one side"
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape:
        return f"{where}: shape {list(got.shape)}, expected {list(expected.shape)}"
    if expected.dtype == object:
        return "" if np.array_equal(got, expected) else f"{where}: other text"
    if got.dtype != expected.dtype:
        return f"{where}: dtype {got.dtype}, expected {expected.dtype}"
    if got.dtype.kind == "V" or got.dtype.name in {"bfloat16"} or got.dtype.name.startswith("float8"):
        rtol = max(rtol, BFLOAT16_RTOL) if got.dtype.name == "bfloat16" else rtol
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    with np.errstate(all="ignore"):
        close = np.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
        if bool(np.all(close)):
            return ""
        worst = np.nanmax(np.abs(got.astype(np.float64) - expected.astype(np.float64)))
    return f"{where}: {int(np.sum(~close))} of {close.size} elements differ, by {worst:.3g} at most"
