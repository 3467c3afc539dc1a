"""What a warm parent said of itself, and the facts that the trusted side makes of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from acceptd.runtime import kept
from acceptd.runtime.facts import RuntimeFacts
from acceptd.runtime.interpreter import Interpreter
from acceptd.runtime.libraries import digests, known
from acceptd.runtime.operators import Listed


@dataclass(frozen=True, slots=True)
class Told:
    """A parent's own words, warm and before any submitted byte. ``mapped``: path to (device, inode) or None."""

    python: str
    implementation: str
    machine: str
    onnxruntime: str
    build: str
    numpy: str
    onnx: str
    available_providers: tuple[str, ...]
    telemetry: str
    threads: int
    mapped: Mapping[str, tuple[int, int] | None]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return it from the parent's JSON. Raises KeyError, TypeError or ValueError for another form."""
        texts = ("python", "implementation", "machine", "onnxruntime", "build", "numpy", "telemetry")
        return cls(
            **{name: str(document[name]) for name in texts},
            onnx=str(document.get("onnx", "")),
            available_providers=tuple(str(name) for name in document["available_providers"]),
            threads=int(document["threads"]),
            mapped={
                str(path): None if place is None else (int(place[0]), int(place[1]))
                for path, place in document["mapped"].items()
            },
        )

    def versions(self) -> dict[str, str]:
        """Return the versions of its libraries."""
        found = {"numpy": self.numpy, "onnx": self.onnx, "onnxruntime": self.onnxruntime}
        return {name: version for name, version in found.items() if version}


def facts_of(told: Told, interpreter: Interpreter, operators: Sequence[Listed]) -> RuntimeFacts:
    """Return the facts, each mapped file hashed on the host: the cell binds it at the same path.

    Raises OSError: a file is no longer the one that the parent has mapped, or cannot be read.
    """
    for path, place in told.mapped.items():
        if place is None:
            raise OSError(116, "was removed or replaced since the cell has mapped it", path)
        status = os.stat(path)
        if (status.st_dev, status.st_ino) != place:
            raise OSError(116, "is not the file that the cell has mapped", path)
    kept.recall()
    before = known()
    libraries = tuple(digests(sorted(told.mapped)))
    kept.keep(before)
    listed = {os.path.realpath(one.path) for one in operators}
    return RuntimeFacts(
        python=told.python,
        implementation=told.implementation,
        machine=told.machine,
        onnxruntime=told.onnxruntime,
        build=told.build,
        numpy=told.numpy,
        available_providers=told.available_providers,
        libraries=libraries,
        custom_operators=tuple(one for one in libraries if one.path in listed),
        distribution=interpreter.distribution,
    )
