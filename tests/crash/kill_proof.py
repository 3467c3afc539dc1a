"""kill -9 before every system call of every act on a release that changes a file: by strace, so inside SQLite too.

``python -m tests.crash.kill_proof`` (make kill-proof) counts the calls of an act, then does it once for each of
them: the process is killed as it enters the call, which is not made. All promises are checked after each.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.release_promises import recording
from tests.release_steps import ACTS, Act, Base, bases, copied, recovered
from tests.release_world import memory_directory
from tests.retention_world import Kept
from tests.warm_database import warm_database

STRACE = shutil.which("strace")
CALLS = (
    "write", "pwrite64", "ftruncate", "fsync", "fdatasync", "rename", "renameat", "renameat2", "link", "linkat",
    "symlink", "symlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "chmod", "fchmod", "fchmodat",
    "openat",
)  # fmt: skip
_CREATES = re.compile(rb"openat\(.*O_CREAT")


def act_under_strace(root: Path, base: Base, act: Act, *more: str) -> tuple[int, Path]:
    """Do an act in a child that stands still until strace is attached; return its wait status and the trace."""
    trace = root.parent / f"{root.name}.trace"
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            with recording(root.parent / f"{root.name}-signed"):
                os.kill(os.getpid(), signal.SIGSTOP)
                act.do(Kept(root), base)
            code = 0
        finally:
            os._exit(code)
    os.waitpid(pid, os.WUNTRACED)
    assert STRACE is not None
    command = [STRACE, "-qq", "-o", str(trace), "-e", f"trace={','.join(CALLS)}", *more, "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while b"TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_bytes():
        assert tracer.poll() is None, "strace may not attach here"
        time.sleep(0.001)
    os.kill(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    tracer.wait()
    return status, trace


def prove(name: str, base: Base, act: Act, home: Path, every: int) -> collections.Counter[str]:
    """Kill one act before each of its calls; return how often before which. Raises where a promise breaks."""
    root = copied(base.root, home / "counted")
    (home / "counted-signed").mkdir()
    status, trace = act_under_strace(root, base, act)
    assert os.WIFEXITED(status), name
    assert os.WEXITSTATUS(status) == 0, name
    lines = [line for line in trace.read_bytes().splitlines() if b"(" in line and not line.startswith(b"---")]
    passed: collections.Counter[str] = collections.Counter()
    killed: collections.Counter[str] = collections.Counter()
    for number, line in enumerate(lines):
        call = line.partition(b"(")[0].decode()
        passed[call] += 1
        if (call == "openat" and not _CREATES.match(line)) or number % every:
            continue
        root = copied(base.root, home / f"{number}")
        inject = ("-e", f"inject={call}:signal=SIGKILL:when={passed[call]}")
        (home / f"{number}-signed").mkdir()
        status, _ = act_under_strace(root, base, act, *inject)
        assert os.WIFSIGNALED(status), f"{name}: call {number} was not reached again: {line!r}"
        for made in (
            home / f"{number}-signed"
        ).iterdir():  # what was signed counts also where nobody came to see it
            with (root / made.name).open("ab") as file:
                file.write(made.read_bytes())
        try:
            recovered(root, base, act)
        except BaseException as error:
            raise AssertionError(f"{name}, killed before call {number}, {line[:200]!r}: {error}") from error
        killed[call] += 1
        for place in home.glob(f"{number}*"):
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    return killed


def main() -> int:
    """Prove every act, or those that are named; 1 where a promise broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("acts", nargs="*", default=list(ACTS))
    parser.add_argument("--every", type=int, default=1, help="only each so manieth call")
    chosen = parser.parse_args()
    if STRACE is None:
        print("strace is not installed: nothing was proved", file=sys.stderr)
        return 77
    total, wrong = 0, 0
    made = bases()
    try:
        with warm_database():
            for name in chosen.acts:
                home = memory_directory()
                try:
                    killed = prove(name, made[ACTS[name].base], ACTS[name], home, chosen.every)
                except AssertionError as error:
                    wrong += 1
                    print(f"WRONG: {error}", flush=True)
                else:
                    total += killed.total()
                    print(f"{name}: {killed.total()} kills {dict(sorted(killed.items()))}", flush=True)
                shutil.rmtree(home)
    finally:
        for base in made.values():
            shutil.rmtree(base.root)
    print(f"{total} kills, {wrong} acts went wrong", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
