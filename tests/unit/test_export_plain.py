"""A plain export follows promotion, rollback and revocation, and verifies itself by a keyring alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptd.errors import ExportError, LoaderError
from acceptd.export.document import EXPORT_TYPE
from acceptd.export.verify import verify
from acceptd.record.keys import Keyring, create_keys
from tests.export_world import Exported, closed, tree
from tests.release_world import MODEL, World, payload_of, put_signed

pytestmark = pytest.mark.unit

HOME = f"{MODEL}/production"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def exported(world: World, tmp_path: Path) -> Exported:
    return Exported(world, tmp_path / "out")


def test_what_is_promoted_is_exported_as_real_copies(world: World, exported: Exported) -> None:
    release = world.released()
    assert exported.served() == [f"{HOME}/000001"]
    current = exported.root / HOME / "current"
    for name in ("model.onnx", "data/labels.txt"):
        copy, stored = current / name, release.bundle / name
        assert copy.read_bytes() == stored.read_bytes()
        assert (copy.stat().st_nlink, copy.stat().st_mode & 0o7777) == (1, 0o444)
        assert copy.stat().st_ino != stored.stat().st_ino
    assert (current / "data").stat().st_mode & 0o7777 == 0o755
    assert exported.follow().done == []  # nothing to do twice


def test_promotion_and_rollback_are_followed_and_the_number_before_stays(world: World, exported: Exported) -> None:
    for version in ("1", "2", "3"):
        world.released(version)
        exported.served()
    assert exported.verify().verified[0].place == f"{HOME}/000002"  # two are kept
    world.rollback()
    assert exported.served() == [f"{HOME}/000004"]
    assert sorted(os.listdir(exported.root / HOME)) == ["000003", "000004", "current"]


def test_a_revoked_release_is_withdrawn_and_so_is_a_kept_one(world: World, exported: Exported) -> None:
    first, second = world.released("1"), None
    exported.served()
    second = world.released("2")
    exported.served()
    world.revoke(first.bundle_digest)  # the one before
    assert exported.served() == [f"{HOME}/000002"]
    assert not (exported.root / HOME / "000001").exists()
    world.revoke(second.bundle_digest)
    done = exported.follow()
    assert done.done == [f"{HOME}: withdrawn: its release is revoked"]
    assert not (exported.root / HOME).exists()
    assert list((exported.root / ".staging").iterdir()) == []
    with pytest.raises(LoaderError, match="holds no export"):
        exported.verify()


def test_a_revocation_with_rollback_leads_to_the_older_bundle(world: World, exported: Exported) -> None:
    world.released("1")
    second = world.released("2")
    exported.served()
    world.revoke(second.bundle_digest, rollback=True)
    assert exported.served() == [f"{HOME}/000003"]
    assert second.bundle_digest not in {one.bundle_digest for one in exported.verify().verified}


def test_a_model_that_is_not_selected_any_more_is_withdrawn_when_revoked(world: World, exported: Exported) -> None:
    release = world.released()
    exported.served()
    object.__setattr__(exported.target, "selects", lambda _model, _channel: False)
    assert exported.served() == [f"{HOME}/000001"]  # nobody takes it away from who uses it
    world.revoke(release.bundle_digest)
    exported.follow()
    assert not (exported.root / HOME).exists()


def test_a_full_disk_leaves_the_old_and_never_a_revoked_one(
    world: World, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acceptd.intake import files

    world.released("1")
    exported.served()
    before = tree(exported.root)
    second = world.released("2")

    def full(_fd: int, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_all", full)
        assert "make room" in exported.follow().problems[0]
        assert tree(exported.root) == before
    assert exported.served() == [f"{HOME}/000002"]
    world.revoke(second.bundle_digest, rollback=True)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write_all", full)
        problems = exported.follow().problems
        assert "may be an older one" in problems[0]
        assert "make room" in problems[1]
    assert not (exported.root / HOME).exists()  # the good one cannot come, the revoked one goes


def test_damage_is_found_whole_and_exported_again(world: World, exported: Exported) -> None:
    world.released()
    exported.served()
    path = exported.root / HOME / "000001" / "model.onnx"
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)
    assert exported.follow().done == []  # a quick look hashes nothing
    done = exported.follow(whole=True)
    assert "was damaged" in done.done[0]
    assert done.problems == []
    assert exported.verify().problems == ()


def swap(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another byte of the same length": (
        lambda place: swap(place / "model.onnx", b"x" * (place / "model.onnx").stat().st_size),
        "not the file that was exported",
    ),
    "a file more": (lambda place: (place / "extra").write_bytes(b""), "was never exported"),
    "a file more among the proofs": (lambda place: (place / ".acceptd/x").write_bytes(b""), "was never exported"),
    "a file less": (lambda place: (place / "data/labels.txt").unlink(), "is missing"),
    "a hard link": (
        lambda place: os.link(place / "model.onnx", place.parent.parent / "second"), "one name"
    ),
    "a link in the place of a file": (
        lambda place: ((place / "model.onnx").unlink(), (place / "model.onnx").symlink_to("/etc/hostname")),
        "symbolic link",
    ),
    "others may write a file": (lambda place: (place / "model.onnx").chmod(0o666), "written by others"),
    "others may write a directory": (lambda place: (place / "data").chmod(0o777), "written by others"),
    "a pipe": (
        lambda place: ((place / "model.onnx").unlink(), os.mkfifo(place / "model.onnx")), "regular file"
    ),
    "stripped signature": (
        lambda place: swap(
            place / ".acceptd/export.json",
            (place / ".acceptd/export.json").read_bytes().replace(b'"sig":"', b'"sig":"AAAA'),
        ),
        "export.json",
    ),
    "another release.json": (lambda place: swap(place / ".acceptd/release.json", b"{}"), "release.json"),
    "current leads nowhere": (
        lambda place: ((place.parent / "current").unlink(), (place.parent / "current").symlink_to("000009")),
        "000009",
    ),
    "current leads out": (
        lambda place: ((place.parent / "current").unlink(), (place.parent / "current").symlink_to("/etc")),
        "/etc",
    ),
    "a stranger beside": (lambda place: (place.parent / "notes").write_bytes(b""), "never exported"),
    "a stranger at the top": (lambda place: (place.parents[3] / "notes").write_bytes(b""), "never exported"),
    "another model's place": (
        lambda place: (
            (place.parents[1] / "canary").mkdir(),
            place.rename(place.parents[1] / "canary" / "000001"),
            (place.parents[1] / "canary" / "current").symlink_to("000001"),
        ),
        "not as mosaic/evidence-disposition/canary/000001",
    ),
    "an older revocation list": (lambda place: (place.parents[3] / "revocations.json").unlink(), "one is hidden"),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Keyring]:
    """An export that verifies, and its keyring; each attack works on a copy."""
    home = tmp_path_factory.mktemp("sound")
    world = World(home)
    world.revoke(world.accepted("0").digest)  # so that there is a list
    world.released()
    assert Exported(world, home / "out").served() == [f"{HOME}/000001"]
    world.close()
    return home / "out", world.keys.keyring


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_changed_in_an_export_does_not_verify(
    sound: tuple[Path, Keyring], tmp_path: Path, attack: str
) -> None:
    root, keyring = tmp_path / "out", sound[1]
    shutil.copytree(sound[0], root, symlinks=True)
    assert verify(root, keyring).problems == ()
    change, words = ATTACKS[attack]
    change(root / HOME / "000001")
    assert words in " ".join(verify(root, keyring).problems)


def test_a_revoked_export_that_nobody_withdrew_does_not_verify(world: World, exported: Exported) -> None:
    release = world.released()
    exported.served()
    world.revoke(release.bundle_digest)
    (exported.root / "revocations.json").write_bytes(world.revocations_file.read_bytes())
    assert "is revoked: it bites" in exported.verify().problems[0]


def test_another_instance_keys_verify_nothing(world: World, exported: Exported, tmp_path: Path) -> None:
    world.released()
    exported.served()
    (tmp_path / "other").mkdir()
    report = verify(exported.root, create_keys(tmp_path / "other"))
    assert "no release key" in report.problems[0]
    assert report.verified == ()


def test_a_release_key_cannot_put_foreign_bytes_into_a_release(world: World, exported: Exported) -> None:
    """Even validly signed, an export holds only files of the release that is beside it."""
    world.released()
    exported.served()
    place = exported.root / HOME / "000001"
    said = payload_of(place / ".acceptd/export.json")
    said["files"][0]["sha256"] = "0" * 64
    put_signed(place / ".acceptd/export.json", said, EXPORT_TYPE, world.keys.release)
    assert "is no file of the release" in exported.verify().problems[0]
    said["files"] = said["files"][:1]
    said["files"][0]["sha256"] = payload_of(world.release_file(1))["files"][0]["sha256"]
    put_signed(place / ".acceptd/export.json", said, EXPORT_TYPE, world.keys.release)
    assert "does not hold all files" in exported.verify().problems[0]


def test_the_place_is_refused_where_it_is_not_ours_alone(world: World, exported: Exported, tmp_path: Path) -> None:
    world.released()
    exported.root.chmod(0o777)
    with pytest.raises(ExportError, match="written by others"):
        exported.follow()
    for place, words in (
        (tmp_path / "absent", "No such file"),
        (world.state / "releases", "lie in one another"),
        (tmp_path, "lie in one another"),
    ):
        object.__setattr__(exported.target, "directory", place)
        with pytest.raises(ExportError, match=words):
            exported.follow()
    (tmp_path / "link").symlink_to(exported.root)
    object.__setattr__(exported.target, "directory", tmp_path / "link")
    with pytest.raises(ExportError, match="no directory"):
        exported.follow()


def test_a_link_on_the_way_is_never_followed(world: World, exported: Exported, tmp_path: Path) -> None:
    world.released()
    (tmp_path / "elsewhere").mkdir()
    (exported.root / "mosaic").symlink_to(tmp_path / "elsewhere")
    assert "is no directory" in exported.follow().problems[0]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_bundle_with_a_file_in_the_place_of_the_proofs_is_refused(world: World, exported: Exported) -> None:
    world.released(files={"model.onnx": b"m", ".acceptd/export.json": b"{}"})
    assert "keeps its proofs" in exported.follow().problems[0]
    assert not (exported.root / HOME).exists()


def test_a_store_object_that_was_changed_is_not_exported(world: World, exported: Exported) -> None:
    release = world.released()
    path = release.bundle / "model.onnx"
    path.chmod(0o644)
    path.write_bytes(b"y" * path.stat().st_size)
    assert "not the file that was promoted" in exported.follow().problems[0]
    assert not (exported.root / HOME).exists()
    assert list((exported.root / ".staging").iterdir()) == []


def test_what_was_revoked_while_it_was_copied_is_never_served(
    world: World, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acceptd.export import build

    release, real = world.released(), build.build

    def slow(*words: object) -> str:
        name = real(*words)  # type: ignore[arg-type]
        world.revoke(release.bundle_digest)
        return name

    monkeypatch.setattr(build, "build", slow)
    assert exported.follow().problems == []
    assert not (exported.root / HOME).exists()
    assert list((exported.root / ".staging").iterdir()) == []


@pytest.mark.parametrize(("moves", "problems"), [(1, 0), (9, 1)])
def test_what_is_promoted_while_another_is_copied_is_served_by_the_same_run(
    world: World, exported: Exported, monkeypatch: pytest.MonkeyPatch, moves: int, problems: int
) -> None:
    from acceptd.export import build

    world.released()
    real, moved = build.build, []

    def slow(*words: object) -> str:
        name = real(*words)  # type: ignore[arg-type]
        if len(moved) < moves:
            moved.append(world.released(f"{len(moved) + 2}.0.0"))
        return name

    monkeypatch.setattr(build, "build", slow)
    done = exported.follow()
    assert len(done.problems) == problems
    assert all("not current any more" in line for line in done.problems)
    assert (exported.root / HOME / "current").exists() == (not problems)
    monkeypatch.undo()
    assert exported.follow().problems == []
    assert (exported.root / HOME / "current").readlink().name == f"{moved[-1].number:06d}"


def test_the_keyring_of_loaders_verifies_an_export(world: World, exported: Exported) -> None:
    world.released()
    exported.served()
    assert verify(exported.root, Keyring.load(world.state / "keyring.json")).verified[0].number == 1


@pytest.mark.parametrize("name", ["lost+found", "backup"])
def test_a_directory_of_somebody_else_on_the_volume_keeps_nothing_from_being_exported_or_withdrawn(
    world: World, exported: Exported, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    closed(exported.root / name, monkeypatch)
    release = world.released()
    assert exported.follow().problems == []
    assert (exported.root / HOME / "current").is_symlink()
    world.revoke(release.bundle_digest)
    assert exported.follow().problems == []
    assert not (exported.root / HOME).exists()


def test_a_directory_of_our_own_that_cannot_be_read_is_told(
    world: World, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.released()
    closed(exported.root / "mosaic", monkeypatch, owner=os.geteuid())
    with pytest.raises(PermissionError):
        exported.follow()


@pytest.mark.parametrize("place", ["mosaic", MODEL, HOME])
def test_what_an_operator_moved_to_another_disk_behind_a_link_is_not_withdrawn_in_silence(
    world: World, exported: Exported, tmp_path: Path, place: str
) -> None:
    release = world.released()
    exported.follow()
    shutil.move(exported.root / place, tmp_path / "disk")
    (exported.root / place).symlink_to(tmp_path / "disk")
    world.revoke(release.bundle_digest)
    [problem] = exported.follow().problems
    assert f"{exported.root / place} is a link: what it leads to is not withdrawn" in problem
    (exported.root / place).unlink()
    assert exported.follow().problems == []


def test_dated_directories_of_the_operator_are_no_homes_whose_numbers_are_damaged(
    world: World, exported: Exported
) -> None:
    for folder in ("2026/11/30/12", "photos/summer/raw/000001"):
        (exported.root / folder).mkdir(parents=True)
        (exported.root / folder / "mine.bin").write_bytes(b"mine")
    world.released()
    exported.follow()
    exported.follow(whole=True)
    assert len(list(exported.root.rglob("mine.bin"))) == 2
    assert any("2026" in line for line in exported.verify().problems)


def test_a_home_with_our_proofs_that_the_ledger_does_not_know_goes(world: World, exported: Exported) -> None:
    world.released()
    exported.follow()
    (exported.root / MODEL).rename(exported.root / "mosaic" / "another")
    exported.follow()
    assert sorted(path.name for path in (exported.root / "mosaic" / "another").iterdir()) == []
    assert (exported.root / HOME / "current").is_symlink()


def test_a_home_that_cannot_be_taken_away_keeps_no_other_revoked_one_served(
    world: World, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acceptd.export.place import Place

    first = world.released("1")
    other = world.promote(world.accepted("2", model_id="mosaic/other"), model_id="mosaic/other")
    exported.served()
    world.revoke(first.bundle_digest)
    world.revoke(other.bundle_digest)
    take_away = Place.take_away

    def stuck(place: Place, relative: str) -> None:
        if relative.startswith(HOME):
            raise OSError(5, "Input/output error")
        take_away(place, relative)

    with monkeypatch.context() as patched:
        patched.setattr(Place, "take_away", stuck)
        done = exported.follow()
    assert any("Input/output error" in line for line in done.problems)
    assert done.done == ["mosaic/other/production: withdrawn: its release is revoked"]
    assert exported.follow().done == [f"{HOME}: withdrawn: its release is revoked"]
