"""A manifest for a bundle that carries none (backend-test layout), from the facts of ``inspect``. Pure.

Everything in it is the model's own word; nothing is promised by a person, so no range and no bound
of a dimension is declared and nothing is probed as in-domain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from acceptd.evidence import Facts, Sealed, ValueInfo
from acceptd.judge.inventory import model_paths, take
from acceptd.policy.manifest import (
    DTYPES,
    BundleTable,
    InputSpec,
    Manifest,
    ModelSpec,
    OutputSpec,
    Tolerance,
    VectorsSpec,
)
from acceptd.policy.names import NAME, RESERVED

VERSION: Final = "0+inferred"
TOLERANCE: Final = Tolerance(rtol=1e-3, atol=1e-7)
"""The defaults of onnx's own backend-test runner."""

_MAP: Final = re.compile(r"map\(([a-z0-9]{1,20}),([a-z0-9]{1,20})\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Inferred:
    """The manifest, and in words what of it was inferred or could not be expressed."""

    manifest: Manifest
    inferred: tuple[str, ...]


def sanitise(name: str, fallback: str = "bundle") -> str:
    """Return a valid name (design, section 1) that resembles any text."""
    lowered = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:64].strip("-_")
    if lowered in RESERVED:
        lowered = f"{lowered}-{fallback}"
    return lowered if NAME.fullmatch(lowered) else fallback


def infer(team: str, name: str, facts: Mapping[str, Facts], sealed: Sealed) -> Inferred | None:
    """Return the inferred manifest of drop ``name`` of ``team``; None where no model has facts.

    ``facts`` maps model file to the facts of its ``inspect`` job. Never raises on hostile facts:
    what the manifest's grammar cannot express is left out and said.
    """
    files = [path for path in model_paths(sealed, None) if path in facts][:32]
    if not files:
        return None
    said = ["bundle.id from the name of the drop", "interface from the model itself"]
    models = []
    taken: set[str] = set()
    patterns = _patterns(sealed) if len(files) == 1 else []
    for file in files:
        model_name = "main" if len(files) == 1 else unique(sanitise(file.removesuffix(".onnx"), "model"), taken)
        taken.add(model_name)
        one = facts[file]
        models.append(
            ModelSpec(
                name=model_name,
                file=file,
                ir_version=one.ir_version if 1 <= one.ir_version <= 1000 else None,
                opsets=_opsets(one),
                inputs=_inputs(one, file, said),
                outputs=_outputs(one, file, said),
                vectors=[VectorsSpec(sets=patterns)] if patterns else [],
            )
        )
    if patterns:
        said.append("golden sets from the backend-test layout")
    bundle = BundleTable(id=f"{sanitise(team)}/{sanitise(name)}", version=VERSION)
    manifest = Manifest.model_validate({"schema": 1, "bundle": bundle, "models": models})
    return Inferred(manifest, tuple(said))


def _patterns(sealed: Sealed) -> list[str]:
    """Return one pattern per golden set that stands there: its directory or file."""
    return [one.name if one.files else one.inputs for one in take(sealed, None).sets][:256]


def unique(name: str, taken: set[str]) -> str:
    """Return a name like ``name`` that is not among ``taken``."""
    candidate, number = name, 2
    while candidate in taken:
        suffix = f"-{number}"
        candidate, number = name[: 64 - len(suffix)].strip("-_") + suffix, number + 1
    return candidate


def _opsets(facts: Facts) -> dict[str, int] | None:
    if len(facts.opsets) > 64 or any(not 1 <= version <= 10_000 for version in facts.opsets.values()):
        return None
    return dict(facts.opsets)


def dimensions(value: ValueInfo) -> list[int | str] | None:
    """Return a shape that a manifest can hold; what it cannot express is ``?``."""
    if value.shape is None or len(value.shape) > 64:
        return None
    shape: list[int | str] = []
    for dim in value.shape:
        if isinstance(dim, int):
            shape.append(dim if 0 <= dim <= 2**31 else "?")
        else:
            shape.append(dim if 1 <= len(dim) <= 256 else "?")
    return shape


def types_of(value: ValueInfo) -> tuple[str, str | None]:
    """Return (dtype, key dtype or None). Of nested kinds the innermost element type counts."""
    nested = _MAP.search(value.detail.replace(" ", ""))
    if nested:
        return nested[2], nested[1]
    return value.dtype, None


def expressible(value: ValueInfo, seen: set[str]) -> str:
    """Return why a manifest cannot hold this input or output, or an empty text. ``seen``: names before it."""
    dtype, key = types_of(value)
    if not 1 <= len(value.name) <= 1024:
        return "its name is empty or longer than 1024 characters"
    if value.name in seen:
        return "its name stands twice"
    if value.kind not in {"tensor", "sequence", "optional", "map"}:
        return f"its kind is {value.kind}"
    if dtype not in DTYPES or (key is not None and key not in DTYPES):
        return f"its element type is {dtype or 'unknown'}"
    return ""


def _fields(value: ValueInfo) -> dict[str, object]:
    dtype, key = types_of(value)
    return {"name": value.name, "type": value.kind, "dtype": dtype, "key_dtype": key, "shape": dimensions(value)}


def _inputs(facts: Facts, file: str, said: list[str]) -> list[InputSpec]:
    result: list[InputSpec] = []
    seen: set[str] = set()
    for value in facts.inputs:
        if value.overridable:
            continue
        problem = expressible(value, seen)
        if problem:
            said.append(f"{file}: input {value.name[:80]!r} left out: {problem}")
            continue
        seen.add(value.name)
        result.append(InputSpec.model_validate(_fields(value)))
    return result


def _outputs(facts: Facts, file: str, said: list[str]) -> list[OutputSpec]:
    result: list[OutputSpec] = []
    seen: set[str] = set()
    for value in facts.outputs:
        problem = expressible(value, seen)
        if problem:
            said.append(f"{file}: output {value.name[:80]!r} left out: {problem}")
            continue
        seen.add(value.name)
        result.append(OutputSpec.model_validate(_fields(value)))
    return result
