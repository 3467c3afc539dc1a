"""External data files: every byte belongs to a tensor of some model, or something else lies there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from acceptd.evidence import Facts, Sealed
from acceptd.judge.finding import Finding
from acceptd.judge.structure import resolve
from acceptd.judge.words import make
from acceptd.policy.manifest import Manifest

MAX_GAP: Final = 64 << 10
"""Writers align a tensor's beginning to a page, at most to the 64 KiB that mapping a file needs on Windows."""
MAX_TAIL: Final = 4 << 10
"""Behind the last tensor nothing is to be aligned but the file itself."""


def uncovered(manifest: Manifest, facts: Mapping[str, Facts], sealed: Sealed) -> Iterator[Finding]:
    """Yield the external data files with bytes that no tensor of any model covers, beyond alignment.

    ``facts`` maps model names; where one is missing, or lists only some of its records, what is covered
    is not known, and other findings decide.
    """
    sizes = {file.path: file.size for file in sealed.files}
    ranges: dict[str, list[tuple[int, int]]] = {}
    for model in manifest.models:
        one = facts.get(model.name)
        if one is None or one.external_count > len(one.external):
            return
        for record in one.external:
            path = resolve(model.file, record.location)
            if path is not None and path in sizes:
                start = record.offset or 0
                stop = sizes[path] if record.length is None else start + record.length
                ranges.setdefault(path, []).append((start, stop))
    for path, covered in sorted(ranges.items()):
        reached = 0
        for start, stop in sorted(covered):
            if start - reached >= MAX_GAP:
                yield _finding(path, reached, start)
            reached = max(reached, stop)
        if sizes[path] - reached > MAX_TAIL:
            yield _finding(path, reached, sizes[path])


def _finding(path: str, start: int, stop: int) -> Finding:
    message = f"{stop - start} bytes belong to no tensor"
    where = f"{path}: bytes {start} to {stop}"
    return make("external-data/uncovered", "inspect", where, message, {"start": start, "bytes": stop - start})
