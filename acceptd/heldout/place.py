"""Where held-out vectors lie, who may touch them, and how they are lent to one job.

``heldout/<team>/<model>/<sha256>/…`` below the state directory. The directory is named by its digest, so that
one version never changes under a contract that names it. Nothing here decodes a value.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acceptd.cell.blobs import Blob
from acceptd.errors import ConfigError, UsageError
from acceptd.intake.files import write_all
from acceptd.judge.inventory import SetFiles, is_output, named_sets
from acceptd.policy.contract import Contract
from acceptd.policy.names import valid_model_id
from acceptd.policy.trusted import check_owner
from acceptd.record.canonical import digest

SALT: Final = "salt"
"""A file of random bytes beside the sets, so that a contract's digest confirms no guess at a value."""
MAX_FILES: Final = 10_000
MAX_BYTES: Final = 4 << 30
MAX_DEPTH: Final = 8
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """Held-out sets ready to be lent: who owns which set, and where each file lies in the one blob.

    ``index``: path to (offset, bytes). Sets go by neutral names; ``names`` gives their own back.
    """

    sets: tuple[SetFiles, ...]
    index: dict[str, tuple[int, int]]
    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """One version that was put in place: its digest, its sets, files and bytes."""

    digest: str
    sets: tuple[str, ...]
    files: int
    bytes: int
    place: Path


def add(home: Path, model_id: str, source: Path) -> Kept:
    """Copy the sets below ``source`` into ``home`` (0700), hashing each byte on the way; return what is kept.

    Raises:
        UsageError: no model id, nothing there, a link or special file, too much, or a set that expects nothing.
        ConfigError: ``home`` or what is below belongs to a stranger, or others can write there.
    """
    try:
        team, _, name = valid_model_id(model_id).partition("/")
    except ValueError as error:
        raise UsageError(str(error), remedy="give <team>/<model>, as the contract's id") from error
    paths = _listed(source)
    found = _complete(named_sets("", _tops(paths), paths), source)
    used = {path.partition("/")[0] for one in found for path in (*one.files, one.inputs, one.outputs) if path}
    if unused := sorted(set(_tops(paths)) - used - {SALT}):
        message = f"{source}: {unused[0]} is no whole set, with inputs and expected outputs"
        raise UsageError(message, remedy="complete it, or take it away")
    sets = tuple(dict.fromkeys(one.name for one in found))
    place = home
    for part in ("", team, name):
        place = place / part
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        _private(place)
    temporary = place / f".tmp-{secrets.token_hex(8)}"
    temporary.mkdir(mode=0o700)
    try:
        rows = [_written(temporary, SALT, [secrets.token_bytes(32)])]
        rows += [_copied(source / path, temporary, path) for path in paths]
        sha256 = _digest(rows)
        target = place / sha256
        os.rename(temporary, target)
    except BaseException:
        _remove(temporary)
        raise
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return Kept(sha256, sets, len(paths), sum(size for _, _, size in rows[1:]), target)


def pack(home: Path, contract: Contract, blob: Blob) -> Packed:
    """Copy the files that a contract names into ``blob``, and prove them by the digests in it.

    What is lent afterwards is the blob alone: the bytes that were hashed, whatever becomes of the files.

    Raises ConfigError: a place is missing, another's or writable by others, a file is none, a digest is
    another, or a pattern names no whole set.
    """
    team, _, name = contract.id.partition("/")
    writer = blob.writer()
    index: dict[str, tuple[int, int]] = {}
    sets: list[SetFiles] = []
    at = 0
    try:
        for place in (home, home / team, home / team / name):
            _private(place)
        for model in contract.models:
            for spec in model.heldout:
                folder = home / team / name / spec.sha256
                _private(folder)
                prefix = f"{len(sets)}-{spec.sha256[:8]}"
                rows = []
                for path in _files(folder):
                    sha256, size = _appended(folder / path, writer)
                    rows.append((path, sha256, size))
                    index[f"{prefix}/{path}"] = (at, size)
                    at += size
                    if at > MAX_BYTES:
                        raise ConfigError(f"{folder}: more than {MAX_BYTES} bytes", remedy="name fewer sets")
                if _digest(rows) != spec.sha256:
                    raise ConfigError(
                        f"{folder}: is not what its digest says",
                        remedy="put the sets there again",
                    )
                present = [path for path, _, _ in rows if path != SALT]
                for pattern in spec.sets:
                    found = _complete(named_sets(model.name, [pattern], present), folder, pattern)
                    sets += [_below(one, prefix) for one in found]
    finally:
        os.close(writer)
    neutral = [_renamed(one, f"heldout-{number}") for number, one in enumerate(sets)]
    return Packed(tuple(neutral), index, {new.name: old.name for new, old in zip(neutral, sets, strict=True)})


def versions(home: Path, model_id: str) -> list[str]:
    """Return the digests of all versions kept for a model, sorted."""
    team, _, name = valid_model_id(model_id).partition("/")
    with contextlib.suppress(FileNotFoundError):
        return sorted(item.name for item in (home / team / name).iterdir() if not item.name.startswith("."))
    return []


def _below(one: SetFiles, prefix: str) -> SetFiles:
    def at(path: str) -> str:
        return f"{prefix}/{path}" if path else ""

    return SetFiles(one.model, one.name, one.format, tuple(map(at, one.files)), at(one.inputs), at(one.outputs))


def _renamed(one: SetFiles, name: str) -> SetFiles:
    return SetFiles(one.model, name, one.format, one.files, one.inputs, one.outputs)


def _tops(paths: Sequence[str]) -> list[str]:
    return sorted({path.partition("/")[0] for path in paths})


def _complete(sets: Sequence[SetFiles], place: Path, pattern: str = "") -> list[SetFiles]:
    """Return the sets; raise UsageError or ConfigError where there is none, or one expects nothing."""
    kind = ConfigError if pattern else UsageError
    if not sets:
        raise kind(
            f"{place}: no held-out set {pattern}".rstrip(),
            remedy="a set is a directory of input_N.pb and output_N.pb, or of inputs.npz and outputs.npz",
        )
    for one in sets:
        expects = any(is_output(path) for path in one.files) if one.format == "onnx" else bool(one.outputs)
        if not expects:
            raise kind(f"{place}: {one.name} has no expected output", remedy="held-out sets need output_N.pb")
    return list(sets)


def _private(place: Path) -> None:
    """Raise ConfigError unless ``place`` is a directory of ours that its group and others cannot write to."""
    try:
        status = os.lstat(place)
    except OSError as error:
        raise ConfigError(
            f"{place}: {error.strerror}", remedy="acceptd policy heldout add puts sets there"
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{place}: not a directory", remedy="held-out sets lie in real directories")
    check_owner(place, status)


def _listed(source: Path) -> list[str]:
    """Return what is below a directory that the operator names. Raises UsageError."""
    if not source.is_dir():
        raise UsageError(f"{source}: not a directory", remedy="name the directory that holds the sets")
    try:
        return _files(source, trusted=False)
    except ConfigError as error:
        raise UsageError(error.message, remedy=error.remedy) from error


def _files(folder: Path, *, trusted: bool = True) -> list[str]:
    """Return the paths of all files below ``folder``, in order. Raises ConfigError for anything else there."""
    found: list[str] = []
    waiting = [(folder, "", 0)]
    while waiting:
        place, prefix, depth = waiting.pop()
        with os.scandir(place) as entries:
            items = list(entries)
        for item in items:
            path, status = f"{prefix}{item.name}", item.stat(follow_symlinks=False)
            if trusted:
                check_owner(Path(item.path), status)
            if os.fsencode(item.name).decode("utf-8", "ignore") != item.name:
                raise ConfigError(f"{place}: a name that is not UTF-8", remedy="rename the file")
            if stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                waiting.append((Path(item.path), f"{path}/", depth + 1))
            elif stat.S_ISREG(status.st_mode) and len(found) < MAX_FILES:
                found.append(path)
            else:
                message = f"{item.path}: neither a regular file nor a directory, or too many or too deep"
                raise ConfigError(message, remedy="keep the sets' own files there and nothing else")
    return sorted(found, key=os.fsencode)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="make it a readable regular file") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path}: not a regular file", remedy="held-out sets are regular files")
        yield descriptor
    finally:
        os.close(descriptor)


def _pieces(descriptor: int) -> Iterator[bytes]:
    total = 0
    while piece := os.read(descriptor, _PIECE):
        total += len(piece)
        if total > MAX_BYTES:
            raise ConfigError(f"a held-out file of more than {MAX_BYTES} bytes", remedy="split the set")
        yield piece


def _appended(path: Path, writer: int) -> tuple[str, int]:
    """Append one file of ours to the blob; return its SHA-256 and size."""
    with _opened(path) as descriptor:
        check_owner(path, os.fstat(descriptor))
        return _hashed(_pieces(descriptor), writer)


def _hashed(pieces: Iterator[bytes], writer: int) -> tuple[str, int]:
    sha256, size = hashlib.sha256(), 0
    for piece in pieces:
        sha256.update(piece)
        write_all(writer, piece)
        size += len(piece)
    return sha256.hexdigest(), size


def _copied(path: Path, target: Path, name: str) -> tuple[str, str, int]:
    if name == SALT:
        raise UsageError(f"{path}: the name is taken", remedy="rename it; acceptd puts random bytes there")
    with _opened(path) as descriptor:
        return _written(target, name, _pieces(descriptor))


def _written(target: Path, name: str, pieces: Sequence[bytes] | Iterator[bytes]) -> tuple[str, str, int]:
    place = target / name
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    writer = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    try:
        sha256, size = _hashed(iter(pieces), writer)
        os.fsync(writer)
    finally:
        os.close(writer)
    return name, sha256, size


def _digest(rows: Sequence[tuple[str, str, int]]) -> str:
    """Return the SHA-256 of the canonical array of {path, sha256, size}, paths in byte order: as a bundle's."""
    ordered = sorted(rows, key=lambda row: os.fsencode(row[0]))
    return digest([{"path": path, "sha256": sha256, "size": size} for path, sha256, size in ordered])


def _remove(folder: Path) -> None:
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.unlink(os.path.join(place, name))
        os.rmdir(place)
