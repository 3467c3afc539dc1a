"""Element types of a node's outputs: by onnx's own schemas, and by hand where they leave it open.

A reduced runtime is built for operators with types; these say which ones a model needs before it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import onnx.defs

from sandbox.inspect.known import Attributes, Known
from sandbox.interface import parse
from sandbox.wire_tensor import DTYPES

Rule = tuple[str, tuple[int, ...]]
"""A fixed type, or the inputs of which the first known type counts."""
MAX_OUTPUTS: Final = 4096

_FIRST_MICROSOFT: Final = frozenset(
    {
        "Attention", "BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "BiasSplitGelu",
        "ConvTransposeWithDynamicPads", "DecoderAttention", "DecoderMaskedMultiHeadAttention",
        "DecoderMaskedSelfAttention", "ExpandDims", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul",
        "FusedMatMulActivation", "GatedRelativePositionBias", "GatherND", "Gelu", "GreedySearch", "GridSample",
        "GroupNorm", "GroupQueryAttention", "Inverse", "Irfft", "LayerNormalization", "MatMulBnb4",
        "MatMulFpQ4", "MatMulNBits", "MultiHeadAttention", "NGramRepeatBlock", "NhwcConv", "NhwcFusedConv",
        "NhwcMaxPool", "PackedAttention", "PackedMultiHeadAttention", "Pad", "QLinearAdd", "QLinearAveragePool",
        "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearReduceMean",
        "QLinearSigmoid", "QLinearSoftmax", "QuickGelu", "Rfft", "RotaryEmbedding",
        "SimplifiedLayerNormalization", "SkipGroupNorm", "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization", "TransposeMatMul", "Trilu", "Unique",
    }
)  # fmt: skip
"""Operators of com.microsoft, of which onnx has no schema, whose outputs have the type of their first input."""
_FIXED_MICROSOFT: Final = {
    "DynamicQuantizeLSTM": "float32", "DynamicQuantizeMatMul": "float32", "MatMulInteger16": "int32",
    "MatMulIntegerToFloat": "float32", "MurmurHash3": "", "MulInteger": "int32", "ReduceSumInteger": "int32",
    "Tokenizer": "string", "EmbedLayerNormalization": "float32",
}  # fmt: skip


@cache
def rules(domain: str, op_type: str, version: int | None) -> tuple[tuple[Rule, ...], bool]:
    """Return a rule for each formal output, and whether the last one repeats. Nothing for what no schema knows."""
    if domain == "com.microsoft":
        if op_type in _FIRST_MICROSOFT:
            return (("", (0,)),), True
        return ((_FIXED_MICROSOFT.get(op_type, ""), ()),), False
    name = "" if domain == "ai.onnx" else domain
    try:
        if version is None:
            schema = onnx.defs.get_schema(op_type, name)
        else:
            schema = onnx.defs.get_schema(op_type, min(max(version, 1), 1 << 30), name)
    except Exception:  # noqa: BLE001 - onnx's SchemaError has no public name; a text of any kind may stand there
        return (), False
    single = {
        constraint.type_param_str: constraint.allowed_type_strs[0]
        for constraint in schema.type_constraints
        if len(constraint.allowed_type_strs) == 1
    }
    found: list[Rule] = []
    for output in schema.outputs:
        sources = tuple(index for index, given in enumerate(schema.inputs) if given.type_str == output.type_str)
        spelt = single.get(output.type_str, output.type_str)
        fixed = parse(spelt).words() if "(" in spelt else ""
        found.append((fixed, () if fixed or not output.is_homogeneous else sources))
    variadic = (
        bool(schema.outputs) and schema.outputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    )
    return tuple(found), variadic


def _number(number: int) -> str:
    return DTYPES[number] if 0 < number < len(DTYPES) else ""


def _by_number(name: str, default: int, fallback: int | None = None) -> Callable[..., list[str]]:
    """A type that an attribute names by number; else that of input ``fallback``, else ``default``."""

    def rule(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[str]:
        found = attributes.get(name)
        if found is not None and found.i:
            return [_number(found.i)] * count
        if fallback is not None:
            return [inputs[fallback].dtype if fallback < len(inputs) else ""] * count
        return [_number(default)] * count

    return rule


def _constant_of_shape(attributes: Attributes, _inputs: Sequence[Known], count: int) -> list[str]:
    value = attributes.get("value")
    return ["float32" if value is None else _number(value.t.data_type)] * count


def _quantize(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[str]:
    stated = attributes.integer("output_dtype", 0)
    if stated:
        return [_number(stated)] * count
    zero = inputs[2] if len(inputs) > 2 else None
    return ["uint8" if zero is None or (not zero.dtype and zero.shape is None) else zero.dtype] * count


def _dequantize(attributes: Attributes, inputs: Sequence[Known], count: int) -> list[str]:
    stated = attributes.integer("output_dtype", 0)
    return [_number(stated) if stated else (inputs[1].dtype if len(inputs) > 1 else "")] * count


def _labels(strings: str, position: int) -> Callable[..., list[str]]:
    """Classifiers: strings when they carry string labels, else integers; scores are floats."""

    def rule(attributes: Attributes, _inputs: Sequence[Known], count: int) -> list[str]:
        found = attributes.get(strings)
        label = "string" if found is not None and len(found.strings) else "int64"
        return [label if index == position else "float32" for index in range(count)]

    return rule


def _encoder(attributes: Attributes, _inputs: Sequence[Known], count: int) -> list[str]:
    for suffix, dtype in (("strings", "string"), ("int64s", "int64"), ("floats", "float32")):
        if attributes.get(f"values_{suffix}") is not None:
            return [dtype] * count
    tensor = attributes.get("values_tensor")
    return ["" if tensor is None else _number(tensor.t.data_type)] * count


def _zipmap(attributes: Attributes, _inputs: Sequence[Known], count: int) -> list[str]:
    key = "string" if attributes.get("classlabels_strings") is not None else "int64"
    return [f"sequence(map({key},float32))"] * count


def _wrap(kind: str) -> Callable[..., list[str]]:
    def rule(_attributes: Attributes, inputs: Sequence[Known], count: int) -> list[str]:
        return [f"{kind}({inputs[0].dtype})" if inputs and inputs[0].dtype else ""] * count

    return rule


def _unwrap(_attributes: Attributes, inputs: Sequence[Known], count: int) -> list[str]:
    whole = inputs[0].dtype if inputs else ""
    head, bracket, rest = whole.partition("(")
    inner = rest[:-1] if bracket and head in {"sequence", "optional"} else whole
    return [inner] * count


def _empty_sequence(attributes: Attributes, _inputs: Sequence[Known], count: int) -> list[str]:
    return [f"sequence({_number(attributes.integer('dtype', 1))})"] * count


SPECIAL: Final[dict[tuple[str, str], Callable[[Attributes, Sequence[Known], int], list[str]]]] = {
    ("ai.onnx", "Cast"): _by_number("to", 0),
    ("ai.onnx", "ConstantOfShape"): _constant_of_shape,
    ("ai.onnx", "EyeLike"): _by_number("dtype", 0, 0),
    ("ai.onnx", "RandomNormal"): _by_number("dtype", 1),
    ("ai.onnx", "RandomUniform"): _by_number("dtype", 1),
    ("ai.onnx", "RandomNormalLike"): _by_number("dtype", 0, 0),
    ("ai.onnx", "RandomUniformLike"): _by_number("dtype", 0, 0),
    ("ai.onnx", "Bernoulli"): _by_number("dtype", 0, 0),
    ("ai.onnx", "Multinomial"): _by_number("dtype", 6),
    ("ai.onnx", "QuantizeLinear"): _quantize,
    ("ai.onnx", "DequantizeLinear"): _dequantize,
    ("com.microsoft", "QuantizeLinear"): _quantize,
    ("com.microsoft", "DequantizeLinear"): _dequantize,
    ("ai.onnx", "HannWindow"): _by_number("output_datatype", 1),
    ("ai.onnx", "HammingWindow"): _by_number("output_datatype", 1),
    ("ai.onnx", "BlackmanWindow"): _by_number("output_datatype", 1),
    ("ai.onnx", "MelWeightMatrix"): _by_number("output_datatype", 1),
    ("ai.onnx", "SequenceConstruct"): _wrap("sequence"),
    ("ai.onnx", "SplitToSequence"): _wrap("sequence"),
    ("ai.onnx", "Optional"): _wrap("optional"),
    ("ai.onnx", "SequenceEmpty"): _empty_sequence,
    ("ai.onnx", "SequenceAt"): _unwrap,
    ("ai.onnx", "ConcatFromSequence"): _unwrap,
    ("ai.onnx", "OptionalGetElement"): _unwrap,
    ("ai.onnx.ml", "TreeEnsembleClassifier"): _labels("classlabels_strings", 0),
    ("ai.onnx.ml", "SVMClassifier"): _labels("classlabels_strings", 0),
    ("ai.onnx.ml", "LinearClassifier"): _labels("classlabels_strings", 0),
    ("ai.onnx.ml", "LabelEncoder"): _encoder,
    ("ai.onnx.ml", "ZipMap"): _zipmap,
}
"""Where the type is an attribute's, or wraps that of an input."""


def outputs(
    key: tuple[str, str], version: int | None, attributes: Attributes, inputs: Sequence[Known], count: int
) -> list[str]:
    """Return the element type of each of ``count`` outputs; empty where the file does not say."""
    special = SPECIAL.get(key)
    if special is not None:
        return special(attributes, inputs, count)
    formal, variadic = rules(*key, version)
    found = []
    for index in range(count):
        if index < len(formal):
            fixed, sources = formal[index]
        elif variadic and formal:
            fixed, sources = formal[-1]
        else:
            fixed, sources = "", ()
        if not fixed:
            fixed = next((inputs[at].dtype for at in sources if at < len(inputs) and inputs[at].dtype), "")
        found.append(fixed)
    return found
