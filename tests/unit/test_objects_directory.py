"""Objects in a directory: the promises of every place, and what a directory alone can do wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acceptd.errors import ObjectDamagedError, ObjectMissingError, ObjectStoreError
from acceptd.metrics.catalogue import OBJECT_CALLS
from acceptd.metrics.counting import Counting
from acceptd.objectstore.inventory import inventory_key
from acceptd.objectstore.objects import Objects, open_objects
from acceptd.objectstore.settings import ObjectsTable
from tests.objects_world import SMALL, Forms, sealed_bundle, tree

pytestmark = pytest.mark.unit


class Heard(Counting):
    """Keeps what it hears of calls of the object store."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []

    def object_call(self, call: str, seconds: float, *, failed: bool = False) -> None:
        """As the figures do."""
        assert seconds >= 0
        self.calls.append((call, failed))


class TestDirectory(Forms):
    """Below a state directory of its own, with calls counted as a node counts them."""

    @pytest.fixture
    def place(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("state")

    @pytest.fixture
    def objects(self, place: Path) -> Objects:
        return open_objects(ObjectsTable(), place, Heard())

    @pytest.fixture
    def over(self, place: Path) -> Callable[[str, bytes | None], None]:
        def write(key: str, data: bytes | None) -> None:
            path = place / "objects" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if data is not None:
                path.write_bytes(data)

        return write

    def test_every_call_is_counted_under_a_known_name(
        self, place: Path, over: Callable[[str, bytes | None], None], tmp_path: Path
    ) -> None:
        heard = Heard()
        counted = open_objects(ObjectsTable(), place, heard)
        directory, sealed = sealed_bundle(tmp_path)
        counted.put_bundle("sealed", directory, sealed)
        counted.fetch_bundle("sealed", sealed.digest, tmp_path / "out")
        assert not counted.has("approved", sealed.digest)
        counted.forget("sealed", sealed.digest)
        with pytest.raises(ObjectMissingError):
            counted.inventory("sealed", sealed.digest)
        assert {call for call, _ in heard.calls} <= set(OBJECT_CALLS)
        assert not any(failed for _, failed in heard.calls)  # what is missing is no failure
        over(inventory_key("sealed", sealed.digest), b"x" * 100)
        with pytest.raises(ObjectDamagedError):
            counted.remote.read(inventory_key("sealed", sealed.digest), 10)
        assert heard.calls[-1] == ("read", True)

    def test_nothing_half_written_stays_under_a_name(self, objects: Objects, place: Path, tmp_path: Path) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        objects.put_bundle("sealed", directory, sealed)
        assert list((place / "objects" / "tmp").iterdir()) == []
        for path in (place / "objects").rglob("*"):
            assert path.is_dir() or path.name == ".lock" or path.stat().st_mode & 0o7777 == 0o444
        assert (
            sorted(path.stat().st_nlink for path in (place / "objects/blobs").rglob("*") if path.is_file())
            == [1] * 5
        )

    def test_a_link_among_the_objects_leads_nowhere(self, objects: Objects, place: Path, tmp_path: Path) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        objects.put_bundle("sealed", directory, sealed)
        (tmp_path / "elsewhere").write_bytes(b"schema = 1\n")
        target = next(row for row in sealed.files if row.path == "bundle.toml").sha256
        path = place / "objects/blobs/sha256" / target[:2] / target
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ObjectDamagedError, match="link"):
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")

    @pytest.mark.parametrize("at", ["objects.written", "objects.linked", "objects.blobs-written"])
    def test_an_upload_that_is_killed_leaves_no_bundle_and_the_next_one_ends_it(
        self, objects: Objects, place: Path, tmp_path: Path, at: str
    ) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        code = (
            "import sys; from pathlib import Path; from acceptd.objectstore.objects import open_objects;"
            "from acceptd.objectstore.settings import ObjectsTable; from acceptd.sealed_facts import Sealed;"
            "open_objects(ObjectsTable(), Path(sys.argv[1])).put_bundle('sealed', Path(sys.argv[2]),"
            "Sealed.model_validate_json(sys.argv[3]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, place, directory, sealed.model_dump_json()],
            env=os.environ | {"ACCEPTD_FAILPOINT": at}, capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == -9, done.stderr
        assert not objects.has("sealed", sealed.digest)
        objects.put_bundle("sealed", directory, sealed)
        objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")
        assert tree(tmp_path / "out") == SMALL
        assert objects.remote.sweep(1e12) == []
        assert list((place / "objects" / "tmp").iterdir()) == []

    def test_a_volume_that_is_not_mounted_is_not_taken_for_an_empty_one(self, tmp_path: Path) -> None:
        table = ObjectsTable(url=f"file://{tmp_path}/volume")
        with pytest.raises(ObjectStoreError, match="does not exist"):
            open_objects(table, tmp_path).put_blob(b"x")
        with pytest.raises(ObjectStoreError, match="does not exist"):
            open_objects(table, tmp_path).has("sealed", "0" * 64)
        (tmp_path / "volume").mkdir()
        open_objects(table, tmp_path).put_blob(b"x")
