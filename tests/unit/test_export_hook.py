"""A hook is told of each release, has no rights of acceptd, ends in time with all it started, undoes nothing."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from acceptd.errors import ConfigError
from acceptd.export import service, tally
from acceptd.export.hook import SHOWN, Hook, Ran
from acceptd.export.service import Following
from acceptd.export.settings import ExportTable, HookTable
from tests.release_world import MODEL, World

pytestmark = pytest.mark.unit

ROOT = os.geteuid() == 0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.01)
    made = World(tmp_path)
    yield made
    made.close()


def table(script: str, **more: Any) -> HookTable:
    return HookTable(name="deploy", command=["/bin/sh", "-c", script], **more)


def run(world: World, script: str, told: dict[str, Any] | None = None, **more: Any) -> Ran:
    return Hook.of(table(script, **more), world.state).run(told or {"event": "promote"})


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "not within a minute"
        time.sleep(0.01)


def test_the_event_comes_on_standard_input_whole(world: World) -> None:
    big = {"text": "x" * 300_000}
    ran = run(world, "wc -c", big)
    assert (ran.problem, int(ran.said)) == ("", len(json.dumps(big)) + 1)


def test_it_has_no_rights_no_environment_and_no_descriptors(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the daemon")
    with open(world.state / "keys/release.pem", "rb") as key:
        os.set_inheritable(key.fileno(), True)
        ran = run(
            world,
            "grep -E '^(NoNewPrivs|CapEff|Uid):' /proc/self/status; env; ls /proc/self/fd;"
            f" cat {world.state}/keys/release.pem; pwd",
        )
    said = ran.said
    assert "NoNewPrivs:\\x091" in said
    assert "CapEff:\\x090000000000000000" in said
    assert "SECRET" not in said
    assert "PRIVATE" not in said
    if ROOT:
        assert "Uid:\\x0965534\\x0965534" in said
    assert said.rpartition("\\x0a")[2] == "/"
    assert "\\x0a0\\x0a1\\x0a2\\x0a3\\x0a" in said  # 3 is ls's own


def test_it_cannot_write_to_the_state(world: World) -> None:
    for place in ("x", "releases/x", "keys/x"):
        run(world, f"mkdir -p {world.state}/releases; echo > {world.state}/{place}")
    assert not list(world.state.rglob("x"))


def test_at_the_time_limit_it_is_killed_with_all_that_it_started(world: World, tmp_path: Path) -> None:
    mark = f"acceptd-hook-{os.getpid()}"
    started = time.monotonic()
    ran = run(world, f"setsid sh -c 'sleep 50; : {mark}' & setsid sleep 50 & sleep 50", seconds=0.5)
    assert ran.problem == "it was killed after 0.5 s"
    assert time.monotonic() - started < 40
    assert not living(mark)


def test_what_it_leaves_behind_ends_with_it(world: World) -> None:
    mark = f"acceptd-left-{os.getpid()}"
    ran = run(world, f"setsid sh -c 'sleep 50; : {mark}' > /dev/null 2>&1 & exit 0")
    assert ran.problem == ""
    assert not living(mark)


def living(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return found


def test_what_it_says_is_capped_and_one_printable_line(world: World) -> None:
    ran = run(world, r"printf '\033[2J\nforged line\r\302\233'; yes | head -c 20000000; exit 3")
    assert ran.problem == "it ended with 3"
    assert ran.said.startswith(r"\x1b[2J\x0aforged line\x0d")
    assert ran.said.isprintable()
    assert len(ran.said) <= 2100


def test_one_that_closes_everything_and_one_that_reads_nothing_end_well(world: World) -> None:
    assert run(world, "exec <&- >&- 2>&-; exit 0", {"x": "y" * 200_000}).problem == ""
    assert run(world, "exit 0", {"x": "y" * 200_000}).problem == ""
    assert run(world, "kill -SEGV $$").problem == "it ended with -11"


def test_a_hook_that_others_could_write_or_that_is_root_is_refused(world: World, tmp_path: Path) -> None:
    script = tmp_path / "hook"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o777)
    for given, words in (
        (HookTable(name="a", command=[str(script)]), "written by its group or by others"),
        (HookTable(name="a", command=["/nonexistent"]), "No such file"),
        (HookTable(name="a", command=["/bin/sh"], user="nobody-here"), "no user"),
    ):
        with pytest.raises(ConfigError, match=words):
            Hook.of(given, world.state)
    with pytest.raises(ConfigError, match="never runs as root" if ROOT else "only root can"):
        Hook.of(HookTable(name="a", command=["/bin/sh"], user="root"), world.state)


def test_without_root_it_runs_where_the_keys_are_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's own user owns the keys: bubblewrap hides them. The words are tried as root, all the same."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 4711)
    monkeypatch.setattr("acceptd.policy.trusted.check_owner", lambda *_words: None)
    hook = Hook.of(
        table(f"cat {world.state}/keys/*; echo > {world.state}/x; ls {world.state}; exit 7"), world.state
    )
    assert hook.uid is None
    ran = hook.run({})
    assert ran.problem == "it ended with 7", ran.said
    assert "PRIVATE" not in ran.said
    assert "keyring.json" in ran.said
    assert not (world.state / "x").exists()


def as_ordinary_user(
    world: World, monkeypatch: pytest.MonkeyPatch, script: str, state: Path | None = None
) -> Hook:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 4711)
    monkeypatch.setattr("acceptd.policy.trusted.check_owner", lambda *_words: None)
    return Hook.of(table(script), state or world.state)


def test_without_root_it_sees_no_log_no_half_made_key_and_no_cache_that_came_after_the_daemons_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"cd {world.state} && find . -type f | grep -v ^./store | grep -v ^./releases; cat ledger.sqlite3-wal"
    hook = as_ordinary_user(world, monkeypatch, script)
    release = world.released()
    for late in (
        "ledger.sqlite3-wal",
        ".tmp-4711/ledger.pem",
        "cache/bundle",
        "follow/secret",
        "a-place-of-tomorrow",
    ):
        path = world.state / late
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"PRIVATE")
    ran = hook.run({})
    assert "PRIVATE" not in ran.said
    seen = {word for word in ran.said.split() if word.startswith("./")}
    assert seen
    assert {one.removeprefix("./").split("/")[0] for one in seen} <= set(SHOWN), ran.said
    # What it is told of it finds: the release's own file.
    path = world.release_file(release.number)
    assert as_ordinary_user(world, monkeypatch, f"wc -c < {path}").run({}).said == str(path.stat().st_size)


def test_without_root_a_state_that_is_named_by_a_link_shows_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "named").symlink_to(world.state)
    script = f"cat {world.state}/keys/* {tmp_path}/named/keys/*; cat {tmp_path}/named/keyring.json; exit 7"
    ran = as_ordinary_user(world, monkeypatch, script, tmp_path / "named").run({})
    assert ran.problem == "it ended with 7", ran.said
    assert "PRIVATE" not in ran.said
    assert "key_id" in ran.said


def following(world: World, *hooks: HookTable, exports: tuple[ExportTable, ...] = ()) -> Following:
    return Following(world.state, world.ledger, world.keys, exports, hooks)


def heard(path: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in path.read_text().splitlines()] if path.exists() else []


def listening(tmp_path: Path, **more: Any) -> tuple[HookTable, Path]:
    folder = tmp_path / "heard"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return table(f"cat >> {folder}/events", **more), folder / "events"


def test_promotion_rollback_and_revocation_are_told_in_order(world: World, tmp_path: Path) -> None:
    world.released("0")  # history
    hook, events = listening(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    export = ExportTable(name="copy", kind="plain", directory=str(out))
    with following(world, hook, exports=(export,)):
        one = world.released("1")
        world.released("2")
        world.rollback()
        world.revoke(one.bundle_digest, rollback=True)
        until(lambda: len(heard(events)) == 5)
        until(lambda: (out / MODEL / "production/current").is_symlink())
    told = heard(events)
    assert [one["event"] for one in told] == ["promote", "promote", "rollback", "revoke", "rollback"]
    assert [one["seq"] for one in told] == sorted(one["seq"] for one in told)
    assert told[0]["release"]["bundle_digest"] == one.bundle_digest
    assert [(one["number"], one["current"]) for one in told[3]["releases"]][:1] == [(2, False)]
    counts = tally.read(world.state)
    assert counts["hooks"]["deploy"]["done"] == 5
    assert "in order" in next(tally.lines(counts))
    with following(world, hook):
        world.released("3")
        until(lambda: len(heard(events)) == 6)  # nothing twice


def test_a_hook_that_fails_undoes_nothing_and_is_counted(world: World, tmp_path: Path) -> None:
    hook = table("echo no >&2; exit 9", tries=1)
    with structlog.testing.capture_logs() as logs, following(world, hook):
        release = world.released("1")
        until(lambda: tally.read(world.state).get("hooks", {}).get("deploy", {}).get("failures") == 1)
    assert world.open().bundle_digest == release.bundle_digest
    assert [one["said"] for one in logs if one["event"] == "hook failed"] == ["no"]
    (line, why) = tally.lines(tally.read(world.state))
    assert "failing: 0 done, 1 failed" in line
    assert "it ended with 9" in why


def test_what_happened_while_no_daemon_ran_is_told_at_the_next_start(world: World, tmp_path: Path) -> None:
    hook, events = listening(tmp_path)
    with following(world, hook):
        pass
    world.released("1")
    with following(world, hook):
        until(lambda: heard(events))
    # Killed after it was told and before that was remembered: told again.
    tally.advance(world.state, "deploy", world.ledger.origin, 0)
    with following(world, hook):
        until(lambda: len(heard(events)) == 2)
    assert heard(events)[0] == heard(events)[1]


def test_it_hears_only_of_what_it_selects(world: World, tmp_path: Path) -> None:
    hook, events = listening(tmp_path, channels=["canary"], models=[MODEL])
    with following(world, hook):
        accepted = world.accepted("1")
        world.promote(accepted)
        world.promote(accepted, channel="canary")
        until(lambda: heard(events))
    assert [one["channel"] for one in heard(events)] == ["canary"]


def test_an_export_that_cannot_be_made_is_counted_and_tried_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.05)
    export = ExportTable(name="copy", kind="plain", directory=str(tmp_path / "out"))
    with structlog.testing.capture_logs(), following(world, exports=(export,)):
        world.released("1")
        until(lambda: tally.read(world.state).get("exports", {}).get("copy", {}).get("failures", 0) > 1)
        (tmp_path / "out").mkdir()
        until(lambda: (tmp_path / "out" / MODEL / "production/current").is_symlink())
        until(lambda: not tally.read(world.state)["exports"]["copy"]["failing"])


def test_counts_that_the_disk_does_not_take_keep_no_export_back_and_tell_no_hook_twice(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.02)
    hook, events = listening(tmp_path)
    places = [tmp_path / "first", tmp_path / "second"]
    for place in places:
        place.mkdir()
    exports = tuple(ExportTable(name=one.name, kind="plain", directory=str(one)) for one in places)
    with structlog.testing.capture_logs(), following(world, hook, exports=exports):
        monkeypatch.setattr(tally, "replace_file", full)
        for number in (1, 2):
            world.released(str(number))
            until(lambda number=number: len(heard(events)) >= number)
        for place in places:
            until(lambda place=place: (place / MODEL / "production/000002").is_dir())
    assert [one["number"] for one in heard(events)] == [1, 2]


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_error_that_nobody_foresaw_does_not_end_the_exports_for_good(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.02)
    export = ExportTable(name="copy", kind="plain", directory=str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    with structlog.testing.capture_logs() as logs, following(world, exports=(export,)):
        with monkeypatch.context() as patch:
            patch.setattr(service, "follow", lambda *_, **__: {}["nobody foresaw it"])
            world.released("1")
            until(lambda: any("begin anew" in one["event"] for one in logs))
        until(lambda: (tmp_path / "out" / MODEL / "production/current").is_symlink())


@pytest.mark.parametrize("rows", [[], {"copy": []}, {"copy": {"done": "x"}}, {"copy": {"more": 1}}])
def test_a_status_file_of_another_form_counts_from_nothing(world: World, rows: object) -> None:
    folder = world.state / tally.FOLDER
    folder.mkdir()
    (folder / tally.STATUS).write_text(json.dumps({"exports": rows, "hooks": 7}))
    assert not tally.Tally.load(world.state).exports
    assert not list(tally.lines(tally.read(world.state)))
