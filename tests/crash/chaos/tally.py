"""What came of a run: counted by kind, written as JSON after each act."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from acceptd.record.entry import utc_now
from tests.crash.chaos.kills import KILLS
from tests.crash.chaos.town import Town

ROOT: Final = Path(__file__).resolve().parents[3]
_PACKAGES: Final = ("onnxruntime", "onnx", "numpy", "SQLAlchemy", "watchdog")


class Tally:
    """Counts; ``file`` always holds what was reached so far."""

    def __init__(self, seed: int, file: Path) -> None:
        self._file = file
        self._began = time.monotonic()
        self._kinds: dict[str, dict[str, Any]] = {}
        self._dropped: dict[str, tuple[int, int]] = {}
        self.total = 0
        self.kills = 0
        self.broken = 0
        self._head = {
            "seed": seed,
            "began": utc_now(),
            "host": {
                "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
                "cores": os.cpu_count(),
                "root": os.geteuid() == 0,
                "compiler": _first_line("cc", "--version"),
            },
            "versions": {
                "python": platform.python_version(),
                "sqlite": sqlite3.sqlite_version,
                "strace": _first_line("strace", "--version"),
                "bubblewrap": _first_line("bwrap", "--version"),
                "commit": _first_line("git", "-C", str(ROOT), "rev-parse", "HEAD"),
                **{name: metadata.version(name) for name in _PACKAGES},
            },
        }

    def add(self, name: str, word: str, wrong: str, town: Town) -> None:
        """Count one act."""
        fresh = {"count": 0, "kills": 0, "broken": 0, "not_done": 0, "outcomes": {}, "what_broke": []}
        kind = self._kinds.setdefault(name, fresh)
        kind["kills"] += town.kills
        self.kills += town.kills if name in KILLS else 0
        town.kills = 0
        self.total += 1
        if word.startswith("not done"):
            kind["not_done"] += 1
        else:
            kind["count"] += 1
        kind["outcomes"][word] = kind["outcomes"].get(word, 0) + 1
        if wrong:
            kind["broken"] += 1
            kind["what_broke"].append(wrong.splitlines()[0][:1000])
            self.broken += 1
        self._dropped[town.home.name] = (len(town.dropped), sum(order.acknowledged for order in town.orders))
        self._write()

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        kinds = dict(sorted(self._kinds.items()))
        return {
            **self._head,
            "ended": utc_now(),
            "seconds": round(time.monotonic() - self._began),
            "kills": self.kills,
            "faults": sum(kind["count"] for name, kind in kinds.items() if name not in KILLS),
            "broken": self.broken,
            "drops": sum(count for count, _ in self._dropped.values()),
            "commands_acknowledged": sum(count for _, count in self._dropped.values()),
            "kinds": kinds,
        }

    def _write(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        made = self._file.with_suffix(".new")
        made.write_text(json.dumps(self.document(), indent=1) + "\n")
        made.rename(self._file)

    def lines(self) -> list[str]:
        """Return a line for each kind, and one for all."""
        width = max((len(name) for name in self._kinds), default=4)
        lines = []
        for name, kind in sorted(self._kinds.items()):
            left = f", {kind['not_done']} not done" if kind["not_done"] else ""
            kills = f" ({kind['kills']} kills)" if name in KILLS else ""
            lines.append(f"{name:<{width}}  {kind['count']:>5} times{kills}, {kind['broken']} broken{left}")
        done = self.document()
        return [
            *lines,
            f"{done['kills']} kills, {done['faults']} faults, {self.broken} broken; seed {done['seed']}",
        ]


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    return (done.stdout or done.stderr).splitlines()[0].strip() if done.returncode == 0 else "not known"
