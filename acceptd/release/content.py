"""Bytes that are read once, hashed, and kept: what a loader in ``mode="memory"`` gives to the runtime.

A file is read into memory that nobody else can reach, and hashed there: a later write to the file changes neither
what was hashed nor what is loaded. Standard library and our own threads only, and what this mode alone needs is
imported once it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from typing import Any, Final

from acceptd.release.trust import File

Content = bytes | memoryview
"""A small file as bytes; a large one as an anonymous mapping, in a view that refuses to be written."""
_SMALL: Final = 64 << 20
"""Below this, bytes: a model is handed to onnxruntime as such, and a mapping would have to be copied for that."""
_STEP: Final = 1 << 20
"""Read and hashed in steps that stay in the processor's cache."""


class Keep:
    """Which files are to be kept, and those that were."""

    def __init__(self, wanted: Callable[[File], bool]) -> None:
        self._wanted = wanted
        self.found: dict[str, Content] = {}

    def wants(self, file: File) -> bool:
        """Return whether the bytes of ``file`` are to be kept."""
        return self._wanted(file)

    def take(self, file: File, content: Content) -> None:
        """Keep the bytes of ``file``, which have its digest."""
        self.found[file.path] = content


def but_vectors(manifest: Mapping[str, Any]) -> Callable[[File], bool]:
    """Return which files production needs in memory: all but the golden sets that the manifest names.

    External data is none of those: a bundle whose weights lie in a golden set is not accepted.
    """
    from fnmatch import fnmatchcase

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
    import mmap

    # No huge pages: where a host takes free ones back from its guests each of them is slow to get (decision 0086).
    content = memoryview(mmap.mmap(-1, file.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    return content.toreadonly(), _filled(stream, content)


def _filled(stream: FileIO, content: memoryview) -> str:
    """Fill ``content`` from a file as far as that goes; return the SHA-256 of what came, in hex. Raises OSError.

    A second thread hashes what is there already: neither reading, page by page new memory, nor hashing waits for
    the other.
    """
    from queue import SimpleQueue

    from acceptd.errors import NoThreadError
    from acceptd.threads import Thread

    state = hashlib.sha256()
    parts: SimpleQueue[memoryview | None] = SimpleQueue()

    def hashing() -> None:
        while (part := parts.get()) is not None:
            state.update(part)  # releases the GIL

    beside, at = Thread(hashing, name="hash-beside-reading"), 0
    with contextlib.suppress(NoThreadError):  # hashed when all is read
        beside.start()
    try:
        while at < len(content) and (count := stream.readinto(content[at : at + _STEP])):
            parts.put(content[at : at + count])
            at += count
    finally:
        parts.put(None)
        beside.join() if beside.ident else hashing()
    return state.hexdigest()
