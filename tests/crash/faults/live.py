"""A running daemon whose disk fails: strace joins it, and lets calls on the ledger's files fail."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from examples import evidence_classifier as classifier
from tests.crash.faults.calls import STRACE
from tests.world import PATIENCE, World, world

LEDGER = ("ledger.sqlite3", "ledger.sqlite3-wal")


@contextlib.contextmanager
def failing(
    pid: int,
    state: Path,
    call: str,
    error: str,
    *,
    names: tuple[str, ...] = LEDGER,
    when: str = "",
    follow: bool = True,
    trace: str = "/dev/null",
) -> Iterator[None]:
    """Let every ``call`` on these files of the state fail in all threads of ``pid``, until the end of the block.

    ``call`` may be several, with commas; without ``names`` it is any file. ``when`` is strace's (``3``, ``3+``):
    the passings of each thread. Unless ``follow`` no process that it starts meanwhile is touched, nor a thread.
    Raises PermissionError where nobody may join a process here.
    """
    assert STRACE is not None
    paths = [word for name in names for word in ("-P", str(state / name))]
    rule = f"inject={call}:error={error}" + (f":when={when}" if when else "")
    joining = ["-f", "-p", str(pid)] if follow else [word for one in _threads(pid) for word in ("-p", one)]
    options = [*joining, "-o", trace, "-e", f"trace={call}", "-e", rule]
    with subprocess.Popen([STRACE, *options, *paths], stderr=subprocess.PIPE) as joined:
        try:
            due = time.monotonic() + PATIENCE
            while not _traced(pid):
                if joined.poll() is not None:
                    assert joined.stderr is not None
                    raise PermissionError(joined.stderr.read().decode(errors="replace").strip())
                if time.monotonic() > due:
                    raise PermissionError("strace does not join the daemon")
                time.sleep(0.005)
            yield
        finally:
            _left(joined)


def _left(joined: subprocess.Popen[bytes]) -> None:
    """Let strace leave, and the daemon goes on. Where it waits for ever for one that dies meanwhile, end it."""
    joined.send_signal(signal.SIGINT)
    try:
        joined.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        joined.kill()  # the kernel lets go whatever it held
        joined.wait()


def _threads(pid: int) -> list[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return [path.name for path in Path(f"/proc/{pid}/task").iterdir()]
    return [str(pid)]


def _traced(pid: int) -> bool:
    """Whether every thread of a process has a tracer."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        threads = [path / "status" for path in Path(f"/proc/{pid}/task").iterdir()]
        return all("TracerPid:\t0\n" not in path.read_text() for path in threads)
    return False


def ends(made: World, call: str, error: str) -> None:
    """Assert that a daemon whose disk breaks says so and ends, and that the next one takes up all."""
    daemon = made.start()
    with failing(daemon.pid, made.state, call, error):
        drop = made.drop(lambda path: classifier.write_bundle(path, version="1.0.0"), f"{call}-{error}")
        made.until(made.daemon_ended, "the daemon ends")
    assert daemon.returncode == 5, daemon.returncode
    last = made.log.read_text().splitlines()[-1]
    assert "the disk refused a write (disk I/O error); see to the disk, then start acceptd anew" in last, last
    made.start()
    _verdict(made, drop)


def goes_on(made: World, call: str, error: str) -> None:
    """Assert that a daemon whose disk is full waits for room, and goes on by itself."""
    daemon = made.start()
    with failing(daemon.pid, made.state, call, error):
        drop = made.drop(lambda path: classifier.write_bundle(path, version="1.0.0"), f"{call}-{error}")
        made.until(lambda: b"disk is full" in made.log.read_bytes() or made.daemon_ended(), "it says so")
    assert not made.daemon_ended()
    _verdict(made, drop)


def _verdict(made: World, drop: str) -> None:
    made.until(lambda: bool(made.verdicts()) or made.daemon_ended(), f"a verdict on {drop}")
    (report,) = made.verdicts()
    assert report["verdict"] == "accepted"
    made.until(lambda: not list((made.state / "sealed").iterdir()), "the submission is done")
    made.stop()
    assert made.acceptd("ledger", "verify").returncode == 0


TRIED: Final = (
    (ends, "fdatasync", "EIO"),
    (ends, "fdatasync", "ENOSPC"),
    (ends, "pwrite64", "EIO"),
    (goes_on, "pwrite64", "ENOSPC"),
)


def main(home: Path) -> bool:
    """Try a running daemon, print a line for each; return whether something was wrong."""
    wrong = False
    for tried, call, error in TRIED:
        try:
            with world(home / f"live-{call}-{error}") as made:
                tried(made, call, error)
            said = "as it must"
        except PermissionError as refused:
            said = f"not tried: {refused}"
        except Exception as broken:  # whatever it is, it is a promise that did not hold
            said, wrong = f"WRONG {broken}", True
        print(f"a running daemon, {call} {error}, {tried.__name__.replace('_', ' ')}: {said}", flush=True)
    return wrong
