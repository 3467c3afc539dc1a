"""Where few bits cost time: operators and layers of a quantised model beside the float release's. Pure.

Both ran under onnxruntime's profiler, in turn. Names, providers and times are the jobs' word: they inform and
decide nothing. Operators are compared by what they replaced (``QLinearConv``, ``ConvInteger`` by ``Conv``), nodes
by the module path that their names begin with, as exporters and onnxruntime's quantiser keep it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from acceptd.evidence import JobRecord
from acceptd.placement_facts import MAX_NODES, OperatorTime, Profiled

SHOWN: Final = 16
RISE: Final = 0.1
"""A rise by less than this part of the release's own time is not told."""
PART: Final = 0.01
"""Nor one by less than this part of the release's whole time: profiled times are medians of few runs."""
_SUFFIX: Final = re.compile(
    r"(?:_nchwc|_token_\d{1,9}|_output_quantized_cast|_quant(?:_scales_mul|_output_scale_mul)?|_bias_add"
    r"|_(?:Dynamic)?(?:De)?[Qq]uantizeLinear|_output_\d{1,6}|/MatMulAddFusion|/duplicated)\Z"
)
"""What onnxruntime's quantiser and optimiser append to the names of nodes and values (1.24 and 1.32)."""
_SUFFIXES: Final = 8
_MADE_OF: Final = {
    "DynamicQuantizeMatMul": "MatMul",
    "FusedConv": "Conv",
    "FusedGemm": "MatMul",
    "FusedMatMul": "MatMul",
    "Gemm": "MatMul",
    "MatMulBnb4": "MatMul",
    "MatMulIntegerToFloat": "MatMul",
    "MatMulNBits": "MatMul",
    "NhwcFusedConv": "Conv",
    "NhwcMaxPool": "MaxPool",
    "DynamicQuantizeLSTM": "LSTM",
}
Scope = Literal["operator", "layer"]
Why = Literal["slower", "moved", "slower, moved"]


@dataclass(frozen=True, slots=True)
class Side:
    """What an operator or layer is made of in one model, and its own time in one inference: a median, ms."""

    operators: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """An operator or layer that takes more time than in the release, or that went to another provider."""

    scope: Scope
    name: str
    why: Why
    release: Side
    now: Side


@dataclass(frozen=True, slots=True)
class Profiles:
    """Both models under the profiler. ``reason``: why they could not be compared, empty where they were.

    ``release`` and ``now`` are the time of all nodes in one inference, in ms.
    """

    reason: str = ""
    runs: tuple[int, int] = (0, 0)
    release: float = 0.0
    now: float = 0.0
    lost: tuple[Lost, ...] = ()


def profiles(older: JobRecord | None, newer: JobRecord | None) -> Profiles | None:
    """Return what two profiled runs show beside each other; None where the release was not profiled."""
    if older is None:
        return None
    sides = [_profile(one) for one in (older, newer)]
    for what, record, side in (("the release's", older, sides[0]), ("this model's", newer, sides[1])):
        if side is None:
            return Profiles(f"{what} run under the profiler gave nothing: {_fault(record)}")
    before, after = sides
    assert before is not None
    assert after is not None
    totals = [sum(_time(row) for row in one.operators) for one in (before, after)]
    least = PART * totals[0]
    whole = all(len(one.named) < MAX_NODES for one in (before, after))
    lost = [
        *_lost("operator", by_operator(before), by_operator(after), least, whole=True),
        *_lost("layer", by_layer(before), by_layer(after), least, whole=whole),
    ]
    return Profiles("", (before.runs, after.runs), round(totals[0], 6), round(totals[1], 6), tuple(lost))


def _profile(record: JobRecord | None) -> Profiled | None:
    if record is None or record.ending != "done" or record.profiled is None or not record.profiled.runs:
        return None
    return record.profiled


def _fault(record: JobRecord | None) -> str:
    if record is None:
        return "there was none"
    if record.refused is not None:
        return record.refused.message
    if record.profiled is not None and record.profiled.note:
        return record.profiled.note
    return record.cause or record.message or record.ending


def family(op_type: str) -> str:
    """Return the operator that ``op_type`` computes in few bits or fused, or itself.

    >>> family("QLinearConv"), family("ConvInteger"), family("Gemm"), family("DynamicQuantizeLinear")
    ('Conv', 'Conv', 'MatMul', 'DynamicQuantizeLinear')
    """
    plain = op_type.removeprefix("QLinear").removesuffix("Integer") or op_type
    if plain[:1] == "Q" and plain[1:2].isupper():
        plain = plain[1:]  # QGemm, QAttention
    return _MADE_OF.get(plain, plain)


def module(name: str) -> str:
    """Return the module path that the name of a node begins with, or the name without what was appended to it.

    >>> module("/fc1/MatMul_quant_scales_mul"), module("/r/Relu_output_0_nchwc"), module("Conv_7_quant")
    ('/fc1', '/r', 'Conv_7')
    """
    for _ in range(_SUFFIXES):
        shorter = _SUFFIX.sub("", name)
        if shorter in {"", name}:
            break
        name = shorter
    return name.rpartition("/")[0] or name


def by_operator(profile: Profiled) -> dict[str, Side]:
    """Return the operators by what they replaced."""
    return _summed((family(one.op_type), one.op_type, one.provider, _time(one)) for one in profile.operators)


def _time(one: OperatorTime) -> float:
    return one.ms if one.median_ms is None else one.median_ms


def by_layer(profile: Profiled) -> dict[str, Side]:
    """Return the nodes by module path."""
    return _summed((module(one.name), one.op_type, one.provider, one.ms) for one in profile.named)


def _summed(rows: Iterable[tuple[str, str, str, float]]) -> dict[str, Side]:
    found: dict[str, list[tuple[str, str, float]]] = {}
    for name, op_type, provider, ms in rows:
        found.setdefault(name, []).append((op_type, provider, ms))
    return {
        name: Side(
            tuple(sorted({one[0] for one in own})),
            tuple(sorted({one[1] for one in own})),
            round(sum(one[2] for one in own), 6),
        )
        for name, own in found.items()
    }


def _lost(
    scope: Scope, before: Mapping[str, Side], after: Mapping[str, Side], least: float, *, whole: bool
) -> list[Lost]:
    """Return what lost time or moved, most time first; an operator that is new has a time of 0 before.

    ``whole``: every node is known, so that providers can be told from each other.
    """
    found = []
    for name, now in after.items():
        release = before.get(name)
        if release is None and scope == "layer":
            continue  # its name has no counterpart: nothing says what it replaced
        was = release or Side()
        slower = now.ms - was.ms > max(least, RISE * was.ms)
        moved = whole and release is not None and release.providers != now.providers
        if slower or moved:
            why: Why = "slower, moved" if slower and moved else "slower" if slower else "moved"
            found.append(Lost(scope, name, why, was, now))
    found.sort(key=lambda one: (one.release.ms - one.now.ms, one.name))
    return found[:SHOWN]


def words(one: Lost) -> str:
    """Return one line of plain text about an operator or layer. Not yet escaped, and not clipped."""
    return f"{one.name}: {_side(one.release)} → {_side(one.now)}"


def _side(side: Side) -> str:
    if not side.operators:
        return "not in the release"
    return f"{' + '.join(side.operators[:4])} on {', '.join(side.providers[:4])}, {side.ms:.3g} ms"
