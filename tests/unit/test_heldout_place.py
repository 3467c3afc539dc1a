"""Held-out vectors at rest: copied once, named by their digest, read only where nobody else can write."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from acceptd.cell.blobs import Blob, closing_blob
from acceptd.errors import ConfigError, UsageError
from acceptd.heldout import place
from acceptd.policy.contract import Contract
from acceptd.policy.policy import Policy
from tests import judge_world as world

pytestmark = pytest.mark.unit
MODEL = "mosaic/evidence-disposition"


def sets(home: Path) -> Path:
    for name in ("zebra_0", "zebra_1"):
        (home / name).mkdir(parents=True)
        (home / name / "input_0.pb").write_bytes(name.encode())
        (home / name / "output_0.pb").write_bytes(b"expected of " + name.encode())
    return home


def naming(kept: place.Kept, *patterns: str) -> Contract:
    def change(document: dict[str, object]) -> None:
        models = document["models"]
        assert isinstance(models, list)
        models[0]["heldout"] = [{"sets": list(patterns or kept.sets), "sha256": kept.digest}]

    return world.a_contract(change)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "heldout"
    made.mkdir(mode=0o700)
    return made


def packed(home: Path, contract: Contract, tmp_path: Path) -> tuple[place.Packed, bytes]:
    with closing_blob(tmp_path) as blob:
        found = place.pack(home, contract, blob)
        return found, content(blob)


def content(blob: Blob) -> bytes:
    reader = blob.reader()
    try:
        return os.pread(reader, blob.size, 0)
    finally:
        os.close(reader)


def test_what_was_put_there_is_lent_byte_for_byte_under_neutral_names(home: Path, tmp_path: Path) -> None:
    kept = place.add(home, MODEL, sets(tmp_path / "mine"))
    assert (kept.sets, kept.files) == (("zebra_0", "zebra_1"), 4)
    found, data = packed(home, naming(kept), tmp_path)
    assert found.names == {"heldout-0": "zebra_0", "heldout-1": "zebra_1"}
    assert [one.model for one in found.sets] == ["main", "main"]
    start, size = found.index[found.sets[1].files[1]]
    assert data[start : start + size] == b"expected of zebra_1"


def test_only_the_sets_that_a_contract_names_are_evaluated(home: Path, tmp_path: Path) -> None:
    kept = place.add(home, MODEL, sets(tmp_path / "mine"))
    assert list(packed(home, naming(kept, "zebra_1"), tmp_path)[0].names.values()) == ["zebra_1"]
    with pytest.raises(ConfigError, match="no held-out set lion_"):
        packed(home, naming(kept, "zebra_1", "lion_*"), tmp_path)


def test_nobody_else_may_read_what_is_kept_whatever_the_umask(home: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        kept = place.add(home, MODEL, sets(tmp_path / "mine"))
    finally:
        os.umask(before)
    found = [kept.place, *kept.place.rglob("*"), kept.place.parent, kept.place.parent.parent]
    assert len(found) == 2 + 4 + 4
    assert [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_a_digest_confirms_no_guess_at_the_values(home: Path, tmp_path: Path) -> None:
    """Random bytes beside the sets are part of it: the same sets have another digest each time."""
    mine = sets(tmp_path / "mine")
    first, second = place.add(home, MODEL, mine), place.add(home, MODEL, mine)
    assert first.digest != second.digest
    assert place.versions(home, MODEL) == sorted([first.digest, second.digest])


def flip(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b"!")


OPEN = "written by its group or by others"
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "another byte": (lambda kept: flip(kept / "zebra_0/output_0.pb"), "is not what its digest says"),
    "a file more": (lambda kept: (kept / "zebra_0/output_1.pb").write_bytes(b""), "is not what its digest says"),
    "a file less": (lambda kept: (kept / "zebra_1/input_0.pb").unlink(), "is not what its digest says"),
    "another salt": (lambda kept: flip(kept / "salt"), "is not what its digest says"),
    "a link": (lambda kept: (kept / "zebra_0/input_1.pb").symlink_to("/etc/passwd"), "neither a regular file"),
    "a pipe": (lambda kept: os.mkfifo(kept / "zebra_0/input_1.pb"), "neither a regular file"),
    "a writable file": (lambda kept: (kept / "zebra_0/input_0.pb").chmod(0o622), OPEN),
    "a writable directory": (lambda kept: (kept / "zebra_0").chmod(0o777), OPEN),
    "a writable version": (lambda kept: kept.chmod(0o777), OPEN),
    "a writable home": (lambda kept: kept.parent.chmod(0o777), OPEN),
    "no such version": (lambda kept: kept.rename(kept.with_name("elsewhere")), "No such file"),
    "a link in its place": (
        lambda kept: kept.symlink_to(kept.rename(kept.with_name("elsewhere"))), "not a directory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", sorted(SPOILT))
def test_what_was_changed_or_could_be_is_refused(how: str, home: Path, tmp_path: Path) -> None:
    kept = place.add(home, MODEL, sets(tmp_path / "mine"))
    spoil, message = SPOILT[how]
    spoil(kept.place)
    with pytest.raises(ConfigError, match=message):
        packed(home, naming(kept), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("part", ["", "zebra_0", "zebra_0/input_0.pb"])
def test_what_a_stranger_owns_is_refused(part: str, home: Path, tmp_path: Path) -> None:
    kept = place.add(home, MODEL, sets(tmp_path / "mine"))
    os.chown(kept.place / part, 65534, 65534)
    with pytest.raises(ConfigError, match="is owned by uid 65534"):
        packed(home, naming(kept), tmp_path)


def without_expected(mine: Path) -> None:
    (mine / "zebra_1/output_0.pb").unlink()


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no expected value": (without_expected, "zebra_1 is no whole set"),
    "a link": (lambda mine: (mine / "zebra_0/input_1.pb").symlink_to("/etc/passwd"), "neither a regular file"),
    "the salt's name": (lambda mine: (mine / "salt").write_bytes(b""), "the name is taken"),
    "no set": (lambda mine: [path.unlink() for path in mine.rglob("*.pb")], "no held-out set"),
}


@pytest.mark.parametrize("how", sorted(REFUSED))
def test_what_cannot_serve_is_not_taken_and_leaves_nothing(how: str, home: Path, tmp_path: Path) -> None:
    mine = sets(tmp_path / "mine")
    spoil, message = REFUSED[how]
    spoil(mine)
    with pytest.raises(UsageError, match=message):
        place.add(home, MODEL, mine)
    assert not [path for path in home.rglob("*") if path.is_file()]
    assert place.versions(home, MODEL) == []


@pytest.mark.parametrize("model", ["mosaic", "../x/y", "mosaic/../keys", "mosaic/current"])
def test_a_model_id_is_no_path(model: str, home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        place.add(home, model, sets(tmp_path / "mine"))
    assert list(home.iterdir()) == []


WRONG: tuple[tuple[dict[str, object], str], ...] = (
    ({"sets": [], "sha256": "7" * 64}, "at least 1 item"),
    ({"sets": ["../../keys"], "sha256": "7" * 64}, "no path inside the bundle"),
    ({"sets": ["/etc"], "sha256": "7" * 64}, "no path inside the bundle"),
    ({"sets": ["set_0"], "sha256": "7" * 63}, "64 lowercase hexadecimal digits"),
    ({"sets": ["set_0"], "sha256": "../" + "7" * 61}, "64 lowercase hexadecimal digits"),
    ({"sets": ["set_0"]}, "Field required"),
)


@pytest.mark.parametrize("entry", WRONG, ids=lambda entry: entry[1])
def test_a_contract_that_names_nonsense_is_refused(entry: tuple[dict[str, object], str]) -> None:
    document = world.contract_document()
    document["models"][0]["heldout"] = [entry[0]]
    with pytest.raises(ValidationError, match=entry[1]):
        Contract.model_validate(document)


@pytest.mark.parametrize("table", [{"seconds": 0.1}, {"seconds": float("inf")}, {"evaluations": -1}, {"tries": 5}])
def test_a_policy_that_says_nonsense_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate({"heldout": table})


def test_more_bytes_than_a_job_is_lent_are_refused_when_they_are_put_there_and_when_they_are_packed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = place.add(home, MODEL, sets(tmp_path / "mine"))
    with monkeypatch.context() as less:
        less.setattr(place, "MAX_BYTES", 40)
        with pytest.raises(ConfigError, match="more than 40 bytes") as caught:
            packed(home, naming(kept), tmp_path)
        assert caught.value.remedy == "name fewer sets"
    (tmp_path / "mine/zebra_0/input_0.pb").write_bytes(b"x" * 41)
    monkeypatch.setattr(place, "MAX_BYTES", 40)
    with pytest.raises(ConfigError, match="a held-out file of more than 40 bytes"):
        place.add(home, MODEL, tmp_path / "mine")
    assert place.versions(home, MODEL) == [kept.digest]
    assert not list(home.rglob(".tmp-*")), "nothing half is left"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda path: path.unlink(), "No such file or directory"),
        (lambda path: (path.unlink(), path.symlink_to("/etc/passwd")), "Too many levels of symbolic links"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "not a regular file"),
    ],
    ids=["gone", "a link", "a pipe"],
)
def test_a_file_that_is_exchanged_after_it_was_listed_is_not_read(
    how: Callable[[Path], object], words: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = place.add(home, MODEL, sets(tmp_path / "mine"))
    listed = place._files

    def late(folder: Path, **more: bool) -> list[str]:
        found = listed(folder, **more)
        how(folder / "zebra_0/input_0.pb")
        return found

    monkeypatch.setattr(place, "_files", late)
    with pytest.raises(ConfigError, match=words):
        packed(home, naming(kept), tmp_path)
    with pytest.raises(ConfigError, match=words):
        place.add(home, MODEL, tmp_path / "mine")
    assert place.versions(home, MODEL) == [kept.digest]


def test_a_name_that_no_document_can_hold_is_refused_and_so_is_no_directory(home: Path, tmp_path: Path) -> None:
    mine = sets(tmp_path / "mine")
    with open(os.fsencode(mine / "zebra_0") + b"/input_\xff.pb", "wb"):
        pass
    with pytest.raises(UsageError, match="a name that is not UTF-8") as caught:
        place.add(home, MODEL, mine)
    assert caught.value.remedy == "rename the file"
    with pytest.raises(UsageError, match="not a directory") as caught:
        place.add(home, MODEL, tmp_path / "nowhere")
    assert caught.value.remedy == "name the directory that holds the sets"
    assert list(home.iterdir()) == []


def test_a_model_that_has_no_held_out_sets_has_no_version(home: Path) -> None:
    assert place.versions(home, MODEL) == []
