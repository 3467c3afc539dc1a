"""What was measured on, and whether something else was at work there."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import acceptd

BUSY: Final = 0.12
"""Of all cores' time, in a second before and after a row: more than that is another's work."""
PACKAGES: Final = ("onnxruntime", "onnx", "numpy", "protobuf")


def machine() -> dict[str, Any]:
    """Return processor, memory, kernel, interpreter, the file system that was measured on, and versions."""
    words = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": words[0].partition(": ")[2] if words else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "file_system": _file_system(Path("/var/tmp")),
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "versions": {"acceptd": acceptd.__version__} | {name: version(name) for name in PACKAGES},
    }


def _file_system(path: Path) -> str:
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [(where, kind) for where, kind in mounts if path == Path(where) or Path(where) in path.parents]
    return max(inside, default=("/", "unknown"), key=lambda one: len(one[0]))[1]


def peers(environments: Path) -> dict[str, str]:
    """Return what is installed in each peer's environment below ``environments``: name → version."""
    found = {}
    for name in ("onnxruntime", "onnx", "polygraphy", "modelaudit", "modelscan"):
        python = environments / f"peer-{name}" / "bin" / "python"
        if python.exists():
            asked = [str(python), "-c", f"from importlib.metadata import version as v; print(v({name!r}))"]
            found[name] = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return found


def busy(seconds: float = 1.0) -> float:
    """Return the share of all cores' time that was spent on something, while the caller waits."""
    before = _spent()
    time.sleep(seconds)
    after = _spent()
    idle, whole = (b - a for a, b in zip(before, after, strict=True))
    return round(1 - idle / whole, 3) if whole else 0.0


def quietest(samples: int = 3) -> float:
    """Return the least share of so many seconds in which something was at work; one is enough where it is quiet.

    What a row of ours left to the kernel, to be written back, is done by then; another's work is not.
    """
    found = 1.0
    for _ in range(samples):
        found = min(found, busy())
        if found <= BUSY:
            break
    return found


def _spent() -> tuple[int, int]:
    words = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return words[3] + words[4], sum(words)  # idle and waiting for a disk; all


def load() -> list[float]:
    """Return the load averages of 1, 5 and 15 minutes."""
    return [round(one, 2) for one in os.getloadavg()]


MEASURED: Final = ("acceptd", "sandbox", "policies", "bench/*.py", "bench/hostile/*.py", "bench/peers")
"""Files that a figure depends on."""


def commit(root: Path) -> str:
    """Return the commit of a checkout, shortened; nothing where git does not say."""
    return _git(root, "rev-parse", "--short=12", "HEAD")


def code(root: Path) -> str:
    """Return what stands for the code that is measured: it changes with any file of it that git follows."""
    there = _git(root, "ls-files", "--stage", "--", *MEASURED)
    changed = _git(root, "diff", "HEAD", "--", *MEASURED)
    return hashlib.sha256((there + changed).encode()).hexdigest()[:12]


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout.strip()
