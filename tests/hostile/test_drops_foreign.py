"""A drop that holds another user's private file: acceptd could read it, whoever dropped it could not.

Who may write a directory may move a file out of it that he cannot read. Sealed it would be readable for all, and
a report would tell of it.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from acceptd.errors import SealError
from acceptd.intake.client import SealerClient
from acceptd.intake.seal import copy_archive, seal_directory
from acceptd.policy.policy import LimitsTable

pytestmark = [
    pytest.mark.hostile,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root reads what is another's, and gives files away"),
]

LIMITS = LimitsTable()
ATTACKER, VICTIM, TEAM = 58_301, 58_302, 58_303


def given(path: Path, mode: int, uid: int, gid: int) -> Path:
    path.chmod(mode)
    os.chown(path, uid, gid)
    return path


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    """A drop of the attacker's, with a model that is his own."""
    made = tmp_path / "inbox" / "drop"
    (made / "deep").mkdir(parents=True)
    (made / "model.onnx").write_bytes(b"\x08\x08")
    for path, mode in ((made / "model.onnx", 0o600), (made / "deep", 0o700), (made, 0o700), (made.parent, 0o755)):
        given(path, mode, ATTACKER, ATTACKER)
    return made


def taken(drop: Path, victim: Path) -> Path:
    """Move the victim's file into the drop as the attacker, who cannot read it."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(ATTACKER, ATTACKER, ATTACKER)
            os.setresuid(ATTACKER, ATTACKER, ATTACKER)
            try:
                victim.open("rb").close()
            except PermissionError:
                os.rename(victim, drop / "deep" / "asset.bin")
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return drop / "deep" / "asset.bin"


@pytest.fixture
def shared(drop: Path) -> Path:
    """A directory that both may write, without the sticky bit."""
    place = drop.parent.parent / "shared"
    place.mkdir()
    for above in (place, *place.parents):  # the attacker has to walk there
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
    place.chmod(0o777)
    return place


def test_a_file_that_the_dropper_cannot_read_is_not_read_for_him(drop: Path, shared: Path, tmp_path: Path) -> None:
    secret = shared / "wages.csv"
    secret.write_bytes(b"secret")
    taken(drop, given(secret, 0o600, VICTIM, VICTIM))
    with pytest.raises(SealError, match=f"belongs to uid {VICTIM}") as refused:
        seal_directory(drop, tmp_path / "sealed", LIMITS)
    assert (refused.value.code, refused.value.where) == ("seal/unreadable", "deep/asset.bin")
    assert not (tmp_path / "sealed").exists()


def test_the_sealer_process_with_its_rights_refuses_it_too(drop: Path, shared: Path, tmp_path: Path) -> None:
    secret = shared / "wages.csv"
    secret.write_bytes(b"secret")
    taken(drop, given(secret, 0o640, VICTIM, VICTIM))
    with SealerClient(children=1) as sealer, pytest.raises(SealError, match=f"belongs to uid {VICTIM}"):
        sealer.seal(drop, tmp_path / "sealed", LIMITS)


def test_nor_is_another_users_archive_or_a_directory_that_he_cannot_list(
    drop: Path, shared: Path, tmp_path: Path
) -> None:
    archive = drop.parent / "private.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model.onnx", b"\x08\x08")
    given(archive, 0o600, VICTIM, VICTIM)
    with pytest.raises(SealError, match=f"belongs to uid {VICTIM}"):
        copy_archive(archive, tmp_path / "copied", LIMITS, "zip")
    given(drop / "deep", 0o733, VICTIM, VICTIM)
    (drop / "deep" / "asset.bin").write_bytes(b"x")
    with pytest.raises(SealError, match=f"belongs to uid {VICTIM}") as refused:
        seal_directory(drop, tmp_path / "sealed", LIMITS)
    assert refused.value.where == "deep"


@pytest.mark.parametrize(
    ("mode", "uid", "gid"),
    [(0o600, ATTACKER, VICTIM), (0o644, VICTIM, VICTIM), (0o640, VICTIM, TEAM), (0o444, 0, 0)],
)
def test_what_the_team_may_read_is_sealed_whoever_made_it(
    drop: Path, tmp_path: Path, mode: int, uid: int, gid: int
) -> None:
    asset = drop / "deep" / "asset.bin"
    asset.write_bytes(b"x")
    given(asset, mode, uid, gid)
    os.chown(drop, ATTACKER, TEAM)  # as in an inbox with the team's group and the setgid bit
    assert len(seal_directory(drop, tmp_path / "sealed", LIMITS).files) == 2


def test_what_root_or_acceptd_itself_drops_may_hold_anybodys_files(drop: Path, tmp_path: Path) -> None:
    given(drop / "model.onnx", 0o600, VICTIM, VICTIM)
    os.chown(drop, 0, 0)
    assert len(seal_directory(drop, tmp_path / "sealed", LIMITS).files) == 1


def test_a_check_that_somebody_runs_himself_reads_what_he_may_read_in_anybodys_directory(
    drop: Path, tmp_path: Path
) -> None:
    """Nothing of it is kept or shown to the directory's owner: that would be a false alarm."""
    given(drop / "model.onnx", 0o600, VICTIM, VICTIM)
    archive = drop.parent / "mine.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model.onnx", b"\x08\x08")
    given(archive, 0o600, VICTIM, VICTIM)
    os.chown(archive.parent, ATTACKER, ATTACKER)
    with SealerClient(children=1, durable=False) as sealer:
        assert len(sealer.seal(drop, tmp_path / "sealed", LIMITS).files) == 1
        assert sealer.copy_archive(archive, tmp_path / "copied", LIMITS, "zip").size > 0
