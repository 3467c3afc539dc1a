"""A few of what ``make strace-proof`` does: calls that fail, a disk that is full, a daemon whose disk fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.faults import full, whole
from tests.crash.faults.__main__ import MODES, passings, table
from tests.crash.faults.calls import MISSING, Call
from tests.crash.faults.case import judge
from tests.crash.faults.live import ends
from tests.crash.faults.stage import Stage
from tests.crash.faults.works import prepare
from tests.release_world import memory_directory
from tests.world import world

pytestmark = pytest.mark.crash


@pytest.fixture
def home() -> Iterator[Path]:
    made = memory_directory()
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(bool(MISSING), reason=MISSING or "nothing is missing")
def test_a_promotion_whose_calls_fail_loses_nothing(home: Path) -> None:
    base, root = prepare(home, "both"), home / "root"
    before = whole.remember(whole.copy(base, root))
    stage = Stage(home / "stage", "EIO")
    try:
        calls = [call for call in passings(stage, "promote", base, root) if call.about and call.changes]
        found = {
            "renameat": "refused",
            "fdatasync": "ended",
        }
        for name, word in found.items():
            mine = [call for call in calls if call.name == name]
            outcome = judge(stage, "promote", base, before, root, mine[0])
            assert (outcome.word, outcome.wrong) == (word, ""), outcome
    finally:
        stage.close()


@pytest.mark.skipif(bool(full.MISSING), reason=full.MISSING or "nothing is missing")
def test_on_a_full_disk_a_revocation_goes_on_record_and_all_else_says_why_it_does_not(tmp_path: Path) -> None:
    done = full.inside(tmp_path, "quick")
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one for one in tried if one["wrong"]] == []
    assert done.returncode == 0, done.stderr
    ended = {(one["how"], one["work"]): one["ended"] for one in tried}
    assert ended["full, with the reserve", "revoke"] == "done"
    assert ended["0 bytes free", "revoke"] == "refused"


@pytest.mark.skipif(bool(MISSING), reason=MISSING or "nothing is missing")
def test_a_daemon_whose_ledger_is_not_synchronised_ends_and_the_next_one_takes_up_all(tmp_path: Path) -> None:
    """fsync(2), NOTES: after a failure a later success says nothing; so this process writes nothing more."""
    with world(tmp_path) as made:
        try:
            ends(made, "fdatasync", "EIO")
        except PermissionError as error:
            pytest.skip(f"nobody may join a process here: {error}")


def test_a_sweep_takes_every_call_or_first_middle_and_last_of_many_that_are_alike() -> None:
    calls = [Call("pwrite64", number, "wal", True, False) for number in range(1, 10)]
    calls += [Call("fsync", number, "wal", True, False) for number in range(1, 4)]
    calls += [Call("openat", 1, "wal", False, False), Call("fsync", 9, "", True, False)]
    once, space, lasting = MODES[:3]
    assert [call.number for call in once.chosen(calls, full=False)] == [1, 5, 9, 1, 2, 3, 1]
    assert len(once.chosen(calls, full=True)) == 13
    assert [call.name for call in space.chosen(calls, full=False)].count("openat") == 0
    assert [(call.name, call.number) for call in lasting.chosen(calls, full=False)] == [
        ("pwrite64", 1),
        ("fsync", 1),
        ("openat", 1),
    ]
    assert table([])[-1].split() == ["all", "0", "0", "0", "0", "0", "0"]
