"""What of this process counts for how a session computes, and whether it is what the release was accepted on.

The module of onnxruntime is given, never imported here.
"""

from __future__ import annotations

import hashlib
import json
import platform
import warnings
from collections.abc import Mapping
from typing import Any, Final, Literal

from acceptd.errors import RuntimeDifferenceWarning, RuntimeMismatchError, RuntimeRefusedError
from acceptd.loader_options import Options
from acceptd.loader_values import numpy_here
from acceptd.release.interface import Interface, Spec
from acceptd.runtime import cpu

Told = Literal["refuse", "warn", "ignore"]
"""What becomes of a runtime that is not the accepted one."""
_RUNTIME_NAMES: Final = {"float32": "float", "float64": "double"}


def process_facts(runtime: Any) -> dict[str, Any]:
    """Return what of this process counts for how a session computes, beside its options."""
    from acceptd import loader_pins  # hashes libraries: only who asks for it

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


def agree(
    accepted: Mapping[str, Any] | None, options: Options, told: Told | None, runtime: Any
) -> tuple[str, ...]:
    """Return in words how this process differs from the runtime that the release was accepted on.

    ``accepted`` is that runtime's record, ``told`` what to do (None: ``refuse`` where the profile pins, else
    ``warn``, and no library is hashed for it). Raises RuntimeMismatchError where it is to refuse and they
    differ, or nothing is known to compare with; issues RuntimeDifferenceWarning where it is to warn.
    """
    chosen = told or ("refuse" if options.libraries or options.version else "warn")
    if chosen == "ignore":
        return ()
    if accepted is not None:
        found = _differences(accepted, runtime, hashed=told is not None)
    else:
        found = () if told is None else ("the release does not say on which runtime it was accepted",)
    if found and chosen == "refuse":
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise RuntimeMismatchError(f"this process is not what was accepted: {found[0]}{more}")
    if found:
        # 4: whoever called OpenRelease.session().
        warnings.warn("; ".join(found)[:2000], RuntimeDifferenceWarning, stacklevel=4)
    return found


def _differences(accepted: Mapping[str, Any], runtime: Any, *, hashed: bool) -> tuple[str, ...]:
    found = []
    for what, here in (("onnxruntime", str(runtime.__version__)), ("cpu_class", cpu.host())):
        if here != accepted.get(what):
            name = "onnxruntime" if what == "onnxruntime" else "the processor's class"
            found.append(f"{name} is {here}, accepted was {str(accepted.get(what))[:200]}")
    if hashed:
        from acceptd import loader_pins

        libraries = [(str(one["name"]), str(one["sha256"])) for one in accepted["libraries"]]
        found += [one.sentence() for one in loader_pins.unlike(libraries, runtime)]
    return tuple(found)


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
