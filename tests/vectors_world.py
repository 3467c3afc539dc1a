"""Golden files as the tests of the vectors job write them, and what the job says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ONES = np.ones((2, 3), np.float32)


def codes(frame: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in frame["problems"]]


def npz(path: Path, **arrays: Any) -> str:
    np.savez_compressed(path, **arrays)
    return path.name


def npz_set(root: Path, inputs: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
    first, second = npz(root / "inputs.npz", **inputs), npz(root / "outputs.npz", **outputs)
    return {"model": "main", "name": "pair", "format": "npz", "inputs": first, "outputs": second}
