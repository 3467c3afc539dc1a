"""kill -9 at every named place of a rotation: one key in use, a log that verifies, loaders that go on."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd import key_rotation
from acceptd.errors import StateError
from acceptd.record import audit, checkpoint, keystore
from acceptd.record.failpoint import VARIABLE
from acceptd.record.keys import ROLES, Keyring, load_keyring
from acceptd.record.log import Ledger
from acceptd.release import audit as release_audit
from acceptd.release import memory
from acceptd.release.signers import Auditor
from tests.release_world import World, memory_directory, survivors

pytestmark = pytest.mark.crash

STEPS = ("staged", "recorded", "cosigned", "published", "keyring", "switched")
KILLS = [
    *(("release", f"key.rotate.{step}", False) for step in STEPS),
    *(("revocation", f"key.rotate.{step}", False) for step in ("recorded", "cosigned", "keyring")),
    *(("ledger", f"key.rotate.{step}", False) for step in ("staged", "recorded", "published", "switched")),
    *(("release", f"release.rekey.{step}", False) for step in ("intended", "linked", "swapped", "announced")),
    *(("release", f"key.rotate.{step}", True) for step in ("recorded", "keyring", "cosigned")),
    ("revocation", "key.rotate.keyring", True),
    ("ledger", "key.rotate.recorded", True),
]


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """A release, a revocation and a checkpoint; each kill works on a copy."""
    world = World(memory_directory())
    world.released("1.0.0")
    world.revoke("ab" * 32)
    history = keystore.own_history(world.state, world.ledger)
    checkpoint.write(world.state, world.ledger, keystore.open_signer(world.state, "ledger"), history)
    (world.root / "digest").write_text(world.open().bundle_digest)
    world.close()
    shutil.copy(world.state / "keyring.json", world.root / "old.json")
    yield world.root
    shutil.rmtree(world.root)


def rotate(root: Path, role: str, compromised: bool) -> None:
    with Ledger.open(root / "state", create=False) as ledger:
        begins = ledger.tree().size if compromised else None
        key_rotation.rotate(root / "state", ledger, role, reason="age", compromised_from=begins)


def killed(root: Path, role: str, place: str, compromised: bool) -> int:
    """Rotate in a child that dies at ``place``; return its wait status."""
    pid = os.fork()
    if pid == 0:
        os.environ[VARIABLE] = place
        try:
            rotate(root, role, compromised)
        except BaseException:
            os._exit(70)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def differences(root: Path, keyring: Keyring | None = None) -> list[str]:
    with Ledger.open(root / "state", create=False) as ledger:
        found = [*audit.examine(root / "state", keyring).differences]
        keys = Auditor.of(keystore.history(ledger, keyring or load_keyring(root / "state")))
        found += release_audit.examine(root / "state", ledger, keys)
    return [f"{one.what} {one.where}: {one.message}" for one in found]


def opened(root: Path, keys: Path) -> str:
    world = World.__new__(World)
    world.state, world.now = root / "state", 0.0
    memory.forget()
    return world.open(keys=keys).bundle_digest


def one_key_signs(root: Path, role: str) -> str:
    """Return the id of the one key that signs for ``role``."""
    with Ledger.open(root / "state", create=False) as ledger:
        signer = keystore.open_signer(root / "state", role)
        (key,) = keystore.own_history(root / "state", ledger).current.for_role(role)
        assert key == signer.public_key() == load_keyring(root / "state").for_role(role)[0]
        keystore.in_force(keystore.own_history(root / "state", ledger), signer)
    return key.key_id


@pytest.mark.parametrize(("role", "place", "compromised"), KILLS)
def test_a_kill_there_leaves_one_key_and_a_log_that_verifies(
    base: Path, role: str, place: str, compromised: bool
) -> None:
    root = memory_directory()
    try:
        shutil.copytree(base, root, symlinks=True, dirs_exist_ok=True)
        old, new = root / "old.json", root / "state" / "keyring.json"
        before, digest = load_keyring(root / "state").for_role(role)[0].key_id, (root / "digest").read_text()
        assert os.WTERMSIG(killed(root, role, place, compromised)) == signal.SIGKILL, "the place was reached"
        if not compromised:
            # A number whose promotion was cut in two is put right at the next start, as any.
            found = differences(root, Keyring.load(old))
            assert [line for line in found if not ("rekey" in place and line.startswith("release "))] == []
            assert opened(root, old) == opened(root, new) == digest
        half = keystore.pending(root / "state", role)
        if half:
            with pytest.raises(StateError, match="interrupted"):
                keystore.open_signer(root / "state", role)
        with Ledger.open(root / "state", create=False) as ledger:
            done = key_rotation.resume(root / "state", ledger)
            recorded = bool(keystore.rotations(ledger))
            assert key_rotation.resume(root / "state", ledger) == []
        assert bool(done) == half
        assert (one_key_signs(root, role) != before) == recorded
        assert sorted(path.name for path in (root / "state" / "keys").iterdir()) == [f"{one}.pem" for one in ROLES]
        assert differences(root) == []
        assert survivors(root / "state") == []
        assert opened(root, new) == digest
        assert compromised or opened(root, old) == digest
    finally:
        shutil.rmtree(root)
