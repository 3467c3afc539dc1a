"""Whether and how a model is quantised, as its operators show it.

Formats as onnxruntime's quantisation writes them: QOperator replaces operators (QLinearConv, MatMulInteger),
QDQ puts QuantizeLinear and DequantizeLinear around them. Static: the scale of an activation is a constant.
"""

from __future__ import annotations

from typing import Any, Final

from sandbox.inspect.known import Known
from sandbox.inspect.look import Look

_QDQ: Final = frozenset({"QuantizeLinear", "DequantizeLinear"})
_DYNAMIC: Final = frozenset(
    {
        "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulInteger", "ConvInteger",
        "MatMulIntegerToFloat", "MatMulInteger16", "QAttention",
    }
)  # fmt: skip
_WEIGHT_ONLY: Final = frozenset({"MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "GatherBlockQuantized", "QMoE"})
_WEIGHT_OF: Final = {
    "QLinearConv": (3, 4, 0), "QLinearMatMul": (3, 4, 0), "QGemm": (3, 4, 0), "MatMulInteger": (1, -1, 0),
    "ConvInteger": (1, -1, 0), "DynamicQuantizeMatMul": (1, 2, -1), "MatMulIntegerToFloat": (1, 3, 0),
    "QAttention": (1, 4, 0), "DynamicQuantizeLSTM": (1, 8, -1), "MatMulNBits": (1, 2, -1),
    "GatherBlockQuantized": (0, 2, -1),
}  # fmt: skip
"""Input with the weight, with its scale, with the activation; -1 where the node has none."""
_STATIC: Final = frozenset(
    {
        "QLinearConv", "QLinearMatMul", "QGemm", "QLinearAdd", "QLinearMul", "QLinearAveragePool", "QLinearConcat",
        "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearReduceMean", "QLinearSigmoid", "QLinearSoftmax",
        "QLinearWhere", "QEmbedLayerNormalization", "QOrderedMatMul",
    }
)  # fmt: skip


class Quantised:
    """Collects over all nodes."""

    operators: Final = frozenset(
        (domain, name)
        for domain in ("ai.onnx", "com.microsoft")
        for name in _QDQ | _DYNAMIC | _WEIGHT_ONLY | _STATIC
    )

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._formats: set[str] = set()
        self._weights: set[str] = set()
        self._activations: set[str] = set()
        self._scales: set[bool] = set()
        self._edges = False
        """QuantizeLinear or DequantizeLinear of activations: also at the edges of a model of the other format."""
        self._nodes = 0
        self._where = ""

    def node(self, look: Look) -> None:
        """Look at one node that quantises."""
        self._nodes += 1
        if not self._where:
            self._where = look.place
        op_type = look.op_type
        if op_type in _QDQ:
            self._edges = True
            self._qdq(look)
            return
        if op_type in _WEIGHT_ONLY:
            self._kinds.add("weight-only")
        else:
            self._formats.add("qoperator")
            self._kinds.add("dynamic" if op_type in _DYNAMIC else "static")
        if op_type == "DynamicQuantizeLinear":
            self._activations.add("uint8")
            return
        if op_type in _WEIGHT_OF:
            weight, scale, activation = _WEIGHT_OF[op_type]
            self._weight(look.input(weight), look.input(scale) if scale >= 0 else None)
            if activation >= 0:
                self._activation(look.input(activation))
        elif op_type in _STATIC:
            self._activation(look.input(0))

    def _qdq(self, look: Look) -> None:
        value, scale = look.input(0), look.input(1)
        fixed = scale is not None and scale.constant
        if look.op_type == "QuantizeLinear":
            if value is not None and value.constant:
                # A weight that is quantised as the model loads.
                self._weight(look.outputs[0] if look.outputs else None, scale, "qdq")
                return
            self._kinds.add("static" if fixed else "dynamic")
            self._activation(look.outputs[0] if look.outputs else None)
        elif value is not None and value.constant:
            self._weight(value, scale, "qdq")

    def _weight(self, weight: Known | None, scale: Known | None, form: str = "") -> None:
        if form:
            self._formats.add(form)
        if weight is not None and weight.dtype:
            self._weights.add(weight.dtype)
        if scale is not None and scale.shape is not None and None not in scale.shape:
            count = 1
            for size in scale.shape:
                count *= size or 0
            self._scales.add(count > 1)
        self._kinds.add("weight")

    def _activation(self, value: Known | None) -> None:
        if value is not None and value.dtype:
            self._activations.add(value.dtype)

    def frame(self) -> dict[str, Any]:
        """Return the ``quantisation`` of the facts frame (see acceptd.model_facts.Quantisation)."""
        ways = self._kinds & {"dynamic", "static"}
        method = "mixed" if len(ways) > 1 else next(iter(ways), "weight-only" if self._kinds else "none")
        formats = sorted(self._formats) or (["qdq"] if self._edges else [])
        return {
            "method": method,
            "format": "mixed" if len(formats) > 1 else (formats or ["none"])[0],
            "per_channel": True in self._scales if self._scales else None,
            "weight_types": sorted(self._weights)[:32],
            "activation_types": sorted(self._activations)[:32],
            "nodes": self._nodes,
            "where": self._where,
        }
