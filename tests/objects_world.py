"""Bundles for the object store's tests, and the promises that hold for every place that objects may lie in."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from acceptd.errors import ObjectDamagedError, ObjectMissingError, ObjectStoreError
from acceptd.intake.seal import seal_directory
from acceptd.objectstore.inventory import blob_key, evidence_key, inventory_key
from acceptd.objectstore.objects import Objects
from acceptd.policy.limits import LimitsTable
from acceptd.record.canonical import canonical
from acceptd.release.store import inventory_bytes
from acceptd.sealed_facts import Sealed

SMALL: Mapping[str, bytes] = {
    "bundle.toml": b"schema = 1\n",
    "model.onnx": b"\x08\x0a model",
    "data/sub/labels.txt": b"a\nb\n",
    "data/empty.bin": b"",
    "data/lib.so": b"\x7fELF and more",
}
PARTS = 16 << 20


def sealed_bundle(home: Path, content: Mapping[str, bytes] = SMALL, name: str = "sealed") -> tuple[Path, Sealed]:
    """Seal these files below ``home`` and return the directory with what the sealer says of it."""
    source = home / f"{name}-source"
    for path, data in content.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(data)
    return home / name, seal_directory(source, home / name, LimitsTable())


def large(size: int = 2 * PARTS + 12345) -> bytes:
    """Return bytes of which no two parts are alike."""
    return os.urandom(size)


def tree(directory: Path) -> dict[str, bytes]:
    """Return every file below a directory."""
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def inventory_of(rows: object) -> tuple[str, bytes]:
    """Return the bytes of an inventory that says anything, with the digest that they give."""
    data = canonical(rows)
    return hashlib.sha256(data).hexdigest(), data


class Promises:
    """What holds wherever objects lie; ``objects`` is empty, ``over`` writes past every check, as attackers do."""

    @pytest.fixture
    def objects(self) -> Objects:
        raise NotImplementedError

    @pytest.fixture
    def over(self) -> Callable[[str, bytes | None], None]:
        raise NotImplementedError

    def test_a_bundle_comes_back_file_by_file_with_its_modes(self, objects: Objects, tmp_path: Path) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        assert not objects.has("sealed", sealed.digest)
        objects.put_bundle("sealed", directory, sealed)
        assert objects.has("sealed", sealed.digest)
        assert not objects.has("approved", sealed.digest)
        assert objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out") == sealed
        assert tree(tmp_path / "out") == SMALL
        for one in (tmp_path / "out").rglob("*"):
            facts = one.stat()
            assert (facts.st_mode & 0o7777, facts.st_nlink == 1) == (
                (0o755, False) if one.is_dir() else (0o444, True)
            )
        objects.forget("sealed", sealed.digest)
        assert not objects.has("sealed", sealed.digest)

    def test_a_large_file_goes_and_comes_in_parts(self, objects: Objects, tmp_path: Path) -> None:
        content = {"bundle.toml": b"", "weights.bin": large(), "same.bin": b"twice", "also.bin": b"twice"}
        directory, sealed = sealed_bundle(tmp_path, content)
        objects.put_bundle("approved", directory, sealed)
        assert objects.fetch_bundle("approved", sealed.digest, tmp_path / "out", durable=False) == sealed
        assert tree(tmp_path / "out") == content

    def test_the_same_bundle_twice_and_by_two_at_once_is_one(self, objects: Objects, tmp_path: Path) -> None:
        directory, sealed = sealed_bundle(tmp_path, dict(SMALL) | {"weights.bin": large(PARTS + 7)})
        failures: list[BaseException] = []

        def put() -> None:
            try:
                objects.put_bundle("sealed", directory, sealed)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=put) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not failures
        objects.put_bundle("sealed", directory, sealed)
        keys = [one.key for one in objects.remote.listed("blobs/")]
        assert len(keys) == len(set(keys)) == 6
        assert objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out") == sealed

    def test_what_is_written_is_never_written_over(
        self, objects: Objects, over: Callable[[str, bytes | None], None], tmp_path: Path
    ) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        model = next(row for row in sealed.files if row.path == "model.onnx")
        over(blob_key(model.sha256), b"\x08\x0a evil!")  # same length
        with pytest.raises(ObjectDamagedError, match="something else"):
            objects.put_bundle("sealed", directory, sealed)
        assert objects.remote.read(blob_key(model.sha256), 100)[0] == b"\x08\x0a evil!"
        assert not objects.has("sealed", sealed.digest)
        assert objects.put_blob(b"evidence") == objects.put_blob(b"evidence")
        over(evidence_key(hashlib.sha256(b"evidence").hexdigest()), b"evidence and more")
        with pytest.raises(ObjectDamagedError):
            objects.put_blob(b"evidence")

    @pytest.mark.parametrize("changed", [b"\x08\x0a wrong", b"\x08\x0a mode", b"\x08\x0a models", b""])
    def test_other_bytes_are_handed_to_nobody(
        self, objects: Objects, over: Callable[[str, bytes | None], None], tmp_path: Path, changed: bytes
    ) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        objects.put_bundle("sealed", directory, sealed)
        model = next(row for row in sealed.files if row.path == "model.onnx")
        over(blob_key(model.sha256), changed)
        with pytest.raises(ObjectDamagedError) as caught:
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")
        assert "\n" not in str(caught.value)
        evidence = objects.put_blob(b"evidence")
        over(evidence_key(evidence), b"Evidence" + changed)
        with pytest.raises(ObjectDamagedError):
            objects.get_blob(evidence, 100)
        assert sorted(one.name for one in tmp_path.iterdir()) == ["sealed", "sealed-source"]

    def test_a_flipped_byte_in_the_last_part_is_seen(
        self, objects: Objects, over: Callable[[str, bytes | None], None], tmp_path: Path
    ) -> None:
        data = large(PARTS + 100)
        directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"", "weights.bin": data})
        objects.put_bundle("sealed", directory, sealed)
        over(blob_key(hashlib.sha256(data).hexdigest()), data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(ObjectDamagedError):
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_what_is_missing_is_said_to_be_missing(
        self, objects: Objects, over: Callable[[str, bytes | None], None], tmp_path: Path
    ) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        with pytest.raises(ObjectMissingError):
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")
        with pytest.raises(ObjectMissingError):
            objects.get_blob("0" * 64, 10)
        objects.put_bundle("sealed", directory, sealed)
        over(blob_key(sealed.files[0].sha256), None)
        with pytest.raises(ObjectMissingError):
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_an_inventory_of_another_bundle_or_another_spelling_is_refused(
        self, objects: Objects, over: Callable[[str, bytes | None], None], tmp_path: Path
    ) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        objects.put_bundle("sealed", directory, sealed)
        data = inventory_bytes(sealed.files)
        over(inventory_key("sealed", "0" * 64), data)
        with pytest.raises(ObjectDamagedError, match="do not give that digest"):
            objects.fetch_bundle("sealed", "0" * 64, tmp_path / "out")
        spaced = data.replace(b",", b", ")
        digest = hashlib.sha256(spaced).hexdigest()
        over(inventory_key("sealed", digest), spaced)
        with pytest.raises(ObjectDamagedError, match="not written as acceptd writes it"):
            objects.fetch_bundle("sealed", digest, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_a_bundle_that_is_too_large_is_refused_before_a_byte_of_it_is_read(
        self, objects: Objects, tmp_path: Path
    ) -> None:
        directory, sealed = sealed_bundle(tmp_path)
        objects.put_bundle("sealed", directory, sealed)
        with pytest.raises(ObjectStoreError, match="allowed here"):
            objects.fetch_bundle("sealed", sealed.digest, tmp_path / "out", most=sealed.total_bytes - 1)
        with pytest.raises(ObjectDamagedError, match="at most 3 are expected"):
            objects.get_blob(objects.put_blob(b"four"), 3)

    def test_a_sealed_file_that_changed_is_not_uploaded(self, objects: Objects, tmp_path: Path) -> None:
        for name, data in (("small", b"12345"), ("large", large(PARTS + 5))):
            directory, sealed = sealed_bundle(tmp_path, {"bundle.toml": b"", "w.bin": data}, name)
            (directory / "w.bin").chmod(0o644)
            (directory / "w.bin").write_bytes(data[:-1] + b"?")
            with pytest.raises(ObjectDamagedError):
                objects.put_bundle("sealed", directory, sealed)
            (directory / "w.bin").write_bytes(data + b"?")
            with pytest.raises(ObjectDamagedError):
                objects.put_bundle("sealed", directory, sealed)
            (directory / "w.bin").unlink()
            (directory / "w.bin").symlink_to("/etc/hostname")
            with pytest.raises(ObjectDamagedError):
                objects.put_bundle("sealed", directory, sealed)
            assert not objects.has("sealed", sealed.digest)
            assert objects.remote.look(blob_key(hashlib.sha256(data).hexdigest())) is None

    def test_names_that_are_no_digests_are_refused(self, objects: Objects, tmp_path: Path) -> None:
        for digest in ("", "../x", "A" * 64, "0" * 63, "0" * 64 + "\n"):
            with pytest.raises(ObjectStoreError, match="no SHA-256"):
                objects.fetch_bundle("sealed", digest, tmp_path / "out")
            with pytest.raises(ObjectStoreError, match="no SHA-256"):
                objects.get_blob(digest, 1)
        with pytest.raises(ObjectStoreError, match="no area"):
            objects.has("secret", "0" * 64)  # type: ignore[arg-type]

    def test_a_pointer_is_replaced_only_by_who_saw_it(self, objects: Objects) -> None:
        remote = objects.remote
        assert remote.replace("home/current", b"1", "")
        assert not remote.replace("home/current", b"2", "")
        data, tag = remote.read("home/current", 10)
        assert data == b"1"
        assert remote.replace("home/current", b"22", tag)
        assert not remote.replace("home/current", b"3", tag)
        assert not remote.replace("home/none", b"3", tag)
        assert remote.read("home/current", 10)[0] == b"22"
        remote.remove("home/current")
        remote.remove("home/current")
        assert remote.look("home/current") is None

    def test_the_proof_of_the_place_can_be_made_again(self, objects: Objects) -> None:
        assert "written once" in objects.check()
        assert "written once" in objects.check()


class Forms(Promises):
    """What an inventory says is held against the same rules wherever it lies: tried in one place."""

    @pytest.mark.parametrize(
        "path", ["../out", "/etc/passwd", "a/../../b", "a//b", "a\\b", "C\u0327", "a\x00b", ".ready", "con", "a/"]
    )
    def test_an_inventory_that_leads_out_of_its_directory_writes_nothing(
        self, objects: Objects, over: Callable[[str, bytes | None], None], tmp_path: Path, path: str
    ) -> None:
        sha256 = objects.put_blob(b"x")
        digest, data = inventory_of([{"path": path, "sha256": sha256, "size": 1}])
        over(inventory_key("sealed", digest), data)
        (tmp_path / "in").mkdir()
        with pytest.raises(ObjectDamagedError):
            objects.fetch_bundle("sealed", digest, tmp_path / "in" / "out")
        assert tree(tmp_path) == {}

    @pytest.mark.parametrize(
        "rows",
        [
            [],
            {},
            "text",
            [{"path": "a", "sha256": "0" * 63, "size": 1}],
            [{"path": "a", "sha256": "0" * 64, "size": -1}],
            [{"path": "a", "sha256": "0" * 64, "size": True}],
            [{"path": "a", "sha256": "0" * 64}],
            [{"path": "a", "sha256": "0" * 64, "size": 1, "more": 1}],
            [{"path": 1, "sha256": "0" * 64, "size": 1}],
            [{"path": "a", "sha256": "0" * 64, "size": 1}, {"path": "a", "sha256": "0" * 64, "size": 1}],
            [{"path": "a", "sha256": "0" * 64, "size": 1}, {"path": "a/b", "sha256": "0" * 64, "size": 1}],
            [{"path": "/".join("d" * 100), "sha256": "0" * 64, "size": 1}],
        ],
    )
    def test_an_inventory_of_another_form_is_refused(
        self, objects: Objects, over: Callable[[str, bytes | None], None], tmp_path: Path, rows: object
    ) -> None:
        digest, data = inventory_of(rows)
        over(inventory_key("sealed", digest), data)
        with pytest.raises(ObjectDamagedError):
            objects.fetch_bundle("sealed", digest, tmp_path / "out")
        assert tree(tmp_path) == {}
