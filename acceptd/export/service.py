"""Exports and hooks beside a running daemon: two threads that follow the ledger, whoever wrote to it.

A promotion never waits for them, and nothing that fails here undoes one. Hooks come after the exports of the same
entry were tried; a hook that takes its time keeps no export from being withdrawn.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

import structlog

from acceptd.errors import AcceptdError, LoaderError
from acceptd.export import events, tally
from acceptd.export.directory import Target
from acceptd.export.follow import Followed, Origin, follow
from acceptd.export.hook import Hook
from acceptd.export.settings import ExportTable, HookTable
from acceptd.objectstore.objects import Objects
from acceptd.record.entry import utc_now
from acceptd.record.log import Ledger
from acceptd.release.signers import ReleaseKeys
from acceptd.threads import Thread

LOOK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 30.0
_PATIENCE: Final = 5.0
"""Seconds that the end of the daemon waits for what is under way: a copy is begun anew, an event told again."""
log = structlog.get_logger("acceptd.export")


@dataclass(slots=True)
class Following:
    """Follows the ledger of one state while it is entered. With nothing configured it does nothing."""

    state: Path
    ledger: Ledger
    keys: ReleaseKeys
    exports: Sequence[ExportTable]
    hooks: Sequence[HookTable]
    _stop: threading.Event = field(default_factory=threading.Event)
    _followed: int = 0
    """Entries before this one have had their exports tried."""
    threads: list[Thread] = field(default_factory=list)
    _tally: tally.Tally = field(init=False)
    _buckets: dict[str, Objects] = field(default_factory=dict)
    _ready: list[Hook] = field(default_factory=list)
    _told: dict[str, int] = field(default_factory=dict)
    """The first entry that each hook was not told of by this process."""

    def __enter__(self) -> Following:
        """Begin; raise ConfigError for a hook that cannot be meant."""
        self._ready = [Hook.of(table, self.state) for table in self.hooks]
        if self.exports or self.hooks:
            self._tally = tally.Tally.load(self.state)
            self._tally.keep({one.name for one in self.exports}, {one.name for one in self.hooks})
            size = self.ledger.tree().size
            for table in self.hooks:
                tally.cursor(self.state, table.name, self.ledger.origin, size)
            works = {"exports": self._export} | ({"hooks": self._tell} if self.hooks else {})
            for name, work in works.items():
                thread = Thread(self._guarded, args=(work,), name=name)
                thread.start()
                self.threads.append(thread)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End soon: what is under way is taken up at the next start."""
        self._stop.set()
        for bucket in self._buckets.values():
            bucket.close()
        for thread in self.threads:
            thread.join(_PATIENCE)

    def _guarded(self, work: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                work()
            except Exception:  # whatever it is: what is revoked later has to be withdrawn all the same
                if not self._stop.is_set():
                    log.exception("exports or hooks failed and begin anew")
                    self._stop.wait(RETRY_SECONDS)

    @property
    def _origin(self) -> Origin:
        return Origin(self.state, self.ledger, self.keys, time.time)

    # -- exports --------------------------------------------------------------------------------------

    def _export(self) -> None:
        seen, due = -1, float("inf")
        notes: tuple[int, ...] = ()
        failed: list[ExportTable] = []
        whole = True  # at the start everything that is there is hashed
        while not self._stop.is_set():
            try:
                size, stamps = self.ledger.tree().size, _stamps(self.state)
                fresh = whole or stamps != notes or any(True for _ in events.entries(self._origin, seen, size))
                if fresh or (failed and time.monotonic() >= due):
                    failed = [
                        one for one in (self.exports if fresh else failed) if not self._one(one, whole=whole)
                    ]
                    due = time.monotonic() + RETRY_SECONDS
                seen, notes, whole, self._followed = size - 1, stamps, False, size
            except (AcceptdError, OSError) as error:  # the ledger is busy: the next look goes on
                if not self._stop.is_set():
                    log.error("exports", error=str(error))  # noqa: TRY400 - it says all
            self._stop.wait(LOOK_SECONDS)

    def _one(self, table: ExportTable, *, whole: bool) -> bool:
        """Bring one export in line; return whether it worked."""
        problems: list[str]
        try:
            done = self._followed_by(table, whole=whole)
        except (AcceptdError, LoaderError, OSError) as error:
            problems = [str(error)]
        else:
            problems = done.problems
            for text in done.done:
                log.info("export", name=table.name, what=text)
        if self._stop.is_set() and problems:
            return False
        for text in problems:
            log.error("not exported", name=table.name, what=text)
        self._tally.note("exports", table.name, f"{table.kind} {table.where}", utc_now(), "; ".join(problems))
        return not problems

    def _followed_by(self, table: ExportTable, *, whole: bool) -> Followed:
        if not table.url:
            return follow(self._origin, _target(table), whole=whole)
        from acceptd.export.bucket import BucketTarget
        from acceptd.objectstore.objects import open_objects

        if table.name not in self._buckets:  # its client, and the proof that it keeps conditions, once
            self._buckets[table.name] = open_objects(table.objects(), self.state)
        remote = self._buckets[table.name].remote
        return follow(self._origin, BucketTarget(remote, table.kind, table.selects, table.keep), whole=whole)

    # -- hooks ----------------------------------------------------------------------------------------

    def _tell(self) -> None:
        while not self._stop.is_set():
            try:
                for hook in self._ready:
                    self._hook(hook)
            except (AcceptdError, OSError) as error:
                if not self._stop.is_set():
                    log.error("hooks", error=str(error))  # noqa: TRY400 - it says all
            self._stop.wait(LOOK_SECONDS)

    def _hook(self, hook: Hook) -> None:
        """Tell one hook of every entry since the last one that it was told of."""
        name, origin, before = hook.table.name, self._origin, self._followed
        at = tally.cursor(self.state, name, self.ledger.origin, max(before, self.ledger.tree().size))
        at = max(
            at, self._told.get(name, 0)
        )  # where the disk does not take it, told once a start and not each second
        for entry in events.entries(origin, at - 1, before) if at < before else ():
            if not self._event(hook, origin, entry.seq):
                return
            self._told[name] = entry.seq + 1
            tally.advance(self.state, name, self.ledger.origin, entry.seq + 1)
        if at < before:
            tally.advance(self.state, name, self.ledger.origin, before)

    def _event(self, hook: Hook, origin: Origin, seq: int) -> bool:
        """Tell one event, as often as the hook allows; return whether that came to an end before ours."""
        name, problem = hook.table.name, ""
        for attempt in range(hook.table.tries):
            if self._stop.wait(min(1.0 * 2**attempt, 30.0) if attempt else 0.0):
                return False
            said = ""
            try:
                told = events.event(origin, hook.table, self.ledger.entry(seq))
                if told is None:
                    return True
                ran = hook.run(told)
                problem, said = ran.problem, ran.said
            except LoaderError as error:
                problem = f"the release does not verify: {error}"
            if not problem:
                log.info("hook", name=name, seq=seq, said=said)
                break
            log.error("hook failed", name=name, seq=seq, attempt=attempt + 1, why=problem, said=said)
        self._tally.note("hooks", name, hook.table.command[0], utc_now(), problem and f"entry {seq}: {problem}")
        return True


def _target(table: ExportTable) -> Target:
    return Target(Path(table.directory), table.kind, table.selects, table.keep)


def _stamps(state: Path) -> tuple[int, ...]:
    """Return what tells that the revocation list or the rotations of keys changed."""
    found = []
    for name in ("revocations.json", "rotations.json"):
        try:
            facts = os.stat(state / name)
        except OSError:
            found += [0, 0]
        else:
            found += [facts.st_ino, facts.st_mtime_ns]
    return tuple(found)
