"""Judging without a daemon (``acceptd check``): a private, throw-away place, one warm cell, no ledger."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acceptd.acceptance import ANY_TEAM, Acceptance, Drop, Kind
from acceptd.errors import AcceptdError, UsageError
from acceptd.intake import files
from acceptd.rules import Rules
from acceptd.tools import Tools
from acceptd.verdicts import report_of

_SUFFIXES: tuple[tuple[str, Kind], ...] = ((".tar.gz", "tar.gz"), (".zip", "zip"), (".tar", "tar"))
CASE_MARKS = ("bundle.toml", "model.onnx")


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that a local check needs."""

    rules: Rules
    tools: Tools
    interrupted: threading.Event = field(default_factory=threading.Event)
    """Set when the user has enough: running jobs are killed, nothing more is started."""


@contextmanager
def bench(rules: Rules, *, cores: int, suite: bool) -> Iterator[Bench]:
    """Yield a place to judge in; it is removed at the end. An exception kills the jobs that still run."""
    with tempfile.TemporaryDirectory(prefix="acceptd-check-") as name:
        home = Path(name)
        sealed, temporary = home / "sealed", home / "tmp"
        sealed.mkdir(mode=0o755)
        temporary.mkdir(mode=0o700)
        with Tools.open(sealed, temporary, cores=cores, spare=suite) as tools:
            place = Bench(rules, tools)
            try:
                yield place
            except BaseException:
                place.interrupted.set()
                raise


def kind_of(path: Path) -> Kind:
    """Return how ``path`` is to be read; raise UsageError for what is no bundle."""
    if path.is_dir():
        return "directory"
    for suffix, kind in _SUFFIXES:
        if path.name.endswith(suffix) and path.is_file():
            return kind
    raise UsageError(
        f"{path} is neither a directory nor a .zip, .tar or .tar.gz file",
        remedy="give the directory that holds bundle.toml; docs/bundle.md shows how to write one",
    )


def check_one(
    place: Bench, path: Path, *, team: str = ANY_TEAM, progress: Callable[[str], None] = lambda _stage: None
) -> dict[str, Any]:
    """Judge the bundle at ``path``; return the report. Raises UsageError when there is nothing to judge."""
    kind = kind_of(path)
    source = path.resolve()  # whoever typed the path may name it through a link; inside the bundle none counts
    drop = Drop(id=f"check-{secrets.token_hex(6)}", team=team, name=source.name, source=source, kind=kind)
    cancelled = place.interrupted.is_set
    try:
        outcome = Acceptance(drop, place.rules, place.tools, progress=progress, cancelled=cancelled).run()
        return report_of(place.rules, outcome)
    finally:
        files.remove_tree(place.tools.sealed, drop.id)


def find_cases(root: Path) -> list[Path]:
    """Return every directory at or below ``root`` that holds a bundle, sorted; does not look inside one."""
    found = []
    for directory, folders, names in os.walk(root):
        folders.sort()
        if any(mark in names for mark in CASE_MARKS):
            found.append(Path(directory))
            folders.clear()
    return found


def check_many(
    place: Bench, cases: list[Path], *, workers: int, done: Callable[[Path, dict[str, Any]], None]
) -> None:
    """Judge ``cases`` side by side; ``done`` is called from this thread as each ends, in that order."""
    with ThreadPoolExecutor(workers, thread_name_prefix="check") as pool:
        futures = {pool.submit(_guarded, place, path): path for path in cases}
        try:
            for future in as_completed(futures):
                done(futures[future], future.result())
        except BaseException:
            place.interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _guarded(place: Bench, path: Path) -> dict[str, Any]:
    try:
        return check_one(place, path)
    except Exception as error:  # noqa: BLE001 - one broken case must not end the suite
        reason = (
            str(error) if isinstance(error, AcceptdError) else f"internal error: {type(error).__name__}: {error}"
        )
        return {"verdict": "inconclusive", "reason": reason, "findings": [], "error": reason}


def free_space(path: Path) -> int:
    """Return the bytes that an ordinary user may still write at ``path``."""
    return shutil.disk_usage(path).free
