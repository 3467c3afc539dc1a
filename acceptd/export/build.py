"""Builds one number's directory in the staging area: real copies, hashed while they are copied, and the proofs."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acceptd.errors import DigestMismatchError, ExportError, StateError
from acceptd.export.document import EXPORT_FILE, EXPORT_TYPE, PROOFS, RELEASE_FILE, Beside, Copied, ExportDocument
from acceptd.export.plan import Unit
from acceptd.export.settings import Kind
from acceptd.intake.copying import Copier
from acceptd.intake.files import (
    create_exclusive,
    fsync_dir,
    open_beneath,
    open_directory,
    opened,
    remove_tree,
    temporary_name,
    write_exclusive,
)
from acceptd.record.failpoint import failpoint
from acceptd.release import objects, trust
from acceptd.release.channel import stamp
from acceptd.release.layout import release_path
from acceptd.release.signers import ReleaseKeys, seal_document


@dataclass(frozen=True, slots=True)
class Source:
    """The release to be exported, as it lies below the state directory."""

    state: Path
    keys: ReleaseKeys
    release: trust.ReleaseFacts
    release_digest: str
    least_revocations: int
    now: float


def document(kind: Kind, unit: Unit, source: Source) -> ExportDocument:
    """Return what ``export.json`` says of a unit."""
    release = source.release
    return ExportDocument(
        kind=kind,
        place=unit.place,
        model_id=release.model_id,
        channel=release.channel,
        number=release.number,
        model=unit.model,
        bundle_digest=release.bundle_digest,
        release_digest=source.release_digest,
        files=[
            Copied(path=path, source=file.path, sha256=file.sha256, size=file.size) for path, file in unit.files
        ],
        config=None if unit.config is None else Beside(sha256=trust.sha256(unit.config), size=len(unit.config)),
        least_revocations=source.least_revocations,
        exported_at=stamp(source.now),
    )


def build(staging: Path, said: ExportDocument, unit: Unit, source: Source) -> str:
    """Make the number's directory below ``staging``, durably; return its temporary name.

    Raises ExportError where the place cannot take it, LoaderError where the store does not hold what was promoted.
    What was begun is removed then.
    """
    name = temporary_name()
    try:
        os.mkdir(staging / name, 0o755)
        (staging / name).chmod(0o755)
        with opened(staging / name) as target:
            _copy(target, unit, source)
            failpoint("export.build.copied")
            _proofs(staging / name, said, source)
        fsync_dir(staging)
        failpoint("export.build.staged")
    except BaseException as error:
        remove_tree(staging, name)
        if isinstance(error, OSError):
            problem = f"{staging}: {error.strerror}: {error.filename or ''}".rstrip(": ")
            raise ExportError(problem, remedy="make room, or mend the directory") from error
        if isinstance(error, StateError):
            raise ExportError(f"{staging}: {error.message}", remedy="make room there") from error
        raise
    return name


def _copy(target: int, unit: Unit, source: Source) -> None:
    folders = sorted({path[:cut] for path, _ in unit.files for cut in range(len(path)) if path[cut] == "/"})
    for folder in folders:
        os.mkdir(folder, 0o755, dir_fd=target)
        os.chmod(folder, 0o755, dir_fd=target)  # noqa: S103 - consumers read it
    root, copier = objects.open_root(source.state), Copier()
    try:
        for path, file in unit.files:
            _copy_file(root, target, path, file, source.release.bundle_digest, copier)
        copier.flush()
    finally:
        copier.close()
        os.close(root)
    for folder in reversed(folders):
        with _inside(target, folder) as fd:
            os.fsync(fd)


@contextlib.contextmanager
def _inside(target: int, folder: str) -> Iterator[int]:
    """Give a descriptor of ``folder`` below ``target``; of the target itself where it is empty."""
    fd = open_directory(target, folder or None)
    try:
        yield fd
    finally:
        os.close(fd)


def _copy_file(root: int, target: int, path: str, file: trust.File, digest: str, copier: Copier) -> None:
    what = f"the store's {file.path[:200]!r} of {digest}"
    try:
        source = open_beneath(root, objects.object_path(digest, file.path), os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise DigestMismatchError(f"{what}: {error.strerror}") from error
    try:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_size != file.size:
            raise DigestMismatchError(f"{what} is not the file that was promoted")
        folder, _, name = path.rpartition("/")
        with _inside(target, folder) as place:
            copy = create_exclusive(place, name, 0o444)
        copied = copier.copy(source, copy, file.size)
    finally:
        os.close(source)
    if (copied.sha256, copied.size) != (file.sha256, file.size):
        raise DigestMismatchError(f"{what} is not the file that was promoted")


def _proofs(folder: Path, said: ExportDocument, source: Source) -> None:
    release = source.release
    place = f"{release_path(release.model_id, release.channel, release.number)}/{RELEASE_FILE}"
    root = objects.open_root(source.state)
    try:
        data = objects.read_small(root, place, trust.MAX_RELEASE_BYTES)
    finally:
        os.close(root)
    if trust.sha256(data) != source.release_digest:
        raise DigestMismatchError(f"{place} is not the one that was promoted")
    proofs = folder / PROOFS
    proofs.mkdir(mode=0o755)
    proofs.chmod(0o755)
    write_exclusive(proofs, RELEASE_FILE, data, 0o444)
    keys = source.keys
    write_exclusive(proofs, EXPORT_FILE, seal_document(said, EXPORT_TYPE, keys.release, *keys.beside), 0o444)
    fsync_dir(folder)
