"""What exports and hooks have done, and where each hook stands: small files below ``follow/`` in the state."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from acceptd.errors import StateError
from acceptd.intake.files import replace_file
from acceptd.release.layout import make_directories
from acceptd.report.escape import line

FOLDER: Final = "follow"
STATUS: Final = "status.json"
_MOST: Final = 1 << 20
log = structlog.get_logger("acceptd.export")


@dataclass(slots=True)
class Count:
    """One export or hook: how often it worked, how often it failed, and what the last failure was."""

    what: str = ""
    """The directory, or the command."""
    done: int = 0
    failures: int = 0
    failing: bool = False
    """Whether the last attempt failed."""
    problem: str = ""
    at: str = ""
    """Of the last attempt."""


@dataclass(slots=True)
class Tally:
    """The counts of one state directory, kept durably. Safe from threads."""

    state: Path
    exports: dict[str, Count] = field(default_factory=dict)
    hooks: dict[str, Count] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, state: Path) -> Tally:
        """Return the counts on disk; a file that is damaged counts from nothing."""
        found = read(state)
        tally = cls(state)
        for name in ("exports", "hooks"):
            getattr(tally, name).update({key: Count(**row) for key, row in found.get(name, {}).items()})
        return tally

    def note(self, kind: str, name: str, what: str, at: str, problem: str) -> None:
        """Count one attempt and write it down; ``problem`` is empty where it worked."""
        with self._lock:
            count = getattr(self, kind).setdefault(name, Count())
            count.what, count.at, count.failing = what[:400], at, bool(problem)
            if problem:
                count.failures += 1
                count.problem = problem[:400]
            else:
                count.done += 1
            try:
                self._write()
            except (OSError, StateError) as error:  # who counts must not keep the next export from its work
                log.warning("exports and hooks are not counted on disk", reason=str(error))

    def keep(self, exports: set[str], hooks: set[str]) -> None:
        """Forget what is not configured any more."""
        with self._lock:
            self.exports = {name: one for name, one in self.exports.items() if name in exports}
            self.hooks = {name: one for name, one in self.hooks.items() if name in hooks}
            self._write()

    def _write(self) -> None:
        folder = make_directories(self.state, FOLDER, 0o755)
        body = {
            kind: {name: asdict(one) for name, one in getattr(self, kind).items()} for kind in ("exports", "hooks")
        }
        replace_file(folder, STATUS, json.dumps(body, sort_keys=True).encode() + b"\n", 0o644)


def read(state: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the counts as they were last written, for people; without what is damaged."""
    found = _object(state / FOLDER / STATUS)
    kinds = {kind: rows for kind in ("exports", "hooks") if isinstance(rows := found.get(kind), dict)}
    return {kind: {name: row for name, row in rows.items() if _counts(row)} for kind, rows in kinds.items()}


def _counts(row: object) -> bool:
    like = asdict(Count())
    return isinstance(row, dict) and {key: type(value) for key, value in row.items()} == {
        key: type(value) for key, value in like.items()
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what :func:`read` found, a line or two for each export and hook."""
    for kind, word in (("exports", "export"), ("hooks", "hook")):
        for name, one in sorted(found.get(kind, {}).items()):
            state = "failing" if one["failing"] else "in order" if one["done"] else "not yet run"
            counts = f"{one['done']} done, {one['failures']} failed"
            yield f"{word:<8} {name}  {state}: {counts}  {line(one['what'], 200)}"
            if one["problem"]:
                yield f"         {one['at'] if one['failing'] else 'before'}: {line(one['problem'], 300)}"


def cursor(state: Path, hook: str, log: str, size: int) -> int:
    """Return the number of the first ledger entry that a hook was not told of.

    A hook that is new here, or one of another log, begins with what comes next: it is told of no history.
    """
    found = _object(state / FOLDER / f"hook-{hook}.json")
    at = found.get("next")
    if found.get("log") == log and type(at) is int and 0 <= at <= size:
        return at
    advance(state, hook, log, size)
    return size


def advance(state: Path, hook: str, log: str, at: int) -> None:
    """Remember durably that a hook was told of everything before entry ``at``."""
    folder = make_directories(state, FOLDER, 0o755)
    replace_file(folder, f"hook-{hook}.json", json.dumps({"log": log, "next": at}).encode() + b"\n", 0o644)


def _object(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MOST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
