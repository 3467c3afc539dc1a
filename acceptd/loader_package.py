"""The loader's look at the package that gives this process onnxruntime: one distribution, and the pinned version.

Who pins libraries as well has them looked at in :mod:`acceptd.loader_pins`, which is imported only then.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from acceptd.errors import RuntimeMismatchError
from acceptd.loader_options import Options
from acceptd.runtime.installed import distributions


def check(options: Options, runtime: Any) -> None:
    """Raise RuntimeMismatchError unless this process runs what the release pins; without pins, one distribution.

    Call it once onnxruntime is imported, and again when a session exists: providers load their libraries late.
    """
    package = folder(runtime.__file__)
    _one_distribution(os.path.dirname(package))
    version = str(getattr(runtime, "__version__", ""))
    if options.libraries or options.version not in {"", version}:
        from acceptd import loader_pins

        loader_pins.check(options, version, package)


@functools.lru_cache(maxsize=16)
def folder(file: str) -> str:
    """Return the directory of onnxruntime's package, by the file that its module was imported from."""
    return os.path.dirname(os.path.realpath(file))


def _one_distribution(directory: str) -> None:
    """Raise RuntimeMismatchError where several installed distributions provide the module ``onnxruntime``.

    They write into one directory: what is there is then a mixture of both, whatever either is called.
    """
    try:
        names = _distributions(directory, os.stat(directory).st_mtime_ns)
    except OSError as error:
        raise RuntimeMismatchError(f"{directory}: {error.strerror}") from error
    if len(names) > 1:
        raise RuntimeMismatchError(
            f"several installed distributions provide onnxruntime: {', '.join(names)}; keep one of them"
        )


@functools.lru_cache(maxsize=16)
def _distributions(directory: str, _changed: int) -> tuple[str, ...]:
    return tuple(sorted(f"{name} {version}" for name, version in distributions(directory)))
