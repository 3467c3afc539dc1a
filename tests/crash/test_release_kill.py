"""kill -9 after every step of every act on a release: what stands then, a restart, and the act done once more.

After each kill all promises of :mod:`tests.release_promises` hold: a loader with a memory of what it saw before
finds the old release, the new one, or the refusal that a revocation means; never a torn one. A restart puts
everything in line, and the act done once more ends where it would have ended.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.errors import StateError
from acceptd.record.failpoint import VARIABLE
from acceptd.record.log import Ledger
from acceptd.release import channel as channels
from acceptd.release import document, store
from acceptd.release.book import read_book
from acceptd.release.layout import model_lock, revocation_lock
from acceptd.release.reconcile import Reconciled, catch_up, reconcile
from tests.release_promises import Promises, recording
from tests.release_steps import ACTS, Act, Base, bases, copied, crashed, in_child, recovered, restart, walk
from tests.release_world import MODEL, NOON, World, memory_directory
from tests.retention_world import Kept
from tests.warm_database import warm_database

pytestmark = pytest.mark.crash

STEPS = ("stored", "intended", "begun", "linked", "written", "swapped", "announced", "activated")
ROTATION = ("staged", "recorded", "cosigned", "published", "keyring", "switched")
NAMED = {
    "store": ["release.store.inventory", "release.store.moved"],
    "first": ["release.directory.made", *(f"release.promote.{step}" for step in STEPS)],
    "second": [f"release.promote.{step}" for step in STEPS],
    "back": [f"release.rollback.{step}" for step in STEPS],
    "revoke": [f"release.revoke.{step}" for step in ("recorded", "listed", "announced")],
    "revoke-back": ["release.revoke.recorded", *(f"release.rollback.{step}" for step in STEPS)],
    "rekey": [*(f"key.rotate.{step}" for step in ROTATION),
              *(f"release.rekey.{step}" for step in STEPS)],
    "refresh": ["files.renamed"],
    "canary-promote": ["canary.recorded", *(f"release.promote.{step}" for step in STEPS)],
    "canary-back": ["canary.recorded", "release.promote.announced"],
    "freeze": ["release.freeze.settled", "release.freeze.recorded"],
    "unfreeze": ["release.freeze.recorded", "release.unfreeze.recorded"],
    "pin": ["release.pin.recorded"],
    "unpin": ["release.pin.recorded", "release.unpin.recorded"],
    "collect": [*(f"retention.bundle.{step}" for step in ("entered", "moved")), "retention.files.entered",
                "retention.file.moved"],
}  # fmt: skip
"""Places that each act must pass, as the design names its steps: a list that is walked must not shrink unseen."""
REAL = {"rekey": 0, "refresh": 0, "canary-promote": 1, "canary-back": 1}
"""How many of an act's first places are real kills too: of a rotation's, tests/crash/test_key_kill.py has them."""
APPENDS = [f"record.append.{step}" for step in ("after-insert", "before-commit", "after-commit")]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    path = memory_directory()
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, Base]]:
    found = bases()
    with warm_database():
        yield found
    for base in found.values():
        shutil.rmtree(base.root)


@pytest.mark.parametrize("name", list(ACTS))
def test_a_kill_after_any_step_of_it(made: dict[str, Base], tmp_path: Path, name: str) -> None:
    act = ACTS[name]
    base = made[act.base]
    passed: list[str] = []
    for step in walk(*_doing(base, act, tmp_path), tmp_path / "copies"):
        # A step without a failpoint after it is one that nobody can be killed at.
        assert len(step.changes) <= 1, f"no failpoint between {step.changes}"
        passed.append(step.name)
        if step.fresh:
            recovered(step.root, base, act)
    assert set(NAMED[name]) <= set(passed)
    if name not in {"refresh", "store"}:
        assert set(APPENDS) <= set(passed)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("second", "release.promote.intended"),
        ("second", "release.promote.written"),
        ("back", "release.rollback.swapped"),
        ("back", "release.rollback.announced"),
        ("revoke-back", "release.revoke.recorded"),
        ("revoke-back", "release.rollback.written"),
    ],
)
def test_a_kill_after_any_step_of_the_restart_after_a_kill(
    made: dict[str, Base], tmp_path: Path, name: str, place: str
) -> None:
    act = ACTS[name]
    base = made[act.base]
    root = crashed(base, act, place, tmp_path / "root")
    for step in walk(root, lambda: restart(root), tmp_path / "copies"):
        assert len(step.changes) <= 1, f"no failpoint between {step.changes}"
        if step.fresh:
            recovered(step.root, base, act)


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, place) for name, places in NAMED.items() for place in places[: REAL.get(name)]],
)
def test_a_kill_at_a_named_place(made: dict[str, Base], tmp_path: Path, name: str, place: str) -> None:
    """The process itself is killed, and not looked at where it stands still."""
    base = made[ACTS[name].base]
    recovered(crashed(base, ACTS[name], place, tmp_path / "root"), base, ACTS[name])


def _doing(base: Base, act: Act, tmp_path: Path) -> tuple[Path, Any]:
    root = copied(base.root, tmp_path / "root")

    def do() -> None:
        with recording(root):
            act.do(Kept(root), base)

    return root, do


def test_revocation_that_overtakes_an_interrupted_promotion(made: dict[str, Base], tmp_path: Path) -> None:
    """A promotion died with ``release.json`` signed; its bundle is revoked before anybody reconciles."""
    base = made["one"]
    for step in ("written", "swapped", "announced"):
        root = crashed(base, ACTS["second"], f"release.promote.{step}", tmp_path / step)
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


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("second", "release.promote.intended"),
        ("second", "release.promote.announced"),
        ("revoke", "release.revoke.recorded"),
        ("revoke-back", "release.revoke.listed"),
    ],
)
def test_a_command_killed_beside_a_running_daemon_is_finished_without_a_restart(
    made: dict[str, Base], tmp_path: Path, name: str, place: str
) -> None:
    """Else a revocation would tell no loader, or an announced channel expire, until somebody restarts it."""
    base = made[ACTS[name].base]
    root = crashed(base, ACTS[name], place, tmp_path / "root")
    world = Kept(root)
    assert len(catch_up(world.state, world.ledger, world.keys, terms=world.terms).done) == 1
    assert catch_up(world.state, world.ledger, world.keys, terms=world.terms) == Reconciled((), ())
    refreshed = channels.refresh(
        world.state, world.ledger, world.keys, valid_seconds=3600, clock=world.terms.clock
    )
    assert refreshed.problems == ()
    world.close()
    told = Promises(root / "state", root, NOON).in_line(audited=False)
    assert (base.two.digest in told.revoked) == name.startswith("revoke")


@pytest.mark.parametrize("point", ["release.store.inventory", "release.store.moved"])
def test_kill_while_the_store_takes_a_bundle(tmp_path: Path, point: str) -> None:
    world = World(tmp_path)
    sealed_dir, sealed = world.sealed({"model.onnx": b"m" * 1000})
    world.close()

    def work() -> None:
        os.environ[VARIABLE] = point
        store.put(world.state, sealed_dir, sealed)

    assert os.WIFSIGNALED(in_child(work))
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
        broken.setattr(document, "write_exclusive", full)
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

    assert os.WIFSIGNALED(in_child(hold))
    assert world.released("1.0.0").number == 1
    with Ledger.open(world.state) as ledger:
        assert read_book(ledger).current(MODEL, "production") is not None
    world.close()
