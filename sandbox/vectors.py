"""The ``vectors`` job: golden files become dtype, shape and bytes; inputs and expected values part ways here.

A set that cannot be read whole is left out, and a problem says so.
"""

from __future__ import annotations

import contextlib
import io
import time
import zipfile
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from sandbox import labels, making, protos, tolerances
from sandbox.golden_files import MAX_PROBLEMS, LeftOutError, Lent, Reading, npy_array, npy_value, values
from sandbox.messages import MODEL_DIR, Channel, RefusedError, clip
from sandbox.tensors import (
    ELEMENTS,
    BlobFullError,
    BlobWriter,
    OptionalValue,
    TensorValue,
    Value,
    blob_is_full,
)

MAX_VALUES: Final = 4096


def _kind_of(value: Value) -> tuple[str, str]:
    if isinstance(value, TensorValue):
        return "tensor", value.dtype
    return type(value).__name__.removesuffix("Value").lower(), ""


def _compare_declared(job: Reading, spec: dict[str, Any], side: str, named: list[tuple[str, Value]]) -> None:
    declared = job.declared(spec["model"], side)
    by_name = {str(value.get("name")): value for value in declared}
    for index, (name, value) in enumerate(named):
        want = by_name.get(name) or (declared[index] if not name and index < len(declared) else None)
        if want is None or isinstance(value, OptionalValue):
            continue
        kind, dtype = _kind_of(value)
        wanted = str(want.get("kind", "")), str(want.get("dtype", ""))
        if (wanted[0] and wanted[0] not in {kind, "optional"}) or (dtype and wanted[1] and dtype != wanted[1]):
            where = f"{spec['name']}: {side[:-1]} {name or index}"
            job.report(
                "vectors/type-mismatch",
                where,
                f"the golden is a {kind} of {dtype}, declared is a {wanted[0]} of {wanted[1]}",
            )


def _store(job: Reading, spec: dict[str, Any], side: str, writer: BlobWriter) -> list[dict[str, Any]]:
    named: list[tuple[str, Value]] = []
    refs: list[dict[str, Any]] = []
    for name, value in values(job, spec, side):
        if name and any(name == other for other, _ in named):
            raise LeftOutError(
                "vectors/duplicate-name", spec["name"], f"two values go by the name {clip(name, 200)}"
            )
        if len(refs) >= MAX_VALUES:
            raise LeftOutError("vectors/undecodable", spec["name"], f"more than {MAX_VALUES} {side}")
        refs.append({"name": name, "value": writer.store(value)})
        kept = TensorValue(value.dtype, value.shape, b"") if isinstance(value, TensorValue) else value
        named.append((name, kept))  # without the bytes, so that one value at a time is in memory
    _compare_declared(job, spec, side, named)
    return refs


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:
    """Decode every golden set of the order and send one ``vectors`` frame; return the phases in ms.

    An order to ``make`` some is done by :mod:`sandbox.making`.
    Raises RefusedError ``resources/output-limit`` or ``resources/memory-limit``.
    """
    started = time.perf_counter()
    spec = order["spec"]
    if "make" in spec:
        return making.body(order, channel, blobs)
    lent = Lent(blobs["files"], spec["lent"]) if "lent" in spec else None
    job = Reading(str(spec.get("root", MODEL_DIR)), spec.get("types") or {}, lent)
    names = {"inputs": "inputs", "outputs": "expected"}
    side = spec.get("side")
    writers = {one: BlobWriter(blobs[names[one]]) for one in ([side] if side in names else names)}
    rtol, atol = tolerances.read(job, spec)
    sets: list[dict[str, Any]] = []
    for item in spec["sets"]:
        try:
            inputs = _store(job, item, "inputs", writers["inputs"]) if "inputs" in writers else []
            hollow = item.get("smoke") or "outputs" not in writers
            expected = [] if hollow else _store(job, item, "outputs", writers["outputs"])
            about = labels.store(job, item, writers["outputs"]) if "outputs" in writers else {}
        except LeftOutError as error:
            job.report(error.code, error.where, error.message)
            continue
        except BlobFullError as error:
            raise blob_is_full(item["name"], error) from error
        except MemoryError as error:
            raise RefusedError(
                "resources/memory-limit", item["name"], "golden values do not fit in memory"
            ) from error
        if not expected and not (item.get("smoke") and inputs) and side is None:
            code = "vectors/smoke-only" if inputs else "vectors/empty-set"
            job.report(code, item["name"], "no expected output: nothing is compared")
            if not inputs:
                continue
        entry = {"name": item["name"], "model": item["model"], "inputs": inputs, "expected": expected}
        sets.append(entry | about | {"rtol": rtol, "atol": atol})
    channel.send("vectors", {"sets": sets, "problems": (job.payloads + job.problems)[:MAX_PROBLEMS]})
    return {"decode": (time.perf_counter() - started) * 1000}


def preload() -> None:
    """Touch what is imported lazily: .npz reading with and without compression, every element type, protobuf."""
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, a=np.zeros(2, np.float32), b=np.array(["ä"]))
        with zipfile.ZipFile(io.BytesIO(stream.getvalue())) as archive:
            for info in archive.infolist():
                npy_value(npy_array(archive.read(info)), "")
    for element in ELEMENTS.values():
        message = onnx.TensorProto(data_type=element.number, dims=[0])
        numpy_helper.to_array(message)
        protos.decode(message.SerializeToString(), "tensor")
    with contextlib.suppress(protos.UndecodableError):
        protos.decode(b"\xff", "map")
    for codec in ("utf-8", "ascii", "latin-1", "cp437", "utf-32-le"):
        b"".decode(codec)
