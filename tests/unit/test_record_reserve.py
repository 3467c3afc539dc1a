"""With a full disk a revocation still goes on record; without the reserve it would not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acceptd.record import reserve

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import errno, os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from acceptd.record import reserve
from acceptd.record.log import Ledger
from acceptd.record.keys import create_keys
from acceptd.release.signers import ReleaseKeys
from acceptd.release.revoke import revoke
from acceptd.release.settle import Terms

state = Path({small!r}) / "state"
state.mkdir()
create_keys(state)
with Ledger.open(state) as ledger:
    ledger.append("note", {{"before": "it is full"}})
    if {kept}:
        assert reserve.keep(state, 16 << 20)
    with open({small!r} + "/junk", "wb", buffering=0) as junk:
        try:
            while True:
                junk.write(bytes(1 << 16))
        except OSError as error:
            assert error.errno == errno.ENOSPC
        try:
            while True:
                junk.write(bytes(512))
        except OSError as error:
            assert error.errno == errno.ENOSPC
    try:
        keys = ReleaseKeys.load(state)
        revoke(state, ledger, keys, digest="ab" * 32, reason="it bites", rollback=False, terms=Terms())
        for number in range(50):
            ledger.append("note", {{"number": number, "text": "x" * 2000}})
    except Exception as error:
        print("refused:", type(error).__name__, error)
        sys.exit(3)
    size = ledger.tree().size
with Ledger.open(state, create=False) as ledger:
    assert ledger.tree().size == size
assert (state / "revocations.json").stat().st_size > 0
assert not (state / reserve.NAME).exists()
print("recorded")
"""


def on_a_small_disk(place: Path, *, kept: bool) -> subprocess.CompletedProcess[str]:
    """Run the child on a tmpfs of 48 MiB in a mount namespace of its own."""
    prefix = Path(sys.prefix)
    binds = ["--ro-bind", "/", "/", "--size", str(48 << 20), "--tmpfs", str(place)]
    command = ["bwrap", "--unshare-user", *binds, "--chdir", str(ROOT), str(prefix / "bin" / "python"), "-c"]
    return subprocess.run(
        [*command, CHILD.format(root=str(ROOT), small=str(place), kept=kept)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap for a small disk")
def test_with_a_full_disk_a_revocation_and_entries_are_recorded_from_the_reserve(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, kept=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "recorded\n"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap for a small disk")
def test_the_control_without_a_reserve_they_are_not(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, kept=False)
    assert done.returncode == 3, done.stdout + done.stderr


def test_it_is_made_once_with_real_blocks_and_stays_while_there_is_room(tmp_path: Path) -> None:
    assert reserve.keep(tmp_path, 1 << 20)
    status = (tmp_path / reserve.NAME).stat()
    assert status.st_size == 1 << 20
    assert status.st_blocks * 512 >= 1 << 20
    assert status.st_mode & 0o077 == 0
    assert reserve.keep(tmp_path, 1 << 20)
    assert not reserve.give_way(tmp_path)
    assert os.listdir(tmp_path) == [reserve.NAME]


def test_without_room_for_twice_its_size_it_is_not_made(tmp_path: Path) -> None:
    assert not reserve.keep(tmp_path, reserve.free_bytes(tmp_path))
    assert os.listdir(tmp_path) == []
