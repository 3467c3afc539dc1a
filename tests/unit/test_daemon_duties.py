"""What a daemon does beside submissions: a full disk pauses it, a refused policy changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from acceptd import housekeeping
from acceptd.config import Settings
from acceptd.errors import ConfigError, LedgerError
from acceptd.evidence import KeptFile
from acceptd.housekeeping import Releases, Space, guarded, tell
from acceptd.kept import KeptOutputs
from acceptd.opening import sweep_temporary
from acceptd.record import reserve
from acceptd.release.reconcile import Reconciled
from acceptd.rules import Rules
from acceptd.rules_in_force import RulesInForce, tell_observed
from tests.canary_world import CanaryWorld
from tests.release_world import memory_directory

pytestmark = pytest.mark.unit


# -- space


class Inbox:
    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


def test_a_disk_that_fills_pauses_the_intake_once_and_room_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, free = Inbox(), [100, 99, 50, 100, 200]
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: SimpleNamespace(free=free.pop(0)))
    reserved: list[Path] = []

    def keep(state: Path) -> bool:
        reserved.append(state)
        return True

    monkeypatch.setattr(reserve, "keep", keep)
    space = Space(tmp_path, 100, inbox)
    states = []
    for _ in range(5):
        space.watch_space()
        states.append((space.paused, len(reserved)))
    assert states == [(False, 1), (True, 1), (True, 1), (False, 2), (False, 3)]
    assert inbox.told == ["pause", "resume"]


def test_a_reserve_that_finds_no_room_is_told_of_and_pauses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "keep", lambda _state: False)
    inbox = Inbox()
    with capture_logs() as logs:
        Space(tmp_path, 0, inbox).watch_space()
        Space(tmp_path, 0, inbox, keep_reserve=False).watch_space()
    assert ([one["event"] for one in logs], inbox.told) == (["no room for the ledger's reserve"], [])


# -- duties


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LedgerError("the ledger is busy"), "the ledger is busy"),
        (ConfigError("reviewers.toml:3: no key", remedy="mend it"), "reviewers.toml:3: no key; mend it"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (KeyError("x"), None),
    ],
)
def test_no_duty_of_the_house_ends_the_daemon(error: Exception, told: str | None) -> None:
    def _broken_duty() -> None:
        raise error

    with capture_logs() as logs:
        guarded(_broken_duty)
    (one,) = logs
    assert (one["log_level"], one["event"], one["duty"]) == ("error", "housekeeping", "broken_duty")
    assert one.get("error") == told
    assert bool(one.get("exc_info")) == (told is None)


def test_a_stop_is_no_duty_that_failed() -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(stopped)


def test_what_was_mended_and_what_was_not_are_told_apart() -> None:
    with capture_logs() as logs:
        tell(Reconciled(("m production 2: finished",), ("m canary: damaged",)))
    assert [(one["log_level"], one["event"], one["what"]) for one in logs] == [
        ("info", "reconciled", "m production 2: finished"), ("error", "not reconciled", "m canary: damaged")
    ]  # fmt: skip
    assert housekeeping.log is not None


def test_what_a_killed_daemon_left_half_made_is_swept_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "half" / "deep").mkdir(parents=True)
    (tmp_path / "half" / "deep" / "file").touch(mode=0o400)
    sweep_temporary(cast("Any", SimpleNamespace(temporary=tmp_path)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("person", [False, True], ids=["by itself", "where a person is asked for"])
def test_a_canary_whose_evaluation_a_kill_cut_off_is_carried_out_as_the_policy_lets_it(
    policies: Path, person: bool
) -> None:
    world = CanaryWorld(memory_directory())
    try:
        receipts = world.file(*world.some(world.new), *world.some(world.old))
        seq = world.ledger.append("canary", world.evaluated(receipts).model_dump(mode="json")).seq
        if person:
            (policies / "mine.toml").write_text(
                'schema = 1\nname = "mine"\n[approvals]\nattestations = ["model_card"]\n'
            )
        rules = in_force(policies)
        releases = Releases(
            world.state, rules.now, world.ledger, world.keys, cast("Any", None), cast("Any", None), lambda: None
        )
        with capture_logs() as logs:
            releases.finish_canaries()
            releases.finish_canaries()
        (told,) = [one["what"] for one in logs if one["event"] == "reconciled"]
        refused = [entry.body["entry"] for entry in world.ledger.entries(kind="canary-refused")]
        assert (world.current("production") == world.new.bundle_digest) == (not person), told
        assert refused == ([seq] if person else [])
    finally:
        world.close()
        shutil.rmtree(world.root)


# -- rules


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text('schema = 1\nname = "mine"\n')
    (tmp_path / "mine.toml").chmod(0o644)
    return tmp_path


def in_force(policies: Path) -> RulesInForce:
    return RulesInForce(Settings.model_validate({"policies": str(policies), "policy": "mine"}))


def test_a_policy_that_is_refused_changes_nothing_until_it_is_mended(policies: Path) -> None:
    rules = in_force(policies)
    before = rules.now()
    (policies / "mine.toml").write_text('schema = 1\nname = "mine"\nnodez = 1\n')
    with capture_logs() as logs:
        assert rules.reload(lambda _fresh: None) is False
    assert (rules.now(), logs[0]["event"]) == (before, "policy not reloaded: the old one stays")
    assert rules.trouble.startswith("policy not reloaded: ")
    assert "nodez" in rules.trouble
    (policies / "mine.toml").write_text('schema = 1\nname = "mine"\n[observe]\neverything = true\n')
    with capture_logs() as logs:
        assert rules.reload(lambda _fresh: None) is True
    assert (rules.trouble, rules.now().policy.observe.everything) == ("", True)
    assert [one.get("observed") for one in logs][-1] == "everything"


def test_a_policy_that_this_daemon_cannot_work_by_changes_nothing(policies: Path) -> None:
    def refuse(_fresh: Rules) -> None:
        raise ConfigError("a run may map more than this machine has", remedy="lower limits.memory_bytes")

    rules = in_force(policies)
    before = rules.now()
    (policies / "mine.toml").write_text('schema = 1\nname = "mine"\n[approvals]\nrequired = 2\n')
    assert rules.reload(refuse) is False
    assert rules.now() is before
    assert rules.trouble.endswith("lower limits.memory_bytes")


def test_a_policy_that_observes_nothing_is_not_told_of(policies: Path) -> None:
    with capture_logs() as logs:
        tell_observed(in_force(policies).now())
    assert logs == []


# -- kept outputs


def put(kept: KeptOutputs, place: Path, data: bytes, most: int = 100) -> dict[str, KeptFile]:
    (place / "given").write_bytes(data)
    with (place / "given").open("rb") as file:
        return kept.keep({"outputs/main": file.fileno()}, most)


def test_kept_outputs_are_believed_by_their_digest_alone(tmp_path: Path) -> None:
    kept = KeptOutputs(tmp_path / "outputs")
    (file,) = put(kept, tmp_path, b"values").values()
    descriptor = kept.open(file)
    assert descriptor is not None
    with open(descriptor, "rb") as opened:
        assert opened.read() == b"values"
    place = tmp_path / "outputs" / file.sha256
    place.write_bytes(b"others")
    with pytest.raises(LedgerError, match="are not what their digest says"):
        kept.open(file)
    place.unlink()
    place.symlink_to(tmp_path / "given")
    with pytest.raises(LedgerError, match="cannot be read"):
        kept.open(file)
    kept.forget(file)
    kept.forget(file)
    assert kept.open(file) is None


def test_outputs_beyond_the_bound_or_on_a_full_disk_cost_a_replay_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptOutputs(tmp_path / "outputs")
    assert put(kept, tmp_path, b"values", most=5) == {}
    assert not (tmp_path / "outputs").exists()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("acceptd.kept.os.rename", full)
    assert put(kept, tmp_path, b"values") == {}
    assert list((tmp_path / "outputs").iterdir()) == []
    monkeypatch.undo()
    (tmp_path / "outputs").rmdir()
    (tmp_path / "outputs").write_text(json.dumps("somebody's file"))
    assert put(kept, tmp_path, b"values") == {}
