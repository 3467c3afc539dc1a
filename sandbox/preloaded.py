"""Native libraries that a profile adds to its onnxruntime, loaded in the warm parent before any fork.

A job's root holds no library; glibc compares a name with those that it has loaded before it opens
anything, so that whoever asks for the same path in a job finds it (measured, under all walls).
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Sequence
from typing import Final

import onnxruntime as ort

from sandbox.session import new_options

PROVIDERS: Final = {
    "OpenVINOExecutionProvider": (
        "libonnxruntime_providers_shared.so",
        "libonnxruntime_providers_openvino.so",
        "libopenvino_intel_cpu_plugin.so",
        "libopenvino_onnx_frontend.so.[0-9]*[0-9][0-9][0-9]",
    ),
}
"""Libraries of providers in onnxruntime's own directory, as patterns of file names."""
TOPOLOGY: Final = ("/sys/devices/system/cpu", "/sys/devices/system/node")
"""What OpenVINO reads of the processors: without it, it loops for ever (2025.4.1, measured)."""
_loaded: list[ctypes.CDLL] = []


def operators(paths: Sequence[str]) -> None:
    """Load custom-operator libraries and register each once.

    Raises OSError or onnxruntime's own error: a library cannot be loaded here.
    """
    for path in paths:
        _loaded.append(ctypes.CDLL(path))
        new_options().register_custom_ops_library(path)


def providers(names: Sequence[str]) -> list[str]:
    """Load the libraries of providers; return the paths that a job's root must show.

    OpenVINO looks whether the files are there before it asks for them. What is not installed is left out:
    the run then says that the provider is not available.
    """
    place = os.path.join(os.path.dirname(ort.__file__), "capi")
    patterns = [pattern for name in names for pattern in PROVIDERS.get(name, ())]
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern, root_dir=place))]
    found = [os.path.join(place, path) for path in found]
    _loaded.extend(ctypes.CDLL(path) for path in found)
    return found + [path for path in TOPOLOGY if found and os.path.isdir(path)]
