"""An export to a place of objects follows promotion, rollback and revocation; a reader sees old or new, whole.

The place is a directory here; tests/fleet has the same against an S3-compatible server.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptd.errors import ConfigError, ExportError, LoaderError, ObjectsUnreachableError
from acceptd.export.shelf import Shelf
from acceptd.objectstore.local import Directory
from tests.export_world import SERVABLE, Bucketed
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit

HOME = f"{MODEL}/production"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


@pytest.fixture
def exported(world: World, place: Path) -> Bucketed:
    return Bucketed(world, Directory(place, make=True))


def test_what_is_promoted_lies_there_and_one_object_leads_to_it(world: World, exported: Bucketed) -> None:
    release = world.released()
    assert exported.served() == [f"{HOME}/000001"]
    assert exported.remote.read(f"{HOME}/current", 100)[0] == b"000001\n"
    for name in ("model.onnx", "data/labels.txt"):
        assert exported.remote.read(f"{HOME}/000001/{name}", 1 << 20)[0] == (release.bundle / name).read_bytes()
    assert exported.follow().done == []  # nothing to do twice
    assert exported.follow(whole=True).done == []


def test_promotion_and_rollback_are_followed_and_the_number_before_stays(world: World, exported: Bucketed) -> None:
    for version in ("1", "2", "3"):
        world.released(version)
        exported.served()
    assert [one.place for one in exported.verify().verified] == [f"{HOME}/000002", f"{HOME}/000003"]
    world.rollback()
    assert exported.served() == [f"{HOME}/000004"]
    assert {key.split("/")[3] for key in exported.names() if key.startswith(HOME)} == {
        "000003",
        "000004",
        "current",
    }


def test_a_revoked_release_is_withdrawn_and_so_is_a_kept_one(world: World, exported: Bucketed) -> None:
    first = world.released("1")
    exported.served()
    second = world.released("2")
    exported.served()
    world.revoke(first.bundle_digest)  # the one before
    assert exported.served() == [f"{HOME}/000002"]
    world.revoke(second.bundle_digest)
    assert exported.follow().done == [f"{HOME}: withdrawn: its release is revoked"]
    assert exported.names() == {"revocations.json"}
    with pytest.raises(LoaderError, match="holds no export"):
        exported.verify()


def test_triton_is_led_by_its_configuration(world: World, place: Path) -> None:
    world.released("1", manifest=SERVABLE)
    exported = Bucketed(world, Directory(place, make=True), "triton")
    (served,) = exported.served()
    home = served.rpartition("/")[0]
    assert b"versions: 1 " in exported.remote.read(f"{home}/config.pbtxt", 1 << 16)[0]
    with pytest.raises(ExportError, match="another kind"):
        Bucketed(world, Directory(place, make=True), "plain").follow()


@pytest.mark.parametrize(
    "what", ["flipped", "longer", "missing", "more", "proof", "pointer", "other place", "pointer away"]
)
def test_whatever_is_changed_there_is_told_and_mended(
    world: World, exported: Bucketed, place: Path, what: str
) -> None:
    """By verification with the keyring alone; the next whole look writes it anew, led to by nobody meanwhile."""
    world.released("1")
    exported.served()
    model, release = place / HOME / "000001/model.onnx", place / HOME / "000001/.acceptd/release.json"
    pointer = place / HOME / "current"
    data = model.read_bytes()
    for one in (model, release, pointer):
        one.chmod(0o644)
    if what == "flipped":
        model.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif what == "longer":
        model.write_bytes(data + b"!")
    elif what == "missing":
        model.unlink()
    elif what == "more":
        (model.parent / "more.bin").write_bytes(b"")
    elif what == "proof":
        release.write_bytes(release.read_bytes().replace(b"payload", b"payLoad"))
    elif what == "pointer":
        pointer.write_bytes(b"000009\n")
    elif what == "pointer away":
        pointer.unlink()
    else:
        os.rename(place / HOME / "000001", place / HOME / "000007")
        pointer.write_bytes(b"000007\n")
    assert exported.verify().problems
    done = exported.follow(whole=True)
    assert done.problems == []
    assert exported.served() == [f"{HOME}/000001"]
    assert model.read_bytes() == data


def test_an_object_that_nobody_exported_is_told(world: World, exported: Bucketed, place: Path) -> None:
    world.released("1")
    exported.served()
    (place / "stray").write_bytes(b"x")
    (place / HOME / "notes.txt").write_bytes(b"x")
    assert exported.verify().problems == (
        f"{HOME}/notes.txt: it was never exported",
        "stray: it was never exported",
    )


def test_an_older_revocation_list_beside_it_is_told(world: World, exported: Bucketed, place: Path) -> None:
    world.released("1")
    second = world.released("2")
    world.revoke(second.bundle_digest, rollback=True)
    exported.served()
    before = (place / "revocations.json").read_bytes()
    world.revoke(world.released("3").bundle_digest, rollback=True)
    exported.served()
    (place / "revocations.json").chmod(0o644)
    (place / "revocations.json").write_bytes(before)
    assert any("is older than" in line for line in exported.verify().problems)
    (place / "revocations.json").unlink()
    assert any("is older than" in line for line in exported.verify().problems)


def test_a_pointer_that_another_one_moved_is_not_written_over(
    world: World, exported: Bucketed, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the switch: If-Match does not hold; the line says that somebody else writes there."""
    world.released("1")
    exported.served()
    world.released("2")
    replace = exported.remote.replace

    def late(key: str, data: bytes, tag: str) -> bool:
        if key.endswith("current"):
            path = place / key
            path.unlink()
            path.write_bytes(b"000005\n")
        return replace(key, data, tag)

    monkeypatch.setattr(exported.remote, "replace", late)
    done = exported.follow()
    assert any("another one wrote" in line for line in done.problems)
    assert exported.remote.read(f"{HOME}/current", 100)[0] == b"000005\n"


def test_a_release_revoked_while_it_is_copied_is_never_led_to(
    world: World, exported: Bucketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = world.released("1")
    whole = Shelf.whole
    done: list[str] = []

    def revoking(shelf: Shelf, found: object) -> None:
        whole(shelf, found)  # type: ignore[arg-type]
        if not done:
            done.append(world.revoke(release.bundle_digest).digest)

    monkeypatch.setattr(Shelf, "whole", revoking)
    exported.follow()
    assert done
    assert f"{HOME}/current" not in exported.names()


@pytest.mark.parametrize("at", ["copied", "written", "switched"])
def test_a_run_that_is_killed_leaves_the_number_of_before_or_the_new_one(
    world: World, exported: Bucketed, place: Path, at: str
) -> None:
    """Whole; and the next run ends it."""
    world.released("1")
    exported.served()
    world.released("2")
    code = (
        "import sys; from pathlib import Path; from acceptd.export.bucket import BucketTarget;"
        "from acceptd.export.follow import Origin, follow; from acceptd.objectstore.local import Directory;"
        "from acceptd.record.log import Ledger; from acceptd.release.signers import ReleaseKeys;"
        "state = Path(sys.argv[1]); ledger = Ledger.open(state, create=False);"
        "origin = Origin(state, ledger, ReleaseKeys.load(state, ledger), lambda: float(sys.argv[3]));"
        "target = BucketTarget(Directory(Path(sys.argv[2]), make=True), 'plain', lambda *_: True, 2);"
        "print(follow(origin, target).problems)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, world.state, place, str(world.now)],
        env=os.environ | {"ACCEPTD_FAILPOINT": f"export.bucket.{at}"}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == -9, done
    report = exported.verify()
    served = [one.place for one in report.verified if one.served]
    assert served == [f"{HOME}/{'000002' if at == 'switched' else '000001'}"]
    assert exported.served() == [f"{HOME}/000002"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('directory = "/srv/x"\nurl = "s3://models/x"', "either a directory or a url"),
        ("", "either a directory or a url"),
        ('url = "file:///srv/x"', "a path is a directory"),
        ('url = "s3://me:word@models/x"', "no user and no password"),
        ('directory = "/srv/x"\nendpoint = "https://host"', "only a url"),
        ('url = "s3://models/fleet/exports"', "lie in one another"),
        ('url = "s3://models"', "lie in one another"),
        (
            'url = "s3://models/x/y"\n[[exports]]\nname = "b"\nkind = "plain"\nurl = "s3://models/x"',
            "lie in one another",
        ),
    ],
)
def test_an_export_to_a_place_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, words: str) -> None:
    from acceptd.config import load_settings

    head = '[objects]\nurl = "s3://models/fleet"\n[[exports]]\nname = "a"\nkind = "plain"\n'
    (tmp_path / "acceptd.toml").write_text(f"{head}{text}\n")
    (tmp_path / "acceptd.toml").chmod(0o600)
    with pytest.raises(ConfigError, match=words):
        load_settings(tmp_path)
    (tmp_path / "acceptd.toml").write_text(f'{head}url = "s3://models/exports"\n')
    assert load_settings(tmp_path).exports[0].where == "s3://models/exports"


def test_a_home_that_cannot_be_purged_keeps_no_other_from_being_withdrawn(
    world: World, exported: Bucketed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket as in a directory: one model's trouble is a line."""
    first = world.released("1")
    other = world.promote(world.accepted("2", model_id="mosaic/other"), model_id="mosaic/other")
    exported.served()
    world.revoke(first.bundle_digest)
    world.revoke(other.bundle_digest)
    kept = exported.remote.remove

    def stuck(key: str) -> None:
        if key.startswith(HOME):
            raise ObjectsUnreachableError("the place does not answer")
        kept(key)

    monkeypatch.setattr(exported.remote, "remove", stuck)
    done = exported.follow()
    assert any("does not answer" in line for line in done.problems)
    assert [line for line in done.done if "withdrawn" in line] == [
        "mosaic/other/production: withdrawn: its release is revoked"
    ]
    monkeypatch.undo()
    assert exported.follow().done == [f"{HOME}: withdrawn: its release is revoked"]
