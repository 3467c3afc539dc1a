"""Every step of every act on a release: what it changes on disk, in order, and the state after each failpoint.

:func:`walk` does an act once, in a child that stops at each failpoint; meanwhile its state directory is copied. A
copy is what a kill -9 at that place leaves: what a process held in memory is in none of them. (That real kills
leave the same is proved beside it, by tests/crash/test_release_kill.py at the named places and by
``make kill-proof`` before every system call.)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Engine

from acceptd import key_rotation
from acceptd.canary import evaluate
from acceptd.canary.resume import Unfinished, resume
from acceptd.evidence import Sealed
from acceptd.record import failpoint
from acceptd.record.log import Ledger
from acceptd.record.queue import Queue
from acceptd.release import channel as channels
from acceptd.release import hold, memory, store
from acceptd.release.book import read_book
from acceptd.release.model import Decided
from acceptd.release.reconcile import reconcile
from acceptd.release.settle import Terms
from acceptd.release.signers import ReleaseKeys
from acceptd.retention.collect import sweep
from tests.canary_world import LIMITS, CanaryWorld
from tests.release_promises import Promises, recording
from tests.release_world import MODEL, NOON, Accepted, memory_directory
from tests.retention_world import Kept

CHANGES: Final = (
    "rename",
    "replace",
    "symlink",
    "link",
    "mkdir",
    "unlink",
    "remove",
    "rmdir",
    "fsync",
    "fdatasync",
    "write",
)
"""Functions of ``os`` that change what a crash leaves. The mode of a file that has no name yet is not counted."""


TERMS: Final = Terms(valid_seconds=3600, clock=lambda: NOON)
PEOPLE: Final = evaluate.People(lambda _: lambda _: Decided(""), lambda _: lambda _: "")
"""Nobody objects to what a canary's evaluation decides."""


@dataclass(frozen=True)
class Base:
    """A prepared state directory; everything is done to copies of it."""

    root: Path
    one: Accepted
    two: Accepted
    sealed: Sealed
    """A third bundle, which was accepted and is not yet in the store."""


@dataclass(frozen=True)
class Act:
    """One act: where it begins, what is done, and which bundle is current after it."""

    base: str
    do: Callable[[Kept, Base], object]
    ends: str
    """Name of the bundle in :class:`Base`, or ``revoked`` where loaders refuse, or empty: whatever was."""


def _back(world: Kept, base: Base) -> None:
    current = read_book(world.ledger).current(MODEL, "production")
    if current is None or current.digest != base.one.digest:  # done again after a crash: nothing twice
        world.rollback()


def _rekey(world: Kept, _base: Base) -> None:
    key_rotation.resume(world.state, world.ledger, world.terms)
    if len(list(world.ledger.entries(kind="key-rotated"))) == 0:
        key_rotation.rotate(world.state, world.ledger, "release", reason="age", terms=world.terms)


def _refresh(world: Kept, _base: Base) -> None:
    done = channels.refresh(
        world.state, world.ledger, world.keys, valid_seconds=3600, clock=world.terms.clock, force=True
    )
    assert done.problems == ()


def _put(world: Kept, base: Base) -> None:
    store.put(world.state, world.state / "sealed" / "sub-3", base.sealed)


def _canary(receipts: str) -> Callable[[Kept, Base], None]:
    """Return the act of evaluating the canary by these receipts; once that was carried out, it is none."""

    def act(world: Kept, base: Base) -> None:
        book = read_book(world.ledger)
        rows = [book.current(MODEL, channel) for channel in ("canary", "production")]
        if rows[0] is not None and rows[1] is not None and rows[0].digest == rows[1].digest:
            return
        compared = evaluate.basis(world.state, world.ledger, world.keys, MODEL, "canary", "production")
        found = evaluate.evaluate(compared, [base.root / receipts], LIMITS, "a" * 64)
        done = evaluate.carry_out(world.state, world.ledger, world.keys, compared, found, PEOPLE, world.terms)
        assert done.release is not None, done.refused

    return act


def _holds(kind: str, *, ended: bool) -> Callable[[Kept, Base], None]:
    """Return the act of freezing production, or of pinning its release, and of ending that again."""

    def act(world: Kept, _base: Base) -> None:
        where = {"model_id": MODEL, "channel": "production", "reason": "the fair"}
        pinned = {"wanted": ""} if kind == "pin" else {}
        begin, end = (hold.pin, hold.unpin) if kind == "pin" else (hold.freeze, hold.unfreeze)
        begin(world.state, world.ledger, world.keys, **where, **pinned, terms=world.terms)
        if ended:
            end(world.state, world.ledger, **where, **pinned)

    return act


ACTS: Final = {
    "freeze": Act("both", _holds("freeze", ended=False), "two"),
    "unfreeze": Act("both", _holds("freeze", ended=True), "two"),
    "pin": Act("both", _holds("pin", ended=False), "two"),
    "unpin": Act("both", _holds("pin", ended=True), "two"),
    "canary-promote": Act("canary", _canary("good.jsonl"), "two"),
    "canary-back": Act("canary", _canary("bad.jsonl"), "one"),
    "store": Act("none", _put, ""),
    "first": Act("none", lambda world, base: world.promote(base.one), "one"),
    "second": Act("one", lambda world, base: world.promote(base.two), "two"),
    "back": Act("both", _back, "one"),
    "revoke": Act("both", lambda world, base: world.revoke(base.two.digest), "revoked"),
    "revoke-back": Act("both", lambda world, base: world.revoke(base.two.digest, rollback=True), "one"),
    "rekey": Act("both", _rekey, "two"),
    "refresh": Act("both", _refresh, "two"),
    "collect": Act("old", lambda world, _base: world.collect(11), "two"),
}
"""Every act that changes a release, or bytes that one may rest on. A new one belongs here, and is killed then."""


def bases() -> dict[str, Base]:
    """Make what acts begin with: nothing promoted, v1, v1 and v2, and two more before those that are due to go."""
    made: dict[str, Base] = {}
    for name, promoted in (("none", 0), ("one", 1), ("both", 2), ("old", 2)):
        root = memory_directory()
        with recording(root):
            world = Kept(root)
            if name == "old":
                world.released("0.1.0")
                _aside(world)
                world.output("a", 50)
            one, two = world.accepted("1.0.0"), world.accepted("2.0.0")
            for accepted in (one, two)[:promoted]:
                world.promote(accepted)
            _, _, sealed = world.judged("3.0.0")
            world.close()
        made[name] = Base(root, one, two, sealed)
    made["canary"] = _canary_base(sealed)
    return made


def _canary_base(sealed: Sealed) -> Base:
    root = memory_directory()
    with recording(root):
        world = CanaryWorld(root)
        good = world.file(*world.some(world.old), *world.some(world.new))
        bad = world.file(*world.some(world.old), *world.some(world.new, error="RuntimeRefusedError"))
        good.rename(root / "good.jsonl")
        bad.rename(root / "bad.jsonl")
        world.close()
    return Base(root, *(Accepted(one.bundle_digest, {}, -1) for one in (world.old, world.new)), sealed)


def _aside(world: Kept) -> None:
    """Put a submission into quarantine that was never judged."""
    queue = Queue(world.ledger)
    queue.add("s-1", team="mosaic", name="drop", path="/p", kind="directory")
    queue.advance("s-1", "quarantined")
    place = world.state / "quarantine" / "s-1" / "bundle"
    place.mkdir(parents=True)
    (place / "model.onnx").write_bytes(b"poison")


def copied(root: Path, target: Path) -> Path:
    """Copy a root; the copy has the same memory of loaders, and this process has none."""
    shutil.copytree(root, target, symlinks=True, ignore=shutil.ignore_patterns("*.lock"))
    memory.forget()
    return target


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked child and return its wait status."""
    pid = os.fork()
    if pid == 0:
        _end(work)
    return os.waitpid(pid, 0)[1]


def _end(work: Callable[[], None]) -> None:
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def crashed(base: Base, act: Act, place: str, root: Path) -> Path:
    """Do an act on a copy of its base in a child that is killed at a failpoint; return the copy."""
    copied(base.root, root)
    Promises(root / "state", root, NOON).standing()  # what loaders remember

    def work() -> None:
        with recording(root):
            world = Kept(root)
            os.environ[failpoint.VARIABLE] = place
            act.do(world, base)

    status = in_child(work)
    assert os.WIFSIGNALED(status), f"{place} was never passed"
    assert os.WTERMSIG(status) == signal.SIGKILL
    memory.forget()
    return root


def restart(root: Path) -> list[str]:
    """Do what a daemon does at its start and in its first retention run; return a line for each thing done."""
    with recording(root), Ledger.open(root / "state", create=False) as ledger:
        done = key_rotation.resume(root / "state", ledger, TERMS)
        keys = ReleaseKeys.load(root / "state", ledger)
        found = reconcile(root / "state", ledger, keys, terms=TERMS)
        assert found.problems == (), found.problems
        late = resume(root / "state", ledger, keys, Unfinished(ledger).cut_off(), PEOPLE, terms=TERMS)
        assert late.problems == (), late.problems
        assert sweep(root / "state") == []
    return [*done, *found.done, *late.done]


def recovered(root: Path, base: Base, act: Act) -> None:
    """Check what stands after a kill, after a restart, and once the act is done again."""
    promises = Promises(root / "state", root, NOON)
    promises.standing()
    restart(root)
    promises.in_line(audited=False)
    assert restart(root) == [], "a second restart finds nothing to do"
    with recording(root):
        world = Kept(root)
        act.do(world, base)
        world.close()
    told = promises.in_line()
    if not act.ends:
        return
    row = told.active[MODEL, "production"]
    due = {"one": base.one, "two": base.two, "revoked": base.two}[act.ends].digest
    assert row["digest"] == due, f"the act ended with {row}"
    assert (due in told.revoked) == (act.ends == "revoked")


@dataclass(frozen=True)
class Step:
    """One failpoint that was passed, and the changes on disk since the one before it, with their places."""

    name: str
    changes: list[str]
    root: Path
    """A copy of everything as it was there."""
    fresh: bool
    """Whether that differs from the copy before."""


def walk(root: Path, act: Callable[[], None], copies: Path) -> Iterator[Step]:
    """Do ``act`` on ``root`` in a child, and yield it step by step; the last one has no name.

    Each step's copy is removed when the next one is asked for. Raises AssertionError where the act fails.
    """
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _listen(tell)
        _end(act)
    os.close(tell)
    before = ""
    try:
        for number in range(10_000):
            _, status = os.waitpid(pid, os.WUNTRACED)
            lines = [json.loads(line) for line in _drain(told)] if os.WIFSTOPPED(status) else []
            name = lines.pop()[1] if lines else ""
            if not os.WIFSTOPPED(status):
                lines = [json.loads(line) for line in _drain(told)]
                assert os.WIFEXITED(status), status
                assert os.WEXITSTATUS(status) == 0, f"the act failed: {lines[-3:]}"
            copy = copied(root, copies / str(number))
            after = _print_of(copy)
            yield Step(name, [change for _, change in lines], copy, after != before)
            before = after
            shutil.rmtree(copy)
            if not os.WIFSTOPPED(status):
                return
            os.kill(pid, signal.SIGCONT)
    finally:
        os.close(told)
        with contextlib.suppress(ChildProcessError):  # whoever stops asking leaves none that stands still for ever
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _drain(fd: int) -> list[bytes]:
    os.set_blocking(fd, False)
    data = b""
    while True:
        try:
            part = os.read(fd, 1 << 16)
        except BlockingIOError:
            break
        if not part:
            break
        data += part
    return data.splitlines()


def _print_of(root: Path) -> str:
    """Return a digest of names, links and bytes below ``root``; a temporary name is as good as another."""
    rows: list[tuple[str, str]] = []
    for at, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(at) / name
            shown = ".tmp" if name.startswith(".tmp-") else name
            if path.is_symlink():
                rows.append((f"{at}/{shown}", os.readlink(path)))
            elif path.is_file() and not name.endswith("-shm"):
                rows.append((f"{at}/{shown}", hashlib.sha256(path.read_bytes()).hexdigest()))
            else:
                rows.append((f"{at}/{shown}", ""))
    return hashlib.sha256(
        json.dumps(sorted([(a.removeprefix(str(root)), b) for a, b in rows])).encode()
    ).hexdigest()


def _listen(tell: int) -> None:
    """Tell of every change on disk in this process, and stop at every failpoint."""
    write = os.write

    def say(kind: str, what: str) -> None:
        write(tell, json.dumps([kind, what]).encode() + b"\n")

    def wrap(name: str) -> None:
        given = getattr(os, name)

        def changing(*arguments: Any, **more: Any) -> Any:
            done = given(*arguments, **more)
            where = _where(sys._getframe(1))
            if "release_promises" not in where:
                say("change", f"{name} {where}")
            return done

        setattr(os, name, changing)

    def stop(name: str, _wanted: str) -> None:
        say("failpoint", name)
        os.kill(os.getpid(), signal.SIGSTOP)

    opened = os.open

    def opening(path: Any, flags: int, *arguments: Any, **more: Any) -> int:
        fd = opened(path, flags, *arguments, **more)
        where = _where(sys._getframe(1))
        if flags & os.O_CREAT and not str(path).endswith(".lock") and "release_promises" not in where:
            say("change", f"create {where}")
        return fd

    os.open = opening
    for name in CHANGES:
        wrap(name)
    event.listen(Engine, "commit", lambda connection: _committing(connection, say))
    os.environ[failpoint.VARIABLE] = "tests.walk"
    failpoint._pass = stop


def _committing(connection: Any, say: Callable[[str, str], None]) -> None:
    if connection.connection.dbapi_connection.total_changes != connection.info.get("told", 0):  # not one that read
        connection.info["told"] = connection.connection.dbapi_connection.total_changes
        say("change", "commit")


def _where(frame: Any) -> str:
    """Return the first place above that is acceptd's own."""
    while frame is not None and not (
        "/acceptd/" in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    if frame is None:
        return "?"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
