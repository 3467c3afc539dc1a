"""Quantisation: what the operators show against what the manifest declares, and its origin. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from acceptd.evidence import Facts, Quantisation
from acceptd.judge.finding import Finding
from acceptd.judge.words import make
from acceptd.policy.manifest import Manifest, ModelSpec
from acceptd.policy.quantization import Quantization


def quantisation(manifest: Manifest, model: ModelSpec, facts: Facts) -> Iterator[Finding]:
    """Yield the findings of one model."""
    found = facts.quantisation
    if found is None:
        return
    declared = model.quantization or manifest.quantization
    where = f"{model.file}: {found.where}" if found.where else model.file
    if declared is not None:
        yield from _differences(model, declared, found, where)
    missing = _missing(declared, found)
    if missing:
        shows = {"method": found.method, "format": found.format, "nodes": found.nodes, "missing": missing}
        message = f"{found.method} quantisation ({found.nodes} nodes) without {', '.join(missing)}"
        yield make("quantization/no-provenance", "judge", where, message, shows)


def _missing(declared: Quantization | None, found: Quantisation) -> list[str]:
    if found.method == "none":
        return []
    missing = [] if declared is not None else ["[quantization] in bundle.toml"]
    if found.method in {"static", "mixed"} and (declared is None or declared.calibration is None):
        missing.append("the digest and number of calibration samples")
    return missing


def _differences(model: ModelSpec, declared: Quantization, found: Quantisation, where: str) -> Iterator[Finding]:
    pairs: list[tuple[str, object, object]] = [("method", declared.method, found.method)]
    # onnxruntime's own QOperator models dequantise a weight here and there: both formats agree with a mixture.
    if declared.format is not None and found.format != "mixed":
        pairs.append(("format", declared.format, found.format))
    if declared.weight_types is not None:
        pairs.append(("weight_types", sorted(set(declared.weight_types)), sorted(found.weight_types)))
    if declared.activation_types is not None:
        pairs.append(("activation_types", sorted(set(declared.activation_types)), sorted(found.activation_types)))
    if declared.per_channel is not None and found.per_channel is not None:
        pairs.append(("per_channel", declared.per_channel, found.per_channel))
    differing = [(name, one, other) for name, one, other in pairs if one != other]
    if differing:
        message = "; ".join(
            f"{name} is declared {one}, the operators show {other}" for name, one, other in differing
        )
        shows = {name: {"declared": one, "model": other} for name, one, other in differing}
        yield make("quantization/disagrees", "judge", where, message, shows | {"name": model.name})
