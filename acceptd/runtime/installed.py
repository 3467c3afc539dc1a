"""Which installed distributions provide the module ``onnxruntime``. Standard library only, as the loader is."""

from __future__ import annotations

import contextlib
import os
from typing import Final

_END: Final = ".dist-info"
_PROVIDES: Final = b"onnxruntime/__init__.py,"


def distributions(directory: str) -> list[tuple[str, str]]:
    """Return (name, version) of the distributions in ``directory`` whose RECORD lists onnxruntime's own module."""
    found = []
    names = []
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(directory) if name.endswith(_END)]
    for installed in names:
        try:
            with open(f"{directory}/{installed}/RECORD", "rb", buffering=0) as record:
                content = record.readall()
        except OSError:
            continue
        if content.startswith(_PROVIDES) or b"\n" + _PROVIDES in content:
            name, _, version = installed.removesuffix(_END).rpartition("-")
            found.append((name.replace("_", "-"), version))
    return found
