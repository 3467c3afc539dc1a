"""The ``vectors`` job: golden files become dtype, shape and bytes; inputs and expected values part ways here.

Layouts: ONNX backend test (``input_N.pb``, ``output_N.pb``), a pair of ``.npz`` files whose keys are
tensor names, and the model zoo's legacy single ``.npz`` with the arrays ``inputs`` and ``outputs``.
Pickles are never read. A set that cannot be read whole is left out, and a problem says so.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import posixpath
import re
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from numpy.lib import format as npy_format
from onnx import numpy_helper

from sandbox import protos
from sandbox.inspect import bytes as content
from sandbox.inspect import marks, payloads
from sandbox.messages import MODEL_DIR, Channel, RefusedError, clip, text_of
from sandbox.tensors import (
    ELEMENTS,
    BlobFullError,
    BlobWriter,
    OptionalValue,
    TensorValue,
    Value,
    blob_is_full,
    tensor_of,
)

MAX_VALUES: Final = 4096
MAX_PROBLEMS: Final = 256
MAX_PAYLOADS: Final = 64
MAX_DATA_JSON: Final = 64 << 10
_FILE: Final = re.compile(r"(input|output)_(0|[1-9][0-9]{0,5})\.pb", re.ASCII)


class LeftOutError(Exception):
    """A set cannot be read whole; it is left out and the problem says why."""

    def __init__(self, code: str, where: str, message: str) -> None:
        super().__init__(message)
        self.code, self.where, self.message = code, where, message


@dataclass(frozen=True, slots=True)
class Lent:
    """Files one after another in a blob that nothing but this job has: path to (offset, bytes) in ``index``."""

    descriptor: int
    index: dict[str, list[int]]

    def read(self, path: str) -> bytes:
        """Return one file. Raises OSError where there is none, or less of it than was said."""
        if path not in self.index:
            raise FileNotFoundError(2, "no such file")
        offset, size = self.index[path]
        data = bytearray()
        while len(data) < size and (piece := os.pread(self.descriptor, size - len(data), offset + len(data))):
            data += piece
        if len(data) < size:
            raise OSError(5, "the blob is shorter than was said")
        return bytes(data)


@dataclass(slots=True)
class _Job:
    """What the readers share: where files are, what is declared, and the problems found so far."""

    root: str
    types: dict[str, Any]
    lent: Lent | None = None
    """Files that lie in one lent blob, not below ``root``."""
    problems: list[dict[str, str]] = field(default_factory=list)
    payloads: list[dict[str, str]] = field(default_factory=list)
    """What is hidden in golden files; apart, so that no number of other problems keeps it from being told."""
    _looked: set[str] = field(default_factory=set)

    def report(self, code: str, where: str, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append({"code": code, "where": clip(where), "message": text_of(message)})

    def read(self, path: str) -> bytes:
        try:
            data = self.lent.read(path) if self.lent is not None else self._opened(path)
        except OSError as error:
            raise LeftOutError("vectors/undecodable", path, error.strerror or "cannot be read") from error
        if path not in self._looked:
            self._looked.add(path)
            self.look(data, path, {marks.ARCHIVE} if path.endswith(".npz") else set())
        return data

    def _opened(self, path: str) -> bytes:
        with open(os.path.join(self.root, path), "rb") as file:
            return file.read()

    def look(self, data: bytes, where: str, ignored: set[str]) -> None:
        """Look for payloads in a golden file, which nobody else reads. Texts fed to a model may be anything."""
        source = content.BytesSource(data)
        scanner = payloads.Scanner(source, ignored | {marks.ADDRESS, marks.SCRIPT})
        content.read(source, [scanner])
        scanner.begins(0)
        found = [(hit.code, payloads.words(hit, source.peek(hit.at, 16))) for hit in scanner.hits]
        if scanner.flooded:
            found.append(("payload/flood", f"more than {payloads.MAX_CANDIDATES} places look like a payload"))
        for code, message in found[: MAX_PAYLOADS - len(self.payloads)]:
            self.payloads.append({"code": code, "where": clip(where), "message": text_of(message)})

    def declared(self, model: str, side: str) -> list[dict[str, Any]]:
        values = self.types.get(model, {}).get(side, [])
        return values if isinstance(values, list) else []


def positions(files: list[str]) -> dict[str, list[str]]:
    """Return the paths of ``input`` and ``output`` files in numeric order.

    Raises :class:`LeftOutError` when a number is missing or comes twice: then positions are not
    known. Files of other names are no golden values and are passed over.
    """
    found: dict[str, dict[int, str]] = {"input": {}, "output": {}}
    for path in files:
        match = _FILE.fullmatch(posixpath.basename(path))
        if match is None:
            if re.fullmatch(r"(input|output)_.*\.pb", posixpath.basename(path)):
                raise LeftOutError(
                    "vectors/gap", path, "golden files are numbered 0, 1, 2, … without leading zeros"
                )
            continue
        side, number = match[1], int(match[2])
        if number in found[side]:
            raise LeftOutError("vectors/gap", path, f"{side}_{number}.pb is there twice")
        found[side][number] = path
    ordered: dict[str, list[str]] = {}
    for side, numbered in found.items():
        missing = next((number for number in range(len(numbered)) if number not in numbered), None)
        if missing is not None:
            where = posixpath.dirname(next(iter(numbered.values())))
            raise LeftOutError(
                "vectors/gap", where, f"{side}_{missing}.pb is missing, but a higher number is there"
            )
        ordered[side] = [numbered[number] for number in range(len(numbered))]
    return ordered


def _read_onnx(job: _Job, spec: dict[str, Any], side: str) -> Iterator[tuple[str, Value]]:
    paths = positions(list(spec["files"]))["input" if side == "inputs" else "output"]
    declared = job.declared(spec["model"], side)
    for index, path in enumerate(paths):
        kind = str(declared[index].get("kind", "")) if index < len(declared) else ""
        try:
            yield protos.decode(job.read(path), kind)
        except protos.UndecodableError as error:
            raise LeftOutError("vectors/undecodable", path, str(error)) from error


def npy_array(raw: bytes) -> np.ndarray[Any, Any]:
    """Return the array of ``.npy`` bytes; never unpickles. Raises ValueError."""
    stream = io.BytesIO(raw)
    array = npy_format.read_array(stream, allow_pickle=False)
    if stream.read(1):
        raise ValueError("bytes are left over after the array")
    return array


def npy_value(array: np.ndarray[Any, Any], declared: str) -> TensorValue:
    """Return an array of a ``.npz`` as a value.

    numpy writes bfloat16 and float8 as raw bytes (``V2``, ``V1``): ``declared`` says what they are.
    Raises ValueError for an element type that ONNX does not have.
    """
    if array.dtype.kind in "US":
        return tensor_of(array, "string")
    if array.dtype.kind == "V" and array.dtype.fields is None:
        element = ELEMENTS.get(declared)
        if (
            element is None
            or element.array is None
            or element.native
            or element.array.itemsize != array.dtype.itemsize
        ):
            raise ValueError(
                f"raw {array.dtype.itemsize}-byte elements, but the declared type is {declared or 'unknown'}"
            )
        return tensor_of(np.ascontiguousarray(array).view(element.array), element.name)
    name = array.dtype.name
    if name not in ELEMENTS or array.dtype.fields is not None or array.dtype.subdtype is not None:
        raise ValueError(f"ONNX has no element type {name}")
    return tensor_of(array, name)


def _read_npz(job: _Job, path: str, declared: list[dict[str, Any]]) -> Iterator[tuple[str, Value]]:
    types = {str(value.get("name")): str(value.get("dtype", "")) for value in declared}
    for name, array in _npz_arrays(job, path):
        try:
            yield text_of(name), npy_value(array, types.get(name, ""))
        except ValueError as error:
            raise LeftOutError("vectors/undecodable", path, f"{text_of(name)}: {error}") from error


def _npz_arrays(job: _Job, path: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    try:
        with zipfile.ZipFile(io.BytesIO(job.read(path))) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    raise LeftOutError("vectors/undecodable", path, f"{text_of(info.filename)} is no .npy array")
                raw = archive.read(info)
                if info.compress_type != zipfile.ZIP_STORED:
                    job.look(raw, f"{path}: {text_of(info.filename)}", set())
                yield info.filename.removesuffix(".npy"), npy_array(raw)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        OSError,
    ) as error:
        # RuntimeError: encrypted; NotImplementedError: an unknown compression; ValueError: pickled objects
        raise LeftOutError("vectors/undecodable", path, str(error)) from error


def _read_legacy(job: _Job, path: str, side: str) -> Iterator[tuple[str, Value]]:
    """The model zoo's old form: one file, arrays ``inputs`` and ``outputs``, stacked along a first axis."""
    arrays = dict(_npz_arrays(job, path))
    if side not in arrays or arrays[side].ndim == 0:
        raise LeftOutError("vectors/undecodable", path, f"no array {side!r} with one entry for each value")
    for array in arrays[side]:
        try:
            yield "", npy_value(np.asarray(array), "")
        except ValueError as error:
            raise LeftOutError("vectors/undecodable", path, str(error)) from error


def _values(job: _Job, spec: dict[str, Any], side: str) -> Iterator[tuple[str, Value]]:
    if spec["format"] == "onnx":
        return _read_onnx(job, spec, side)
    if spec["inputs"] == spec["outputs"]:
        return _read_legacy(job, spec["inputs"], side)
    return _read_npz(job, spec[side], job.declared(spec["model"], side))


def _kind_of(value: Value) -> tuple[str, str]:
    if isinstance(value, TensorValue):
        return "tensor", value.dtype
    return type(value).__name__.removesuffix("Value").lower(), ""


def _compare_declared(job: _Job, spec: dict[str, Any], side: str, named: list[tuple[str, Value]]) -> None:
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


def _store(job: _Job, spec: dict[str, Any], side: str, writer: BlobWriter) -> list[dict[str, Any]]:
    named: list[tuple[str, Value]] = []
    refs: list[dict[str, Any]] = []
    for name, value in _values(job, spec, side):
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


def tolerances(raw: bytes) -> tuple[float | None, float | None]:
    """Return (rtol, atol) of a ``data.json``; None where it has none. Raises ValueError."""
    if len(raw) > MAX_DATA_JSON:
        raise ValueError(f"larger than {MAX_DATA_JSON} bytes")
    try:
        document = json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - one error type for bad content
    found: list[float | None] = []
    for key in ("rtol", "atol"):
        value = document.get(key)
        if value is None:
            found.append(None)
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{key} is no number")  # noqa: TRY004 - as above
        with contextlib.suppress(OverflowError):
            if math.isfinite(value) and value >= 0:
                found.append(float(value))
                continue
        raise ValueError(f"{key} is no finite number of zero or more")
    return found[0], found[1]


def _tolerance(job: _Job, path: str | None) -> tuple[float | None, float | None]:
    if not path:
        return None, None
    try:
        return tolerances(job.read(path))
    except LeftOutError as error:
        job.report("vectors/tolerance-invalid", error.where, error.message)
    except ValueError as error:
        job.report("vectors/tolerance-invalid", path, str(error))
    return None, None


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:
    """Decode every golden set of the order and send one ``vectors`` frame; return the phases in ms.

    Raises RefusedError ``resources/output-limit`` or ``resources/memory-limit``.
    """
    started = time.perf_counter()
    spec = order["spec"]
    lent = Lent(blobs["files"], spec["lent"]) if "lent" in spec else None
    job = _Job(str(spec.get("root", MODEL_DIR)), spec.get("types") or {}, lent)
    writers = {"inputs": BlobWriter(blobs["inputs"]), "outputs": BlobWriter(blobs["expected"])}
    rtol, atol = _tolerance(job, spec.get("data_json"))
    sets: list[dict[str, Any]] = []
    for item in spec["sets"]:
        try:
            inputs = _store(job, item, "inputs", writers["inputs"])
            expected = _store(job, item, "outputs", writers["outputs"])
        except LeftOutError as error:
            job.report(error.code, error.where, error.message)
            continue
        except BlobFullError as error:
            raise blob_is_full(item["name"], error) from error
        except MemoryError as error:
            raise RefusedError(
                "resources/memory-limit", item["name"], "golden values do not fit in memory"
            ) from error
        if not expected:
            code = "vectors/smoke-only" if inputs else "vectors/empty-set"
            job.report(code, item["name"], "no expected output: nothing is compared")
            if not inputs:
                continue
        entry = {"name": item["name"], "model": item["model"], "inputs": inputs, "expected": expected}
        sets.append(entry | {"rtol": rtol, "atol": atol})
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
