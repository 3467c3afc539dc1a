"""Bytes that are read once, hashed, and kept: what a loader in ``mode="memory"`` gives to the runtime.

A file is read into memory that nobody else can reach, and hashed there: a later write to the file changes neither
what was hashed nor what is loaded. Standard library only.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import FileIO
from typing import Any, Final

from acceptd.release.trust import File

Content = bytes | mmap.mmap
"""A small file as bytes; a large one in an anonymous mapping, which costs no second copy."""
_SMALL: Final = 64 << 20
"""Below this, bytes: a model is handed to onnxruntime as such, and a mapping would have to be copied for that."""
_STEP: Final = 1 << 20
"""Read and hashed in steps that stay in the processor's cache."""
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


@dataclass(slots=True)
class Keep:
    """Which files are to be kept, and those that were."""

    wanted: Callable[[File], bool]
    found: dict[str, Content] = field(default_factory=dict)

    def wants(self, file: File) -> bool:
        """Return whether the bytes of ``file`` are to be kept."""
        return self.wanted(file)

    def take(self, file: File, content: Content) -> None:
        """Keep the bytes of ``file``, which have its digest."""
        self.found[file.path] = content


def but_vectors(manifest: Mapping[str, Any]) -> Callable[[File], bool]:
    """Return which files production needs in memory: all but the golden sets that the manifest names.

    External data is none of those: a bundle whose weights lie in a golden set is not accepted.
    """
    models = [model for model in _rows(manifest.get("models")) if isinstance(model, dict)]
    named = {str(model.get("file")) for model in models}
    patterns = {
        tuple(pattern.split("/"))
        for model in models
        for row in _rows(model.get("vectors"))
        for pattern in (_rows(row.get("sets")) if isinstance(row, dict) else [])
        if isinstance(pattern, str)
    }

    def golden(parts: Sequence[str]) -> bool:
        return any(
            len(one) <= len(parts) and all(fnmatchcase(part, want) for part, want in zip(parts, one, strict=False))
            for one in patterns
        )

    return lambda file: file.path in named or not golden(file.path.split("/"))


def _rows(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def kept_content(stream: FileIO, file: File) -> tuple[Content, str]:
    """Return the bytes of an open file whose size was measured, and their SHA-256 in hex.

    Never more than ``file.size`` bytes are read; one that became shorter gives another digest. Raises OSError.
    """
    if file.size < _SMALL:
        small = stream.read(file.size) or b""  # at once, as a rule
        while len(small) < file.size and (part := stream.read(file.size - len(small))):
            small += part
        return small, hashlib.sha256(small).hexdigest()
    content = mmap.mmap(-1, file.size, flags=_PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        content.madvise(mmap.MADV_HUGEPAGE)  # a fault for each 2 MiB, not for each 4 KiB
    state = hashlib.sha256()
    at = 0
    with memoryview(content) as view:
        while at < file.size and (count := stream.readinto(view[at : min(at + _STEP, file.size)])):
            state.update(view[at : at + count])  # releases the GIL
            at += count
    return content, state.hexdigest()
