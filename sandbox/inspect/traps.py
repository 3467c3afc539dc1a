"""Integer divisions that end the process, and sizes in attributes that make the runtime divide by zero itself.

Measured with onnxruntime 1.32: the least int64 divided by -1, both constant, is SIGFPE while the session is
created; fed, when it runs. Strides of 2**62 in Conv or MaxPool are SIGFPE at run (they overflow to 0),
``batch_dims`` of -2**63 in GatherND is SIGABRT in shape inference and at load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sandbox.inspect.known import DATA, DIRECT
from sandbox.inspect.look import Look
from sandbox.inspect.weights import IntegerFacts, name_of

SIZED: Final = frozenset(
    {
        "AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "DepthToSpace", "GatherND",
        "GlobalLpPool", "GroupNormalization", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "QLinearConv",
        "RoiAlign", "SpaceToDepth",
    }
)  # fmt: skip
_NAMES: Final = (
    "strides", "dilations", "kernel_shape", "pads", "output_padding", "output_shape", "group", "batch_dims",
    "blocksize", "num_groups", "pooled_shape", "output_height", "output_width", "sampling_ratio", "p",
)  # fmt: skip
GREATEST: Final = (1 << 31) - 1
_SIGNED: Final = {"int8": -(1 << 7), "int16": -(1 << 15), "int32": -(1 << 31), "int64": -(1 << 63)}


def division(look: Look, integers: Mapping[str, IntegerFacts]) -> tuple[str, str] | None:
    """Return (code, message) for an integer Div or Mod that can trap, as far as constants tell."""
    dividend, divisor = look.input(0), look.input(1)
    if dividend is None or divisor is None:
        return None
    dtype = divisor.dtype or dividend.dtype
    if not dtype.startswith(("int", "uint")) or (look.op_type == "Mod" and look.attributes.integer("fmod", 0)):
        return None
    least = _SIGNED.get(dtype)
    zero = _holds(divisor, 0, integers)
    minus = False if least is None else _holds(divisor, -1, integers)
    if zero:
        return "structure/division-trap", f"{look.op_type} of {dtype} by a constant that holds 0"
    if minus and least is not None:
        lowest = _holds(dividend, least, integers)
        if lowest:
            return "structure/division-trap", f"{look.op_type} of a constant that holds {least} by -1"
        if lowest is None and dividend.origin & DATA:
            message = f"{look.op_type} of {dtype} by -1 ends the process where the dividend is {least}"
            return "structure/division-by-input", message
        return None
    if zero is None and divisor.origin & DIRECT:
        message = (
            f"the divisor of a {look.op_type} of {dtype} is a graph input: a 0 that is fed may end the process"
        )
        return "structure/division-by-input", message
    return None


def _holds(value: object, number: int, integers: Mapping[str, IntegerFacts]) -> bool | None:
    """Whether a value is a constant that holds a number; None where it is no constant, or cannot be seen."""
    numbers = value.numbers  # type: ignore[attr-defined]
    if numbers is not None:
        return number in numbers
    tensor = value.tensor  # type: ignore[attr-defined]
    if tensor is not None:
        known = integers.get(name_of(tensor))
        if known is not None:
            return known.holds(number)
    return None


def sizes(look: Look) -> str:
    """Return what is wrong with the sizes in a node's attributes: none of a real model passes 31 bits."""
    for name in _NAMES:
        attribute = look.attributes.get(name)
        if attribute is None:
            continue
        for number in (attribute.i, *attribute.ints):
            if not -GREATEST <= number <= GREATEST:
                return f"{name} of {number} overflows in the runtime"
    return ""
