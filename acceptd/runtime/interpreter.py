"""Where an interpreter's libraries lie, and which distribution gave it onnxruntime. Nothing of them is imported.

acceptd's own interpreter is read in this process; another one is started once, isolated (``-I``) and
without its site directories (``-S``): nothing that is installed there runs outside the cell.
"""

from __future__ import annotations

import functools
import json
import os
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acceptd.errors import ConfigError
from acceptd.policy.trusted import check_interpreter
from acceptd.runtime.installed import distributions

LEAST: Final = (3, 11)
"""The sandbox's own code needs it."""
MODULES: Final = ("numpy", "ml_dtypes", "onnxruntime")
"""What a profile's interpreter must have, onnx and protobuf not; acceptd's own has those too."""
_SECONDS: Final = 30
_SCRIPT: Final = r"""
import json, os, site, sys, sysconfig
prefix, executable = sys.prefix, sys.executable
for folder in (os.path.dirname(executable), os.path.dirname(os.path.dirname(executable))):
    if os.path.isfile(os.path.join(folder, "pyvenv.cfg")):
        prefix = os.path.dirname(executable) if folder == os.path.dirname(executable) else folder
        break
def installed(place):
    sys.prefix = sys.exec_prefix = place  # Debian's getsitepackages asks them whether this is an environment
    return site.getsitepackages([place])
places = installed(prefix)
for line in open(os.path.join(prefix, "pyvenv.cfg")) if prefix != sys.base_prefix else ():
    key, _, value = line.partition("=")
    if key.strip().lower() == "include-system-site-packages" and value.strip().lower() == "true":
        places += installed(sys.base_prefix)
print(json.dumps({
    "prefix": prefix, "base_prefix": sys.base_prefix, "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name, "places": places,
    "stdlib": [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")],
}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One interpreter. ``directories`` hold its libraries, in the order of its search.

    ``distribution`` and ``onnxruntime`` (its version) are empty where no installed distribution says that
    it provides the module.
    """

    path: str
    prefix: str
    base_prefix: str
    version: str
    directories: tuple[str, ...]
    stdlib: tuple[str, ...]
    distribution: str
    onnxruntime: str

    @property
    def own(self) -> bool:
        """Whether this is the interpreter that runs acceptd."""
        return self.path == sys.executable


def examine(interpreter: str = "") -> Interpreter:
    """Return what is known of the interpreter at an absolute path; empty stands for acceptd's own.

    The answer is kept until something is installed or removed there.

    Raises:
        ConfigError: no such interpreter, one that others can write, too old, without numpy or onnxruntime,
            or with two distributions that provide the module ``onnxruntime``.
    """
    if interpreter in {"", sys.executable}:
        place = sys.executable
        # These turn this process's own idea of its directories: a fresh, isolated one tells them.
        turned = any(os.environ.get(name) for name in ("PYTHONHOME", "PYTHONPLATLIBDIR"))
        found = _other(place, (0, 0, 0)) if turned else _own()
    else:
        place = interpreter
        found = _other(interpreter, _guarded(interpreter))
    stamps = tuple(_stamp(directory) for directory in found["places"])
    return _described(place, json.dumps(found), stamps)


def _stamp(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


@functools.cache
def _own() -> dict[str, Any]:
    # Not sys.path: PYTHONPATH of whoever starts acceptd does not choose the cell's libraries. Only an
    # interpreter without any of its own takes what it was lent.
    places = list(
        dict.fromkeys([*site.getsitepackages(), *(sysconfig.get_path(n) for n in ("purelib", "platlib"))])
    )
    if not any(_module(directory, "onnxruntime") for directory in places):
        places += [item for item in sys.path if os.path.isabs(item) and item not in places]
    return {
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "version": list(sys.version_info[:3]),
        "places": places,
        "stdlib": [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")],
    }


def _guarded(interpreter: str) -> tuple[int, int, int]:
    """Return what tells one file from another; raise ConfigError unless only root and we can replace it."""
    if not os.path.isabs(interpreter):
        raise ConfigError(
            f"profile.interpreter: {interpreter!r} is no absolute path", remedy="give the whole path of its python"
        )
    check_interpreter("profile.interpreter", Path(interpreter))
    status = os.stat(interpreter)
    return status.st_dev, status.st_ino, status.st_mtime_ns


@functools.lru_cache(maxsize=64)
def _other(interpreter: str, _identity: tuple[int, int, int]) -> dict[str, Any]:
    command = [interpreter, "-I", "-S", "-c", _SCRIPT]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, cwd="/", env={}, stdin=subprocess.DEVNULL, timeout=_SECONDS
        )
        found: dict[str, Any] = json.loads(done.stdout)
        version = tuple(int(part) for part in found["version"])
    except (
        *(OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError),
        subprocess.TimeoutExpired,
    ) as error:
        raise ConfigError(
            f"profile.interpreter: {interpreter} does not start as a Python interpreter",
            remedy=f"try: {interpreter} -I -S -c 'import sysconfig'",
        ) from error
    if version < LEAST:
        raise ConfigError(
            f"profile.interpreter: {interpreter} is Python {'.'.join(map(str, version))}",
            remedy=f"Python {'.'.join(map(str, LEAST))} or newer is needed",
        )
    return found


@functools.lru_cache(maxsize=64)
def _described(path: str, found_json: str, _stamps: tuple[int, ...]) -> Interpreter:
    found = json.loads(found_json)
    places = [directory for directory in dict.fromkeys(found["places"]) if os.path.isdir(directory)]
    used = []
    for name in MODULES:
        directory = next((place for place in places if _module(place, name)), None)
        if directory is None:
            raise ConfigError(
                f"{path}: the interpreter has no {name}", remedy=f"install {name} in its environment"
            )
        used.append(directory)
    providers = {one for place in places for one in distributions(place)}
    if len(providers) > 1:
        names = ", ".join(sorted(f"{name} {version}" for name, version in providers))
        raise ConfigError(
            f"{path}: several installed distributions provide the module onnxruntime: {names}",
            remedy="keep one of them in each interpreter; give the other an environment and a profile of its own",
        )
    name, version = next(iter(providers), ("", ""))
    return Interpreter(
        path=path,
        prefix=found["prefix"],
        base_prefix=found["base_prefix"],
        version=".".join(map(str, found["version"])),
        directories=tuple(dict.fromkeys([*used, *(place for place in places if _module(place, "onnx"))])),
        stdlib=tuple(dict.fromkeys(found["stdlib"])),
        distribution=name,
        onnxruntime=version,
    )


def _module(directory: str, name: str) -> bool:
    return os.path.isfile(os.path.join(directory, name, "__init__.py"))
