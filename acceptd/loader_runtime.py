"""What of this process counts for how a session computes, and whether the runtime agrees with the interface.

The modules of onnxruntime are given, never imported here.
"""

from __future__ import annotations

import hashlib
import json
import platform
from typing import Any, Final

from acceptd import loader_pins
from acceptd.errors import RuntimeRefusedError
from acceptd.loader_values import numpy_here
from acceptd.release.interface import Interface, Spec
from acceptd.runtime import cpu

_RUNTIME_NAMES: Final = {"float32": "float", "float64": "double"}


def process_facts(runtime: Any) -> dict[str, Any]:
    """Return what of this process counts for how a session computes, beside its options."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "onnxruntime": runtime.__version__,
        "build": str(runtime.get_build_info())[:2000],
        "libraries": loader_pins.own_libraries(runtime),
        "cpu_class": cpu.host(),
        "numpy": numpy_here().__version__,
    }


def discover(interface: Interface, session: Any) -> None:
    """Refuse where the runtime's own schema is not the accepted interface, names and types in order."""
    for what, specs, found in (
        ("inputs", interface.inputs, session.get_inputs()),
        ("outputs", interface.outputs, session.get_outputs()),
    ):
        if [spec.name for spec in specs] != [value.name for value in found]:
            raise RuntimeRefusedError(f"the runtime's {what} are not the accepted ones")
        for spec, value in zip(specs, found, strict=True):
            wanted = f"tensor({_RUNTIME_NAMES.get(spec.dtype, spec.dtype)})"
            if spec.type == "tensor" and value.type != wanted:
                raise RuntimeRefusedError(f"{spec.name!r} is {value.type} in the runtime, not {wanted}")
            if spec.type == "tensor" and not _agrees(spec, list(value.shape or ())):
                raise RuntimeRefusedError(f"{spec.name!r} has the shape {value.shape} in the runtime")


def _agrees(spec: Spec, found: list[Any]) -> bool:
    """Say whether every number in the runtime's shape is the declared one; ``?`` promises nothing."""
    if spec.shape is None or not found:  # an unknown rank reads as an empty shape
        return True
    pairs = zip(spec.shape, found, strict=False)
    return len(found) == len(spec.shape) and all(
        declared == "?" or declared == size for declared, size in pairs if isinstance(size, int)
    )


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of JSON data in its sorted, compact form."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
