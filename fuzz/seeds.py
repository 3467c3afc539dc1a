"""Write the seeds of all corpora: ``python -m fuzz.seeds``. Small inputs, each with another part of its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

CORPUS: Final = Path(__file__).resolve().parent / "corpus"

SUFFIXES: Final = {"wire": ".onnx", "manifest": ".toml"}

MANIFESTS: Final = {
    "whole": (
        'schema = 1\n[bundle]\nid = "team/model"\nversion = "1"\nlicense = "MIT"\npurpose = "p"\n'
        '[dims.batch]\nmin = 1\nmax = 32\n[[models]]\nname = "main"\nfile = "model.onnx"\nir_version = 8\n'
        'opsets = { "ai.onnx" = 13 }\n[[models.inputs]]\nname = "x"\ndtype = "float32"\nshape = ["batch", 4]\n'
        'range = [0.0, 1.0]\n[[models.outputs]]\nname = "y"\ndtype = "float32"\nshape = ["batch", "?"]\n'
        'kind = "values"\ntolerance = { rtol = 0.0, atol = 1e-6 }\n[[models.vectors]]\nsets = ["set_*"]\n'
        'origin = "numpy"\n[preprocessing]\nversion = "3"\n[export]\nframework = "torch 2"\n'
        '[files."model.onnx"]\nsize = 309\n'
    ),
    "strings": "a = \"x\\u00e9\\n\"\nb = 'raw'\nc = \"\"\"one\ntwo \\\n three\"\"\"\nd = '''raw\nlines'''\n",
    "numbers": "a = 1_0\nb = 0x1F\nc = 0o17\nd = 0b1\ne = -9223372036854775808\nf = 6.02e23\ng = nan\nh = -inf\n",
    "nested": 'a.b."c d".e = [1, [2, {x = 3, y = [true, false]}]]\n[f.g]\nh = 1\n[[i]]\nj = 1\n[[i.k]]\nl = {}\n',
    "dates": "a = 1979-05-27T07:32:00Z\nb = 07:32:00\nc = 1979-05-27\n",
    "duplicate": "a = 1\na = 2\n[b]\n[b]\n",
    "broken": 'a = "no end\n[b\n= 1\n',
    "comments": "# only\n\n  # comments\r\n",
    "not-utf8": "a = 1\n",
}


def weight(name: str, dims: list[int], raw: bytes) -> onnx.TensorProto:
    """Return a float32 tensor."""
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, raw_data=raw)


def model(nodes: list[Any], **more: Any) -> onnx.ModelProto:
    """Return a model from ``x`` to ``y``."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    functions = more.pop("functions", [])
    graph = helper.make_graph(nodes, "g", [value], [result], **more)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports, functions=functions)


def models() -> dict[str, bytes]:
    """Return a model for each part of the schema, and the ways in which wire forms go wrong."""
    relu = helper.make_node("Relu", ["x"], ["y"], name="n")
    plain = model([relu])
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "b", [], [])
    nested = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    numbers = helper.make_tensor("t", TensorProto.INT64, [3], [1, -1, 1 << 40])
    strings = helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"\xff"])
    constants = [
        helper.make_node("Constant", [], ["a"], value=numbers),
        helper.make_node("Constant", [], ["b"], value_strings=[b"a", b"b"]),
        helper.make_node("Op", ["a"], ["y"], domain="local", f=1.5, fs=[0.5], i=-1, ts=[numbers, strings]),
    ]
    function = helper.make_function(
        "local", "F", ["p"], ["q"], [helper.make_node("Relu", ["p"], ["q"])], [helper.make_opsetid("", 18)], ["k"]
    )
    function.attribute_proto.add(name="d", i=1, type=onnx.AttributeProto.INT)
    stored = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "16")):
        stored.external_data.add(key=key, value=value)
    indices = helper.make_tensor("", TensorProto.INT64, [1], [3])
    sparse = onnx.SparseTensorProto(values=weight("sp", [1], bytes(4)), indices=indices, dims=[9])
    rich = model(
        [relu], initializer=[weight("w", [2, 2], np.ones(4, np.float32).tobytes())], sparse_initializer=[sparse]
    )
    helper.set_model_props(rich, {"author": "someone"})
    rich.graph.value_info.append(
        helper.make_value_info("v", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["n", 2])))
    )
    rich.graph.quantization_annotation.add(tensor_name="w").quant_parameter_tensor_names.add(key="k", value="v")
    rich.training_info.add(algorithm=branch)
    rich.configuration.add(name="two", num_devices=2, device=["a", "b"])
    raw = plain.SerializeToString()
    return {
        "plain": raw,
        "many": model(
            [helper.make_node("Softmax", [f"v{i}"], [f"v{i + 1}"], axis=i % 2) for i in range(8)]
        ).SerializeToString(),
        "nested": model([nested]).SerializeToString(),
        "constants": model(constants).SerializeToString(),
        "function": model(
            [helper.make_node("F", ["x"], ["y"], domain="local")], functions=[function]
        ).SerializeToString(),
        "external": model([relu], initializer=[stored]).SerializeToString(),
        "rich": rich.SerializeToString(),
        "large": model([relu], initializer=[weight("w", [2048], bytes(8192))]).SerializeToString(),
        "unknown": raw + b"\xc2\x3e\x03abc",
        "group": raw + b"\x0b\x08\x01\x0c",
        "zeros": raw + bytes(8),
        "twice": raw + raw,
        "padded": b"\x08\x8a\x00" + raw[2:],
        "cut": raw[:-5],
        "unpacked": b"\x08\x0a\x3a\x0e\x2a\x0c\x08\x02\x10\x01\x25\0\0\x80\x3f\x25\0\0\0\x40",
    }


def manifests() -> dict[str, bytes]:
    """Return a manifest for each part of TOML."""
    return {
        name: text.encode() + (b'b = "\xff"\n' if name == "not-utf8" else b"") for name, text in MANIFESTS.items()
    }


def every() -> dict[str, dict[str, bytes]]:
    """Return the seeds of all targets: by target, by name."""
    from fuzz import (
        anchor,
        fleet,
        frames,
        judged,
        loader_tree,
        names,
        own,
        people,
        receipts,
        settings,
        signed,
        tensors,
    )

    return {
        "wire": models(), "manifest": manifests(), "frames": frames.seeds(), "entries": frames.entry_seeds(),
        "tensors": tensors.seeds(), "names": names.seeds(), "native": names.native_seeds(),
        "judged": judged.seeds(), "loader": loader_tree.seeds(), "anchor": anchor.seeds(), "own": own.seeds(),
        "receipts": receipts.seeds(),
        **signed.seeds(), **people.seeds(), **fleet.seeds(), **settings.seeds(),
    }  # fmt: skip


def main() -> None:
    """Write the seeds of all targets anew. What fuzzing found beside them stays."""
    for target, found in every().items():
        for name, raw in found.items():
            _write(target, name + SUFFIXES.get(target, ""), raw)


def _write(target: str, name: str, raw: bytes) -> None:
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


if __name__ == "__main__":
    main()
