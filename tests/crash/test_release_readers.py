"""Readers that open the current release in a loop while it is being changed: never missing, never mixed."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptd.release import trust
from tests.release_world import MODEL, World, memory_directory, payload_of

pytestmark = pytest.mark.crash

PROMOTIONS = 40


class _Readers:
    """Threads that call ``look`` until they are stopped; the first exception of any is kept."""

    def __init__(self, looks: list[Callable[[], int]]) -> None:
        self.counts = [0] * len(looks)
        self.seen: list[list[int]] = [[] for _ in looks]
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        self._started = threading.Barrier(len(looks) + 1)
        self._threads = [
            threading.Thread(target=self._run, args=(index, look)) for index, look in enumerate(looks)
        ]

    def _run(self, index: int, look: Callable[[], int]) -> None:
        self._started.wait()
        try:
            while not self._stop.is_set():
                self.seen[index].append(look())
                self.counts[index] += 1
        except BaseException as error:
            self.failures.append(error)

    def __enter__(self) -> _Readers:
        for thread in self._threads:
            thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    path = memory_directory()
    yield path
    shutil.rmtree(path)


def test_threads_that_read_during_promotions_and_rollbacks(tmp_path: Path) -> None:
    world = World(tmp_path)
    bundles = [world.accepted(f"{n}.0.0") for n in range(3)]
    version = {accepted.digest: f"{n}.0.0" for n, accepted in enumerate(bundles)}
    world.promote(bundles[0])

    def through_the_loader() -> int:
        release = world.open()
        # Mixed would be: the manifest of one, the bytes of another.
        wanted = version[release.bundle_digest]
        assert release.manifest["bundle"]["version"] == wanted
        assert (release.path / "data/labels.txt").read_text() == wanted
        return release.number

    def through_the_loader_with_a_state_file() -> int:
        return world.open(state_file=tmp_path / "seen.json").number

    def through_the_link() -> int:
        # What a consumer without the loader does: resolve the name once, then read below it.
        folder = world.channel_dir / os.readlink(world.channel_dir / "current")
        payload = payload_of(folder / "release.json")
        data = (folder / "bundle" / "data/labels.txt").read_bytes()
        assert hashlib.sha256(data).hexdigest() == payload["files"][0]["sha256"]
        assert folder.name == trust.number_name(payload["number"])
        number = payload["number"]
        assert isinstance(number, int)
        return number

    looks = [through_the_loader, through_the_loader_with_a_state_file, through_the_link]
    with _Readers(looks) as readers:
        for index in range(PROMOTIONS):
            if index % 5 == 4:
                world.rollback()
            else:
                world.promote(bundles[(index + 1) % 3])
            if readers.failures:
                break
    assert readers.failures == []
    assert min(readers.counts) > 2
    for seen in readers.seen:
        assert seen == sorted(seen)
    highest = max(e.body["number"] for e in world.ledger.entries(kind="activated"))
    assert world.open().number == highest
    assert highest > PROMOTIONS // 2
    assert world.open(MODEL).release_digest == trust.sha256(world.release_file(highest).read_bytes())
    world.close()
