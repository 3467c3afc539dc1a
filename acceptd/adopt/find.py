"""Which models lie below a directory, by names alone: nothing is opened, no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from acceptd.errors import UsageError
from acceptd.intake.paths import shown
from acceptd.judge.infer import sanitise, unique

MANIFEST: Final = "bundle.toml"
SUFFIX: Final = ".onnx"
MAX_DEPTH: Final = 32
MAX_ENTRIES: Final = 1_000_000
_PLAIN: Final = frozenset({"model", "main", "onnx", "network", "net"})
"""What everybody calls a file names nothing: then its directory does."""
Kind = Literal["bundle", "model", "skipped"]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing to adopt, by its path below the root; ``why`` says why it is skipped."""

    path: str
    kind: Kind
    why: str = ""


def find(root: Path, leave_out: Collection[Path] = ()) -> list[Found]:
    """Return bundles, models and what is skipped, in the order of their paths.

    A directory with a ``bundle.toml`` is one bundle. Every other ``.onnx`` file is a model of its own. Hidden
    directories are not looked into, nor those of ``leave_out``. Raises UsageError where there is too much.
    """
    found: list[Found] = []
    for entries, one in enumerate(_walk(root, "", {path.resolve() for path in leave_out})):
        if entries >= MAX_ENTRIES:
            raise UsageError(
                f"more than {MAX_ENTRIES} entries below {shown(str(root))}", remedy="adopt a part of it at a time"
            )
        if one is not None:
            found.append(one)
    return sorted(found, key=lambda one: os.fsencode(one.path))


def _walk(root: Path, head: str, leave_out: Collection[Path]) -> Iterator[Found | None]:
    """Yield what is found, and None for every other entry."""
    try:
        with os.scandir(root / head) as scanned:
            entries = list(scanned)
    except OSError as error:
        yield Found(head.rstrip("/"), "skipped", f"cannot be read: {error.strerror}")
        return
    if head and any(one.name == MANIFEST and one.is_file(follow_symlinks=False) for one in entries):
        yield Found(head.rstrip("/"), "bundle")
        return
    for entry in entries:
        path = f"{head}{entry.name}"
        folder = entry.is_dir(follow_symlinks=False)
        if (folder or entry.name.lower().endswith(SUFFIX)) and not _is_text(entry.name):
            yield Found(shown(path), "skipped", "its name is no UTF-8: rename it")
        elif folder:
            if entry.name.startswith(".") or (root / path).resolve() in leave_out:
                yield None
            elif path.count("/") >= MAX_DEPTH:
                yield Found(path, "skipped", f"nested more than {MAX_DEPTH} deep")
            else:
                yield None
                yield from _walk(root, f"{path}/", leave_out)
        elif entry.name.lower().endswith(SUFFIX):
            yield _model(path, entry)
        else:
            yield None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _model(path: str, entry: os.DirEntry[str]) -> Found:
    if entry.is_symlink():
        return Found(path, "skipped", "a link: no link is followed")
    if not stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
        return Found(path, "skipped", "no regular file")
    return Found(path, "model")


def names(found: Collection[Found], known: Mapping[str, str]) -> dict[str, str]:
    """Return by path a distinct name of acceptd's grammar for each model and bundle.

    ``known`` are the names that a run before gave, by path; they stay.
    """
    kept = {one.path: known[one.path] for one in found if one.path in known}
    taken = set(known.values())
    for one in found:
        if one.path not in kept and one.kind != "skipped":
            kept[one.path] = unique(_resembling(one), taken)
            taken.add(kept[one.path])
    return kept


def _resembling(one: Found) -> str:
    path = PurePosixPath(one.path)
    stem = path.name[: -len(SUFFIX)] if one.kind == "model" else path.name
    if sanitise(stem, "model") in _PLAIN and path.parent.name:
        stem = path.parent.name if one.kind == "model" else f"{path.parent.name}-{stem}"
    return sanitise(stem, "model")
