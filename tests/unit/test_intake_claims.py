"""Claiming: ids, kinds, names, what is found again after a crash."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from acceptd.intake import claims, files
from acceptd.policy.names import valid_name

pytestmark = pytest.mark.unit


def claim(team: Path, name: str | bytes) -> claims.Claim:
    with files.opened(team) as fd:
        return claims.claim(fd, team, os.fsencode(name))


@pytest.fixture
def team(tmp_path: Path) -> Path:
    at = tmp_path / "mosaic"
    at.mkdir()
    return at


def test_ids_sort_by_time_and_are_names() -> None:
    early = claims.submission_id(1_795_965_420_123_456_789, "ffffffff")
    late = claims.submission_id(1_795_965_420_124_000_000, "00000000")
    assert early == "20261129t151700123-ffffffff"
    assert early < late
    assert valid_name(early) == early
    assert claims.new_id() != claims.new_id()
    flood = [claims.new_id() for _ in range(500)]
    assert flood == sorted(flood), "many in one millisecond keep their order"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("v1", "directory"), ("v1.zip", "zip"), ("v1.TAR", "tar"), ("v1.tar.gz", "tar.gz"), ("v1.onnx", "other")],
)
def test_what_kind_a_drop_is(team: Path, name: str, kind: str) -> None:
    (team / name).mkdir() if kind == "directory" else (team / name).touch()
    made = claim(team, name)
    assert (made.team, made.name, made.kind, made.uid) == ("mosaic", name, kind, os.geteuid())
    assert (made.refusal is None) == (kind != "other")
    assert made.path.parent == team
    assert made.path.name.startswith(f".claimed-{made.id}")
    assert os.listdir(team) == [made.path.name]


def test_a_directory_named_like_an_archive_is_a_directory(team: Path) -> None:
    (team / "v1.zip").mkdir()
    assert claim(team, "v1.zip").kind == "directory"


def test_a_crash_after_the_rename_loses_neither_drop_nor_kind(team: Path) -> None:
    (team / "a").mkdir()
    (team / "b.tar.gz").touch()
    (team / ".claimed-forged").mkdir()
    (team / "c").mkdir()
    made = [claim(team, "a"), claim(team, "b.tar.gz")]
    with files.opened(team) as fd:
        found = claims.leftovers(fd, team, 100)
    assert {(left.id, left.kind, left.path) for left in found} == {(one.id, one.kind, one.path) for one in made}


def test_discard_removes_the_drop_and_nothing_beside_it(team: Path) -> None:
    (team / "a" / "b").mkdir(parents=True)
    (team / "other").mkdir()
    assert claims.discard(claim(team, "a")) == []
    assert os.listdir(team) == ["other"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_drop_keeps_its_name_while_the_machine_has_run_out_of_something(
    code: int, team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was claimed and refused as unreadable, which its team read as its own fault."""

    def starved(*_: object) -> os.stat_result:
        raise OSError(code, os.strerror(code))

    (team / "v1").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(files, "stat_beneath", starved)
        with pytest.raises(OSError, match=os.strerror(code)):
            claim(team, "v1")
    assert os.listdir(team) == ["v1"]
    made = claim(team, "v1")
    assert (made.refusal, made.uid) == (None, os.geteuid())


def test_a_drop_that_goes_as_it_is_claimed_belongs_to_nobody_and_can_be_judged(
    team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner was on record as -1, which no statement takes: it was tried again without end."""
    (team / "v1").mkdir()
    given = os.rename

    def taken_away(old: bytes, new: bytes, **where: int) -> None:
        given(old, new, **where)
        os.rmdir(team / os.fsdecode(new))

    monkeypatch.setattr(claims.os, "rename", taken_away)
    made = claim(team, "v1")
    assert made.uid is None
    assert made.refusal is not None
    assert made.refusal.code == "seal/vanished"
