"""Every tensor that stands in a scope: initializers, and what attributes hold, whatever their ``type`` says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sandbox.inspect import sparse
from sandbox.inspect.problems import Problems
from sandbox.inspect.weights import Weights
from sandbox.wire_places import join, short, step

VALUES = ("raw_data", "float_data", "int32_data", "int64_data", "string_data", "double_data", "uint64_data")
"""Fields of a TensorProto that hold values."""


class Constants:
    """Hands tensors to :class:`Weights` and sparse tensors to their check."""

    def __init__(self, weights: Weights, problems: Problems) -> None:
        self._weights = weights
        self._problems = problems
        self.hollow: list[Any] = []
        """Dense tensors whose values are elsewhere: in an external file, or too large for the parsed copy."""

    def graph(self, proto: Any, place: str) -> None:
        """Take the initializers of a graph."""
        for index, tensor in enumerate(proto.initializer):
            self._dense(tensor, partial(_initializer, place, index, tensor))
        for index, one in enumerate(proto.sparse_initializer):
            self._sparse(one, join(place, step("Graph", "sparse_initializer", index, short(one.values.name))))

    def attribute(self, attribute: Any, place: str) -> None:
        """Take the tensors of an attribute of the node or function at ``place``."""
        if attribute.HasField("t"):
            self._dense(attribute.t, lambda: join(place, short(attribute.name)))
        for index, tensor in enumerate(attribute.tensors):
            self._dense(tensor, partial(join, place, f"{short(attribute.name)}[{index}]"))
        if attribute.HasField("sparse_tensor"):
            self._sparse(attribute.sparse_tensor, join(place, short(attribute.name)))
        for index, one in enumerate(attribute.sparse_tensors):
            self._sparse(one, join(place, f"{short(attribute.name)}[{index}]"))

    def _dense(self, tensor: Any, place: Callable[[], str]) -> None:
        if tensor.external_data or not any(getattr(tensor, name) for name in VALUES):
            self.hollow.append(tensor)
        else:
            self._weights.small(tensor, place)

    def _sparse(self, one: Any, place: str) -> None:
        sparse.examine(one, place, self._problems)
        self._weights.small(one.values, lambda: place)


def _initializer(place: str, index: int, tensor: Any) -> str:
    return join(place, step("Graph", "initializer", index, short(tensor.name)))
