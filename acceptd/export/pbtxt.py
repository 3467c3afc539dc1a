r"""Writes Triton's ``config.pbtxt``: protocol buffer text format, in which nothing of a bundle stands unescaped.

Text format specification (protobuf.dev, "String Literals"): every byte of a string outside printable ASCII, and
the quote and the backslash, is written as ``\ooo``, three octal digits, so that no name ends its own literal.
Field names and enumerators are ours alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output. ``dims`` are without the batch dimension where Triton batches; -1: any size.

    ``scalar`` stands for a tensor without dimensions: ``dims: [1]`` and ``reshape { shape: [] }``.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]
    optional: bool = False
    scalar: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """What a ``config.pbtxt`` of ours says."""

    name: str
    max_batch_size: int
    file: str
    """``default_model_filename``: the model's file in the version directory."""
    version: int
    instance_kind: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    parameters: tuple[tuple[str, str], ...] = ()
    graph_level: int | None = None
    """``optimization.graph.level`` of the ONNX Runtime backend; None: all optimisations."""


def quoted(text: str) -> str:
    """Return a string literal of the text format for any text."""
    plain = (
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{"".join(plain)}"'


def written(config: Config) -> bytes:
    """Return the file's bytes."""
    lines = [
        f"name: {quoted(config.name)}",
        'platform: "onnxruntime_onnx"',
        f"max_batch_size: {config.max_batch_size}",
        f"default_model_filename: {quoted(config.file)}",
        f"version_policy {{ specific {{ versions: {config.version} }} }}",
        f"instance_group {{ kind: {config.instance_kind} }}",
    ]
    for field, tensors in (("input", config.inputs), ("output", config.outputs)):
        lines += [line for tensor in tensors for line in _tensor(field, tensor)]
    if config.graph_level is not None:
        lines.append(f"optimization {{ graph {{ level: {config.graph_level} }} }}")
    lines += [
        f"parameters {{ key: {quoted(key)} value {{ string_value: {quoted(value)} }} }}"
        for key, value in config.parameters
    ]
    return ("\n".join(lines) + "\n").encode("ascii")


def _tensor(field: str, tensor: Tensor) -> Sequence[str]:
    yes = ["  optional: true"] if tensor.optional else []
    flat = ["  reshape { shape: [] }"] if tensor.scalar else []
    return [
        f"{field} {{",
        f"  name: {quoted(tensor.name)}",
        f"  data_type: {tensor.data_type}",
        f"  dims: [{', '.join(map(str, tensor.dims))}]",
        *flat,
        *yes,
        "}",
    ]
