"""Operators that onnx's reference evaluator computes wrongly or not at all, mended. Measured with onnx 1.23.

Each stands in for the evaluator's own at the opsets named beside it, and refuses what it was not written for.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_batch_normalization import _batchnorm_test_mode
from onnx.reference.ops.op_dequantize_linear import DequantizeLinear_19
from onnx.reference.ops.op_loop import Loop as _Loop


class _Bounded(OpRun):  # type: ignore[misc]
    """An operator for a range of opsets of the default domain; in a function of another opset it is not known."""

    opsets: range

    def _require(self) -> None:
        version = self.run_params["opsets"].get("")
        if version not in self.opsets:
            raise NotImplementedError(f"{type(self).__name__} of opset {version} beside one of another opset")


class BatchNormalization(_Bounded):
    """Opsets 7 to 13: the evaluator trains whenever ``momentum`` is set, and its default is always set.

    https://onnx.ai/onnx/operators/onnx__BatchNormalization.html: with one output it is a test, and the given
    mean and variance count.
    """

    opsets = range(7, 14)

    def _run(self, x: Any, scale: Any, bias: Any, mean: Any, var: Any, **attributes: Any) -> tuple[Any]:
        self._require()
        if len(self.onnx_node.output) > 1:
            raise NotImplementedError("BatchNormalization in training mode")
        return (_batchnorm_test_mode(x, scale, bias, mean, var, epsilon=attributes["epsilon"]),)


class DequantizeLinear(_Bounded, DequantizeLinear_19):  # type: ignore[misc]
    """Opsets 10 to 18: the evaluator has none. Opset 19 added types of the input, not another computation."""

    opsets = range(10, 19)

    def _run(self, *values: Any, axis: int = 1, **later: Any) -> Any:
        del later  # defaults of attributes that newer opsets added
        self._require()
        return super()._run(*values, axis=axis)


class Loop(_Loop):  # type: ignore[misc]
    """Every opset: the evaluator takes a condition that is left out for a false one, and never begins.

    https://onnx.ai/onnx/operators/onnx__Loop.html: without a condition, the trip count alone ends it.
    """

    opsets = range(1, 1 << 30)

    def _run(self, trips: Any, condition: Any, *values: Any, **more: Any) -> Any:
        return super()._run(trips, np.array(True) if condition is None else condition, *values, **more)


class _Flattened(_Bounded):
    """Opsets 1 to 12: all axes from ``axis`` (1 by default) on are one row; the evaluator takes one axis alone.

    https://onnx.ai/onnx/operators/onnx__Softmax.html, version 11.
    """

    opsets = range(1, 13)

    def _run(self, x: Any, axis: Any = None) -> tuple[Any]:
        self._require()
        stated = [one.i for one in self.onnx_node.attribute if one.name == "axis"]
        first = stated[0] if stated else 1  # the evaluator hands on the default of the newest opset
        del axis
        rows = x.reshape(math.prod(x.shape[: first % x.ndim if first < 0 else first]), -1) if x.size else x
        return (self._rows(rows).astype(x.dtype).reshape(x.shape),)

    @staticmethod
    def _rows(rows: Any) -> Any:
        """Each operator's own; one that has none is told as what cannot be evaluated."""
        raise NotImplementedError


class Softmax(_Flattened):
    """exp(x) over its sum, in each row."""

    @staticmethod
    def _rows(rows: Any) -> Any:
        powers = np.exp(rows - rows.max(axis=-1, keepdims=True, initial=-np.inf))
        return powers / powers.sum(axis=-1, keepdims=True)


class LogSoftmax(_Flattened):
    """The logarithm of that."""

    @staticmethod
    def _rows(rows: Any) -> Any:
        moved = rows - rows.max(axis=-1, keepdims=True, initial=-np.inf)
        return moved - np.log(np.exp(moved).sum(axis=-1, keepdims=True))


class Hardmax(_Flattened):
    """1 at the first largest value of each row."""

    @staticmethod
    def _rows(rows: Any) -> Any:
        made = np.zeros_like(rows)
        if rows.size:
            made[np.arange(len(rows)), rows.argmax(axis=-1)] = 1
        return made


class RoiAlign(_Bounded):
    """Opsets 10 to 15: their pixels lie half a pixel off those of opset 16, whose default the evaluator takes."""

    opsets = range(10, 16)

    def _run(self, *values: Any, **attributes: Any) -> Any:
        raise NotImplementedError("RoiAlign before opset 16")


MENDED: Final = (BatchNormalization, DequantizeLinear, Hardmax, LogSoftmax, Loop, RoiAlign, Softmax)


def mended(opset: int) -> list[type[OpRun]]:
    """Return what stands in for the evaluator's own operators in a model of this opset of the default domain."""
    return [one for one in MENDED if opset in one.opsets]
