"""Inputs and outputs of ``acceptd loader run``: an operator's own values, from a file and as plain data.

JSON is one object of names and nested lists; .npz holds one array for each name, and nothing that is pickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from acceptd.errors import MalformedError, UsageError
from acceptd.release.trust import parse_json

MAX_BYTES: Final = 1 << 30
_REMEDY: Final = 'give an .npz file, or JSON as {"name": [[1.0, 2.0]]}'


def read_inputs(path: Path) -> Mapping[str, Any]:
    """Return names and values of a file, lists or arrays; raise UsageError where it holds none."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path}: larger than {MAX_BYTES} bytes", remedy="run it in parts")
        found = _arrays(path) if path.suffix == ".npz" else parse_json(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", remedy=_REMEDY) from error
    except (MalformedError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: {str(error)[:200]}", remedy=_REMEDY) from error
    if not isinstance(found, dict):
        raise UsageError(f"{path}: no object of names and values", remedy=_REMEDY)
    return found


def _arrays(path: Path) -> dict[str, Any]:
    import numpy

    found = numpy.load(path, allow_pickle=False)
    if isinstance(found, numpy.ndarray):  # a single .npy under another name: no archive, and nothing to close
        raise UsageError(f"{path}: no .npz archive", remedy=_REMEDY)
    with found as archive:
        return {name: archive[name] for name in archive.files}


def plain(value: Any) -> Any:
    """Return an output as JSON data: lists, numbers, text; sequences and maps as they are nested."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def shape_of(value: Any) -> str:
    """Return dtype and shape of an output in words."""
    return f"{value.dtype} {list(value.shape)}" if hasattr(value, "dtype") else type(value).__name__
