"""``make strace-proof``: every call of every work fails once, and once for good; a table says how it went.

Where a file is written by many like calls (pages of SQLite), the first, the middle and the last of them fail;
``--full`` takes every one. Ends with 1 where a promise did not hold, 77 where nothing can be injected.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from acceptd.record import sqlite
from tests.crash.faults import full, live, whole
from tests.crash.faults.calls import MISSING, Call
from tests.crash.faults.case import Outcome, judge
from tests.crash.faults.stage import Stage
from tests.crash.faults.works import WORKS, prepare
from tests.release_world import memory_directory

WORDS: Final = ("survived", "refused", "ended", "missed", "WRONG")
_MANY: Final = 3
_READS: Final = frozenset({"EIO", "EMFILE"})
"""Errors that meet who only reads; a full disk is none of his."""
_SPACE: Final = frozenset(
    {"write", "pwrite64", "openat", "mkdir", "mkdirat", "symlink", "symlinkat", "link", "linkat", "fallocate"}
)
"""What takes space, and meets a quota."""


@dataclass(frozen=True, slots=True)
class Mode:
    """Which error a call returns, once or from then on, and how many calls of a kind are let fail."""

    error: str
    lasting: bool = False
    only: frozenset[str] = frozenset()
    first: bool = False

    @property
    def name(self) -> str:
        """As the table shows it."""
        return f"{self.error}{' for good' if self.lasting else ''}"

    def chosen(self, calls: Iterable[Call], full: bool) -> list[Call]:
        """Return the calls that are let fail, in order."""
        kinds: dict[tuple[str, str], list[Call]] = {}
        for call in calls:
            if call.about and (call.changes or self.error in _READS) and (not self.only or call.name in self.only):
                kinds.setdefault(call.kind, []).append(call)
        picked: list[Call] = []
        for same in kinds.values():
            if full:
                picked += same
            elif self.first:
                picked += same[:1]
            elif len(same) > _MANY:
                picked += [same[0], same[len(same) // 2], same[-1]]
            else:
                picked += same
        return picked


MODES: Final = (
    Mode("EIO"),
    Mode("ENOSPC"),
    Mode("EIO", lasting=True, first=True),
    Mode("EDQUOT", only=_SPACE, first=True),
    Mode("EMFILE", only=frozenset({"openat", "openat2"}), first=True),
)


@dataclass(slots=True)
class Done:
    """What one work came to under one mode."""

    mode: str
    work: str
    counts: dict[str, collections.Counter[str]] = field(default_factory=dict)
    """By call, then by word."""
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def total(self) -> collections.Counter[str]:
        """By word alone."""
        return sum(self.counts.values(), collections.Counter())


_stages: dict[tuple[str, bool], Stage] = {}


def sweep_one(home: Path, mode: Mode, work: str, full: bool) -> Done:
    """Let each chosen call of one work fail; in a process of a lane, which keeps its stages."""
    lane = home / f"lane-{os.getpid()}"
    if not _stages:
        # One engine for the one path of this lane: what SQLAlchemy has compiled stays.
        sqlite._engine = functools.cache(sqlite._engine)  # type: ignore[assignment]
    stage = _stages.get((mode.error, mode.lasting))
    if stage is None:
        stage = _stages[mode.error, mode.lasting] = Stage(
            lane / mode.name.replace(" ", "-"), mode.error, lasting=mode.lasting
        )
    base, root = home / WORKS[work].base, lane / "root"
    before = whole.remember(whole.copy(base, root))
    done, began = Done(mode.name, work), time.monotonic()
    for call in mode.chosen(passings(stage, work, base, root), full):
        outcome = judge(stage, work, base, before, root, call)
        counted = done.counts.setdefault(call.name, collections.Counter())
        counted[outcome.word] += 1
        if outcome.wrong:
            counted["WRONG"] += 1
            done.wrong.append(_line(mode, work, call, outcome))
    shutil.rmtree(root)
    done.seconds = time.monotonic() - began
    return done


def passings(stage: Stage, work: str, base: Path, root: Path) -> list[Call]:
    """Return the calls that ``work`` makes when none fails: of its second run, when all is loaded."""
    for _ in range(2):
        ran = stage.run(work, whole.copy(base, root))
        assert ran.ended == "done", ran.told
    return ran.calls


def _line(mode: Mode, work: str, call: Call, outcome: Outcome) -> str:
    return f"{mode.name}, {work}, {call.name} {call.number} of {call.about}: {outcome.wrong}"


def table(found: Sequence[Done]) -> list[str]:
    """Return the table: a line for each call and error."""
    rows: dict[tuple[str, str], collections.Counter[str]] = {}
    for one in found:
        for call, counted in one.counts.items():
            rows.setdefault((call, one.mode), collections.Counter()).update(counted)
    lines = [f"{'call':<11}{'error':<14}{'injected':>9}" + "".join(f"{word:>10}" for word in WORDS)]
    for (call, mode), counted in sorted(rows.items()):
        injected = sum(counted[word] for word in WORDS[:3])
        lines.append(f"{call:<11}{mode:<14}{injected:>9}" + "".join(f"{counted[word]:>10}" for word in WORDS))
    total = sum(rows.values(), collections.Counter[str]())
    injected = sum(total[word] for word in WORDS[:3])
    return [*lines, f"{'all':<25}{injected:>9}" + "".join(f"{total[word]:>10}" for word in WORDS)]


def main() -> int:
    """Run the sweep; 1 where one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", default=[], help=f"of {', '.join(WORKS)}")
    parser.add_argument("--full", action="store_true", help="every call, not only some of those that are alike")
    parser.add_argument("--lanes", type=int, default=min(4, os.cpu_count() or 1))
    chosen = parser.parse_args()
    if MISSING:
        print(f"{MISSING}: nothing was proved", file=sys.stderr)
        return 77
    home = memory_directory()
    found: list[Done] = []
    began = time.monotonic()
    try:
        for base in sorted({WORKS[work].base for work in chosen.works or WORKS}):
            prepare(home, base)
        with ProcessPoolExecutor(chosen.lanes) as lanes:
            orders = [(mode, work) for mode in MODES for work in chosen.works or WORKS]
            waiting = [lanes.submit(sweep_one, home, mode, work, chosen.full) for mode, work in orders]
            small = home / "small"
            small.mkdir()
            filled = lanes.submit(full.inside, small) if not (full.MISSING or chosen.works) else None
            for number, future in enumerate(as_completed(waiting), 1):
                done = future.result()
                found.append(done)
                said = ", ".join(f"{count} {word}" for word in WORDS if (count := done.total[word]))
                print(
                    f"[{number}/{len(waiting)}] {done.mode}, {done.work}: {said}; {done.seconds:.0f} s", flush=True
                )
                for line in done.wrong:
                    print(f"  WRONG {line}", flush=True)
            print("\n" + "\n".join(table(found)))
            print("survived: done all the same; refused: said so in a line; ended: and writes no more here")
            wrong = any(one.wrong or one.total["missed"] for one in found)
            wrong |= _full_disk(filled.result()) if filled is not None else False
            wrong |= live.main(home) if not chosen.works else False
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"{time.monotonic() - began:.0f} s")
    return int(wrong)


def _full_disk(done: subprocess.CompletedProcess[str]) -> bool:
    """Print how the works went on a full disk; return whether something was wrong."""
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    for (how, ended), count in sorted(collections.Counter((one["how"], one["ended"]) for one in tried).items()):
        print(f"{how}: {count} {ended}")
    for one in tried:
        if one["wrong"]:
            print(f"  WRONG {one['how']}, {one['work']}: {one['wrong']}")
    if done.returncode not in {0, 1} or not tried:
        print(f"  WRONG a full disk was not tried: {done.stderr.strip()[-500:]}")
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
