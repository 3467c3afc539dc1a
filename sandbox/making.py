"""Makes golden sets: random inputs, and ONNX's own files of values that lie in blobs. Part of the ``vectors`` job.

No model is near: what a model computed comes as bytes in a blob. Orders of an acceptance never ask for it.
"""

from __future__ import annotations

import math
import time
from typing import Any, Final

import numpy as np
import onnx

from sandbox.draws import drawn, generator
from sandbox.messages import Channel, RefusedError
from sandbox.ports import Layout, Port, declared_ports
from sandbox.tensors import (
    ELEMENTS,
    PACKED,
    BlobFullError,
    BlobReader,
    BlobWriter,
    MapValue,
    OptionalValue,
    SequenceValue,
    TensorValue,
    Value,
    blob_is_full,
    count_of,
    tensor_of,
    to_array,
    unpack_strings,
)

UNRANGED: Final = (-1.0, 1.0)
"""Where floating inputs without a declared range are drawn from."""
CORNER: Final = 7
"""A draw of this number takes ends of the range alone (see sandbox.draws)."""


def body(order: dict[str, Any], channel: Channel, blobs: dict[str, int]) -> dict[str, float]:
    """Do what the order's ``make`` says, send one ``vectors`` frame; return the phase in ms."""
    started = time.perf_counter()
    spec = order["spec"]
    make = random_sets if spec["make"] == "random" else files
    try:
        sets = make(spec, blobs)
    except BlobFullError as error:
        raise blob_is_full(str(spec["model"]), error) from error
    except MemoryError as error:
        raise RefusedError(
            "resources/memory-limit", spec["model"], "golden values do not fit in memory"
        ) from error
    channel.send("vectors", {"sets": sets, "problems": []})
    return {"make": (time.perf_counter() - started) * 1000}


def random_sets(spec: dict[str, Any], blobs: dict[str, int]) -> list[dict[str, Any]]:
    """Store ``count`` sets of random inputs in the blob ``inputs``: the same for one seed, interface and count.

    The first takes each named dimension at its least size, the second at its greatest where that is within
    ``max_elements``, further ones in between; each ``CORNER + 1``-th draw takes ends of the ranges.
    """
    ports, dims = declared_ports(spec["declared"], {}) or [], spec["dims"]
    layout = Layout(ports, dims, int(spec["max_elements"]))
    writer = BlobWriter(blobs["inputs"])
    named = sorted({dim for port in ports for dim in port.shape if isinstance(dim, str)})
    sizes = {dim: generator(spec["seed"], f"size {dim}") for dim in named}
    sources = {port.name: generator(spec["seed"], f"draws {port.name}") for port in ports}
    sets = []
    for number in range(int(spec["count"])):
        chosen = {dim: _size(number, dims[dim], sizes[dim]) for dim in named}
        shapes = layout.shapes(chosen)
        if not layout.fits(shapes):
            shapes = layout.shapes({dim: max(1, dims[dim]["min"]) for dim in named})
        inputs = [
            {"name": port.name, "value": writer.store(_draw(port, shapes[port.name], sources[port.name], number))}
            for port in ports
        ]
        sets.append({"name": f"random-{number}", "model": spec["model"], "inputs": inputs, "expected": []})
    return sets


def _size(number: int, limits: dict[str, int], source: np.random.Generator) -> int:
    low = min(max(1, limits["min"]), limits["max"])
    between = int(source.integers(low, limits["max"], endpoint=True))  # drawn always: no set changes another
    return (low, limits["max"])[number] if number < 2 else between


def _draw(port: Port, shape: tuple[int, ...], source: np.random.Generator, number: int) -> TensorValue:
    element = port.element
    if port.kind == "c":
        parts = source.random((2, *shape)) * 2 - 1
        return tensor_of((parts[0] + 1j * parts[1]).astype(element.array), element.name)
    if port.kind == "b" and port.range is None:
        return tensor_of(source.random(shape) < 0.5, element.name)
    if port.range is None:
        low, high = UNRANGED
        made = source.random(shape) * (high - low) + low
        return tensor_of(made.astype(element.array), element.name)
    return tensor_of(drawn(port, (1, *shape), source, number).reshape(shape), element.name)


def files(spec: dict[str, Any], blobs: dict[str, int]) -> list[dict[str, Any]]:
    """Store each value of the order's sets as a file of its own in the blob ``files``.

    The frame gives a file as a tensor of bytes by its name: ``input_0.pb``, ``output_0.pb``, in the order given.
    """
    readers = {"inputs": BlobReader(blobs["inputs"]), "expected": BlobReader(blobs["expected"])}
    writer = BlobWriter(blobs["files"])
    sets = []
    for item in spec["sets"]:
        made: dict[str, Any] = {"name": item["name"], "model": spec["model"]}
        for side, word in (("inputs", "input"), ("expected", "output")):
            stored = []
            for number, named in enumerate(item[side]):
                data = encoded(readers[side].fetch(named["value"]), str(named["name"])).SerializeToString()
                value = TensorValue("uint8", (len(data),), data)
                stored.append({"name": f"{word}_{number}.pb", "value": writer.store(value)})
            made[side] = stored
        sets.append(made)
    return sets


def encoded(value: Value, name: str) -> Any:
    """Return the message of a golden file (onnx.proto and onnx-data.proto of onnx 1.23)."""
    if isinstance(value, TensorValue):
        return _tensor(value, name)
    if isinstance(value, SequenceValue):
        return _sequence(value, name)
    if isinstance(value, OptionalValue):
        message = onnx.OptionalProto(name=name)
        if value.value is not None:
            field, number = _field(value.value)
            message.elem_type = number
            getattr(message, field).CopyFrom(encoded(value.value, ""))
        return message
    return _map(value, name)


def _tensor(value: TensorValue, name: str) -> Any:
    message = onnx.TensorProto(name=name, data_type=ELEMENTS[value.dtype].number, dims=value.shape)
    if value.dtype == "string":
        message.string_data.extend(unpack_strings(value.data, count_of(value.shape)))
    else:
        message.raw_data = bytes(value.data)
    return message


_FIELDS: Final = {"TensorValue": ("tensor_value", 1), "SequenceValue": ("sequence_value", 3),
                  "MapValue": ("map_value", 4), "OptionalValue": ("optional_value", 5)}  # fmt: skip


def _field(value: Value) -> tuple[str, int]:
    return _FIELDS[type(value).__name__]


def _sequence(value: SequenceValue, name: str) -> Any:
    message = onnx.SequenceProto(name=name)
    if value.items:
        field, number = _field(value.items[0])
        message.elem_type = number
        getattr(message, f"{field}s").extend(encoded(item, "") for item in value.items)
    return message


def _map(value: MapValue, name: str) -> Any:
    message = onnx.MapProto(name=name, key_type=ELEMENTS[value.keys.dtype].number)
    count = math.prod(value.keys.shape)
    if value.keys.dtype == "string":
        message.string_keys.extend(unpack_strings(value.keys.data, count))
    else:
        message.keys.extend(to_array(value.keys).tolist())
    items = _single(value.values, count)
    message.values.CopyFrom(_sequence(SequenceValue(tuple(items)), ""))
    return message


def _single(values: TensorValue, count: int) -> list[Value]:
    """Return each element as a tensor of one; a 4-bit element cannot stand in a map."""
    if values.dtype in PACKED:
        raise RefusedError("vectors/undecodable", "map", f"map values of the type {values.dtype}")
    if values.dtype == "string":
        return [tensor_of(np.array([item], object), "string") for item in unpack_strings(values.data, count)]
    return [tensor_of(item.reshape(1), values.dtype) for item in to_array(values).reshape(-1)]
