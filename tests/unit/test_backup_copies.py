"""A backup while everything moves, and a restore where something is missing: whole, or nothing with a reason."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptd.backup import make as making
from acceptd.backup import restore as restoring
from acceptd.backup.document import read
from acceptd.config import Paths
from acceptd.errors import StateError
from acceptd.record import checkpoint
from acceptd.record.database import FILE_NAME
from acceptd.record.keys import load_keyring
from acceptd.record.keystore import history
from acceptd.record.log import Ledger
from acceptd.release import audit, store
from acceptd.release.signers import Auditor
from tests.release_world import World

pytestmark = pytest.mark.unit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.released("1.0.0")
    yield made
    made.close()


def made(world: World, name: str = "copy") -> Path:
    making.make(Paths(world.state), world.root / name, with_keys=True)
    return world.root / name


def paths(backup: Path) -> set[str]:
    return {one.path for one in read(backup).files}


def differences(state: Path) -> list[str]:
    """Return what an audit of the releases says."""
    with Ledger.open(state, create=False) as ledger:
        return [str(one) for one in audit.examine(state, ledger, Auditor.of(history(ledger, load_keyring(state))))]


def leftovers(world: World) -> list[str]:
    return [name for name in os.listdir(world.root) if name.endswith(".partial")]


def test_what_goes_while_it_is_copied_was_not_to_be_kept_and_ends_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission that ends meanwhile takes its directory or a file away between two looks of the backup."""
    for name in ("folder", "file"):
        place = world.state / "quarantine" / name
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(b"m")
    entries, begin = os.listdir, os.open

    def listed(place: Any) -> list[str]:
        if str(place).endswith("quarantine/folder"):
            shutil.rmtree(place)
        return entries(place)

    def opened(place: Any, *more: Any, **named: Any) -> int:
        if str(place).endswith("quarantine/file/model.onnx"):
            os.unlink(place)
        return begin(place, *more, **named)

    monkeypatch.setattr(making.os, "listdir", listed)
    monkeypatch.setattr(making.os, "open", opened)
    backup = made(world)
    monkeypatch.undo()
    assert not any(path.startswith("quarantine/f") for path in paths(backup))
    restoring.restore(backup, world.root / "again")
    with Ledger.open(world.root / "again", create=False) as ledger:
        assert ledger.tree() == world.ledger.tree()


def test_a_bundle_that_is_accepted_after_the_ledger_was_copied_is_of_a_later_moment(world: World) -> None:
    """Else the restored store held what its ledger does not know, and the restore ended as one that differs."""

    def told(text: str) -> None:
        if text == making.BYTES[0]:
            before = set(store.digests(world.state))
            world.released("2.0.0")
            later.update(set(store.digests(world.state)) - before)

    later: set[str] = set()
    making.make(Paths(world.state), world.root / "copy", with_keys=True, told=told)
    stored = {path.split("/")[2] for path in paths(world.root / "copy") if path.startswith("store/")}
    assert len(later) == 1
    assert set(store.digests(world.state)) - stored == later
    restoring.restore(world.root / "copy", world.root / "again")
    assert differences(world.root / "again") == []


@pytest.mark.parametrize("moment", ["_judged", "_released"])
def test_a_release_while_the_audit_reads_is_no_difference(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    read_then = getattr(audit, moment)

    def reads(ledger: Ledger) -> set[str]:
        found = read_then(ledger)
        if len(store.digests(world.state)) == 1:
            world.released("2.0.0")
        return set(found)

    monkeypatch.setattr(audit, moment, reads)
    assert differences(world.state) == []
    assert len(store.digests(world.state)) == 2
    monkeypatch.undo()
    shutil.rmtree(world.state / "store/sha256" / store.digests(world.state)[0])
    assert "is missing, and a release names it" in " ".join(differences(world.state))


def test_half_written_files_and_what_is_no_file_are_left_out(world: World) -> None:
    outputs = world.state / "outputs"
    outputs.mkdir()
    (outputs / ".tmp-half").write_bytes(b"h")
    (outputs / ("a" * 64)).write_bytes(b"w")
    os.mkfifo(outputs / "pipe")
    assert {path for path in paths(made(world)) if path.startswith("outputs")} == {f"outputs/{'a' * 64}"}


def test_a_checkpoint_beyond_the_copied_ledger_is_left_out(world: World) -> None:
    """It would say of the restored ledger that somebody had cut it."""
    size = world.ledger.tree().size
    folder = world.state / checkpoint.DIRECTORY
    folder.mkdir(exist_ok=True)
    for number in (size, size + 1):
        (folder / checkpoint.file_name(number)).write_bytes(b"note")
    kept = {path for path in paths(made(world)) if path.startswith(checkpoint.DIRECTORY)}
    assert f"{checkpoint.DIRECTORY}/{checkpoint.file_name(size)}" in kept
    assert f"{checkpoint.DIRECTORY}/{checkpoint.file_name(size + 1)}" not in kept


def test_storage_that_fails_is_told_with_its_place_and_leaves_no_half_backup(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_given: int, place: Path) -> Any:
        os.close(_given)
        raise OSError(28, "No space left on device", str(place))

    monkeypatch.setattr(making, "copy", full)
    with pytest.raises(StateError) as caught:
        made(world)
    assert caught.value.message.endswith(": No space left on device")
    assert str(world.root) in caught.value.message
    assert caught.value.remedy == "make room, or look at it"
    assert not (world.root / "copy").exists()
    assert leftovers(world) == []


def test_a_backup_below_a_directory_that_is_not_there_is_told(world: World) -> None:
    with pytest.raises(StateError, match="No such file or directory"):
        making.make(Paths(world.state), world.root / "no/where", with_keys=False)


def spoilt(backup: Path, **change: Any) -> Path:
    document = json.loads((backup / "backup.json").read_text()) | change
    (backup / "backup.json").write_text(json.dumps(document))
    return backup


@pytest.mark.parametrize("times", [0, 2])
def test_a_backup_without_its_one_ledger_is_refused_before_a_byte_is_brought(times: int, world: World) -> None:
    backup = made(world)
    files = json.loads((backup / "backup.json").read_text())["files"]
    ledger = [one for one in files if one["path"] == FILE_NAME]
    spoilt(backup, files=[one for one in files if one["path"] != FILE_NAME] + ledger * times)
    with pytest.raises(StateError, match="has no ledger") as caught:
        restoring.restore(backup, world.root / "again")
    assert caught.value.remedy == "take another one"
    assert not list((world.root / "again").rglob("release.json"))


@pytest.mark.parametrize("path", [f"./{FILE_NAME}", f"keys/./{FILE_NAME}", f"releases//{FILE_NAME}", "keys/"])
def test_a_name_in_another_form_than_ours_is_refused(path: str, world: World) -> None:
    """The ledger gets its place last: under another spelling of its name it would come before the rest."""
    backup = made(world)
    files = json.loads((backup / "backup.json").read_text())["files"]
    spoilt(backup, files=[*files, {"path": path}])
    with pytest.raises(StateError, match="which no state has"):
        read(backup)


def test_a_restore_without_room_says_how_much_is_needed_and_brings_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = made(world)
    monkeypatch.setattr(restoring, "free_bytes", lambda _place: 1000)
    with pytest.raises(StateError, match=r"again: [0-9]{8,} bytes are needed, 1000 are free") as caught:
        restoring.restore(backup, world.root / "again")
    assert caught.value.remedy == "make room"
    assert os.listdir(world.root / "again") == []


@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "No such file or directory"), (b"{}", "not a backup of this version"), (b"\xff", "not a backup")],
    ids=["nothing", "another form", "no text"],
)
def test_what_is_no_backup_is_told_with_what_to_name(data: bytes | None, words: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "backup.json").write_bytes(data)
    with pytest.raises(StateError, match=words) as caught:
        read(tmp_path)
    assert caught.value.remedy
