"""Text of a ``bundle.toml`` and golden files, for people who write bundles from a script."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
from onnx import numpy_helper

Array = npt.NDArray[Any]


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped as well.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_scalar(v)}" for k, v in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_scalar(item) for item in value) + "]"
    raise TypeError(f"{type(value).__name__} has no form in TOML")


def _key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else _scalar(key)


def toml_text(document: Mapping[str, Any], prefix: str = "") -> str:
    """Return ``document`` as TOML: tables at the top, ``[[a.b]]`` for lists of tables, the rest inline."""
    lines: list[str] = []
    later: list[str] = []
    for key, value in document.items():
        path = f"{prefix}.{_key(key)}" if prefix else _key(key)
        if isinstance(value, Mapping) and not prefix:
            later.append(f"\n[{path}]\n{toml_text(value, path)}")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            later.extend(f"\n[[{path}]]\n{toml_text(item, path)}" for item in value)
        else:
            lines.append(f"{_key(key)} = {_scalar(value)}\n")
    return "".join(lines) + "".join(later)


def lock(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the ``[files]`` table: size in bytes and SHA-256 of every file but ``bundle.toml``."""
    table: dict[str, dict[str, Any]] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and name != "bundle.toml":
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            table[name] = {"size": path.stat().st_size, "sha256": digest}
    return table


def write_set(directory: Path, inputs: Iterable[tuple[str, Array]], outputs: Iterable[tuple[str, Array]]) -> None:
    """Write one golden set: ``input_M.pb``, ``output_M.pb``, a TensorProto each, in the graph's order."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind, values in (("input", inputs), ("output", outputs)):
        for index, (name, value) in enumerate(values):
            proto = numpy_helper.from_array(value, name)
            (directory / f"{kind}_{index}.pb").write_bytes(proto.SerializeToString())
