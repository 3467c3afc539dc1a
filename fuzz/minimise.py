"""Add to the saved corpora what a run found and they do not cover: ``python -m fuzz.minimise [TARGET …]``.

By arcs between lines of acceptd's own code, without atheris: smallest inputs first, each kept that goes a way
which none before it went, up to 16 KiB a target. So the tests replay a third of a megabyte and not what libFuzzer
keeps for its counters, which is twenty times as much.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from fuzz.targets import CACHE, CORPUS, TARGETS, Check, Target

MOST: Final = 16 << 10
OURS: Final = ("/acceptd/", "/sandbox/", "/tomllib/")
Arc = tuple[int, int, int]
"""A code object's number, the line before (0: its beginning), the line."""


def arcs(check: Check, raw: bytes) -> set[Arc]:
    """Return the ways through our code that one input goes."""
    found: set[Arc] = set()

    def local(code: int) -> Callable[[FrameType, str, Any], Any]:
        before = 0

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal before
            if event == "line":
                found.add((code, before, frame.f_lineno))
                before = frame.f_lineno
            return step

        return step

    def enter(frame: FrameType, _event: str, _: Any) -> Any:
        code = frame.f_code
        return local(hash(code)) if any(part in code.co_filename for part in OURS) else None

    sys.settrace(enter)
    try:
        check(raw)
    finally:
        sys.settrace(None)
    return found


def minimise(target: Target, grown: Path, saved: Path, most: int = MOST) -> tuple[int, int]:
    """Copy what covers more from ``grown`` to ``saved``; return the inputs and bytes that are there then."""
    check = target.load()
    files = sorted(saved.iterdir())
    for file in files:
        check(file.read_bytes())  # whatever is imported or made once is no way of any one input's
    covered: set[Arc] = set()
    for file in files:
        covered |= arcs(check, file.read_bytes())
    room = most - sum(file.stat().st_size for file in files)
    candidates = sorted(grown.iterdir(), key=lambda one: (one.stat().st_size, one.name)) if grown.is_dir() else []
    for file in candidates:
        raw = file.read_bytes()
        if not raw or len(raw) > room:
            continue
        new = arcs(check, raw) - covered
        if new:
            covered |= new
            room -= len(raw)
            shutil.copyfile(file, saved / hashlib.sha256(raw).hexdigest()[:16])
    kept = list(saved.iterdir())
    return len(kept), sum(one.stat().st_size for one in kept)


def main() -> None:
    """Go through the targets that are named, or all."""
    for name in sys.argv[1:] or TARGETS:
        inputs, size = minimise(TARGETS[name], CACHE / name / "corpus", CORPUS / name)
        print(f"{name:12} {inputs:>4} inputs, {size:>6} bytes", flush=True)


if __name__ == "__main__":
    main()
