"""kill -9 before every change of a file while an export follows: old or new is served, whole; the next run mends.

At each kill all that lies in the export verifies, and a home that is there leads to a number. Of the kills, every
eleventh; `make kill-exports` does all.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from acceptd.errors import ReleaseNotFoundError
from acceptd.export.settings import Kind
from acceptd.record.failpoint import VARIABLE
from tests.export_world import SERVABLE, Exported
from tests.release_world import World, memory_directory

pytestmark = pytest.mark.crash

STEP = 1 if os.environ.get("ACCEPTD_EXPORT_KILLS") == "all" else 11
CHANGES = ("rename", "symlink", "mkdir", "unlink", "rmdir", "fsync", "write", "chmod")
POINTS = {
    "1": ("build.copied", "build.staged", "put.home-built", "put.switched"),
    "2": ("build.copied", "build.staged", "put.renamed", "put.switched"),
}
"""Of the first number in a home, and of a further one."""


@pytest.fixture(params=["plain", "triton"])
def exported(request: pytest.FixtureRequest) -> Iterator[Exported]:
    home = memory_directory()
    world = World(home)
    kind: Kind = request.param
    yield Exported(world, home / "out", kind)
    world.close()
    shutil.rmtree(home)


def in_child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(70)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def die_before(count: int) -> None:
    """Let this process die before the ``count``-th change of a file (only called in a child)."""
    left = [count]

    def wrap(function: Any) -> Any:
        def wrapped(*words: Any, **named: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*words, **named)

        return wrapped

    for name in CHANGES:
        setattr(os, name, wrap(getattr(os, name)))


def killed(exported: Exported, count: int) -> None:
    die_before(count)
    exported.follow()


def numbers(exported: Exported) -> set[int]:
    """Return the numbers that are served; all that is there must verify."""
    try:
        report = exported.verify()
    except ReleaseNotFoundError:
        return set()
    assert report.problems == ()
    served = {one.number for one in report.verified if one.served}
    assert served, "a home that is there leads to a number"
    return served


def every_kill(exported: Exported, before: set[int], after: set[int]) -> int:
    """Kill a run before every change that it makes, or every STEP-th; return how many there are."""
    kept = exported.root.with_name("kept")
    shutil.copytree(exported.root, kept, symlinks=True)
    count = 0
    while True:
        count += STEP
        shutil.rmtree(exported.root)
        shutil.copytree(kept, exported.root, symlinks=True)
        status = in_child(partial(killed, exported, count))
        found = numbers(exported)
        assert found in (before, after), (count, found)
        assert exported.follow().problems == []
        assert numbers(exported) == after
        assert list((exported.root / ".staging").iterdir()) == []
        if not os.WIFSIGNALED(status):
            assert status == 0
            shutil.rmtree(kept)
            return count


def test_every_kill_leaves_old_or_new_whole(exported: Exported) -> None:
    world = exported.world
    world.revoke(world.accepted("0").digest)  # so that a list is put there too
    world.released("1", manifest=SERVABLE)
    assert every_kill(exported, set(), {1}) > 15
    second = world.released("2", manifest=SERVABLE)
    assert every_kill(exported, {1}, {2}) > 15
    world.revoke(second.bundle_digest, rollback=True)
    exported.follow()
    assert numbers(exported) == {3}


def test_every_kill_of_a_withdrawal_leaves_the_whole_or_nothing(exported: Exported) -> None:
    world = exported.world
    release = world.released("1", manifest=SERVABLE)
    exported.served()
    world.revoke(release.bundle_digest)
    kept = exported.root.with_name("kept")
    shutil.copytree(exported.root, kept, symlinks=True)
    whole = {path.relative_to(kept) for home in ("mosaic", "repository") for path in (kept / home).rglob("*")}
    count, status = 0, -1
    while status != 0:
        count += min(STEP, 3)
        shutil.rmtree(exported.root)
        shutil.copytree(kept, exported.root, symlinks=True)
        status = in_child(partial(killed, exported, count))
        homes = [path for home in ("mosaic", "repository") for path in (exported.root / home).rglob("*")]
        there = {path.relative_to(exported.root) for path in homes if not path.name.startswith(".tmp-")}
        deep = {path for path in there if len(path.parts) > 3 or path.parts[0] == "repository"}
        assert not deep or there == whole, count
        exported.follow()
        assert numbers(exported) == set()
        assert list((exported.root / ".staging").iterdir()) == []
    assert count > 5


def test_the_named_points_are_on_the_way(exported: Exported) -> None:
    def stopped(point: str) -> None:
        os.environ[VARIABLE] = f"export.{point}"
        exported.follow()

    for version, points in POINTS.items():
        exported.world.released(version, manifest=SERVABLE)
        for point in points:
            assert os.WIFSIGNALED(in_child(partial(stopped, point))), point
            assert numbers(exported) <= {1, 2}
        exported.served()
