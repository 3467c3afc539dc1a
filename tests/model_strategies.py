"""Random valid models for property tests: every kind of message that an ONNX file may hold, in nested places."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

names = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=12),
    st.sampled_from(["x", "weight", "层/权重", "вес", "Δx", "n" * 130, ""]),
)
numbers = st.integers(-(2**63), 2**63 - 1)
small = st.integers(0, 5)


@st.composite
def tensors(draw: st.DrawFn) -> TensorProto:
    """A tensor whose values fit its shape, in raw, typed or external form."""
    dims = draw(st.lists(st.integers(0, 4), max_size=3))
    size = int(np.prod(dims))
    dtype = draw(
        st.sampled_from(
            [
                TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.BOOL,
                TensorProto.DOUBLE, TensorProto.UINT64, TensorProto.FLOAT16, TensorProto.STRING, TensorProto.INT4,
                TensorProto.UINT4, TensorProto.COMPLEX64, TensorProto.BFLOAT16, TensorProto.INT16,
            ]
        )
    )  # fmt: skip
    if dtype == TensorProto.STRING:
        values: Any = draw(st.lists(st.binary(max_size=5), min_size=size, max_size=size))
        tensor = helper.make_tensor(draw(names), dtype, dims, values)
    else:
        raw = draw(st.booleans())
        if raw and dtype not in {TensorProto.INT4, TensorProto.UINT4}:
            width = helper.tensor_dtype_to_np_dtype(dtype).itemsize
            tensor = helper.make_tensor(draw(names), dtype, dims, bytes(width * size), raw=True)
        else:
            tensor = helper.make_tensor(draw(names), dtype, dims, [draw(st.integers(0, 1)) for _ in range(size)])
        if draw(st.integers(0, 4)) == 0:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
            tensor.data_location = TensorProto.EXTERNAL
            for key in draw(st.lists(st.sampled_from(["location", "offset", "length"]), unique=True)):
                tensor.external_data.add(key=key, value=draw(names))
    tensor.doc_string = draw(names)
    return tensor


def sparse(tensor: TensorProto) -> onnx.SparseTensorProto:
    """Return a sparse tensor of shape [10] whose values are the tensor's."""
    indices = helper.make_tensor("", TensorProto.INT64, [1], [3])
    return onnx.SparseTensorProto(values=tensor, indices=indices, dims=[10])


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> onnx.TypeProto:
    """A type of any kind."""
    kind = draw(st.integers(0, 5 if depth else 1))
    shape = draw(st.none() | st.lists(st.none() | small | names, max_size=3))
    if kind == 0:
        return helper.make_tensor_type_proto(draw(small), shape)
    if kind == 1:
        return helper.make_sparse_tensor_type_proto(draw(small), shape or [])
    inner = draw(types(depth - 1))
    if kind == 2:
        return helper.make_sequence_type_proto(inner)
    if kind == 3:
        return helper.make_optional_type_proto(inner)
    if kind == 4:
        return helper.make_map_type_proto(TensorProto.INT64, inner)
    return onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain=draw(names), name=draw(names)))


@st.composite
def attributes(draw: st.DrawFn, depth: int) -> onnx.AttributeProto:
    """An attribute of any kind, graphs too while ``depth`` lasts."""
    name = draw(names) or "a"
    kind = draw(st.integers(0, 12 if depth else 10))
    values: list[Any] = [
        lambda: helper.make_attribute(name, draw(numbers)),
        lambda: helper.make_attribute(name, draw(st.floats(width=32))),
        lambda: helper.make_attribute(name, draw(st.binary(max_size=100))),
        lambda: helper.make_attribute(name, draw(st.lists(numbers, min_size=1, max_size=4))),
        lambda: helper.make_attribute(name, draw(st.lists(st.floats(width=32), min_size=1, max_size=4))),
        lambda: helper.make_attribute(name, draw(st.lists(st.binary(max_size=9), min_size=1, max_size=3))),
        lambda: helper.make_attribute(name, draw(tensors())),
        lambda: helper.make_attribute(name, draw(st.lists(tensors(), min_size=1, max_size=2))),
        lambda: helper.make_attribute(name, sparse(draw(tensors()))),
        lambda: helper.make_attribute(name, draw(types())),
        lambda: onnx.AttributeProto(name=name, ref_attr_name=draw(names), type=draw(st.integers(0, 14))),
        lambda: helper.make_attribute(name, draw(graphs(depth - 1))),
        lambda: helper.make_attribute(name, draw(st.lists(graphs(depth - 1), min_size=1, max_size=2))),
    ]
    made: onnx.AttributeProto = values[kind]()
    return made


@st.composite
def nodes(draw: st.DrawFn, depth: int) -> onnx.NodeProto:
    """A node, plain more often than not."""
    node = onnx.NodeProto(
        input=draw(st.lists(names, max_size=3)),
        output=draw(st.lists(names, max_size=2)),
        op_type=draw(st.sampled_from(["Relu", "Add", "If"]) | names),
        name=draw(names),
        domain=draw(st.sampled_from(["", "local"])),
    )
    if draw(st.booleans()):
        node.attribute.extend(draw(st.lists(attributes(depth), max_size=3)))
    if draw(st.integers(0, 4)) == 0:
        node.doc_string = draw(names)
        node.metadata_props.add(key=draw(names), value=draw(names))
        node.overload = draw(names)
    return node


@st.composite
def graphs(draw: st.DrawFn, depth: int = 2) -> onnx.GraphProto:
    """A graph: nodes, weights, inputs and outputs of any type."""
    infos = st.lists(st.builds(helper.make_value_info, names, types()), max_size=2)
    graph = onnx.GraphProto(
        name=draw(names),
        node=draw(st.lists(nodes(depth), max_size=5)),
        initializer=draw(st.lists(tensors(), max_size=2)),
        input=draw(infos),
        output=draw(infos),
        value_info=draw(infos),
    )
    if draw(st.integers(0, 3)) == 0:
        graph.sparse_initializer.append(sparse(draw(tensors())))
        annotation = graph.quantization_annotation.add(tensor_name=draw(names))
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=draw(names))
        graph.metadata_props.add(key=draw(names), value=draw(names))
    return graph


@st.composite
def functions(draw: st.DrawFn) -> onnx.FunctionProto:
    """A local function with attributes, defaults and its own imports."""
    return onnx.FunctionProto(
        name=draw(names),
        domain="local",
        input=draw(st.lists(names, max_size=2)),
        output=draw(st.lists(names, max_size=2)),
        attribute=draw(st.lists(names, max_size=2)),
        attribute_proto=draw(st.lists(attributes(1), max_size=2)),
        node=draw(st.lists(nodes(1), max_size=3)),
        opset_import=[helper.make_opsetid("", draw(st.integers(-1, 30)))],
        value_info=draw(st.lists(st.builds(helper.make_value_info, names, types()), max_size=1)),
    )


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """A model with most kinds of messages in it. Valid protobuf; what it computes means nothing."""
    model = onnx.ModelProto(
        ir_version=draw(st.integers(-5, 20)),
        producer_name=draw(names),
        domain=draw(names),
        model_version=draw(numbers),
        graph=draw(graphs()),
        functions=draw(st.lists(functions(), max_size=2)),
    )
    for domain in draw(st.lists(names, max_size=2)):
        model.opset_import.add(domain=domain, version=draw(numbers))
    if draw(st.booleans()):
        model.metadata_props.add(key=draw(names), value=draw(names))
        model.doc_string = draw(names)
    if draw(st.integers(0, 4)) == 0:
        training = model.training_info.add(initialization=draw(graphs(0)))
        training.initialization_binding.add(key=draw(names), value=draw(names))
        model.configuration.add(name=draw(names), num_devices=draw(small), device=["a"])
    return model
