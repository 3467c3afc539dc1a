"""The comparer beside numpy's own pass over the same two files: float32, each kind of output.

numpy's own pass reads both files whole and says ``numpy.abs(a - b) <= atol + rtol * numpy.abs(b)``. The comparer's
is everything that it finds out: worst element, relative and absolute maximum, and the figures of the kind.
Measured in turn (A B A B …) in one process, page cache warm. Must (issue 5): within 2 x for ``values``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from acceptd.compare.blob import Blob
from acceptd.compare.service import compare
from acceptd.compare.task import CompareTask, How, Pair, Slice
from acceptd.values import TensorRef
from bench import figures

BOUND: Final = 2.0
RTOL, ATOL = 1e-3, 1e-5
Array = np.ndarray[Any, Any]
SHAPES: Final = {
    "values": ("values", 1000),
    "logits, 3 classes": ("logits", 3),
    "logits, 1000 classes": ("logits", 1000),
    "logits, 1000 classes, top 5": ("logits", 1000),
    "logits, 151936 classes": ("logits", 151_936),
    "probabilities, 3 classes": ("probabilities", 3),
    "probabilities, 1000 classes": ("probabilities", 1000),
    "embedding, 384 wide": ("embedding", 384),
    "audio, 160000 samples": ("audio", 160_000),
    "boxes, 100 an image": ("boxes", 4),
    "boxes, 100 an image, shuffled": ("boxes", 4),
    "sequence of int64, 256 tokens": ("sequence", 256),
}


def values(name: str, kind: str, width: int, size: int) -> tuple[Array, Array]:
    """Return expected and got: noise of 1e-6, so that every element differs and nothing exceeds by much."""
    rng = np.random.default_rng(5)
    if kind == "sequence":
        tokens = rng.integers(0, 50_000, (size // 8 // width, width))
        other = tokens.copy()
        other[::97, 5] += 1
        return tokens, other
    rows = max(1, size // 4 // width)
    if kind == "boxes":
        rows -= rows % 100
        corner = rng.random((rows, 2), np.float32)
        expected = np.concatenate([corner, corner + 0.1 + rng.random((rows, 2), np.float32)], axis=1)
        expected = expected.reshape(-1, 100, 4)
        got = expected + rng.standard_normal(expected.shape, np.float32) * np.float32(1e-6)
        return expected, np.ascontiguousarray(got[:, rng.permutation(100)] if "shuffled" in name else got)
    expected = rng.standard_normal((rows, width), np.float32)
    noise = rng.standard_normal((rows, width), np.float32) * np.float32(1e-6)
    if kind == "probabilities":
        for sides in (expected, noise):
            assert sides.dtype == np.float32
        expected = np.exp(expected)
        expected /= expected.sum(axis=1, keepdims=True)
        noise *= expected
    return expected, expected + noise


def own(paths: tuple[Path, Path], dtype: str) -> None:
    """Do numpy's own pass."""
    got, expected = (np.fromfile(path, dtype) for path in paths)
    (np.abs(got - expected) <= ATOL + RTOL * np.abs(expected)).all()


def ours(paths: tuple[Path, Path], kind: str, shape: list[int], dtype: str, how: How) -> None:
    """Compare as the comparer process does."""
    with open(paths[0], "rb") as got, open(paths[1], "rb") as expected:
        ref = TensorRef(dtype=dtype, shape=shape, offset=0, nbytes=paths[0].stat().st_size)
        pair = Pair.model_validate(
            {
                "set": "s",
                "model": "m",
                "output": "o",
                "against": "golden",
                "rtol": RTOL,
                "atol": ATOL,
                "kind": kind,
            }
            | {"expected": Slice(file="e", value=ref), "got": Slice(file="g", value=ref), "how": how}
        )
        task = CompareTask(pairs=[pair])
        found = compare(task, {"e": Blob(expected.fileno()), "g": Blob(got.fileno())})
    if not found.outputs[0].comparable or not found.outputs[0].n:
        raise SystemExit(f"{kind}: nothing was compared: {found.outputs[0]}")


def measure(paths: tuple[Path, Path], name: str, megabytes: int, rounds: int) -> figures.Line:
    """Return a line of both, taken in turn."""
    kind, width = SHAPES[name]
    expected, got = values(name, kind, width, megabytes * 1_000_000)
    shape, dtype = list(got.shape), got.dtype.name
    got.tofile(paths[0])
    expected.tofile(paths[1])
    size = got.nbytes
    del expected, got
    how = How(top_k=5 if "top 5" in name else 1)
    ways: dict[str, Callable[[], float | None]] = {
        "numpy": lambda: own(paths, dtype),
        "comparer": lambda: ours(paths, kind, shape, dtype, how),
    }
    taken = figures.in_turn(ways, rounds)
    return figures.against(
        f"compare/{name}", f"comparison of {size / 1e6:.0f} MB, {name}", taken["comparer"],
        "numpy's own pass over both files", taken["numpy"], bound=BOUND if name == "values" else None,
        source="issue 5",
    )  # fmt: skip


def main() -> int:
    """Measure, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", type=int, nargs="?", default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="acceptd-bench-") as place:
        paths = Path(place) / "got", Path(place) / "expected"
        for name in SHAPES:
            if options.only in name:
                rounds = options.rounds if name == "values" else max(1, options.rounds // 2)  # only one is judged
                lines.append(measure(paths, name, options.megabytes, rounds))
                figures.progress(f"compare: {name}")
    return figures.save("compare", lines)


if __name__ == "__main__":
    sys.exit(main())
