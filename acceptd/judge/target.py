"""What a reduced onnxruntime build still offers, against what a model asks for. Pure.

A build with a required-operators file keeps one kernel for each operator and opset that the file lists
(:mod:`acceptd.policy.reduced`): the kernel whose range of opsets holds the listed one. A file may thus give
the model's own opset or that in which the operator was last changed; both mean the same kernel, and
:mod:`acceptd.judge.operator_versions` says which opsets do.

Operators that ONNX also defines as a function must be listed too: whether the runtime could expand one into
operators that are there depends on its version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

from acceptd.evidence import Facts, OpUse, TypeUse
from acceptd.judge.finding import Finding
from acceptd.judge.operator_versions import VERSIONS
from acceptd.judge.operators import local_functions
from acceptd.judge.words import make
from acceptd.policy.manifest import ModelSpec
from acceptd.policy.reduced import Kernel, Reduced

CODE: Final = "target/operator-unavailable"
NEWEST: Final = 1 << 30
_NO_KERNEL: Final = frozenset({("ai.onnx", "Constant")})
"""onnxruntime makes an initializer of each when it loads the model: they are never run."""

_FLOATS: Final = frozenset(
    {"float16", "float32", "float64", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"}
)
_TRACKED: Final = frozenset(
    {
        "Abs", "Add", "ArgMax", "ArgMin", "AveragePool", "BatchNormalization", "BitShift", "Cast", "Ceil", "Clip",
        "Concat", "Conv", "CumSum", "Div", "Equal", "Exp", "Expand", "Floor", "Gemm", "Greater", "IsNaN", "Less",
        "Log", "LogSoftmax", "LpNormalization", "MatMul", "Max", "MaxPool", "Mean", "Min", "Mul", "Neg", "NonZero",
        "Pad", "Pow", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
        "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Resize",
        "ReverseSequence", "RoiAlign", "Round", "Scatter", "ScatterElements", "ScatterND", "Shrink", "Sigmoid",
        "Sign", "Sin", "Softmax", "Split", "Sqrt", "Sub", "Sum", "Tanh", "TopK", "Transpose", "Unique",
    }
)  # fmt: skip
"""Operators of ai.onnx whose kernels a build leaves out by the type of their first input
(onnxruntime, ``tools/python/util/ort_format_model/operator_type_usage_processors.py``)."""


def unavailable(model: ModelSpec, facts: Facts, reduced: Reduced) -> Iterator[Finding]:
    """Yield each operator of the model that the build has no kernel for, with its place and type."""
    if reduced.everything and reduced.types is None:
        return
    local = local_functions(facts.functions)
    for use in facts.operators:
        domain = use.domain or "ai.onnx"
        key = (domain, use.op_type)
        if key in local or key in _NO_KERNEL:
            continue  # a local function is expanded: its body's operators are listed on their own
        where = f"{model.file}: {use.where}" if use.where else model.file
        name = f"{domain}::{use.op_type}"
        version = use.version if use.version is not None else facts.opsets.get(domain)
        shows: dict[str, Any] = {"operator": name, "opset": version, "count": use.count}
        kernels = reduced.kernels.get(key, ())
        if not kernels and not reduced.everything:
            yield make(CODE, "inspect", where, f"{name}: the build has no kernel of it", shows)
            continue
        kept = _kept(key, version, kernels)
        if not kept and not reduced.everything:
            listed = ", ".join(str(one) for one in sorted({kernel.opset for kernel in kernels})[:16])
            message = f"{name} of opset {version}: the build has it for opset {listed}, which is another kernel"
            yield make(CODE, "inspect", where, message, {**shows, "listed": listed})
            continue
        yield from _typed(model, use, name, kept, reduced, shows)


def _kept(key: tuple[str, str], version: int | None, kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the listed kernels that serve ``version``."""
    if version is None:
        return []  # nobody imports the domain: no kernel can be meant
    since, until = span(key, version)
    return [kernel for kernel in kernels if since <= kernel.opset <= until]


def span(key: tuple[str, str], version: int) -> tuple[int, int]:
    """Return the first and the last opset that mean the same operator (domain, name) as ``version`` does.

    An operator that ONNX does not define (``com.microsoft``, custom ones) is the same in the listed opset alone.
    """
    changes = VERSIONS.get(key[0], {}).get(key[1])
    if changes is None:
        return version, version
    at = bisect_right(changes, version)
    if at == 0:
        return version, version  # older than the operator itself: only its own word counts
    return changes[at - 1], changes[at] - 1 if at < len(changes) else NEWEST


def _typed(
    model: ModelSpec, use: OpUse, name: str, kernels: list[Kernel], reduced: Reduced, shows: dict[str, Any]
) -> Iterator[Finding]:
    for types in use.types:
        missing = _by_operator(types, kernels) or _by_all(use, types, reduced)
        if missing:
            position, dtype, offered = missing
            place = types.where or use.where
            where = f"{model.file}: {place}" if place else model.file
            message = (
                f"{name} with {position} of type {dtype}: the build keeps {', '.join(sorted(offered)) or 'none'}"
            )
            yield make(CODE, "inspect", where, message, {**shows, "type": dtype, "position": position})


def _by_operator(types: TypeUse, kernels: list[Kernel]) -> tuple[str, str, frozenset[str]] | None:
    """Return (position, dtype, what is kept) of the first type that the operator's own lists leave out.

    The build joins the lists of all lines of one operator; it does not tell opsets apart by type.
    """
    for side, found in (("input", types.inputs), ("output", types.outputs)):
        for position, dtype in enumerate(found):
            lists = [
                limits[position]
                for kernel in kernels
                for limits in [kernel.inputs if side == "input" else kernel.outputs]
                if position in limits
            ]
            offered = frozenset[str]().union(*lists)
            if dtype and lists and dtype not in offered:
                return f"{side} {position}", dtype, offered
    return None


def _by_all(use: OpUse, types: TypeUse, reduced: Reduced) -> tuple[str, str, frozenset[str]] | None:
    """Return the same for types that all operators are limited to.

    Only floating-point types of operators that are known to be limited: many kernels keep integers, text and
    truth values for shapes and indices whatever the list says.
    """
    if reduced.types is None or (use.domain or "ai.onnx") != "ai.onnx" or use.op_type not in _TRACKED:
        return None
    first = types.inputs[0] if types.inputs else ""
    return ("input 0", first, reduced.types) if first in _FLOATS and first not in reduced.types else None
