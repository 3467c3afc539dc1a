"""Golden files to values, layout by layout; pickles are never read.

Layouts: ONNX backend test (``input_N.pb``, ``output_N.pb``), ``.npz`` files whose keys are tensor names, and the
model zoo's legacy single ``.npz`` with the arrays ``inputs`` and ``outputs``.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format

from sandbox import protos
from sandbox.inspect import bytes as content
from sandbox.inspect import marks, payloads
from sandbox.messages import clip, text_of
from sandbox.tensors import ELEMENTS, TensorValue, Value, tensor_of

MAX_PROBLEMS: Final = 256
MAX_PAYLOADS: Final = 64
_E5M2: Final = b"{'descr': '<f1',"
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
        if offset + size > os.fstat(self.descriptor).st_size:  # before room is made for what is not there
            raise OSError(5, "the blob is shorter than was said")
        data = bytearray()
        while len(data) < size and (piece := os.pread(self.descriptor, size - len(data), offset + len(data))):
            data += piece
        if len(data) < size:
            raise OSError(5, "the blob is shorter than was said")
        return bytes(data)


@dataclass(slots=True)
class Reading:
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


def _read_onnx(job: Reading, spec: dict[str, Any], side: str) -> Iterator[tuple[str, Value]]:
    paths = positions(list(spec["files"]))["input" if side == "inputs" else "output"]
    declared = job.declared(spec["model"], side)
    for index, path in enumerate(paths):
        kind = str(declared[index].get("kind", "")) if index < len(declared) else ""
        try:
            yield protos.decode(job.read(path), kind)
        except protos.UndecodableError as error:
            raise LeftOutError("vectors/undecodable", path, str(error)) from error


def npy_array(raw: bytes) -> np.ndarray[Any, Any]:
    """Return the array of ``.npy`` bytes; never unpickles. Raises ValueError.

    numpy writes float8e5m2 as ``<f1``, which it cannot read itself; it is read as the raw bytes that it is.
    """
    if _E5M2 in raw[:64]:
        raw = raw.replace(_E5M2, b"{'descr': '|V1',", 1)
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


def _read_npz(job: Reading, path: str, declared: list[dict[str, Any]]) -> Iterator[tuple[str, Value]]:
    types = {str(value.get("name")): str(value.get("dtype", "")) for value in declared}
    for name, array in _npz_arrays(job, path):
        try:
            yield text_of(name), npy_value(array, types.get(name, ""))
        except ValueError as error:
            raise LeftOutError("vectors/undecodable", path, f"{text_of(name)}: {error}") from error


def _npz_arrays(job: Reading, path: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
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


def _read_legacy(
    job: Reading, path: str, side: str, declared: list[dict[str, Any]]
) -> Iterator[tuple[str, Value]]:
    """The model zoo's old form: one file, arrays ``inputs`` and ``outputs``, stacked along a first axis."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, array in _npz_arrays(job, path):
        if name in arrays:
            raise LeftOutError(
                "vectors/duplicate-name", path, f"two arrays go by the name {clip(text_of(name), 200)}"
            )
        arrays[name] = array
    if side == "outputs" and side not in arrays and "inputs" in arrays:
        return  # a smoke set: inputs alone
    if side not in arrays or arrays[side].ndim == 0:
        raise LeftOutError("vectors/undecodable", path, f"no array {side!r} with one entry for each value")
    for index, array in enumerate(arrays[side]):
        dtype = str(declared[index].get("dtype", "")) if index < len(declared) else ""
        try:
            yield "", npy_value(np.asarray(array), dtype)
        except ValueError as error:
            raise LeftOutError("vectors/undecodable", path, str(error)) from error


def values(job: Reading, spec: dict[str, Any], side: str) -> Iterator[tuple[str, Value]]:
    if spec["format"] == "onnx":
        return _read_onnx(job, spec, side)
    if spec["inputs"] == spec["outputs"]:
        return _read_legacy(job, spec["inputs"], side, job.declared(spec["model"], side))
    if not spec[side]:
        return iter(())
    return _read_npz(job, spec[side], job.declared(spec["model"], side))
