"""The Triton form: each ONNX model of a bundle is one of ``repository/<team>.<model>.<name>/<number>/``.

What Triton's ONNX Runtime backend cannot express is refused with the reason, and nothing is exported then.
Sources: ``model_config.proto`` of triton-inference-server/common; the backend's README and
``onnxruntime_utils.cc`` for types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from acceptd.errors import ExportError
from acceptd.evidence import BundleFile, Sealed
from acceptd.export.pbtxt import Config, Tensor, written
from acceptd.export.plan import Unit, homes
from acceptd.judge import inventory
from acceptd.policy.manifest import Dim, InputSpec, Manifest, ModelSpec, ValueSpec
from acceptd.release.trust import File, ReleaseFacts

TYPES: Final = {
    "bool": "TYPE_BOOL", "uint8": "TYPE_UINT8", "uint16": "TYPE_UINT16", "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64", "int8": "TYPE_INT8", "int16": "TYPE_INT16", "int32": "TYPE_INT32",
    "int64": "TYPE_INT64", "float16": "TYPE_FP16", "float32": "TYPE_FP32", "float64": "TYPE_FP64",
    "string": "TYPE_STRING",
}  # fmt: skip
"""bfloat16 is in the schema; the ONNX Runtime backend has no tensor of it (``ConvertFromOnnxDataType``)."""
GRAPH_LEVELS: Final = {"all": None, "basic": -1, "extended": 1, "disable": 2}
INSTANCES: Final = {("CPUExecutionProvider",): "KIND_CPU", ("CUDAExecutionProvider",): "KIND_GPU"}
MAX_BATCH: Final = 2**31 - 1
"""``max_batch_size`` is an int32."""


def units(release: ReleaseFacts, manifest: Manifest) -> list[Unit]:
    """Return one unit for each ONNX model; raise ExportError where Triton cannot serve one of them."""
    sealed = Sealed(
        digest=release.bundle_digest,
        files=[BundleFile(path=file.path, sha256=file.sha256, size=file.size) for file in release.files],
        total_bytes=sum(file.size for file in release.files),
    )
    taken = inventory.take(sealed, manifest)
    begin = homes("triton", release.model_id, release.channel)
    found = []
    for model in manifest.models:
        files = _files(model, release.files, frozenset(taken.visible(model.file)))
        name = f"{begin.rpartition('/')[2]}{model.name}"
        config = _config(name, model, manifest, release)
        found.append(Unit(f"{begin}{model.name}", str(release.number), files, model.name, written(config)))
    return found


def _files(model: ModelSpec, files: Sequence[File], visible: frozenset[str]) -> tuple[tuple[str, File], ...]:
    """Return the model file and what its external data may be: all beside and below it but vectors and models."""
    folder = model.file.rpartition("/")[0]
    start = f"{folder}/" if folder else ""
    return tuple(
        (file.path.removeprefix(start), file)
        for file in files
        if file.path in visible and file.path.startswith(start)
    )


def _config(name: str, model: ModelSpec, manifest: Manifest, release: ReleaseFacts) -> Config:
    batch = batch_size(model, manifest)
    options = release.options
    providers = tuple(options.get("providers", ()))
    kind = INSTANCES.get(tuple(one for one in providers if one != "CPUExecutionProvider") or providers)
    if kind is None:
        raise _refused(model, f"its execution providers {', '.join(map(str, providers))[:200]} have no mapping")
    if options.get("custom_operators"):
        raise _refused(model, "it needs libraries of custom operators, which an export does not carry")
    if options.get("provider_options") or options.get("session_entries"):
        raise _refused(model, "its session options hold entries that config.pbtxt cannot express")
    level = str(options.get("optimisation", "all"))
    if level not in GRAPH_LEVELS:
        raise _refused(model, f"the optimisation level {level[:40]!r} is not known here")
    if not model.outputs:
        raise _refused(model, "it declares no output")
    return Config(
        name=name,
        max_batch_size=batch,
        file=_text(model, model.file.rpartition("/")[2]),
        version=release.number,
        instance_kind=kind,
        inputs=tuple(_tensor(model, one, batch) for one in model.inputs),
        outputs=tuple(_tensor(model, one, batch) for one in model.outputs),
        parameters=(
            ("intra_op_thread_count", str(int(options.get("intra_op_threads", 1)))),
            ("inter_op_thread_count", str(int(options.get("inter_op_threads", 1)))),
        ),
        graph_level=GRAPH_LEVELS[level],
    )


def batch_size(model: ModelSpec, manifest: Manifest) -> int:
    """Return the most rows of one call where the first dimension of every tensor is one batch, else 0.

    It must be one named dimension, first everywhere and nowhere else, that may be 1; and rows must not influence
    each other (``rows_interact``): Triton joins requests of different callers where it batches.
    """
    shapes = [one.shape for one in (*model.inputs, *model.outputs)]
    if model.rows_interact or not model.inputs or not all(shapes):
        return 0
    named = {shape[0] for shape in shapes if shape}
    name = next(iter(named))
    if len(named) != 1 or not isinstance(name, str) or name == "?" or name not in manifest.dims:
        return 0
    if any(name in shape[1:] for shape in shapes if shape):
        return 0
    bounds = manifest.dims[name]
    return min(bounds.max, MAX_BATCH) if bounds.min <= 1 <= bounds.max else 0


def _tensor(model: ModelSpec, value: ValueSpec, batch: int) -> Tensor:
    shown = ascii(value.name[:60])
    if value.type != "tensor":
        raise _refused(model, f"{shown} is a {value.type}, and Triton has tensors alone")
    if value.dtype not in TYPES:
        raise _refused(model, f"{shown} is {value.dtype}, which the ONNX Runtime backend has no tensor of")
    if value.shape is None:
        raise _refused(model, f"{shown} has no declared rank")
    dims = tuple(_dim(model, shown, dim) for dim in (value.shape[1:] if batch else value.shape))
    optional = isinstance(value, InputSpec) and value.optional
    name = _text(model, value.name)
    return Tensor(name, TYPES[value.dtype], dims or (1,), optional=optional, scalar=not dims)


def _dim(model: ModelSpec, shown: str, dim: Dim) -> int:
    if isinstance(dim, str):
        return -1
    if dim == 0:
        raise _refused(model, f"{shown} has a dimension of 0, and Triton takes 1 or more, or any")
    return dim


def _text(model: ModelSpec, text: str) -> str:
    """Return a name as Triton can hold it: as a C string, so without NUL, and as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refused(model, f"the name {text[:60]!a} is no UTF-8") from None
    if "\0" in text:
        raise _refused(model, f"the name {text[:60]!a} holds a NUL, where Triton's names end")
    return text


def _refused(model: ModelSpec, why: str) -> ExportError:
    return ExportError(
        f"model {model.name} cannot be served by Triton: {why}", remedy="export it as a plain directory"
    )
