"""No other user of the machine holds what acceptd waits for: flock(2) asks for no right to write."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import acceptd
from acceptd.adopt import place as adoption
from acceptd.backup import make as backup
from acceptd.config import Paths
from acceptd.daemon_lock import acquire, holder
from acceptd.errors import StateError
from acceptd.export.place import opened
from acceptd.lockfile import open_lock
from acceptd.record import checkpoint
from acceptd.record.keys import load_keyring, load_signer
from acceptd.release import memory
from tests.retention_world import Kept

pytestmark = pytest.mark.unit


def closed_to_others(status: os.stat_result) -> bool:
    return not stat.S_IMODE(status.st_mode) & 0o077


@contextmanager
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bool]]:
    """Give every place that is locked meanwhile, and whether its owner alone can open it."""
    taken: dict[str, bool] = {}
    flock = fcntl.flock

    def noting(descriptor: int, operation: int) -> None:
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        taken[place] = closed_to_others(os.fstat(descriptor))
        flock(descriptor, operation)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", noting)
        yield taken


def test_a_user_who_reads_the_state_directory_cannot_keep_the_daemon_from_starting(tmp_path: Path) -> None:
    lock = tmp_path / "daemon.lock"
    lock.write_text("4711\n")
    lock.chmod(0o644)  # as an earlier acceptd made it, and anybody could lock it
    os.close(acquire(lock))
    assert closed_to_others(lock.stat())
    os.close(acquire(tmp_path / "another.lock"))
    assert closed_to_others((tmp_path / "another.lock").stat())


def test_the_lock_of_a_running_daemon_is_still_seen_by_its_own_user(tmp_path: Path) -> None:
    held = acquire(tmp_path / "daemon.lock")
    try:
        assert holder(tmp_path / "daemon.lock") == os.getpid()
    finally:
        os.close(held)


def test_a_link_in_place_of_the_lock_empties_no_other_file(tmp_path: Path) -> None:
    victim = tmp_path / "shadow"
    victim.write_text("kept")
    (tmp_path / "daemon.lock").symlink_to(victim)
    with pytest.raises(StateError, match=r"daemon\.lock: cannot be locked"):
        acquire(tmp_path / "daemon.lock")
    assert victim.read_text() == "kept"


def test_who_reads_the_checkpoints_holds_up_none(tmp_path: Path) -> None:
    world = Kept(tmp_path)
    try:
        signer, keyring = load_signer(world.state, "ledger"), load_keyring(world.state)
        first = checkpoint.write(world.state, world.ledger, signer, keyring)
        auditor = os.open(world.state / checkpoint.DIRECTORY, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(auditor, fcntl.LOCK_EX)
            world.held("s-1")
            assert checkpoint.write(world.state, world.ledger, signer, keyring).size > first.size
            checkpoint.sweep(world.state)
        finally:
            os.close(auditor)
    finally:
        world.close()


def test_every_lock_that_a_state_an_export_and_an_adoption_take_is_their_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Kept(tmp_path)
    (tmp_path / "export").mkdir(mode=0o755)
    try:
        with noted(monkeypatch) as taken:
            world.held("s-1")
            world.gone(10.1)
            world.promote(world.accepted())
            signer, keyring = load_signer(world.state, "ledger"), load_keyring(world.state)
            checkpoint.write(world.state, world.ledger, signer, keyring)
            backup.make(Paths(world.state), tmp_path / "copy", with_keys=False)
            with opened(tmp_path / "export", "plain", world.state):
                pass
            with adoption.alone(adoption.Place(tmp_path / "adopted")):
                pass
            memory.recall(world.state, "mosaic", tmp_path / "seen.json")
    finally:
        world.close()
    assert {Path(one).name for one in taken} >= {
        *("store.lock", "keys.lock", "revocations.lock", "gc.lock", "checkpoints.lock"),
        *("evidence-disposition.lock", ".adopt.lock", "seen.json.lock"),
    }
    assert [one for one, closed in taken.items() if not closed] == []


def test_a_lock_that_others_could_open_is_closed_to_them_where_it_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.lock").touch(mode=0o644)
    os.close(open_lock(tmp_path / "one.lock"))
    assert closed_to_others((tmp_path / "one.lock").stat())


def test_a_lock_that_cannot_be_closed_to_others_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "one.lock").touch(mode=0o644)
    monkeypatch.setattr(os, "fchmod", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PermissionError):
        open_lock(tmp_path / "one.lock")
    assert len(os.listdir("/proc/self/fd")) == before, "nothing of it stays open"


def test_no_module_locks_a_file_that_it_opened_in_a_way_of_its_own() -> None:
    """The one exception locks the directory of its backups, which is 0700."""
    root = Path(acceptd.__file__).parent
    takes = [path for path in root.rglob("*.py") if re.search(r"fcntl\.(flock|lockf)\(", path.read_text("utf-8"))]
    loose = {
        path.relative_to(root).as_posix()
        for path in takes
        if "open_lock(" not in path.read_text("utf-8") and path.name != "probes.py"
    }
    assert loose == {"record/backup.py"}
