"""Where the works run: one traced process that has loaded everything, and a fork of it for each case.

strace counts the passings of a call by process, and lets the same one fail in all of them. So a fork first
makes as many calls without effect (bad descriptors and null pointers) as bring the wanted one to that number.
That costs 20 microseconds a call, where a Python and a strace for each case cost half a second.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.crash.faults.calls import NUMBERS, STRACE, Call, parse

ROOT: Final = Path(__file__).resolve().parents[3]
NUMBER: Final = dict.fromkeys(NUMBERS, 600) | {"openat": 2500, "read": 6000}
"""The passing that fails: no work makes as many calls of one name, nor all loading as many openat and read."""
_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How a work went under injection."""

    ended: str
    """``done``, ``refused`` (said so in one line), or what it died of."""
    told: str
    acknowledged: list[list[Any]]
    broken: bool | None
    """None where it had no ledger open; else whether the process would have written nothing more."""
    calls: list[Call]

    @property
    def injected(self) -> Call | None:
        """The first call that failed; None where none did."""
        return next((call for call in self.calls if call.injected), None)


class Stage:
    """A traced process in which every call of :data:`NUMBERS` fails with ``error`` when it is that call's turn.

    ``lasting``: it and all calls of its name after it.
    """

    def __init__(self, home: Path, error: str, *, lasting: bool = False) -> None:
        assert STRACE is not None
        self._home = home
        self.lasting = lasting
        home.mkdir(parents=True)
        more = "+" if lasting else ""
        rules = [f"inject={name}:error={error}:when={number}{more}" for name, number in NUMBER.items()]
        inject = [word for rule in rules for word in ("-e", rule)]
        options = ["-f", "-ff", "--seccomp-bpf", "-q", "-y", "-s", "0", "-o", str(home / "t")]
        self._process = subprocess.Popen(
            [STRACE, *options, "-e", f"trace={','.join(NUMBERS)}", *inject, sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, work: str, root: Path, call: str = "", number: int = 0) -> Ran:
        """Do ``work`` on ``root`` with the ``number``-th ``call`` failing; without one, with none."""
        burn = {call: NUMBER[call] - number} if call else {}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"work": work, "root": str(root), "burn": burn}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the stage has ended"
        said = json.loads(answer)
        calls = parse(self._trace(said["pid"]), str(root))
        # What was burnt is about no path and comes first.
        calls = [
            Call(one.name, one.number - burn.get(one.name, 0), one.about, one.changes, one.injected)
            for one in calls
            if one.number > burn.get(one.name, 0)
        ]
        return Ran(said["ended"], said["told"], said["acknowledged"], said["broken"], calls)

    def _trace(self, pid: int) -> str:
        """Return what was written about one process, once it is all there."""
        path = Path(f"{self._home / 't'}.{pid}")
        due = time.monotonic() + _SECONDS
        while time.monotonic() < due:
            with contextlib.suppress(FileNotFoundError):
                text = path.read_text(errors="replace")
                if "\n+++ " in text or text.startswith("+++ "):
                    path.unlink()
                    return text
            time.sleep(0.001)
        raise AssertionError(f"strace has not ended its lines about {pid}")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


# -- the other side


def _serve() -> None:
    from tests.crash.faults.works import WORKS

    gc.collect()
    gc.freeze()
    libc = ctypes.CDLL(None)
    answers = os.dup(1)
    os.dup2(2, 1)  # what a work logs is no answer
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            for name, count in order["burn"].items():
                # write(2) of a bad descriptor, a path that is a null pointer: nothing happens.
                for _ in range(count):
                    libc.syscall(NUMBERS[name], -1, 0, 0, 0, 0)
            said = perform(WORKS[order["work"]].do, Path(order["root"]))
            os.writev(writing, [json.dumps(said).encode()])  # none of the calls that fail
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            text = pipe.read()
        _, status = os.waitpid(pid, 0)
        said = (
            json.loads(text)
            if text
            else {"ended": f"died: {status}", "told": "", "acknowledged": [], "broken": None}
        )
        os.writev(answers, [json.dumps({"pid": pid, **said}).encode() + b"\n"])


def perform(do: Any, root: Path) -> dict[str, Any]:
    """Do a work; return how it ended, what it told and acknowledged, and whether its ledger writes no more."""
    from acceptd.errors import AcceptdError, LoaderError

    done: list[list[Any]] = []
    ended, told = "done", ""
    place: dict[str, Any] = {}
    try:
        do(root, lambda *words: done.append(list(words)), place)
    except (AcceptdError, LoaderError, OSError) as error:
        ended, told = "refused", str(error)
    except BaseException as error:
        ended, told = f"crashed: {type(error).__name__}", str(error)
    broken = None
    if (world := place.get("world")) is not None:
        broken = bool(world.ledger._database.failed)
        if ended != "done":
            # The process lives on, as a daemon does: what it says is on record must stand.
            with contextlib.suppress(AcceptdError, OSError):
                one = world.ledger.append("note", {"after": "the error"})
                done.append(["entry", one.seq, one.leaf_hash.hex(), "after"])
        with contextlib.suppress(AcceptdError, OSError):
            world.close()
    return {"ended": ended, "told": told, "acknowledged": done, "broken": broken}


if __name__ == "__main__":
    _serve()
