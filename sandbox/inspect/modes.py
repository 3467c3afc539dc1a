"""Operators that work in another way while a model is trained, and those that draw random numbers."""

from __future__ import annotations

from typing import Final

from sandbox.inspect.look import Look

RANDOM: Final = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
TRAINING_MODE_SINCE: Final = 14
"""BatchNormalization has its attribute since opset 14, Dropout its third input since 12."""


def training(look: Look) -> str:
    """Return what sets the node to training mode, or an empty string."""
    if look.op_type == "BatchNormalization":
        if look.attributes.integer("training_mode", 0):
            return "training_mode is set"
        old = look.version is not None and 7 <= look.version < TRAINING_MODE_SINCE
        if old and sum(1 for name in look.node.output if name) > 1:
            return "it has outputs for running statistics, which before opset 14 means training"
        return ""
    at = 4 if look.op_type == "BiasDropout" else 2
    given = look.input(at)
    if given is not None and given.numbers and given.numbers[0]:
        return "training_mode is a constant true"
    return ""
