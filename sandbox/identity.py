"""What this process is: versions, providers, mapped files. Told once, warm, before any submitted byte."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any


def facts() -> dict[str, Any]:
    """Return it as JSON data; ``mapped`` is the executable file mappings: path to [device, inode] or None."""
    import numpy
    import onnxruntime

    found = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "machine": platform.machine(),
        "onnxruntime": onnxruntime.__version__,
        "build": str(onnxruntime.get_build_info())[:2000],
        "numpy": numpy.__version__,
        "available_providers": [str(name) for name in onnxruntime.get_available_providers()],
        "telemetry": os.environ.get("ORT_DISABLE_TELEMETRY", ""),
        "mapped": mapped(),
    }
    if "onnx" in sys.modules:
        found["onnx"] = sys.modules["onnx"].__version__
    return found


def mapped() -> dict[str, list[int] | None]:
    """Return the executable file mappings (proc_pid_maps(5)); None: the file is no longer there."""
    found: dict[str, list[int] | None] = {}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                path = fields[5].replace("\\012", "\n")
                try:
                    status = os.stat(path)
                except OSError:
                    found[path] = None
                else:
                    found[path] = [status.st_dev, status.st_ino]
    return found
