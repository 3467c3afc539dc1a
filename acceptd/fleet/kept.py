"""Outputs that a comparison read, on their way from a worker to who keeps them: as blobs of the object store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from acceptd.errors import LedgerError, ObjectStoreError
from acceptd.evidence import KeptFile, Submission
from acceptd.intake.files import replace_file
from acceptd.kept import KeptOutputs
from acceptd.objectstore.objects import Objects

log = structlog.get_logger("acceptd.fleet")
_CHUNK: Final = 1 << 20


@dataclass(slots=True)
class Uploading:
    """Keeps as :class:`~acceptd.kept.KeptOutputs` does, for as long as it takes to upload."""

    here: KeptOutputs
    objects: Objects
    _files: dict[str, KeptFile] = field(default_factory=dict)

    def keep(self, files: Mapping[str, int], most: int) -> dict[str, KeptFile]:
        """Keep what lies behind the descriptors, or nothing."""
        found = self.here.keep(files, most)
        self._files |= {file.sha256: file for file in found.values()}
        return found

    def upload(self) -> None:
        """Write the files to the object store, and keep them here no longer. Raises ObjectStoreError."""
        for file in self._files.values():
            if (descriptor := self.here.open(file)) is None:
                continue  # what is missing costs a replay, never a verdict
            try:
                self.objects.put_blob(_read(descriptor, file.size), "outputs")
            finally:
                os.close(descriptor)
            self.here.forget(file)


def named(submission: Submission) -> list[KeptFile]:
    """Return the files that evidence names, each once."""
    held = submission.heldout
    sources: Iterable[Mapping[str, KeptFile]] = [
        submission.kept,
        *(one.kept for one in submission.others),
        *([held.kept, *(one.kept for one in held.further)] if held is not None else []),
    ]
    return list({file.sha256: file for source in sources for file in source.values()}.values())


def fetch(objects: Objects, directory: Path, files: Iterable[KeptFile], most: int) -> None:
    """Bring files to ``directory``, up to ``most`` bytes. One that is missing costs a replay, never a verdict."""
    for file in files:
        most -= file.size
        if most < 0:
            log.warning("outputs not kept: more than the policy keeps", bytes=file.size)
            return
        if os.path.lexists(directory / file.sha256):
            continue
        try:
            data = objects.get_blob(file.sha256, file.size, "outputs")
            with contextlib.suppress(FileExistsError):
                directory.mkdir(mode=0o700)
            replace_file(directory, file.sha256, data, 0o600)
        except (ObjectStoreError, OSError) as error:
            log.warning("outputs not kept", sha256=file.sha256, reason=str(error)[:200])


def _read(descriptor: int, size: int) -> bytes:
    parts, offset = [], 0
    while part := os.pread(descriptor, _CHUNK, offset):
        parts.append(part)
        offset += len(part)
    if offset != size:
        raise LedgerError("kept outputs changed while they were read")
    return b"".join(parts)
