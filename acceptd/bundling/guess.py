"""First guesses of a proposal, each with its reason: kinds of outputs, bounds of dimensions. Pure.

A reason holds acceptd's own words alone: operators of a closed list may be named, a model's names never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from acceptd.evidence import ValueInfo
from acceptd.policy.tolerance import OutputKind
from acceptd.structure_facts import Ending, LastStep

_THROUGH: Final = frozenset(
    {"Identity", "Cast", "Dropout", "DequantizeLinear", "QuantizeLinear", "ai.onnx.ml::ZipMap"}
)
"""Operators that leave an element what it is, and its row a row."""
_RESHAPED: Final = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_FLOATS: Final = frozenset({"float32", "float64", "float16", "bfloat16"})
_CLASSIFIERS: Final = {
    "ai.onnx.ml::TreeEnsembleClassifier": "TreeEnsembleClassifier",
    "ai.onnx.ml::LinearClassifier": "LinearClassifier",
}
_SOFTMAX_LAST_SINCE: Final = 13
"""Before, Softmax took all axes from ``axis`` (default 1) as one row."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A guessed kind with its reason; ``sure`` False: nothing spoke for any other than ``values``."""

    kind: OutputKind
    reason: str
    sure: bool = True


def kind_of(output: ValueInfo, ending: Ending | None, opset: int | None) -> Kind:
    """Return what an output probably is, by the operators that it ends in, then by its name."""
    if output.kind != "tensor":
        return Kind("values", "not a tensor: compared element by element")
    if output.dtype not in _FLOATS:
        return _whole(output)
    last = _last(ending)
    if last is not None and (found := _by_operator(output, *last, opset)):
        return found
    return _by_name(output) or Kind("values", "a guess: no operator or name tells what these are", sure=False)


def _last(ending: Ending | None) -> tuple[LastStep, bool] | None:
    """Return the last operator that says something, and whether what follows it changes the shape."""
    reshaped = False
    for step in ending.steps if ending is not None else ():
        if step.op_type in _THROUGH:
            continue
        if step.op_type not in _RESHAPED:
            return step, reshaped
        reshaped = True
    return None


def _by_operator(output: ValueInfo, step: LastStep, reshaped: bool, opset: int | None) -> Kind | None:
    operator = step.op_type
    if operator == "Softmax":
        if not reshaped and _last_axis(step.axis, output, opset):
            return Kind("probabilities", "guessed: it ends in Softmax over the last axis")
        return Kind("values", "it ends in Softmax, but not in rows along the last axis of the output", sure=False)
    if operator == "LogSoftmax" and not reshaped:
        return Kind("logits", "guessed: it ends in LogSoftmax; classes are compared by their order")
    if operator == "Sigmoid":
        if output.shape and output.shape[-1] == 1:
            return Kind("probabilities", "guessed: it ends in Sigmoid, with one score in each row")
        return Kind("values", "it ends in Sigmoid: scores in 0 to 1, whose rows need not sum to 1")
    if operator in _CLASSIFIERS and "prob" in output.name.lower():
        return Kind("probabilities", f"guessed: a score of {_CLASSIFIERS[operator]}, and its name says so")
    if operator == "ai.onnx.ml::Normalizer" and "prob" in output.name.lower():
        return Kind("probabilities", "guessed: it ends in Normalizer, and its name says so")
    if operator == "LpNormalization":
        return Kind("embedding", "guessed: it ends in LpNormalization")
    return None


def _last_axis(axis: int | None, output: ValueInfo, opset: int | None) -> bool:
    rank = None if output.shape is None else len(output.shape)
    if axis is None:
        axis = -1 if opset is None or opset >= _SOFTMAX_LAST_SINCE else 1
    return axis == -1 or (rank is not None and axis == rank - 1)


def _by_name(output: ValueInfo) -> Kind | None:
    name, rank = output.name.lower(), len(output.shape or ())
    if "logit" in name:
        return Kind("logits", "guessed from its name")
    if "probab" in name or name in {"probs", "prob"}:
        return Kind("probabilities", "guessed from its name; no Softmax was seen at its end")
    if "embed" in name and rank >= 2:
        return Kind("embedding", "guessed from its name")
    if any(word in name for word in ("waveform", "audio")):
        return Kind("audio", "guessed from its name")
    return None


def _whole(output: ValueInfo) -> Kind:
    name = output.name.lower()
    if output.dtype in {"int32", "int64"} and len(output.shape or ()) == 2 and "token" in name:
        return Kind("sequence", "guessed from its name: rows of tokens, compared exactly")
    return Kind("values", "not floating-point: compared exactly unless a tolerance says otherwise")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Guessed bounds of a named dimension with their reason."""

    low: int
    high: int
    reason: str


_BATCH: Final = ("batch", "bs", "n", "unk", "none")
_LENGTH: Final = ("seq", "len", "time", "frame", "step", "token", "past")
_SPACE: Final = ("height", "width")


def bounds_of(name: str, axis: int, seen: Sequence[int], *, fed: bool) -> Bounds:
    """Return bounds for the dimension ``name``, first met at ``axis``; ``seen`` are its sizes in golden sets.

    ``fed``: an input has it, so probes will run the model at both ends.
    """
    folded = name.lower()
    if not fed:
        low, high, reason = 0, 65_536, "only outputs have it: the model decides its size"
    elif axis == 0 and not any(word in folded for word in (*_LENGTH, *_SPACE)):
        low, high, reason = 1, 8, "the first axis, so probably the batch"
    elif any(word in folded for word in _LENGTH):
        low, high, reason = 1, 64, "a length, by its name"
    elif any(word in folded for word in _SPACE) or folded in {"h", "w"}:
        low, high, reason = 32, 256, "a size of an image, by its name"
    elif any(folded.startswith(word) for word in _BATCH):
        low, high, reason = 1, 8, "a batch, by its name"
    else:
        low, high, reason = 1, 16, "nothing tells what it is"
    if seen:
        low, high = (min(low, *seen), max(high, *seen)) if _batch_like(reason) else (min(seen), max(seen))
        reason += f"; golden sets have {_some(seen)}"
    return Bounds(low, high, reason)


def _batch_like(reason: str) -> bool:
    return "batch" in reason or reason.startswith("only outputs")


def _some(seen: Sequence[int]) -> str:
    ordered = sorted(set(seen))
    return ", ".join(map(str, ordered[:4])) + (" and more" if len(ordered) > 4 else "")
