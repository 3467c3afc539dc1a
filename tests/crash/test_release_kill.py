"""kill -9 at every named failpoint, and before every change of a file, of promote, rollback and revoke.

After each kill a loader (with a memory of what it saw before) finds the old release, the new one, or the
refusal that a revocation means; never a torn one. Then reconcile puts everything in line, and the
operation done once more ends where it would have ended.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import ReleaseNotFoundError, RevokedError, StateError
from acceptd.record.failpoint import VARIABLE
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import memory, promote, store, trust
from acceptd.release.book import read_book
from acceptd.release.layout import model_lock, revocation_lock
from acceptd.release.reconcile import reconcile
from tests.release_world import MODEL, Accepted, World, memory_directory, survivors

pytestmark = pytest.mark.crash

STEPS = ("stored", "intended", "linked", "written", "swapped", "announced", "activated")
APPENDS = [
    f"record.append.{step}@{n}" for step in ("after-insert", "before-commit", "after-commit") for n in (1, 2)
]
PROMOTE = [f"release.promote.{step}" for step in STEPS] + APPENDS
ROLLBACK = [f"release.rollback.{step}" for step in STEPS] + APPENDS
REVOKE = [f"release.revoke.{step}" for step in ("recorded", "listed", "announced")] + [
    point for point in APPENDS if point.endswith("@1")
]
KILLS = [*(("first", p) for p in PROMOTE), *(("second", p) for p in PROMOTE), *(("back", p) for p in ROLLBACK),
         *(("revoke", p) for p in REVOKE), *(("revoke-back", p) for p in [*REVOKE, *ROLLBACK])]  # fmt: skip
CHANGES = ("rename", "symlink", "mkdir", "unlink", "rmdir", "fsync")
"""Functions of ``os`` that change names or make them durable; the child dies before the n-th call of any."""


@dataclass(frozen=True)
class Base:
    """A prepared state directory; each kill works on a copy of it."""

    root: Path
    one: Accepted
    two: Accepted


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    path = memory_directory()
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def bases() -> Iterator[dict[str, Base]]:
    """Where each operation begins: nothing promoted, v1 promoted, or v1 and v2 promoted."""
    made: dict[str, Base] = {}
    for name, promoted in (("none", 0), ("one", 1), ("both", 2)):
        world = World(memory_directory())
        one, two = world.accepted("1.0.0"), world.accepted("2.0.0")
        for accepted in (one, two)[:promoted]:
            world.promote(accepted)
        world.close()
        made[name] = Base(world.root, one, two)
    yield made
    for base in made.values():
        shutil.rmtree(base.root)


BASE_OF = {"first": "none", "second": "one", "back": "both", "revoke": "both", "revoke-back": "both"}


def _operate(world: World, base: Base, operation: str) -> None:
    if operation == "first":
        world.promote(base.one)
    elif operation == "second":
        world.promote(base.two)
    elif operation == "back":
        if world.open().bundle_digest != base.one.digest:  # done again after a crash: nothing twice
            world.rollback()
    else:
        world.revoke(base.two.digest, rollback=operation == "revoke-back")


def _in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked child and return its wait status."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(70)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def _kill_before(count: int) -> None:
    """Let this process die before the ``count``-th change of a file (this is only called in a child)."""
    left = [count]

    def wrap(function: Any) -> Any:
        def dying(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **more)

        return dying

    for name in CHANGES:
        setattr(os, name, wrap(getattr(os, name)))


def _copy(base: Base, tmp_path: Path) -> Path:
    root = tmp_path / "world"
    shutil.copytree(base.root, root, symlinks=True)
    memory.forget()
    return root


def _look(world: World, base: Base, operation: str) -> None:
    """Open as a loader, also in a half-done state, and check that ``current`` names something whole."""
    digests = {base.one.digest, base.two.digest}
    try:
        opened = world.open(state_file=world.root / "seen.json")
    except ReleaseNotFoundError:
        assert operation == "first"
    except RevokedError:
        assert operation.startswith("revoke")
    else:
        assert opened.bundle_digest in digests
        assert (opened.path / "model.onnx").is_file()
    link = world.channel_dir / "current"
    if os.path.lexists(link):
        assert (link / "release.json").is_file()
        assert store.verify(world.state, Path(os.readlink(link / "bundle")).name)


def _in_line(world: World, operation: str) -> None:
    """Check that ledger, link, channel and files say the same, and that nothing is left over."""
    book = read_book(world.ledger)
    row = book.current(MODEL, "production")
    assert book.pending(MODEL, "production") == []
    assert survivors(world.state) == []
    numbers = [e.body["number"] for e in world.ledger.entries(kind="intent")]
    assert numbers == sorted(set(numbers))
    folders = sorted(int(p.name) for p in world.channel_dir.glob("0*")) if world.channel_dir.exists() else []
    if row is None:
        assert operation == "first"
        assert folders == []
        assert not os.path.lexists(world.channel_dir / "current")
        return
    assert os.readlink(world.channel_dir / "current") == trust.number_name(row.number)
    facts = channels.read(world.state, world.keys, MODEL, "production")
    assert facts is not None
    assert (facts.number, facts.release_digest) == (row.number, row.release_digest)
    assert folders == [r.number for r in book.rows(MODEL, "production") if r.release_digest]
    listed = channels.read_revocations(world.state, world.keys)
    assert set(listed.revoked) == set(book.revoked)
    assert facts.least_revocations == listed.number


def _recover(root: Path, base: Base, operation: str) -> None:
    world = World(root)
    try:
        _look(world, base, operation)
        done = reconcile(world.state, world.ledger, world.keys, terms=world.terms)
        assert done.problems == ()
        _look(world, base, operation)
        _in_line(world, operation)
        assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).done == ()
        _operate(world, base, operation)
        _in_line(world, operation)
        _look(world, base, operation)
        row = read_book(world.ledger).current(MODEL, "production")
        assert row is not None
        assert row.digest == (base.two.digest if operation in {"second", "revoke"} else base.one.digest)
    finally:
        world.close()


def _attempt(root: Path, base: Base, operation: str, prepare: Callable[[], None]) -> int:
    """Do the operation in a child that ``prepare`` has doomed; return its wait status."""
    before = World(root)
    try:
        if operation != "first":
            before.open(state_file=root / "seen.json")  # what the loader remembers
    finally:
        before.close()

    def work() -> None:
        world = World(root)
        prepare()
        _operate(world, base, operation)

    return _in_child(work)


@pytest.mark.parametrize(("operation", "point"), KILLS)
def test_kill_at_a_failpoint(bases: dict[str, Base], tmp_path: Path, operation: str, point: str) -> None:
    base = bases[BASE_OF[operation]]
    root = _copy(base, tmp_path)
    status = _attempt(root, base, operation, lambda: os.environ.update({VARIABLE: point}))
    assert os.WIFSIGNALED(status), f"{point} was never passed"
    assert os.WTERMSIG(status) == signal.SIGKILL
    _recover(root, base, operation)


@pytest.mark.parametrize("operation", list(BASE_OF))
def test_kill_before_every_change_of_a_file(bases: dict[str, Base], tmp_path: Path, operation: str) -> None:
    base = bases[BASE_OF[operation]]
    for count in range(1, 200):
        root = _copy(base, tmp_path / str(count))
        status = _attempt(root, base, operation, lambda count=count: _kill_before(count))  # type: ignore[misc]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert count > 5
            return
        _recover(root, base, operation)
        shutil.rmtree(root)
    pytest.fail("the operation never ended")


@pytest.mark.parametrize(
    ("operation", "steps"),
    [("second", ("intended", "written")), ("back", ("swapped", "announced")), ("revoke-back", ("written",))],
)
def test_kill_during_the_recovery_from_a_kill(
    bases: dict[str, Base], tmp_path: Path, operation: str, steps: tuple[str, ...]
) -> None:
    """Die in the middle of the operation, then before every change of a file of the reconciliation."""
    base = bases[BASE_OF[operation]]
    kind = "promote" if operation == "second" else "rollback"
    for step in steps:
        for count in range(1, 100):
            root = _copy(base, tmp_path / f"{step}-{count}")
            point = f"release.{kind}.{step}"
            status = _attempt(root, base, operation, lambda point=point: os.environ.update({VARIABLE: point}))  # type: ignore[misc]
            assert os.WIFSIGNALED(status)

            def again(root: Path = root, count: int = count) -> None:
                world = World(root)
                _kill_before(count)
                reconcile(world.state, world.ledger, world.keys, terms=world.terms)

            status = _in_child(again)
            _recover(root, base, operation)
            shutil.rmtree(root)
            if os.WIFEXITED(status):
                break
        else:
            pytest.fail("the reconciliation never ended")


def test_revocation_that_overtakes_an_interrupted_promotion(bases: dict[str, Base], tmp_path: Path) -> None:
    """A promotion died with ``release.json`` signed; its bundle is revoked before anybody reconciles."""
    base = bases["one"]
    for step in ("written", "swapped", "announced"):
        root = _copy(base, tmp_path / step)
        point = f"release.promote.{step}"
        status = _attempt(root, base, "second", lambda point=point: os.environ.update({VARIABLE: point}))  # type: ignore[misc]
        assert os.WIFSIGNALED(status)
        world = World(root)
        if step == "announced":
            assert world.open(state_file=root / "seen.json").number == 2
        world.revoke(base.two.digest, rollback=True)
        opened = world.open(state_file=root / "seen.json")
        # A number that loaders may have seen stands, so the way back is a higher one; an unseen one is burnt.
        assert opened.bundle_digest == base.one.digest
        assert opened.number == (3 if step == "announced" else 1)
        assert reconcile(world.state, world.ledger, world.keys, terms=world.terms).problems == ()
        world.close()


@pytest.mark.parametrize("point", ["release.store.inventory", "release.store.moved"])
def test_kill_while_the_store_takes_a_bundle(tmp_path: Path, point: str) -> None:
    world = World(tmp_path)
    sealed_dir, sealed = world.sealed({"model.onnx": b"m" * 1000})
    world.close()

    def work() -> None:
        os.environ[VARIABLE] = point
        store.put(world.state, sealed_dir, sealed)

    assert os.WIFSIGNALED(_in_child(work))
    target = store.put(world.state, sealed_dir, sealed)
    assert (target / "model.onnx").read_bytes() == b"m" * 1000
    store.verify(world.state, sealed.digest)
    assert not sealed_dir.exists()


def test_a_promotion_that_fails_burns_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error instead of a death: the disk is full when ``release.json`` is written."""
    world = World(tmp_path)
    world.released("1.0.0")
    accepted = world.accepted("2.0.0")

    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28), "release.json")

    with monkeypatch.context() as broken:
        broken.setattr(promote, "write_exclusive", full)
        with pytest.raises(StateError, match="No space left"):
            world.promote(accepted)
    assert world.open().number == 1
    assert world.promote(accepted).number == 3
    kinds = [e.type for e in world.ledger.entries() if e.body.get("number") == 2]
    assert kinds == ["intent", "abandoned"]
    world.close()


def test_the_lock_goes_with_a_killed_holder(tmp_path: Path) -> None:
    world = World(tmp_path)

    def hold() -> None:
        with revocation_lock(world.state, shared=False), model_lock(world.state, MODEL):
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.WIFSIGNALED(_in_child(hold))
    assert world.released("1.0.0").number == 1
    with Ledger.open(world.state) as ledger:
        assert read_book(ledger).current(MODEL, "production") is not None
    world.close()
