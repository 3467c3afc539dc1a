"""Judging without a daemon (``acceptd check``): a private, throw-away place, one warm cell, no ledger."""

from __future__ import annotations

import os
import queue
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from acceptd.acceptance import ANY_TEAM, BUNDLE, Acceptance, Drop, Kind, Outcome
from acceptd.cell.place import temporary_place
from acceptd.errors import AcceptdError, InternalError, UsageError
from acceptd.evidence import Prior
from acceptd.intake import files
from acceptd.judge.successor import as_prior
from acceptd.ordering import Shelf
from acceptd.prior import NO_LEDGER, same_or
from acceptd.rules import Rules
from acceptd.tools import Tools
from acceptd.verdicts import brief_of, report_of
from acceptd.work.admission import Admission
from acceptd.work.budget import Share
from acceptd.work.need import need
from acceptd.work.rotation import Task
from acceptd.work.workers import Hold, Workers

_SUFFIXES: tuple[tuple[str, Kind], ...] = ((".tar.gz", "tar.gz"), (".zip", "zip"), (".tar", "tar"))
CASE_MARKS = ("bundle.toml", "model.onnx")


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that a local check needs. ``workers`` bound what runs at once, as a daemon's do."""

    rules: Rules
    tools: Tools
    workers: Workers
    share: Share


@contextmanager
def bench(rules: Rules, *, cores: int, suite: bool, workers: int = 0) -> Iterator[Bench]:
    """Yield a place to judge in; it is removed at the end. An exception kills the jobs that still run.

    ``workers`` bundles are judged side by side at most; 0: one for each core. Whoever checks is alone
    with the machine: what all bundles need is no bound here, all the memory that there is bounds what further jobs
    run beside a bundle's first, and a profile with more threads than cores runs all the same.
    """
    share = need(rules)
    widest = max(cores, share.cores)
    memory = max(widest * share.memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    admission = Admission(Share(widest, memory), limit=sys.maxsize)
    with temporary_place("acceptd-check-") as home:
        sealed, temporary = home / "sealed", home / "tmp"
        sealed.mkdir(mode=0o755)
        temporary.mkdir(mode=0o700)
        lanes = workers or cores
        with Tools.open(
            sealed, temporary, spare=suite, lanes=lanes, durable=False, one_cell=suite, compare_later=not suite
        ) as tools:
            for target in rules.targets:
                tools.cell.prepare(target.profile)
            pool = Workers(lanes, admission, on_error=_broken)
            pool.start()
            try:
                yield Bench(rules, tools, pool, share)
            except BaseException:
                pool.drain()
                pool.cancel("interrupted")
                raise
            finally:
                pool.stop()


def _broken(task: Task, error: BaseException) -> None:
    """Unreachable: every task here catches what its bundle raises."""
    raise InternalError(f"{task.id}: {error}") from error


def kind_of(path: Path) -> Kind:
    """Return how ``path`` is to be read; raise UsageError for what is no bundle."""
    if path.is_dir():
        return "directory"
    for suffix, kind in _SUFFIXES:
        if path.name.endswith(suffix) and path.is_file():
            return kind
    raise UsageError(
        f"{path} is neither a directory nor a .zip, .tar or .tar.gz file",
        remedy="give the directory that holds bundle.toml; `acceptd bundle init MODEL.onnx` writes a first one",
    )


def check_one(
    place: Bench,
    path: Path,
    *,
    team: str = ANY_TEAM,
    progress: Callable[[str], None] = lambda _stage: None,
    against: Path | None = None,
) -> dict[str, Any]:
    """Judge the bundle at ``path``; return the report. Raises UsageError when there is nothing to judge.

    ``against`` is a bundle that is judged the same way first, and that this one is compared with in place of
    a release.
    """
    ended: queue.SimpleQueue[tuple[dict[str, Any] | None, BaseException | None]] = queue.SimpleQueue()
    _offer(place, path, team, progress, lambda report, error: ended.put((report, error)), against)
    report, error = ended.get()
    if error is not None:
        raise error
    assert report is not None
    return report


def examine_one(place: Bench, path: Path, *, progress: Callable[[str], None] = lambda _stage: None) -> Outcome:
    """Judge the bundle at ``path`` and return all that came of it. Raises UsageError where there is nothing."""
    ended: queue.SimpleQueue[tuple[Outcome | None, BaseException | None]] = queue.SimpleQueue()

    def keep(_rules: Rules, outcome: Outcome) -> dict[str, Any]:
        ended.put((outcome, None))
        return {}

    def done(_report: dict[str, Any] | None, error: BaseException | None) -> None:
        if error is not None:
            ended.put((None, error))

    _offer(place, path, ANY_TEAM, progress, done, report_as=keep)
    outcome, error = ended.get()
    if error is not None:
        raise error
    assert outcome is not None
    return outcome


Report = Callable[[Rules, Outcome], dict[str, Any]]
Done = Callable[[dict[str, Any] | None, BaseException | None], None]


def _offer(
    place: Bench,
    path: Path,
    team: str,
    progress: Callable[[str], None],
    done: Done,
    against: Path | None = None,
    report_as: Report = report_of,
) -> None:
    """Queue one bundle; ``done`` is called from a worker with the report, or what went wrong."""
    name = f"check-{secrets.token_hex(6)}"

    def run(hold: Hold) -> None:
        try:
            report = report_as(place.rules, _compared(place, path, name, team, progress, hold, against))
        except BaseException as error:  # noqa: BLE001 - it comes out where the report is waited for
            done(None, error)
        else:
            done(report, None)

    task = Task(name, team, place.rules.profile.name, place.share, float("inf"), run=run)
    place.workers.offer(task)


def _compared(
    place: Bench,
    path: Path,
    name: str,
    team: str,
    progress: Callable[[str], None],
    hold: Hold,
    against: Path | None,
) -> Outcome:
    """Judge one bundle beside another one, whose sealed copy is kept so long."""
    older_name = f"{name}-older"
    prior, shelf = NO_LEDGER, None
    try:
        if against is not None:
            older = _judge(place, against, older_name, ANY_TEAM, progress, hold, NO_LEDGER)
            prior = as_prior(older.manifest, older.submission, older.judgement.reason)
            shelf = Shelf("sealed", f"{older_name}/{BUNDLE}")  # sealed by this process: nobody else writes there
        return _judge(place, path, name, team, progress, hold, prior, shelf)
    finally:
        for one in (name, *([older_name] if against is not None else [])):
            files.remove_tree(place.tools.sealed, one)


def _judge(
    place: Bench,
    path: Path,
    name: str,
    team: str,
    progress: Callable[[str], None],
    hold: Hold,
    prior: Prior,
    shelf: Shelf | None = None,
) -> Outcome:
    kind = kind_of(path)
    source = path.resolve()  # whoever typed the path may name it through a link; inside the bundle none counts
    drop = Drop(id=name, team=team, name=source.name, source=source, kind=kind)

    def stage(name: str) -> None:
        # Sealing is copying, hashing and the start of a cell: two cores have enough to do till then.
        if name != "seal":
            place.tools.comparer.start()
        progress(name)

    acceptance = Acceptance(drop, place.rules, place.tools, hold, progress=stage)
    acceptance.find_prior = lambda _model_id, digest: same_or(prior, digest)
    acceptance.find_shelf = lambda _prior: shelf
    return acceptance.run()


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
    place: Bench, cases: list[Path], *, done: Callable[[Path, dict[str, Any]], None], whole: bool = True
) -> None:
    """Judge ``cases`` side by side; ``done`` is called from this thread as each ends, in that order.

    Not ``whole``: of the reports only verdict, reason and findings are made.
    """
    ended: queue.SimpleQueue[tuple[Path, dict[str, Any] | None, BaseException | None]] = queue.SimpleQueue()
    for path in cases:
        _offer(
            place,
            path,
            ANY_TEAM,
            lambda _stage: None,
            partial(_told, ended, path),
            report_as=report_of if whole else brief_of,
        )
    for _ in cases:
        path, report, error = ended.get()
        done(path, report if report is not None else _not_judged(error))


def _told(
    ended: queue.SimpleQueue[tuple[Path, dict[str, Any] | None, BaseException | None]],
    path: Path,
    report: dict[str, Any] | None,
    error: BaseException | None,
) -> None:
    ended.put((path, report, error))


def _not_judged(error: BaseException | None) -> dict[str, Any]:
    """One broken case must not end the suite."""
    known = isinstance(error, AcceptdError)
    reason = str(error) if known else f"internal error: {type(error).__name__}: {error}"
    return {"verdict": "inconclusive", "reason": reason, "findings": [], "error": reason}


def free_space(path: Path) -> int:
    """Return the bytes that an ordinary user may still write at ``path``."""
    return shutil.disk_usage(path).free
