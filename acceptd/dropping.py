"""Puts a bundle into an inbox, whole and at once, and looks for what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from acceptd.errors import UsageError

STEM_BYTES: Final = 200
"""So much of a name is kept, for the rest of it to fit into a file system's 255 bytes."""
POLL_SECONDS: Final = 0.05
"""A submitter has no socket to the daemon, only the outbox: looking there is the interface."""


def unique(name: str, kind: str) -> str:
    """Return a name that nobody has yet, at the end before the suffix, so that no ``.part`` makes it wait."""
    suffix = "" if kind == "directory" else f".{kind}"
    stem = os.fsencode(name.removesuffix(suffix))[:STEM_BYTES].decode("utf-8", "ignore").lstrip(".")
    return f"{stem}-{secrets.token_hex(4)}{suffix}"


def drop(source: Path, inbox: Path, name: str, *, directory: bool) -> None:
    """Copy beside, then rename: the drop appears whole, and needs no settling time."""
    hidden = inbox / f".{name}.part"
    try:
        if directory:
            shutil.copytree(source, hidden, symlinks=True)
        else:
            shutil.copyfile(source, hidden)
        os.rename(hidden, inbox / name)
    except BaseException as error:
        with contextlib.suppress(OSError):
            shutil.rmtree(hidden) if hidden.is_dir() else hidden.unlink()
        if isinstance(error, shutil.Error):  # one line for the first of what may be a long list
            place, _, reason = error.args[0][0]
            raise UsageError(
                f"{place} cannot be copied: {reason}", remedy="a bundle holds readable regular files"
            ) from error
        raise


def find(outbox: Path, name: str, known: set[str]) -> dict[str, Any] | None:
    """Return the verdict on the drop ``name``, None where there is none; ``known`` ones are not read again."""
    return next((report for report in verdicts(outbox, known) if report.get("drop") == name), None)


def verdicts(outbox: Path, known: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the verdicts in a team's outbox that are not ``known``, which they are from then on."""
    with contextlib.suppress(FileNotFoundError), os.scandir(outbox) as items:
        for item in items:
            if item.name in known or item.name.startswith("."):
                continue
            verdict = Path(item.path) / "verdict.json"
            if verdict.is_file():
                known.add(item.name)
                report: dict[str, Any] = json.loads(verdict.read_bytes())
                yield report
