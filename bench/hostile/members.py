"""What the tools are asked about: every hostile bundle, and models that nobody should object to."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from bench.hostile import further_files, further_models
from examples import evidence_classifier
from examples import hostile_writers as w
from examples.hostile_bundles import CATALOGUE, Hostile

CATALOGUE_PARTS: Final = {
    "goldens-wrong": "goldens", "goldens-insensitive": "goldens", "weights-nan": "model",
    "symlink-outside": "model", "payload-beside": "files",
}  # fmt: skip
FAMILY_PARTS: Final = {
    "files": "files", "archive": "archive", "manifest": "manifest", "names": "manifest",
}  # fmt: skip
BACKEND: Final = (
    "node/test_abs",
    "node/test_ai_onnx_ml_label_encoder_string_int",
    "node/test_ai_onnx_ml_tree_ensemble_single_tree",
    "node/test_attention_4d",
    "node/test_einsum_batch_diagonal",
    "node/test_if",
    "node/test_loop11",
    "node/test_lstm_with_peepholes",
    "node/test_qlinearmatmul_2D_int8_float32",
    "node/test_resize_upsample_sizes_cubic",
    "node/test_scan9_sum",
    "node/test_string_concat",
    "pytorch-converted/test_Conv2d_groups",
    "light/test_shufflenet",
    "light/test_squeezenet",
)
"""Of ONNX's own suite: operators of each kind, control flow, networks. A name that onnx lacks is left out."""


@dataclass(frozen=True)
class Member:
    """One thing to ask about. ``part`` says where its fault is; ``codes`` name the fault in acceptd's words."""

    name: str
    family: str
    part: str
    write: Callable[[Path], Path]
    codes: tuple[str, ...] = ()
    team: str = ""
    inferred: bool = False
    """Whether there is no manifest because nobody wrote one, which acceptd is told to accept."""


def _part(entry: Hostile) -> str:
    if entry.family.startswith("schema/"):
        return "interface"
    return CATALOGUE_PARTS.get(entry.name) or FAMILY_PARTS.get(entry.family, "model")


def _family(entry: Hostile) -> str:
    return "schema drift" if entry.family.startswith("schema/") else entry.family


def _trap(trap: Callable[[], Any]) -> Callable[[Path], Path]:
    return lambda path: w.write_trap(path, trap(), model_id=w.TRIAL_ID)


def _bytes(data: Callable[[], bytes]) -> Callable[[Path], Path]:
    return lambda path: w.plain(path, data(), model_id=w.TRIAL_ID)


def hostile() -> list[Member]:
    """Return every hostile member, by family."""
    found = [
        Member(one.name, _family(one), _part(one), one.write, one.codes, "mosaic" if one.inbox else "")
        for one in CATALOGUE
    ]
    found += [Member(name, kind, "model", _trap(trap)) for name, (kind, trap) in further_models.TRAPS.items()]
    found += [Member(name, kind, "model", _bytes(data)) for name, (kind, data) in further_models.BYTES.items()]
    found += [Member(name, kind, part, write) for name, (kind, part, write) in further_files.WRITERS.items()]
    order = list(dict.fromkeys(one.family for one in found))
    return sorted(found, key=lambda one: order.index(one.family))


EXAMPLE: Final = Member("evidence-disposition", "example", "", evidence_classifier.write_bundle)
"""The honest bundle that nearly every hostile one is made of."""


def _copy(source: Path) -> Callable[[Path], Path]:
    return lambda path: Path(shutil.copytree(source, path))


def good(backend: Path, corpus: Path) -> Iterator[Member]:
    """Yield what nobody should object to: the example, cases of ONNX's own suite, real published models."""
    yield EXAMPLE
    for name in BACKEND:
        if (backend / name / "model.onnx").is_file():
            yield Member(f"onnx {name}", "ONNX backend suite", "", _copy(backend / name), inferred=True)
    for manifest in sorted(corpus.glob("*/*/bundle.toml")):
        bundle = manifest.parent
        yield Member(f"{bundle.parent.name} {bundle.name}", "published models", "", _copy(bundle))


def _value(data: bytes, file: Path) -> tuple[str, Any]:
    tensor = onnx.TensorProto.FromString(data)
    value = numpy_helper.to_array(tensor)
    if value.dtype == object:
        value = value.astype(np.str_)
    if value.dtype.kind == "V":
        raise ValueError(f"{file.name}: a type that numpy has no word for")
    return tensor.name, value


def feeds(bundle: Path, scratch: Path) -> list[Path]:
    """Write each golden set's inputs as .npz and return the files; none where they cannot be read that way.

    The goldens are those that this repository wrote itself or that onnx and the packages ship.
    """
    made: list[Path] = []
    try:
        for directory in sorted(bundle.glob("test_data_set_*")):
            files = sorted(directory.glob("input_*.pb"), key=lambda file: int(file.stem.partition("_")[2]))
            pairs = [_value(file.read_bytes(), file) for file in files]
            if any(not name for name, _ in pairs):
                pairs = list(zip(_names(bundle / "model.onnx"), (value for _, value in pairs), strict=False))
            made.append(scratch / f"{directory.name}.npz")
            np.savez(made[-1], **dict(pairs))
    except Exception:  # a sequence, a type of four bits: then the tools are asked without
        return []
    return made


def _names(model: Path) -> Iterable[str]:
    graph = onnx.load(str(model), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    return [one.name for one in graph.input if one.name not in weights]


def quiet(write: Callable[[Path], Path], path: Path) -> Path:
    """Write a member; the warnings of zipfile about what is meant are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write(path)
