"""Bundles attacked while they are made: sparse and growing files, later links, editors, full disks, names."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acceptd.adopt.place import Place, Record
from acceptd.bundling import golden_dirs, stage, start, write
from acceptd.bundling import listing as listings
from acceptd.bundling import lock as locks
from acceptd.bundling import look as looks
from acceptd.cli.main import main
from acceptd.errors import UsageError
from acceptd.policy.limits import LimitsTable
from tests import judge_world
from tests.unit.test_bundle_lock import LIMITS
from tests.unit.test_bundle_lock import bundle as bundle

pytestmark = pytest.mark.unit


def test_no_byte_is_copied_of_what_is_more_than_a_bundle_may_be(tmp_path: Path) -> None:
    limits = LimitsTable(file_bytes=1 << 20, bundle_bytes=(1 << 20) + 9)
    for name, size in (("sparse", 1 << 42), ("large", 1 << 20), ("small", 10)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    target, room = tmp_path / "copy", stage.Room(limits)
    with pytest.raises(UsageError, match="sparse has 4398046511104 bytes; 1048576 are possible"):
        stage.copy_file(tmp_path, "sparse", target, room)
    assert not target.exists()
    assert stage.copy_file(tmp_path, "large", target, room) == 1 << 20
    with pytest.raises(UsageError, match="small has 10 bytes; 9 are possible"):  # together they are too much
        stage.copy_file(tmp_path, "small", tmp_path / "other", room)


def test_a_file_that_grows_while_it_is_copied_ends_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, send = tmp_path / "source", os.sendfile
    source.write_bytes(b"1" * 10)

    def grown(out: int, into: int, offset: None, count: int) -> int:
        with source.open("ab") as file:
            file.write(b"2" * 100)
        return send(out, into, offset, count)

    monkeypatch.setattr(os, "sendfile", grown)
    with pytest.raises(UsageError, match="changed while it was copied"):
        stage.copy_file(tmp_path, "source", tmp_path / "copy", stage.Room(LIMITS))
    assert (tmp_path / "copy").stat().st_size == 11
    with pytest.raises(UsageError, match="no regular file"):
        stage.copy_file(Path("/dev"), "zero", tmp_path / "zero", stage.Room(LIMITS))


def test_a_manifest_that_an_editor_saved_meanwhile_is_not_overwritten(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meant: Any = object()
    monkeypatch.setattr(locks, "read_manifest", lambda *_: meant)
    bench: Any = None
    before = locks.read_text(bundle)
    (bundle / "bundle.toml").write_text("mine")
    with pytest.raises(UsageError, match="changed meanwhile"):
        locks.written_back(bench, bundle, before, "theirs", meant)
    assert (bundle / "bundle.toml").read_text() == "mine"
    locks.written_back(bench, bundle, b"mine", "theirs", meant)
    assert (bundle / "bundle.toml").read_text() == "theirs"


def test_half_made_golden_sets_are_neither_locked_nor_taken_from_who_makes_them(bundle: Path) -> None:
    half = bundle / listings.STAGING / "goldens_reference_0" / "input_0.pb"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    with pytest.raises(UsageError, match="another command is at work"):
        locks.contents(bundle, LIMITS)
    nothing: Any = None
    with (
        pytest.raises(UsageError, match="another command is at work"),
        golden_dirs.sets_written(nothing, bundle, "main", [], [], nothing, nothing),
    ):
        pass
    assert half.read_bytes() == b"half"


def test_the_longest_name_is_written_too_and_so_it_is_where_no_file_has_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("\u00fc" * 125 + ".toml")
    write.replace_text(long, "1", force=False)

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)  # as on a file system of a memory stick
    write.replace_text(tmp_path / "a", "2", force=False)
    with pytest.raises(UsageError, match="exists"):
        write.replace_text(tmp_path / "a", "3", force=False)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {long.name: "1", "a": "2"}


def test_a_model_among_thousands_of_other_files_is_copied_from_there(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.png").write_bytes(b"")
    (tmp_path / "m.onnx").write_bytes(b"m")
    assert start.plan([tmp_path / "m.onnx"], tmp_path / "new", most=9, force=False).models == ("m.onnx",)
    with pytest.raises(UsageError, match="more than 9 files"):
        start.plan([tmp_path / "m.onnx"], None, most=9, force=False)
    for name in ("a\nb/x.bin", "\udcff", "nul"):
        with pytest.raises(UsageError, match="the name "):
            listings.speakable(["m.onnx", name], LIMITS)


def test_a_name_that_no_bundle_may_have_is_told_with_its_place(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundle / "data" / "a\x1bb").write_bytes(b"")
    monkeypatch.setattr(sys, "argv", ["acceptd", "bundle", "pack", str(bundle)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "data/a\\x1bb: the name holds the invisible character U+001B" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize("location", ["model.onnx", "./model.onnx", "a/..//model.onnx"])
def test_a_model_that_names_itself_as_its_data_is_one_file_and_what_leads_out_is_missing(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    where = {"tensor": "w", "offset": 0, "length": 4, "where": "graph/initializer[0]", "inside": True}
    facts = judge_world.facts(external=[where | {"location": location}])
    monkeypatch.setattr(looks, "_run", lambda *_: SimpleNamespace(facts=facts, structure=None))
    bench: Any = SimpleNamespace(rules=SimpleNamespace(policy=SimpleNamespace(limits=LIMITS)))
    seen = looks._inspected(bench, "stage", listings.listed(bundle, 99), "model.onnx")
    out = ".." in location
    assert seen.external == seen.missing == (("a/../model.onnx",) if out else ())


@pytest.mark.parametrize("path", ["data/w.bin", "data/in/w.bin", "w.bin"])
def test_a_directory_that_became_a_link_since_it_was_listed_leads_nowhere(tmp_path: Path, path: str) -> None:
    secret, root = tmp_path / "secret", tmp_path / "b"
    (secret / "in").mkdir(parents=True)
    root.mkdir()
    for place in (secret / "w.bin", secret / "in" / "w.bin"):
        place.write_bytes(b"private")
    (root / path.partition("/")[0]).symlink_to(secret if "/" in path else secret / "w.bin")
    with pytest.raises(UsageError, match="cannot be read"):
        stage.copy_file(root, path, tmp_path / "copy", stage.Room(LIMITS))
    with pytest.raises(UsageError, match="cannot be read"), locks.opened(root, path):
        pass
    assert not (tmp_path / "copy").exists()


def test_a_full_disk_is_told_with_the_place_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "m").write_bytes(b"m")
    monkeypatch.setattr(os, "sendfile", full)
    with pytest.raises(OSError, match="No space") as raised:
        stage.copy_file(tmp_path, "m", tmp_path / "copy", stage.Room(LIMITS))
    assert raised.value.filename == str(tmp_path / "copy")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as raised:
        write.replace_text(tmp_path / "bundle.toml", "x", force=False)
    assert raised.value.filename == str(tmp_path / "bundle.toml")
    place = Place(tmp_path)
    with pytest.raises(OSError, match="No space") as raised:
        place.write(Record())
    assert raised.value.filename == str(tmp_path / "adopt.json")
    assert not list(tmp_path.glob(".bundle*"))
