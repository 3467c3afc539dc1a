"""Tolerances beside a model: ``data.json`` of ONNX's backend tests, ``config.txt`` of onnx_test_runner."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any, Final

from sandbox.golden_files import LeftOutError, Reading

MAX_BYTES: Final = 64 << 10

Pair = tuple[float | None, float | None]
"""(rtol, atol); None where the file has none."""


def of_json(raw: bytes) -> Pair:
    """Return (rtol, atol) of a ``data.json``; None where it has none. Raises ValueError."""
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    try:
        document = json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - one error type for bad content
    found: list[float | None] = []
    for key in ("rtol", "atol"):
        value = document.get(key)
        if value is None:
            found.append(None)
            continue
        found.append(_usable(key, value))
    return found[0], found[1]


def _usable(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} is no number")  # noqa: TRY004 - as above
    with contextlib.suppress(OverflowError):
        if math.isfinite(value) and value >= 0:
            return float(value)
    raise ValueError(f"{key} is no finite number of zero or more")


def of_config(raw: bytes) -> Pair:
    """Return (rtol, atol) of a ``config.txt``: lines ``key:value``, of which two are known. Raises ValueError.

    A file of that name may be something else, so that whatever is no such line is passed over
    (onnxruntime, ``onnx/TestCase.cc``, reads it so too).
    """
    if len(raw) > MAX_BYTES:
        return None, None
    found: dict[str, float] = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        key, colon, text = (part.strip() for part in line.partition(":"))
        if not colon or key not in {"per_sample_tolerance", "relative_per_sample_tolerance"}:
            continue
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{key} is no number") from None
        found[key] = _usable(key, number)
    return found.get("relative_per_sample_tolerance"), found.get("per_sample_tolerance")


def read(job: Reading, spec: dict[str, Any]) -> Pair:
    """Return (rtol, atol) of the order's files, of ``data.json`` first. A bad file is a problem, not an error."""
    rtol: float | None = None
    atol: float | None = None
    for key, parse in (("data_json", of_json), ("config_txt", of_config)):
        path = spec.get(key)
        if not path:
            continue
        try:
            found = parse(job.read(path))
        except LeftOutError as error:
            job.report("vectors/tolerance-invalid", error.where, error.message)
            continue
        except ValueError as error:
            job.report("vectors/tolerance-invalid", path, str(error))
            continue
        rtol = found[0] if rtol is None else rtol
        atol = found[1] if atol is None else atol
    return rtol, atol
