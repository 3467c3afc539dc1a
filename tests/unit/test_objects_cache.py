"""The cache of bundles beside a worker: bounded, shared, verified at each use, and whole after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from acceptd.errors import ObjectDamagedError, ObjectMissingError, ObjectStoreError, StateError
from acceptd.objectstore.cache import BundleCache
from acceptd.objectstore.inventory import blob_key
from acceptd.objectstore.objects import Objects, open_objects
from acceptd.objectstore.settings import ObjectsTable
from acceptd.release.trust import File
from tests.objects_world import SMALL, sealed_bundle, tree

pytestmark = pytest.mark.unit

SIZE = 100 << 10
"""Bytes of one bundle as the cache counts them: its file, a block for it, and one for the bundle."""


class Counting(Objects):
    """Objects that count fetches, and let a test hold one up."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects.remote)
        self.fetches: list[str] = []
        self.gate: threading.Event | None = None
        self.arrived = threading.Event()

    def fetch_files(self, digest: str, files: object, destination: Path, *, durable: bool = True) -> object:  # type: ignore[override]
        """As the real one, counted."""
        self.fetches.append(digest)
        self.arrived.set()
        if self.gate is not None:
            assert self.gate.wait(30)
        return super().fetch_files(digest, files, destination, durable=durable)  # type: ignore[arg-type]


@pytest.fixture
def objects(tmp_path: Path) -> Counting:
    """Objects in a directory."""
    return Counting(open_objects(ObjectsTable(), tmp_path))


@pytest.fixture
def digests(tmp_path: Path, objects: Counting) -> list[str]:
    """Five bundles of one size in the store."""
    found = []
    for number in range(5):
        content = {"model.onnx": bytes([number]) * (SIZE - 8192)}
        directory, sealed = sealed_bundle(tmp_path, content, f"bundle{number}")
        objects.put_bundle("sealed", directory, sealed)
        found.append(sealed.digest)
    return found


@pytest.fixture
def cache(tmp_path: Path, objects: Counting) -> Iterator[BundleCache]:
    """A cache that has room for three."""
    found = BundleCache(tmp_path / "cache", objects, 3 * SIZE, patience=0.2)
    yield found
    found.close()


def test_a_held_bundle_is_as_it_was_sealed(tmp_path: Path, objects: Counting, cache: BundleCache) -> None:
    """Real files with one name, readable for the cell, below a directory that only its owner enters."""
    directory, sealed = sealed_bundle(tmp_path)
    objects.put_bundle("sealed", directory, sealed)
    with cache.hold("sealed", sealed.digest) as path:
        assert tree(path) == SMALL
        assert path.name == "bundle"
        for one in (path, *path.rglob("*")):
            facts = one.stat()
            assert facts.st_mode & 0o7777 == (0o755 if one.is_dir() else 0o444)
            assert one.is_dir() or facts.st_nlink == 1
        assert path.parent.stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "cache").stat().st_mode & 0o7777 == 0o700


def test_a_second_use_fetches_nothing_and_a_changed_byte_is_seen(
    tmp_path: Path, objects: Counting, digests: list[str], cache: BundleCache
) -> None:
    """Also where size and times are as they were: it is hashed, not believed."""
    with cache.hold("sealed", digests[0]):
        pass
    with cache.hold("sealed", digests[0]) as path:
        assert objects.fetches == digests[:1]
    model = path / "model.onnx"
    facts = model.stat()
    model.chmod(0o644)
    data = model.read_bytes()
    model.write_bytes(data[:-1] + b"?")
    model.chmod(0o444)
    os.utime(model, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with cache.hold("sealed", digests[0]) as path:
        assert (path / "model.onnx").read_bytes() == data
    assert objects.fetches == [digests[0]] * 2
    (path / "more.bin").write_bytes(b"")
    with cache.hold("sealed", digests[0]) as path:
        assert list(tree(path)) == ["model.onnx"]
    assert objects.fetches == [digests[0]] * 3


def test_a_bundle_that_is_changed_while_it_is_in_use_is_not_taken_from_its_user(
    objects: Counting, digests: list[str], cache: BundleCache
) -> None:
    """The second user gets an error; the third, after the first is done, the bundle."""
    with cache.hold("sealed", digests[0]) as path:
        (path / "more.bin").write_bytes(b"")
        with pytest.raises(ObjectDamagedError, match="while it is in use"), cache.hold("sealed", digests[0]):
            pass
        assert path.is_dir()
    with cache.hold("sealed", digests[0]) as path:
        assert list(tree(path)) == ["model.onnx"]
    assert len(objects.fetches) == 2


def test_what_was_used_longest_ago_goes_first(
    objects: Counting, digests: list[str], cache: BundleCache, tmp_path: Path
) -> None:
    """Three fit; the fourth takes the place of the one that nobody used since."""
    for digest in (digests[0], digests[1], digests[2], digests[0], digests[3]):
        with cache.hold("sealed", digest):
            pass
        assert cache.size <= 3 * SIZE
    there = {one.name for one in (tmp_path / "cache").iterdir()} - {".lock"}
    assert there == {digests[0], digests[2], digests[3]}


def test_what_is_in_use_never_goes(objects: Counting, digests: list[str], cache: BundleCache) -> None:
    """With three in use a fourth waits, and is refused with a word about what to raise; and comes in later."""
    with ExitStack() as stack:
        held = [stack.enter_context(cache.hold("sealed", digest)) for digest in digests[:3]]
        with pytest.raises(ObjectStoreError, match=r"no room .*cache_bytes"), cache.hold("sealed", digests[3]):
            pass
        assert [one.is_dir() for one in held] == [True] * 3
    with cache.hold("sealed", digests[3]):
        pass


def test_who_waits_for_room_gets_it_when_a_user_is_done(
    tmp_path: Path, objects: Counting, digests: list[str]
) -> None:
    """Without an error in between."""
    cache = BundleCache(tmp_path / "other", objects, SIZE, patience=30)
    entered = threading.Event()

    def wait() -> None:
        with cache.hold("sealed", digests[1]):
            entered.set()

    with cache.hold("sealed", digests[0]):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not entered.wait(0.2)
    assert entered.wait(30)
    thread.join()
    cache.close()


def test_what_is_larger_than_the_cache_is_refused_before_it_is_fetched(
    tmp_path: Path, objects: Counting, digests: list[str]
) -> None:
    """And nothing that is there goes for it."""
    cache = BundleCache(tmp_path / "small", objects, SIZE - 1)
    with pytest.raises(ObjectStoreError, match="more than the whole cache"), cache.hold("sealed", digests[0]):
        pass
    assert objects.fetches == []
    assert cache.size == 0
    cache.close()


def test_two_at_once_share_one_fetch(objects: Counting, digests: list[str], cache: BundleCache) -> None:
    """And each of many threads sees the whole bundle."""
    objects.gate = threading.Event()
    seen: list[int] = []

    def use() -> None:
        with cache.hold("sealed", digests[0]) as path:
            seen.append(len((path / "model.onnx").read_bytes()))

    threads = [threading.Thread(target=use) for _ in range(6)]
    for one in threads:
        one.start()
    assert objects.arrived.wait(30)
    objects.gate.set()
    for one in threads:
        one.join()
    assert seen == [SIZE - 8192] * 6
    assert objects.fetches == digests[:1]


def test_a_fetch_that_fails_fails_for_all_who_wait_and_leaves_nothing(
    tmp_path: Path, objects: Counting, digests: list[str], cache: BundleCache
) -> None:
    """The next use tries again."""
    listed = objects.inventory("sealed", digests[0])
    file: File = listed[0]
    blob = tmp_path / "objects" / blob_key(file.sha256)
    data = blob.read_bytes()
    blob.unlink()
    objects.gate = threading.Event()
    failures: list[BaseException] = []

    def use() -> None:
        try:
            with cache.hold("sealed", digests[0]):
                pass
        except ObjectStoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for one in threads:
        one.start()
    assert objects.arrived.wait(30)
    objects.gate.set()
    for one in threads:
        one.join()
    assert [type(one) for one in failures] == [ObjectMissingError] * 3
    assert [one.name for one in (tmp_path / "cache").iterdir()] == [".lock"]
    assert cache.size == 0
    blob.write_bytes(data)
    with cache.hold("sealed", digests[0]):
        pass


def test_after_a_kill_half_way_the_cache_is_whole(tmp_path: Path, objects: Counting, digests: list[str]) -> None:
    """What was there stays and is used again; what was half there is swept."""
    code = (
        "import sys; from pathlib import Path; from acceptd.objectstore.cache import BundleCache;"
        "from acceptd.objectstore.objects import open_objects;"
        "from acceptd.objectstore.settings import ObjectsTable; state = Path(sys.argv[1]);"
        "cache = BundleCache(state / 'c', open_objects(ObjectsTable(), state), 1 << 30)\n"
        "for digest in sys.argv[2:]:\n    with cache.hold('sealed', digest): pass"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path, *digests[:2]],
        env=os.environ | {"ACCEPTD_FAILPOINT": "objects.cache-fetched@2"}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr
    assert len(list((tmp_path / "c").glob(".tmp-*"))) == 1
    (tmp_path / "c" / ("0" * 64)).mkdir()
    (tmp_path / "c" / "stray").write_bytes(b"")
    cache = BundleCache(tmp_path / "c", objects, 1 << 30)
    assert {one.name for one in (tmp_path / "c").iterdir()} == {".lock", digests[0]}
    assert cache.size == SIZE
    with cache.hold("sealed", digests[0]):
        assert objects.fetches == []
    with cache.hold("sealed", digests[1]):
        assert objects.fetches == [digests[1]]
    cache.close()


def test_a_cache_that_became_smaller_is_made_smaller_at_the_start(
    tmp_path: Path, objects: Counting, digests: list[str], cache: BundleCache
) -> None:
    """The newest stay."""
    for index, digest in enumerate(digests[:3]):
        with cache.hold("sealed", digest):
            pass
        os.utime(tmp_path / "cache" / digest, (1000 + index, 1000 + index))
    cache.close()
    smaller = BundleCache(tmp_path / "cache", objects, 2 * SIZE)
    assert {one.name for one in (tmp_path / "cache").iterdir()} == {".lock", digests[1], digests[2]}
    smaller._lock = os.dup(1)
    smaller.close()


def test_two_processes_do_not_share_one_cache(tmp_path: Path, objects: Counting, cache: BundleCache) -> None:
    """Each would count alone, and remove what the other uses."""
    with pytest.raises(StateError, match="another process"):
        BundleCache(tmp_path / "cache", objects, 1 << 30)


@pytest.mark.parametrize("digest", ["", "../../etc", "0" * 63, "A" * 64])
def test_a_digest_that_is_none_leads_nowhere(cache: BundleCache, digest: str) -> None:
    """No path is made of it."""
    with pytest.raises(ObjectStoreError, match="no SHA-256"), cache.hold("sealed", digest):
        pass
